"""The stand-in itself: it has NVML's declarations, and tells the truth that it was told."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gpu.stand_in import SOURCE, StandIn, check_against, nvidia_header


@pytest.fixture
def card(nvml: StandIn) -> Iterator[object]:
    pynvml.nvmlInit()
    yield pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlShutdown()


def test_its_declarations_are_those_of_nvidia() -> None:
    ended = check_against(nvidia_header())
    assert ended.returncode == 0, ended.stderr


def test_another_declaration_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "changed.c"
    source = SOURCE.read_text()
    before, after = "unsigned int *power)", "unsigned long long *power)"
    assert before in source
    changed.write_text(source.replace(before, after))
    monkeypatch.setattr("tests.gpu.stand_in.SOURCE", changed)
    assert "nvmlDeviceGetPowerUsage" in check_against(nvidia_header()).stderr


def test_readings_are_what_was_said(nvml: StandIn, card: object) -> None:
    nvml.do("gpu 0 utilization 73", "gpu 0 memory_used 1234567", "gpu 0 temperature 61", "gpu 0 sm_clock 1410",
            "gpu 0 max_sm_clock 1980", "gpu 0 power 412.345", "gpu 0 power_limit 650", "gpu 0 reasons 64",
            "gpu 0 name NVIDIA H200 NVL", "gpu 0 bus_id 00000000:3b:00.0")  # fmt: skip
    assert pynvml.nvmlDeviceGetUtilizationRates(card).gpu == 73
    assert pynvml.nvmlDeviceGetMemoryInfo(card).used == 1234567
    assert pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU) == 61
    assert pynvml.nvmlDeviceGetTemperatureV(card, pynvml.NVML_TEMPERATURE_GPU) == 61
    assert pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM) == 1410
    assert pynvml.nvmlDeviceGetMaxClockInfo(card, pynvml.NVML_CLOCK_SM) == 1980
    assert pynvml.nvmlDeviceGetPowerUsage(card) == 412345
    assert pynvml.nvmlDeviceGetEnforcedPowerLimit(card) == 650_000
    assert (
        pynvml.nvmlDeviceGetCurrentClocksEventReasons(card) == pynvml.nvmlClocksEventReasonHwThermalSlowdown
    )
    assert pynvml.nvmlDeviceGetName(card) == "NVIDIA H200 NVL"
    assert pynvml.nvmlDeviceGetPciInfo(card).bus == 0x3B


def field(card: object, number: int) -> int:
    [value] = pynvml.nvmlDeviceGetFieldValues(card, [number])
    assert value.nvmlReturn == pynvml.NVML_SUCCESS
    if value.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        return int(value.value.uiVal)
    assert value.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    return int(value.value.ullVal)


def test_fields_have_the_units_of_nvml(nvml: StandIn, card: object) -> None:
    nvml.do("gpu 0 ecc 3", "gpu 0 memory_temperature 88", "gpu 0 remap_pending 1", "gpu 0 recovery_action 2",
            "gpu 0 power 500", "gpu 0 throttle_power 0.25", "gpu 0 throttle_thermal 0.5", "gpu 0 pcie_tx 1000",
            "gpu 0 nvlink_rx 2048", "clock 8")  # fmt: skip
    assert {number: field(card, number) for number in (4, 82, 144, 230, 186, 83, 74, 75, 197, 139)} == {
        4: 3, 82: 88, 144: 1, 230: 2, 186: 500_000, 83: 4_000_000, 74: 2_000_000_000, 75: 4_000_000_000,
        197: 8000, 139: 16,
    }  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    watts=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    seconds=st.integers(1, 5),
    period=st.sampled_from([0.0, 0.02, 0.1, 0.25]),
    late=st.floats(0, 0.99),
)
def test_energy_is_the_integral_of_power_as_of_the_last_update(
    nvml: StandIn, watts: list[int], seconds: int, period: float, late: float
) -> None:
    nvml.do("gpus 1", "clock 0", f"gpu 0 period {period}")
    nvml.do(*(f"gpu 0 power {power} @ {index * seconds}" for index, power in enumerate(watts)))
    end = len(watts) * seconds
    pynvml.nvmlInit()
    card = pynvml.nvmlDeviceGetHandleByIndex(0)
    # Half a period after an update, it still shows the sum at the update.
    nvml.do(f"clock {end + late * period}")
    joules = pynvml.nvmlDeviceGetTotalEnergyConsumption(card) / 1000
    pynvml.nvmlShutdown()
    assert joules == pytest.approx(seconds * sum(watts), abs=0.001)


def test_a_counter_can_go_back_or_wrap(nvml: StandIn, card: object) -> None:
    nvml.do("gpu 0 pcie_rx 1000", "gpu 0 pcie_modulus 4096", "clock 5", "gpu 0 energy_offset -1000")
    assert field(card, 198) == 5000 - 4096
    assert field(card, 83) == 500_000


def test_cards_are_known_by_index_uuid_and_bus(nvml: StandIn) -> None:
    nvml.do("gpus 3", "gpu 1 uuid GPU-abc", "gpu 2 uuid MIG-def", "gpu 2 parent 1")
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2
    second = pynvml.nvmlDeviceGetHandleByUUID("GPU-abc")
    assert pynvml.nvmlDeviceGetIndex(second) == 1
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByPciBusId("00000000:02:00.0")) == "GPU-abc"
    mig = pynvml.nvmlDeviceGetHandleByUUID("MIG-def")
    assert pynvml.nvmlDeviceIsMigDeviceHandle(mig)
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)) == "GPU-abc"
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetPowerUsage(mig)
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetHandleByUUID("GPU-none")
    pynvml.nvmlShutdown()


def test_errors_come_after_some_calls_and_for_a_while(nvml: StandIn, card: object) -> None:
    nvml.do("error nvmlDeviceGetPowerUsage 999 after 2 times 1", "error field:83 15")
    before = nvml.calls("nvmlDeviceGetPowerUsage")
    results = []
    for _ in range(4):
        try:
            results.append(pynvml.nvmlDeviceGetPowerUsage(card))
        except pynvml.NVMLError as error:
            results.append(error.value)
    assert results == [300_000, 300_000, 999, 300_000]
    assert nvml.calls("nvmlDeviceGetPowerUsage") == before + 4
    values = pynvml.nvmlDeviceGetFieldValues(card, [83, 186])
    assert [value.nvmlReturn for value in values] == [pynvml.NVML_ERROR_GPU_IS_LOST, 0]


def test_an_error_can_be_of_one_card(nvml: StandIn) -> None:
    nvml.do("gpus 2", "error nvmlDeviceGetName 4 gpu 1")
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)) == "NVIDIA Stand-In"
    with pytest.raises(pynvml.NVMLError_NoPermission):
        pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(1))
    pynvml.nvmlShutdown()


def test_a_call_hangs_until_it_is_released(nvml: StandIn, card: object) -> None:
    nvml.do("hang nvmlDeviceGetName")
    thread = threading.Thread(target=pynvml.nvmlDeviceGetName, args=[card])
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    nvml.do("release")
    thread.join(5)
    assert not thread.is_alive()


def test_a_call_takes_as_long_as_it_is_told(nvml: StandIn, card: object) -> None:
    nvml.do("latency nvmlDeviceGetName 0.2")
    start = time.monotonic()
    pynvml.nvmlDeviceGetName(card)
    assert time.monotonic() - start >= 0.2


def test_an_xid_reaches_who_waits_for_it(nvml: StandIn, card: object) -> None:
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(card, pynvml.nvmlEventTypeXidCriticalError, events)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 10)
    nvml.do("gpu 0 xid 79")
    assert pynvml.nvmlEventSetWait_v2(events, 1000).eventData == 79
    pynvml.nvmlEventSetFree(events)


def test_a_forked_child_has_to_initialise_it_anew(nvml: StandIn, card: object) -> None:
    child = os.fork()
    if child == 0:
        try:
            pynvml.nvmlDeviceGetName(card)
        except pynvml.NVMLError_Uninitialized:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_another_process_finds_it_by_its_folder_and_obeys_the_environment(nvml_library: Path) -> None:
    code = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STAND_IN": "gpus 5"}
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, env=environment, capture_output=True, text=True).stdout == "5\n"
    ended = subprocess.run(
        run, env={**environment, "NVML_STAND_IN": "gpus 5\ngpus many"}, capture_output=True
    )
    assert b"line 2 makes no sense" in ended.stderr


@pytest.mark.parametrize(
    "line", ["gpus 99", "gpu 3 power 1", "gpu 0 colour 1", "gpu 0 power much", "error x 1 at 3", "stop"]
)
def test_what_makes_no_sense_is_refused(nvml: StandIn, line: str) -> None:
    with pytest.raises(ValueError, match="does not understand"):
        nvml.do("clock 1", line)
