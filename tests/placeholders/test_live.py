"""Live objects may do anything when they are looked at."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from composer_obs import lint_kwargs


class Raises:
    """On whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __fspath__(self) -> str:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


class Lies:
    """About what it is."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Answers:
    """With itself."""

    def __getattr__(self, name: str) -> Any:
        return self


class OddText(str):
    __slots__ = ()

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError


class OddNumber(int):
    def __lt__(self, other: object) -> bool:
        raise RuntimeError

    __gt__ = __lt__


class OddList(list[Any]):
    def __iter__(self) -> Any:
        raise RuntimeError


ITSELF: list[Any] = []
ITSELF.append(ITSELF)
# Made when they are needed: pytest itself looks at what it is given.
ODD = {
    "raises": Raises, "lies": Lies, "answers": Answers, "text": lambda: OddText("x/{run_name}"),
    "number": lambda: OddNumber(3), "list": lambda: OddList([1]), "itself": lambda: ITSELF,
    "mapping of itself": lambda: {"a": ITSELF}, "mock": MagicMock, "mock of text": lambda: MagicMock(spec=str),
    "mock of a number": lambda: MagicMock(spec=int), "class": lambda: Raises, "iterator": lambda: iter([1]),
    "odd key": lambda: {Raises: 1}, "not a number": lambda: float("nan"),
}  # fmt: skip
PARAMETERS = ["save_folder", "save_filename", "save_latest_filename", "save_interval", "max_duration", "loggers",
              "callbacks", "profiler", "run_name", "load_path", "train_dataloader", "autoresume",
              "parallelism_config", "save_num_checkpoints_to_keep", "save_overwrite"]  # fmt: skip


@pytest.mark.parametrize("parameter", PARAMETERS)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_object_is_unknown_and_hides_nothing_else(parameter: str, odd: str) -> None:
    arguments = {"save_folder": "{foo}", parameter: ODD[odd]()}
    codes = [finding.rule.code for finding in lint_kwargs(**arguments)]
    if parameter != "save_folder":
        assert "PH101" in codes


@pytest.mark.parametrize("parameter", ["callbacks", "loggers"])
def test_an_odd_object_among_others_hides_none_of_them(parameter: str) -> None:
    from composer.loggers import FileLogger

    found = lint_kwargs(**{parameter: [Raises(), Lies(), FileLogger("{foo}-{rank}.txt")]})
    assert [finding.rule.code for finding in found] == ["PH101"]


@pytest.mark.parametrize("size", [0, -1, True, "8", 2.0])
def test_an_impossible_world_size_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="positive integer"):
        lint_kwargs(world_size=size)
