"""Learn how uploads end from the things that Composer uploads with.

`RemoteUploader` hands out a future. `RemoteUploaderDownloader` tells nothing per file: its workers
remove the staged copy when the object is written, put an exception into a queue and die when it is
not, and everything behind it in the queue is lost with them. `StagedUploads` reads those signs
without taking any of them from Composer.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from composer.loggers import RemoteUploaderDownloader

from composer_obs.redaction import redact
from composer_obs.uploads.ledger import Outcome

__all__ = ["StagedUploads", "describe_error", "outcome_of_future"]


def describe_error(error: BaseException) -> str:
    """An exception as the ledger keeps it: one line, no secret."""
    return redact(f"{type(error).__name__}: {error}".replace("\n", " "))[:2000]


def outcome_of_future(future: Future[Any]) -> Outcome:
    """How an upload that has a future of its own ended."""
    try:
        error = future.exception()
    except CancelledError:
        return Outcome("lost", "the upload was cancelled before it began")
    if error is None:
        return Outcome("uploaded")
    if isinstance(error, BrokenProcessPool):
        return Outcome("lost", f"its upload worker died: {describe_error(error)}")
    return Outcome("failed", describe_error(error))


@dataclass(frozen=True, slots=True)
class _Pending:
    attempt: str
    key: str
    staged: str


class _SharedQueue:
    """The uploader's exception queue, looked into without taking anything from Composer.

    Composer, its only reader besides us, calls ``empty`` and ``get_nowait``.
    """

    def __init__(self, queue_: Any, seen: Callable[[BaseException], None]) -> None:
        self._queue = queue_
        self._seen = seen
        self._kept: list[BaseException] = []
        self._lock = threading.Lock()

    def look(self) -> None:
        with self._lock:
            while True:
                try:
                    error = self._queue.get_nowait()
                except (queue.Empty, OSError, EOFError):
                    return
                except Exception as unreadable:  # an exception that does not survive pickling
                    error = unreadable
                self._kept.append(error)
                self._seen(error)

    def empty(self) -> bool:
        self.look()
        return not self._kept

    def get_nowait(self) -> BaseException:
        self.look()
        with self._lock:
            if not self._kept:
                raise queue.Empty
            return self._kept.pop(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


class _WaitingFiles(dict[str, tuple[str, bool]]):
    """Composer's table of files that wait for the queue; tells where each was staged."""

    def __init__(
        self, items: dict[str, tuple[str, bool]], staged: Callable[[str, str, str | None], None]
    ) -> None:
        super().__init__(items)
        self._staged = staged

    def __setitem__(self, key: str, value: tuple[str, bool]) -> None:
        before = self.get(key)
        super().__setitem__(key, value)
        self._staged(key, value[0], None if before is None else before[0])


class StagedUploads:
    """The uploads of one RemoteUploaderDownloader that have not ended yet.

    Args:
        uploader (RemoteUploaderDownloader): Whose.
        on_outcome (Callable[[str, Outcome], None]): Told each attempt's end, once.
    """

    def __init__(
        self, uploader: RemoteUploaderDownloader, on_outcome: Callable[[str, Outcome], None]
    ) -> None:
        self._uploader = uploader
        self._on_outcome = on_outcome
        self._pending: dict[str, _Pending] = {}
        self._errors: list[BaseException] = []
        self._last_error: str | None = None
        self._lock = threading.RLock()
        self._workers: list[Any] = []
        self._exceptions: _SharedQueue | None = None
        self._here = threading.local()
        with uploader._object_lock:
            uploader._logged_objects = _WaitingFiles(uploader._logged_objects, self._note_staged)

    def _note_staged(self, key: str, staged: str, replaced: str | None) -> None:
        self._here.staged = (key, staged, replaced)

    def before(self) -> None:
        """This thread is about to give the uploader a file."""
        self._here.staged = None

    def accepted(self, attempt: str) -> tuple[str, str] | None:
        """The uploader took the file; returns its own name of the object and the copy that it will send.

        A subclass may change the name, or queue nothing; then there is nothing to wait for, and
        only the store can tell.

        Args:
            attempt (str): The attempt's id.
        """
        with self._lock:
            if self._here.staged is None:
                self._on_outcome(attempt, Outcome("uploaded"))
                return None
            key, staged, replaced = self._here.staged
            self._connect()
            for pending in list(self._pending.values()):
                if pending.staged == replaced:
                    self._end(pending, Outcome("replaced"))
            self._pending[attempt] = _Pending(attempt, key, staged)
            return key, staged

    def poll(self) -> None:
        """Look at the signs: staged copies that are gone, exceptions, dead workers."""
        with self._lock:
            if not self._pending:
                return
            self._connect()
            # The order matters: whoever is dead now has removed what it uploaded.
            dead = not any(worker.is_alive() for worker in self._workers)
            if self._exceptions is not None:
                self._exceptions.look()
            for pending in list(self._pending.values()):
                if not os.path.exists(pending.staged):
                    self._end(pending, Outcome("uploaded"))
            for error in self._errors:
                self._blame(error)
            self._errors.clear()
            if dead:
                cause = self._last_error or self._cause_of_death()
                for pending in list(self._pending.values()):
                    self._end(
                        pending, Outcome("lost", f"its upload worker was gone before it was sent: {cause}")
                    )

    def _connect(self) -> None:
        """Once its workers run, share the exception queue and look before staged copies are swept."""
        uploader = self._uploader
        if self._exceptions is not None or not uploader._workers:
            return
        self._workers = list(uploader._workers)
        self._exceptions = _SharedQueue(uploader._exception_queue, self._errors.append)
        uploader._exception_queue = self._exceptions  # type: ignore[assignment]  # it has what Composer calls
        if uploader._tempdir is not None:
            cleanup = uploader._tempdir.cleanup

            def look_then_clean() -> None:
                try:
                    self.poll()
                finally:
                    cleanup()

            uploader._tempdir.cleanup = look_then_clean  # type: ignore[method-assign]

    def _blame(self, error: BaseException) -> None:
        """Composer's exception does not say which file it was; its text or the order does."""
        if not self._pending:
            return
        text = str(error)
        culprit = next((p for p in self._pending.values() if p.staged in text), None)
        culprit = culprit or next((p for p in self._pending.values() if _ends_name(text, p.key)), None)
        culprit = culprit or next(iter(self._pending.values()))
        self._last_error = describe_error(error)
        self._end(culprit, Outcome("failed", self._last_error))

    def _end(self, pending: _Pending, outcome: Outcome) -> None:
        del self._pending[pending.attempt]
        self._on_outcome(pending.attempt, outcome)

    def _cause_of_death(self) -> str:
        if not self._workers:
            return "its workers never started"
        codes = [getattr(worker, "exitcode", None) for worker in self._workers]
        code = next((code for code in codes if code), None)
        if code is None:
            return "it ended without an error"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _ends_name(text: str, key: str) -> bool:
    """Whether the text names exactly this key, and not a longer one that begins with it."""
    at = text.find(key)
    while at >= 0:
        after = text[at + len(key) : at + len(key) + 1]
        if not after or after in " ,:;'\")]\n":
            return True
        at = text.find(key, at + 1)
    return False
