"""``composer-obs gpu``, as a process that finds the stand-in where a driver would be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "composer_obs", "gpu"]
THREE = "gpus 3\ngpu 1 power 412\ngpu 1 utilization 99\ngpu 2 reasons 132"


def environment(library: Path, told: str, **variables: str) -> dict[str, str]:
    outside = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    return {**outside, "LD_LIBRARY_PATH": str(library.parent), "NVML_STAND_IN": told, **variables}


def run(library: Path, told: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(library, told, **variables),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_person_sees_a_row_a_card(nvml_library: Path) -> None:
    ended = run(nvml_library, THREE)
    assert (ended.returncode, ended.stderr) == (0, "")
    header, *rows = ended.stdout.splitlines()
    assert header.split() == ["index", "uuid", "name", "busy", "memory", "power", "temperature", "state"]
    assert len(rows) == 3
    assert "99%" in rows[1]
    assert "412 of 700 W" in rows[1]
    assert rows[0].endswith("well")
    assert rows[2].endswith("slowed by the power brake")


def test_only_visible_cards_are_shown_unless_all_are_asked_for(nvml_library: Path) -> None:
    def shown(*arguments: str, visible: str) -> list[int]:
        ended = run(nvml_library, THREE, "--json", *arguments, CUDA_VISIBLE_DEVICES=visible)
        return [gpu["index"] for gpu in json.loads(ended.stdout)["gpus"]]

    assert shown(visible="2,0") == [2, 0]
    assert shown(visible="GPU-000000a1") == [1]
    assert shown("--all", visible="") == [0, 1, 2]
    ended = run(nvml_library, THREE, CUDA_VISIBLE_DEVICES="")
    assert ended.stdout == "no GPU is visible to a process that is started from here\n"


def test_json_has_every_value_with_its_unit_and_why_others_lack(nvml_library: Path) -> None:
    told = f"{THREE}\nerror field:83 3\nerror nvmlDeviceGetTotalEnergyConsumption 3"
    report = json.loads(run(nvml_library, told, "--json").stdout)
    assert report["version"] == 1
    assert report["driver"] == "580.00.00"
    second = report["gpus"][1]
    assert second["metrics"]["power"] == {"value": 412.0, "unit": "W"}
    assert second["missing"] == {"energy": "not supported"}
    assert report["gpus"][2]["unwell"] == ["slowed by the power brake"]


def test_what_a_card_does_not_tell_is_named(nvml_library: Path) -> None:
    ended = run(nvml_library, "gpus 1\nerror nvmlDeviceGetUtilizationRates 3\nerror field:230 999")
    assert ended.stdout.splitlines()[-1].endswith(
        "does not tell: recovery_action (unknown), utilization (not supported)"
    )


@pytest.mark.parametrize("arguments", [(), ("--watch",), ("--json",)])
@pytest.mark.parametrize(
    ("code", "says"), [(9, "load the driver"), (18, "reboot the machine"), (999, "nvidia-smi")]
)
def test_no_driver_is_one_line_and_no_fault(
    nvml_library: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    ended = run(nvml_library, f"error nvmlInitWithFlags {code}", *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("\n") == 1
    assert says in ended.stdout


@pytest.mark.parametrize("function", ["nvmlInitWithFlags", "nvmlDeviceGetFieldValues"])
def test_a_driver_that_does_not_answer_is_given_up(nvml_library: Path, function: str) -> None:
    ended = run(nvml_library, f"gpus 1\nhang {function}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "the driver has not answered" in ended.stdout


def test_watching_shows_it_anew_until_it_is_interrupted(nvml_library: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--watch"],
        env=environment(nvml_library, "gpus 1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"NVIDIA Stand-In" in output
    assert errors == b""


def test_it_imports_neither_torch_nor_composer(nvml_library: Path) -> None:
    code = "import sys; from composer_obs.cli import cli\ntry:\n    cli(['gpu'])\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment(nvml_library, THREE), capture_output=True, text=True
    )
    loaded = {name.partition(".")[0] for name in ended.stdout.splitlines()[-1].split()}
    assert "pynvml" in loaded
    assert not loaded & {"torch", "composer", "numpy", "rich", "boto3"}
