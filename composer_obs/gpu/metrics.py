"""The readings of a card: where each comes from, its unit, and which values cannot be true.

Field numbers of 251 and above mean different things in different versions of NVML, so that none is
used here (``nvml.h`` of 12.9 beside that of 13.5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["METRICS", "Metric"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One reading.

    Args:
        key (str): Its name.
        unit (str): Of the value, after OpenTelemetry's ``hw.gpu`` conventions.
        field (int, optional): The NVML field that holds it. Default: ``None``, a function gives it.
        call (Callable[[Any, Any], float], optional): Gets it from the module ``pynvml`` and a handle;
            where there is a field, too, what to do on cards that lack the field.
        scale (float): What the field's value is multiplied with. Default: ``1``.
        most (float, optional): More than that is no value, but a fault of the driver. Default: none.
    """

    key: str
    unit: str
    field: int | None = None
    call: Callable[[Any, Any], float] | None = None
    scale: float = 1.0
    most: float | None = None

    def is_possible(self, value: float) -> bool:
        """Whether a card can have said that and meant it.

        Example:
            >>> METRICS["utilization"].is_possible(4294967295 / 100)
            False
        """
        return value >= 0 and (self.most is None or value <= self.most)


def _utilization(nvml: Any, card: Any) -> float:
    return float(nvml.nvmlDeviceGetUtilizationRates(card).gpu) / 100


def _memory_used(nvml: Any, card: Any) -> float:
    return float(nvml.nvmlDeviceGetMemoryInfo(card).used)


def _memory_total(nvml: Any, card: Any) -> float:
    return float(nvml.nvmlDeviceGetMemoryInfo(card).total)


def _power(nvml: Any, card: Any) -> float:
    # An average of a second on most cards since Ampere.
    return float(nvml.nvmlDeviceGetPowerUsage(card)) / 1000


def _power_limit(nvml: Any, card: Any) -> float:
    return float(nvml.nvmlDeviceGetEnforcedPowerLimit(card)) / 1000


def _energy(nvml: Any, card: Any) -> float:
    return float(nvml.nvmlDeviceGetTotalEnergyConsumption(card)) / 1000


def _sm_clock(nvml: Any, card: Any) -> float:
    return float(nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM))


def _temperature(nvml: Any, card: Any) -> float:
    # The old function is deprecated since 13.0, and the new one is not in older drivers and bindings.
    if hasattr(nvml, "nvmlDeviceGetTemperatureV"):
        try:
            return float(nvml.nvmlDeviceGetTemperatureV(card, nvml.NVML_TEMPERATURE_GPU))
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml.NVML_ERROR_NOT_SUPPORTED):
                raise
    return float(nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU))


def _reasons(nvml: Any, card: Any) -> int:
    name = "nvmlDeviceGetCurrentClocksEventReasons"
    read = getattr(nvml, name, None) or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    return int(read(card))


def _clock_ratio(nvml: Any, card: Any) -> float:
    highest = nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM)
    return _sm_clock(nvml, card) / highest if highest else -1.0


# Bits of the reasons for which clocks are lower than they could be.
def _hw_thermal(nvml: Any, card: Any) -> bool:
    return bool(_reasons(nvml, card) & 0x40)


def _power_brake(nvml: Any, card: Any) -> bool:
    return bool(_reasons(nvml, card) & 0x80)


_METRICS = (
    Metric("utilization", "1", call=_utilization, most=1),
    Metric("memory_used", "By", call=_memory_used, most=2**50),
    Metric("memory_total", "By", call=_memory_total, most=2**50),
    Metric("power", "W", 186, _power, scale=1e-3, most=10_000),
    Metric("power_limit", "W", call=_power_limit, most=10_000),
    Metric("energy", "J", 83, _energy, scale=1e-3),
    Metric("temperature", "Cel", call=_temperature, most=200),
    Metric("memory_temperature", "Cel", 82, most=200),
    Metric("sm_clock", "MHz", call=_sm_clock, most=20_000),
    Metric("clock_ratio", "1", call=_clock_ratio, most=2),
    Metric("throttle/power", "s", 74, scale=1e-9),
    Metric("throttle/thermal", "s", 75, scale=1e-9),
    Metric("throttle/hw_thermal", "1", call=_hw_thermal, most=1),
    Metric("throttle/power_brake", "1", call=_power_brake, most=1),
    Metric("ecc/uncorrected", "1", 4),
    Metric("remap/pending", "1", 144, most=1),
    Metric("remap/failure", "1", 145, most=1),
    Metric("pcie/sent", "By", 197),
    Metric("pcie/received", "By", 198),
    Metric("nvlink/sent", "By", 138, scale=1024),
    Metric("nvlink/received", "By", 139, scale=1024),
    Metric("recovery_action", "1", 230, most=100),
)

#: Every metric by its key.
METRICS: Mapping[str, Metric] = {metric.key: metric for metric in _METRICS}
