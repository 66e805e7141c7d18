"""Keeps the ledger of one rank, and reads files in the background.

The training thread calls `announce`, which writes one line and returns; a daemon thread takes the
checksums. Everything written is also kept in memory, so that a full disk costs no evidence as
long as the process lives.
"""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from pathlib import Path

from composer_obs.run_folder import JsonLinesWriter, utc_now
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.checksums import DigestPlan
from composer_obs.uploads.content import HeldFile, read_content
from composer_obs.uploads.ledger import Attempt, Destination, Ledger, Outcome, Run, Saver, to_record
from composer_obs.uploads.places import replaces_earlier

__all__ = ["Recorder"]


class Recorder:
    """The ledger of one process, while it runs.

    Args:
        path (Path): The ledger's file.
        run (Run): Who records.
    """

    def __init__(self, path: Path, run: Run) -> None:
        self.run = run
        self.ledger = Ledger()
        self.writer = JsonLinesWriter(path)
        self._lock = threading.Lock()
        self._count = 0
        self._reading: queue.SimpleQueue[tuple[Attempt, HeldFile, DigestPlan] | None] = queue.SimpleQueue()
        self._unread = 0
        self._all_read = threading.Condition(self._lock)
        # Uploads that no later one of the same place replaces; the list is short, the ledger long.
        self._standing: dict[tuple[str | None, str], dict[str, None]] = {}
        self._reader = threading.Thread(target=self._read_all, name="composer_obs-checksums", daemon=True)
        self._reader.start()
        self.ledger.runs[run.session] = run
        self.writer.append(to_record("run", run))

    # ---- what the training thread calls -------------------------------------------------------

    def new_id(self) -> str:
        """An id that no other attempt of any rank or session has."""
        with self._lock:
            self._count += 1
            return f"{self.run.session}/{self._count}"

    def add_destination(self, destination: Destination) -> Destination:
        """Record a destination under an id of its own; returns it with that id."""
        with self._lock:
            known = dataclasses.replace(destination, id=f"{self.run.session}:{len(self.ledger.destinations)}")
            self.ledger.destinations[known.id] = known
        self.writer.append(to_record("destination", known))
        return known

    def add_saver(self, saver: Saver) -> None:
        with self._lock:
            self.ledger.savers.append(saver)
        self.writer.append(to_record("saver", saver))

    def announce(self, attempt: Attempt) -> None:
        """Write that an upload is about to begin; again, under its true key, if that was another."""
        with self._lock:
            if (before := self.ledger.attempts.get(attempt.id)) is not None:
                self._standing[before.destination, before.key].pop(before.id, None)
            self.ledger.attempts[attempt.id] = dataclasses.replace(attempt, time=utc_now())
            here = self._standing.setdefault((attempt.destination, attempt.key), {})
            if replaces_earlier(attempt):
                here.clear()
            here[attempt.id] = None
        self.writer.append(to_record("attempt", attempt))

    def read_later(self, attempt: Attempt, held: HeldFile, plan: DigestPlan) -> None:
        """Queue a held file for its checksums."""
        with self._lock:
            self._unread += 1
        self._reading.put((attempt, held, plan))

    # ---- what is learnt later -----------------------------------------------------------------

    def add_outcome(self, attempt_id: str, outcome: Outcome) -> None:
        """Record how an upload ended; only the first word counts."""
        with self._lock:
            if attempt_id in self.ledger.outcomes:
                return
            self.ledger.outcomes[attempt_id] = outcome
            if outcome.result == "replaced":
                attempt = self.ledger.attempts[attempt_id]
                self._standing[attempt.destination, attempt.key].pop(attempt_id, None)
        self.writer.append(to_record("outcome", outcome, attempt=attempt_id))

    def standing(self) -> Ledger:
        """The part of the ledger that still counts: uploads that no later one has replaced."""
        with self._lock:
            return self.ledger.select([id_ for here in self._standing.values() for id_ in here])

    def snapshot(self) -> Ledger:
        """The ledger as it is now; later lines do not change it."""
        with self._lock:
            now = self.ledger
            return Ledger(
                dict(now.runs),
                dict(now.destinations),
                list(now.savers),
                dict(now.attempts),
                dict(now.contents),
                dict(now.outcomes),
            )

    def add_verdict(self, artifact: Artifact) -> None:
        """Record what the store said; for readers of the file, an audit asks anew."""
        self.writer.append(
            {
                "kind": "verdict",
                "attempt": artifact.attempt.id,
                "verdict": artifact.verdict.value,
                "reason": artifact.reason,
                "evidence": dict(artifact.evidence),
            }
        )

    def wait_until_read(self, deadline: float) -> bool:
        """Wait until every held file has been read, or until ``deadline`` on the monotonic clock."""
        with self._all_read:
            return self._all_read.wait_for(lambda: self._unread == 0, max(0.0, deadline - time.monotonic()))

    def end(self) -> None:
        """Record that the process came to its end in an orderly way."""
        with self._lock:
            self.ledger.runs[self.run.session] = dataclasses.replace(self.run, ended=True)
        self.writer.append({"kind": "end", "session": self.run.session})
        self.writer.flush(durable=True)

    def close(self) -> Path | None:
        """Stop reading and close the file; returns where lines went that the disk refused."""
        self._reading.put(None)
        return self.writer.close()

    # ---- the background thread ----------------------------------------------------------------

    def _read_all(self) -> None:
        while (item := self._reading.get()) is not None:
            attempt, held, plan = item
            with self._lock:
                stands = attempt.id in self._standing[attempt.destination, attempt.key]
            if not stands:
                held.close()  # A later file of this name has taken its place; nobody will ask for this one.
            else:
                content = read_content(held, plan, attempt.role)
                with self._lock:
                    self.ledger.contents[attempt.id] = content
                self.writer.append(to_record("checksum", content, attempt=attempt.id))
                self.writer.flush(durable=attempt.role != "file")
            with self._all_read:
                self._unread -= 1
                self._all_read.notify_all()
