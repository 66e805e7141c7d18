"""NVML without a GPU, by way of the real nvidia-ml-py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu.stand_in import StandIn, build


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml(nvml_library: Path) -> Iterator[StandIn]:
    """One card with its defaults, at second 0; loaded first, it is what nvidia-ml-py finds."""
    stand_in = StandIn(nvml_library)
    stand_in.do("release", "gpus 1", "clock 0")
    yield stand_in
    stand_in.do("release")
