"""Reading cards by the real nvidia-ml-py; the truth is what the stand-in was told."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from composer_obs.gpu.metrics import METRICS
from composer_obs.gpu.nvml import NVML, Reading, UnavailableError
from tests.gpu.stand_in import StandIn

TRUTH = {
    "utilization": ("utilization 37", 0.37),
    "memory_used": ("memory_used 12345678901", 12345678901),
    "memory_total": ("memory_total 85899345920", 85899345920),
    "power": ("power 412.345", 412.345),
    "power_limit": ("power_limit 650", 650),
    "energy": ("power 412.345", 4123.45),
    "temperature": ("temperature 71", 71),
    "memory_temperature": ("memory_temperature 93", 93),
    "sm_clock": ("sm_clock 1410", 1410),
    "clock_ratio": ("max_sm_clock 1880", 0.75),
    "throttle/power": ("throttle_power 0.25", 2.5),
    "throttle/thermal": ("throttle_thermal 0.5", 5),
    "throttle/hw_thermal": ("reasons 196", 1),  # 0x40 + 0x80 + 0x04
    "throttle/power_brake": ("reasons 196", 1),
    "ecc/uncorrected": ("ecc 2", 2),
    "remap/pending": ("remap_pending 1", 1),
    "remap/failure": ("remap_failure 1", 1),
    "pcie/sent": ("pcie_tx 1000", 10_000),
    "pcie/received": ("pcie_rx 3000", 30_000),
    "nvlink/sent": ("nvlink_tx 1024", 10_240),
    "nvlink/received": ("nvlink_rx 2048", 20_480),
    "recovery_action": ("recovery_action 2", 2),
}

#: For each metric, what has to fail for it to have no value.
SOURCES = {
    "utilization": ["nvmlDeviceGetUtilizationRates"],
    "memory_used": ["nvmlDeviceGetMemoryInfo"],
    "memory_total": ["nvmlDeviceGetMemoryInfo"],
    "power": ["field:186", "nvmlDeviceGetPowerUsage"],
    "power_limit": ["nvmlDeviceGetEnforcedPowerLimit"],
    "energy": ["field:83", "nvmlDeviceGetTotalEnergyConsumption"],
    "temperature": ["nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"],
    "memory_temperature": ["field:82"],
    "sm_clock": ["nvmlDeviceGetClockInfo"],
    "clock_ratio": ["nvmlDeviceGetMaxClockInfo"],
    "throttle/power": ["field:74"],
    "throttle/thermal": ["field:75"],
    "throttle/hw_thermal": ["nvmlDeviceGetCurrentClocksEventReasons"],
    "throttle/power_brake": ["nvmlDeviceGetCurrentClocksEventReasons"],
    "ecc/uncorrected": ["field:4"],
    "remap/pending": ["field:144"],
    "remap/failure": ["field:145"],
    "pcie/sent": ["field:197"],
    "pcie/received": ["field:198"],
    "nvlink/sent": ["field:138"],
    "nvlink/received": ["field:139"],
    "recovery_action": ["field:230"],
}
CODES = sorted({getattr(pynvml, name) for name in dir(pynvml) if name.startswith("NVML_ERROR_")})


@pytest.fixture
def true_card(nvml: StandIn) -> Iterator[NVML]:
    nvml.do(*(f"gpu 0 {line}" for line, _ in TRUTH.values()), "clock 10")
    with NVML() as opened:
        yield opened


def read(nvml: NVML) -> Reading:
    return nvml.read(nvml.cards()[0])


def test_every_metric_has_the_value_and_unit_that_is_true(true_card: NVML) -> None:
    reading = read(true_card)
    assert reading.missing == {}
    assert reading.values == pytest.approx({key: value for key, (_, value) in TRUTH.items()})
    assert set(METRICS) == set(TRUTH) == set(SOURCES)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("key", SOURCES)
def test_what_one_metric_lacks_costs_no_other(nvml: StandIn, true_card: NVML, key: str, code: int) -> None:
    nvml.do(*(f"error {source} {code}" for source in SOURCES[key]))
    reading = read(true_card)
    lost = {other for other in SOURCES if set(SOURCES[other]) & set(SOURCES[key])}
    if key == "sm_clock":
        lost.add("clock_ratio")  # which is made of it
    assert set(reading.missing) == lost
    assert all(reading.missing.values())
    assert reading.values == pytest.approx({k: value for k, (_, value) in TRUTH.items() if k not in lost})


@pytest.mark.parametrize(
    ("key", "first"),
    [("power", "field:186"), ("energy", "field:83"), ("temperature", "nvmlDeviceGetTemperatureV")],
)
def test_an_older_card_is_asked_in_the_older_way(
    nvml: StandIn, true_card: NVML, key: str, first: str
) -> None:
    nvml.do(f"error {first} 3")
    assert read(true_card).values[key] == pytest.approx(TRUTH[key][1])


@pytest.mark.parametrize("code", CODES)
def test_fields_that_cannot_be_asked_at_all_leave_the_rest(nvml: StandIn, true_card: NVML, code: int) -> None:
    nvml.do(f"error nvmlDeviceGetFieldValues {code}")
    reading = read(true_card)
    only_fields = {key for key, metric in METRICS.items() if metric.field is not None and metric.call is None}
    assert set(reading.missing) == only_fields
    assert set(reading.values) == set(METRICS) - only_fields


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("utilization 4294967295", "utilization"),
        ("power 4294967", "power"),
        ("temperature 4294967295", "temperature"),
    ],
)
def test_what_cannot_be_true_is_no_value(nvml: StandIn, true_card: NVML, line: str, key: str) -> None:
    nvml.do(f"gpu 0 {line}")
    reading = read(true_card)
    assert key not in reading.values
    assert "cannot be" in reading.missing[key]


def test_a_card_that_does_nothing_is_at_zero(nvml: StandIn, true_card: NVML) -> None:
    nvml.do("gpu 0 utilization 0", "gpu 0 power 0")
    values = read(true_card).values
    assert (values["utilization"], values["power"]) == (0, 0)


@pytest.mark.parametrize("code", [code for code in CODES if code != pynvml.NVML_ERROR_LIBRARY_NOT_FOUND])
def test_a_library_that_cannot_start_is_told_with_a_remedy(nvml: StandIn, code: int) -> None:
    nvml.do(f"error nvmlInitWithFlags {code}")
    with pytest.raises(UnavailableError, match=r"no GPU can be asked: .+; .+"), NVML():
        pass


def test_a_mismatch_of_driver_and_library_says_to_reboot(nvml: StandIn) -> None:
    nvml.do("error nvmlInitWithFlags 18")
    with pytest.raises(UnavailableError, match="reboot"), NVML():
        pass


def test_a_lost_card_does_not_hide_the_others(nvml: StandIn) -> None:
    nvml.do("gpus 3", "error nvmlDeviceGetUUID 15 gpu 1")
    with NVML() as opened:
        assert [card.index for card in opened.cards()] == [0, 2]


def test_a_mig_device_is_found_by_its_uuid_and_has_memory_alone(nvml: StandIn) -> None:
    nvml.do("gpus 2", "gpu 1 uuid MIG-1", "gpu 1 parent 0", "gpu 1 memory_used 5")
    with NVML() as opened:
        card = opened.card("MIG-1")
        assert card is not None
        assert (card.index, card.bus_id) == (0, "00000000:01:00.0")
        assert opened.card("MIG-2") is None
        assert set(opened.read(card).values) == {"memory_used", "memory_total"}


def test_fields_are_asked_for_in_one_call(nvml: StandIn, true_card: NVML) -> None:
    before = nvml.calls("nvmlDeviceGetFieldValues")
    read(true_card)
    assert nvml.calls("nvmlDeviceGetFieldValues") == before + 1
    # What the prepared array is made of has the layout of NVIDIA's header.
    assert ctypes.sizeof(pynvml.c_nvmlFieldValue_t) == 40


def test_another_package_of_the_same_name_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "pynvml").mkdir()
    (tmp_path / "pynvml/__init__.py").write_text("def nvmlInit(): ...\n")
    code = "from composer_obs.gpu.nvml import NVML\ntry:\n    NVML()\nexcept Exception as e:\n    print(type(e).__name__, e)"
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"],
        capture_output=True,
        text=True,
    )
    assert ended.stdout.startswith("UnavailableError another package than nvidia-ml-py")
    assert "pip uninstall pynvml" in ended.stdout
