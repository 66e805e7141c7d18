"""The upload auditor: a Composer LoggerDestination over the pure core of this folder."""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import socket
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from composer.core import Event, State
from composer.loggers import Logger, LoggerDestination
from composer.utils import dist

from composer_obs.containment import Guard
from composer_obs.errors import ComposerObsError
from composer_obs.findings import Finding
from composer_obs.redaction import redact
from composer_obs.run_folder import JsonLinesWriter, resolve_run_folder
from composer_obs.uploads import rules, summary
from composer_obs.uploads.audit import Audit
from composer_obs.uploads.ledger import Run
from composer_obs.uploads.parallel import run_bounded
from composer_obs.uploads.recorder import Recorder
from composer_obs.uploads.stores.base import StoreError, StoreUnsupportedError
from composer_obs.uploads.verifier import Verifier
from composer_obs.uploads.watch import UploadWatch

__all__ = ["UploadAuditor", "UploadsNotProvenError"]

_log = logging.getLogger(__name__)

_EXIT_CODE = 1
_SCANS = (Event.INIT, Event.AFTER_LOAD, Event.FIT_START, Event.EVAL_STANDALONE_START, Event.PREDICT_START)
_TELL_SECONDS = 5.0


class UploadsNotProvenError(ComposerObsError):
    """``on_failure="raise"``: when training ended, uploads were lost, damaged or never made."""


