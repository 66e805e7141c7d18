"""The benchmarks run. What they measure is not judged here: a busy machine is no fault."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "benchmarks" / "uploads.py"


@pytest.mark.slow
def test_the_benchmark_of_uploads_prints_a_table_and_keeps_it_as_json(tmp_path: Path) -> None:
    kept = tmp_path / "result.json"
    command = [sys.executable, str(SCRIPT), "growth", "hash", "--quick", "--output", str(kept)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(kept.read_text())
    assert list(result["sections"]) == ["growth", "hash"]
    assert result["machine"]["cpu"]
    for section in result["sections"].values():
        for row in section["rows"]:
            low, high = row["quartiles"]
            assert 0 < low <= row["median"] <= high < math.inf
            assert row["what"] in ended.stdout


def test_an_unknown_section_is_refused_before_anything_is_measured() -> None:
    command = [sys.executable, str(SCRIPT), "nonsense"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "nonsense" in ended.stderr
    assert not ended.stdout


@pytest.mark.slow
def test_the_benchmark_of_linting_prints_a_table_and_keeps_it_as_json(tmp_path: Path) -> None:
    kept = tmp_path / "result.json"
    cases = Path(__file__).parent / "cases" / "lint"
    command = [sys.executable, str(SCRIPT.with_name("lint.py")), str(cases), "--quick", "--output", str(kept)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    result = json.loads(kept.read_text())
    assert list(result["sections"]) == ["start", "tree", "growth"]
    for section in result["sections"].values():
        for row in section["rows"]:
            assert all(math.isfinite(value) for value in row["values"])
            assert row["what"] in ended.stdout
