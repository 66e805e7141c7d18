"""Access to NVML: loading it, the cards that it knows, and reading them.

What one card or one metric does not offer costs nothing but itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from composer_obs.errors import ComposerObsError
from composer_obs.gpu.metrics import METRICS

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NVML", "Card", "Reading", "UnavailableError"]

_REMEDIES = {
    9: "load the driver (nvidia-smi shows whether it is), or run where there is one",
    12: "install NVIDIA's driver, or run where there is one",
    18: "the driver was updated while it ran: reboot the machine, or reload the kernel module",
}


class UnavailableError(ComposerObsError):
    """There is no NVML to ask: no driver, no binding, or two versions that do not fit."""


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU, or a part of one (MIG).

    Args:
        handle (Any): What NVML knows it by.
        index (int): NVML's number for it, which need not be CUDA's; of the whole card for a part.
        uuid (str): ``GPU-…`` or ``MIG-…``.
        bus_id (str): Its place on the PCI bus, e.g. ``00000000:3b:00.0``.
        name (str): The product.
    """

    handle: Any = field(repr=False)
    index: int
    uuid: str
    bus_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a card says at one moment.

    Args:
        values (Mapping[str, float]): By the metric's key.
        missing (Mapping[str, str]): Why a metric has no value, by its key.
    """

    values: Mapping[str, float]
    missing: Mapping[str, str]


class NVML:
    """NVIDIA's management library, in use between ``with`` and its end.

    Example:
        >>> with NVML() as nvml:  # doctest: +SKIP
        ...     [card] = nvml.cards()
        ...     print(nvml.read(card).values["power"])
        412.3

    Raises:
        UnavailableError: On entering; with what to do about it.
    """

    def __init__(self) -> None:
        self._nvml = _binding()
        self._fields = [metric for metric in METRICS.values() if metric.field is not None]
        # The binding's own function makes a new array each time, and takes ten times as long.
        self._batch = (self._nvml.c_nvmlFieldValue_t * len(self._fields))()
        for entry, metric in zip(self._batch, self._fields, strict=True):
            entry.fieldId = metric.field

    def __enter__(self) -> Self:
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            remedy = _REMEDIES.get(error.value, "see `nvidia-smi`, which asks the same library")
            raise UnavailableError(f"no GPU can be asked: {_text(error)}; {remedy}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        del kind, error, traceback
        # Whatever it was, it is over.
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    @property
    def driver_version(self) -> str:
        """The version of the driver, or why it is not known."""
        try:
            return str(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError as error:
            return f"unknown ({_text(error)})"

    def cards(self) -> list[Card]:
        """Every card that can be reached, in NVML's order. One that is lost is left out.

        Raises:
            UnavailableError: Not even their number can be told.
        """
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            raise UnavailableError(f"the GPUs cannot be counted: {_text(error)}; see `nvidia-smi`") from error
        found = []
        for index in range(count):
            try:
                found.append(self._card(self._nvml.nvmlDeviceGetHandleByIndex(index)))
            except self._nvml.NVMLError:
                continue
        return found

    def card(self, uuid: str) -> Card | None:
        """The card or MIG device of that very UUID; ``None`` if there is none."""
        try:
            return self._card(self._nvml.nvmlDeviceGetHandleByUUID(uuid))
        except self._nvml.NVMLError:
            return None

    def _card(self, handle: Any) -> Card:
        nvml = self._nvml
        uuid = _decoded(nvml.nvmlDeviceGetUUID(handle))
        whole = (
            nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle) if uuid.startswith("MIG-") else handle
        )
        bus_id = _decoded(nvml.nvmlDeviceGetPciInfo(whole).busId).lower()
        return Card(
            handle, nvml.nvmlDeviceGetIndex(whole), uuid, bus_id, _decoded(nvml.nvmlDeviceGetName(whole))
        )

    def read(self, card: Card) -> Reading:
        """Read a card: all fields in one call, and one call for each other metric.

        Args:
            card (Card): Which.
        """
        values: dict[str, float] = {}
        missing: dict[str, str] = {}
        self._read_fields(card, values, missing)
        for metric in METRICS.values():
            if metric.call is None or metric.key in values:
                continue
            try:
                values[metric.key] = float(metric.call(self._nvml, card.handle))
                missing.pop(metric.key, None)
            except self._nvml.NVMLError as error:
                missing[metric.key] = _text(error)
            except AttributeError as error:  # a binding that is too old to know the function
                missing[metric.key] = f"not in this version of nvidia-ml-py: {error.name}"
        for key, value in list(values.items()):
            if not METRICS[key].is_possible(value):
                missing[key] = f"the driver says {value:g}, which cannot be"
                del values[key]
        return Reading(values, missing)

    def _read_fields(self, card: Card, values: dict[str, float], missing: dict[str, str]) -> None:
        nvml = self._nvml
        function = nvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")  # noqa: SLF001 - checked in _binding
        code = function(card.handle, len(self._fields), ctypes.byref(self._batch))
        for metric, entry in zip(self._fields, self._batch, strict=True):
            if problem := code or entry.nvmlReturn:
                missing[metric.key] = _text(nvml.NVMLError(problem))
            else:
                values[metric.key] = _value(nvml, entry) * metric.scale


def _binding() -> ModuleType:
    try:
        import pynvml
    except ImportError as error:
        raise UnavailableError(
            "NVIDIA's binding to its library is not installed; pip install nvidia-ml-py"
        ) from error
    if not hasattr(pynvml, "_nvmlGetFunctionPointer") or not hasattr(pynvml, "c_nvmlFieldValue_t"):
        raise UnavailableError(
            f"another package than nvidia-ml-py calls itself pynvml ({pynvml.__file__}); "
            "pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py"
        )
    module: ModuleType = pynvml
    return module


def _value(nvml: Any, entry: Any) -> float:
    """The part of the union that the type says; what lies beyond it is rubbish."""
    members = {
        nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
        nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
        nvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    }
    return float(getattr(entry.value, members.get(entry.valueType, "ullVal")))


def _decoded(text: str | bytes) -> str:
    return text.decode() if isinstance(text, bytes) else text


def _text(error: Any) -> str:
    """What an error is called, e.g. ``not supported``."""
    name = re.sub(r"^NVMLError_?", "", type(error).__name__)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    return words or f"NVML error {error.value}"