class UploadAuditor(LoggerDestination):
    """Know, for every file that a run uploads, whether it arrived whole.

    Put it among ``loggers``; its place in the list does not matter. From ``INIT`` on it sees every
    ``Logger.upload_file``, every ``RemoteUploader.upload_file_async`` (which CheckpointSaver uses
    when its folder is a URI) and every destination that uploads, also those that join the
    callbacks later or are called directly. On the training thread it writes one line and opens one
    file; checksums and all questions to the stores happen in background threads. It changes
    nothing of what is uploaded, and a fault of its own never reaches the training loop.

    Example:
        >>> from composer.loggers import FileLogger
        >>> loggers = [FileLogger(), UploadAuditor()]  # and whatever uploads

    Args:
        folder (str, optional): Where the ledger is kept; may hold ``{run_name}``. Default:
            ``$COMPOSER_OBS_FOLDER``, else ``{run_name}/composer_obs``.
        on_failure (str, optional): ``"warn"`` reports at the end. ``"raise"`` also waits at the end
            of ``fit`` until all uploads have ended (at most ``timeout``), raises
            `UploadsNotProvenError` if one of them is lost, and ends the process with exit code 1
            if one is lost later. Default: ``"warn"``.
        interval (float, optional): Seconds between two rounds of verification while training goes
            on. Default: ``30``.
        timeout (float, optional): Seconds that closing may wait for uploads, checksums and the
            stores. Default: ``120``.
        strict (bool, optional): Let faults of the auditor itself through. Default: ``False``.

    Logs:
        ``uploads/attempted``, ``uploads/proven``, ``uploads/present``, ``uploads/failed``, …:
        number of uploads by verdict (`composer_obs.uploads.verdicts.Verdict`), and
        ``uploads/pending`` for those without one yet; at the end of each epoch, of ``fit``, and at
        close. ``uploads/artifacts``: a table of what is not proven, at close.

    Files:
        ``ledger-rank{rank}.jsonl`` (`composer_obs.uploads.ledger` says what is in it) and
        ``findings-rank{rank}.jsonl`` in the run folder. At the end the ledger is also put beside
        the artifacts, as ``{run_name}/composer_obs/ledger-rank{rank}.jsonl``, where a store allows.

    Raises:
        ValueError: An argument is not one of the values above.
    """

    def __init__(
        self,
        folder: str | None = None,
        on_failure: Literal["warn", "raise"] = "warn",
        interval: float = 30.0,
        timeout: float = 120.0,
        *,
        strict: bool = False,
    ) -> None:
        super().__init__()
        if on_failure not in ("warn", "raise"):
            raise ValueError(f"on_failure must be 'warn' or 'raise', not {on_failure!r}")
        if interval <= 0 or timeout <= 0:
            raise ValueError(f"interval and timeout must be positive seconds, not {interval} and {timeout}")
        self.folder = folder
        self.on_failure = on_failure
        self.interval = float(interval)
        self.timeout = float(timeout)
        self._guard = Guard("upload_auditor", strict=strict, on_fault=self._keep_finding)
        self._session: _Session | None = None
        self._known_callbacks = 0
        self._destinations: Sequence[LoggerDestination] = ()
        self._lost = False
        if on_failure == "raise":
            # Composer swallows what close and post_close raise. Registered before the Trainer's
            # own handler, this runs after it.
            atexit.register(self._exit)

    # ---- events of Composer -------------------------------------------------------------------

    def run_event(self, event: Event, state: State, logger: Logger) -> None:
        """Look for uploaders that joined since the last event, then handle the event."""
        self._destinations = logger.destinations
        starts = self._session is None or (self._session.is_closed and event is Event.INIT)
        # Some can upload only after their own INIT, so the starts of the work look again.
        due = starts or event in _SCANS or len(state.callbacks) != self._known_callbacks
        if due and not self._guard.off:
            self._scan(state, starts=starts)
            with self._guard("order"):
                self._come_last(state)
        super().run_event(event, state, logger)

    def upload_file(self, state: State, remote_file_name: str, file_path: Path, *, overwrite: bool) -> None:
        """Called by the Logger for every file; notes those that no destination takes."""
        if self._session is None:
            self._scan(state, starts=True)  # A logger before us may upload while it starts.
        with self._guard("upload_file"):
            if self._session is not None:
                # Before the first event they are not known; loggers are the first of the callbacks.
                destinations = self._destinations or state.callbacks
                self._session.watch.dropped(
                    destinations, remote_file_name, str(file_path), overwrite=overwrite
                )

    def epoch_end(self, state: State, logger: Logger) -> None:
        """Log the counts."""
        del state
        self._log_counts(logger)

    def fit_end(self, state: State, logger: Logger) -> None:
        """Log the counts; with ``on_failure="raise"`` wait for the uploads and judge them."""
        del state
        complaint = None
        with self._guard("fit_end"):
            if self.on_failure == "raise" and self._session is not None:
                complaint = summary.complaint(self._session.verifier.settle(self.timeout))
        self._log_counts(logger)
        if complaint is not None:
            raise UploadsNotProvenError(complaint)

    def close(self, state: State, logger: Logger) -> None:
        """Wait, within ``timeout``, for what is under way; tell the destinations that still listen."""
        if self._session is None or self._session.is_closed:
            return  # Composer closes twice: when it is told to, and at exit.
        self._scan(state)
        with self._guard("close"):
            audit = self._session.verifier.settle(self.timeout)
            self._session.recorder.end()
            for destination in logger.destinations:
                self._tell(destination, audit, state.timestamp.batch.value)

    def post_close(self) -> None:
        """The last word, after every uploader has shut down."""
        with self._guard("post_close"):
            session = self._session
            if session is None or session.is_closed:
                return
            audit = session.conclude(self.timeout)
            lost = summary.complaint(audit) is not None
            self._lost = self._lost or lost
            if dist.get_global_rank() == 0 or lost:
                sys.stderr.write("\n".join([*session.report(audit), ""]))

    # ---- ours ---------------------------------------------------------------------------------

    def _scan(self, state: State, *, starts: bool = False) -> None:
        with self._guard("scan"):
            self._known_callbacks = len(state.callbacks)
            if starts and not self._has_rival(state):
                self._session = _Session(state, self.folder, self.interval, self._guard)
            if self._session is not None and not self._session.is_closed:
                self._session.watch.scan()

    def _come_last(self, state: State) -> None:
        """Whoever verifies must close after whoever uploads, and closing follows this list.

        Not while Composer closes: it walks the list itself then, where each event walks a copy.
        """
        if self in state.callbacks and state.callbacks[-1] is not self:
            state.callbacks.remove(self)
            state.callbacks.append(self)

    def _has_rival(self, state: State) -> bool:
        """Whether another auditor watches this Trainer already; two would hide uploads from each other."""
        for callback in state.callbacks:
            if isinstance(callback, UploadAuditor) and callback is not self:
                session = callback._session  # noqa: SLF001 - another instance of this class
                if session is not None and not session.is_closed:
                    return True
        return False

    def _counts(self) -> dict[str, float]:
        assert self._session is not None
        return {f"uploads/{name}": count for name, count in self._session.verifier.counts().items()}

    def _log_counts(self, logger: Logger) -> None:
        with self._guard("log_metrics"):
            if self._session is not None:
                logger.log_metrics(self._counts())

    def _tell(self, destination: LoggerDestination, audit: Audit, step: int) -> None:
        """The final counts, and the table of what is not proven, to one destination, if it listens."""
        columns, rows = summary.table_rows(audit)
        metrics = self._counts()

        def log() -> None:
            try:
                destination.log_metrics(metrics, step)
                if rows:
                    destination.log_table(columns, rows, "uploads/artifacts", step)
            except Exception as error:  # closed already, or lacks pandas: not a fault of ours
                _log.debug("%s takes no more: %r", type(destination).__name__, error)

        # In bounded time: a destination may ask its server first (wandb does, also offline).
        if not run_bounded(log, seconds=_TELL_SECONDS, name="composer_obs-metrics"):
            _log.warning("%s did not take the table of uploads in time", type(destination).__name__)

    def _keep_finding(self, finding: Finding) -> None:
        if self._session is not None:
            self._session.findings.append(finding.to_json())

    def _exit(self) -> None:
        if self._lost:
            _log.error("uploads were lost after the end of training; exit code %d", _EXIT_CODE)
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_EXIT_CODE)


