"""Observability never breaks training: how a fault of ours is kept out of it.

Every method that Composer calls runs inside one `Guard`. A fault is logged once with its
traceback, counted, and turned into a `Finding`; after too many the capability switches itself off
and says so. Only ``strict=True`` lets it through.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from composer_obs.findings import Finding, ObjectLocation, Rule, Severity
from composer_obs.redaction import redact

__all__ = ["RULES", "Guard"]

_log = logging.getLogger(__name__)

CONTAINED_FAULT = Rule(
    code="EN901",
    name="contained-fault",
    severity=Severity.WARNING,
    reason=(
        "A part of composer_obs failed in a way that it did not foresee. Training went on as if it were "
        "not there, but what it would have recorded at that moment is missing."
    ),
    bad="An observer raises inside batch_end, and the run ends after three days.",
    good="The fault is in the log once, with its traceback, and in the report; the run goes on.",
)
SWITCHED_OFF = Rule(
    code="EN902",
    name="switched-off",
    severity=Severity.ERROR,
    reason=(
        "A part of composer_obs failed so often that it switched itself off for the rest of the run. "
        "Whatever it watches is unwatched from then on."
    ),
    bad="Every batch logs the same traceback.",
    good="The capability says once that it is off, and why.",
)
RULES = (CONTAINED_FAULT, SWITCHED_OFF)


class Guard:
    """A context manager that keeps a capability's faults out of the training loop.

    Args:
        capability (str): Who is guarded, e.g. ``"upload_auditor"``.
        strict (bool, optional): Let faults through instead. Default: ``False``.
        limit (int, optional): After how many faults the capability is switched off. Default: ``20``.
        on_fault (Callable[[Finding], None], optional): Told of each *new* fault. Default: ``None``.

    Attributes:
        faults (int): How many faults were contained so far.
        off (bool): Whether the capability has been switched off.

    Example:
        >>> guard = Guard("demo", limit=2)
        >>> with guard("batch_end"):
        ...     1 / 0
        >>> guard.faults, guard.off
        (1, False)
    """

    def __init__(
        self,
        capability: str,
        *,
        strict: bool = False,
        limit: int = 20,
        on_fault: Callable[[Finding], None] | None = None,
    ) -> None:
        self.capability = capability
        self.strict = strict
        self.limit = limit
        self.faults = 0
        self.off = False
        self._on_fault = on_fault
        self._seen: Counter[tuple[str, type[BaseException]]] = Counter()
        self._lock = threading.Lock()

    def __call__(self, where: str) -> _Guarded:
        """A context for one piece of work; ``where`` names it in the log."""
        return _Guarded(self, where)

    def contain(self, where: str, error: Exception) -> None:
        """Log, count and report one fault."""
        with self._lock:
            self.faults += 1
            self._seen[where, type(error)] += 1
            first = self._seen[where, type(error)] == 1
            switch_off = self.faults >= self.limit and not self.off
            self.off = self.off or switch_off
        location = ObjectLocation(f"{self.capability}.{where}")
        what = redact(f"{type(error).__name__}: {error}")
        if first:
            # The traceback goes out as redacted text: exc_info would print the exception as it is.
            import traceback

            trace = redact("".join(traceback.format_exception(error)))
            _log.warning("%s failed in %s; training goes on without it.\n%s", self.capability, where, trace)
            self._report(
                Finding(
                    CONTAINED_FAULT,
                    f"{self.capability} failed in {where}: {what}",
                    location,
                    "training is not affected; please report the traceback in the log",
                )
            )
        if switch_off:
            _log.error("%s failed %d times and is now off.", self.capability, self.faults)
            self._report(
                Finding(
                    SWITCHED_OFF,
                    f"{self.capability} is off after {self.faults} faults; the last was {what}",
                    location,
                    "see the first traceback in the log",
                )
            )

    def _report(self, finding: Finding) -> None:
        if self._on_fault is None:
            return
        try:
            self._on_fault(finding)
        except Exception:
            _log.warning("%s could not report a fault of its own", self.capability)


class _Guarded:
    __slots__ = ("_guard", "_where")

    def __init__(self, guard: Guard, where: str) -> None:
        self._guard = guard
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or self._guard.strict:
            return False
        self._guard.contain(self._where, error)
        return True