class _Session:
    """What the auditor keeps from one INIT to the post_close after it."""

    def __init__(self, state: State, folder: str | None, interval: float, guard: Guard) -> None:
        rank = dist.get_global_rank()
        self.folder = resolve_run_folder(state.run_name, folder).absolute()
        self.is_closed = False
        node = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
        run = Run(uuid.uuid4().hex[:12], state.run_name, rank, dist.get_world_size(), f"{node}:{os.getpid()}")
        self.findings = JsonLinesWriter(self.folder / f"findings-rank{rank}.jsonl")
        self.recorder = Recorder(self.folder / f"ledger-rank{rank}.jsonl", run)
        self.watch = UploadWatch(self.recorder, state, guard)
        self.verifier = Verifier(self.recorder, self.watch.open, self.watch.poll, interval, guard)
        self._guard = guard

    def conclude(self, seconds: float) -> Audit:
        """Take the hooks away, audit for the last time, keep findings and ledger."""
        self.is_closed = True
        self.watch.stop()
        audit = self.verifier.finish(seconds)
        if self.recorder.writer.lines_waiting:
            self.recorder.writer.flush()
        for finding in audit.findings:
            self.findings.append(finding.to_json())
        data = self.recorder.writer.read()
        run_bounded(lambda: self._put_ledger(data), seconds=min(30.0, seconds), name="composer_obs-ledger")
        self._close_files()
        return audit

    def _put_ledger(self, data: bytes) -> None:
        run = self.recorder.run
        key = f"{run.run_name}/composer_obs/ledger-rank{run.rank}.jsonl"
        for destination in self.watch.destinations():
            with self._guard("put ledger"):
                try:
                    self.watch.open(destination).put(key, data)
                except StoreUnsupportedError:
                    continue
                except StoreError as error:
                    _log.warning("the ledger could not be put into %s: %s", destination.uri, error)

    def _close_files(self) -> None:
        for writer, rescued in (
            (self.recorder.writer, self.recorder.close()),
            (self.findings, self.findings.close()),
        ):
            if rescued is None and writer.error is None:
                continue
            where = f"put into {rescued}" if rescued is not None else "lost"
            _log.error(
                "%s %s: lines that %s would not take were %s (%s)",
                rules.LEDGER_NOT_WRITTEN.code,
                rules.LEDGER_NOT_WRITTEN.name,
                writer.path,
                where,
                redact(str(writer.error)),
            )

    def report(self, audit: Audit) -> list[str]:
        """The summary for a person."""
        seen = {run.rank for run in self.recorder.ledger.runs.values()} | {
            a.attempt.rank for a in audit.artifacts
        }
        run = self.recorder.run
        others = [rank for rank in range(run.world_size) if rank not in seen] if run.rank == 0 else []
        return summary.summary_lines(audit, str(self.folder), others)
