"""Ask the stores while the run goes on, and once more when it ends.

A daemon thread looks how uploads ended and verifies what has arrived, every few seconds. When the
run ends, `settle` waits for what is under way and `finish` has the last word, both within a time
that the caller sets.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from composer_obs.containment import Guard
from composer_obs.redaction import redact
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.audit import Audit, AuditOptions, OpenStore, audit
from composer_obs.uploads.ledger import Destination, Ledger, Run, replay
from composer_obs.uploads.parallel import run_bounded
from composer_obs.uploads.recorder import Recorder
from composer_obs.uploads.stores import open_store
from composer_obs.uploads.stores.base import Store, StoreUnreachableError
from composer_obs.uploads.verdicts import Verdict

__all__ = ["Verifier"]

_log = logging.getLogger(__name__)

# How often the signs of uploads that ended are looked at; a look costs one stat per upload under way.
_POLL_SECONDS = 0.5
# A round in the background gives up on stores that do not answer after so long.
_ROUND_SECONDS = 60.0
# Verdicts after which another rank's ledger may name the culprit.
_SUSPICIOUS = (Verdict.CORRUPT, Verdict.CLOBBERED, Verdict.TRUNCATED, Verdict.MISSING)


class Verifier:
    """Verifies the uploads of one process in the background.

    Args:
        recorder (Recorder): Its ledger.
        open_own (Callable): Opens a destination of this process.
        poll (Callable[[], None]): Looks how uploads ended.
        interval (float): Seconds between two rounds.
        guard (Guard): Contains faults of the thread.
    """

    def __init__(
        self, recorder: Recorder, open_own: OpenStore, poll: Callable[[], None], interval: float, guard: Guard
    ) -> None:
        self._recorder = recorder
        self._open_own = open_own
        self._poll = poll
        self._interval = interval
        self._guard = guard
        self._verdicts: dict[str, Artifact] = {}
        self._stop = threading.Event()
        self._busy = threading.Lock()
        threading.Thread(target=self._work, name="composer_obs-verifier", daemon=True).start()

    def counts(self) -> dict[str, int]:
        """Uploads by verdict so far; ``pending`` are those that have none yet."""
        standing = self._recorder.standing()
        counts = Counter(
            self._verdicts[attempt].verdict.value if attempt in self._verdicts else "pending"
            for attempt in standing.attempts
        )
        attempted = len(self._recorder.ledger.attempts)
        counts["superseded"] = attempted - len(standing.attempts)
        always = (
            "proven",
            "present",
            "missing",
            "failed",
            "unfinished",
            "unprovable",
            "pending",
            "superseded",
        )
        return {"attempted": attempted, **dict.fromkeys(always, 0), **counts}

    def settle(self, seconds: float) -> Audit:
        """Wait until every upload has ended and every file has been read, then audit.

        Args:
            seconds (float): At most so long, the audit included.
        """
        deadline = time.monotonic() + seconds
        while self._under_way() and time.monotonic() < deadline:
            self._poll()
            time.sleep(0.05)
        self._recorder.wait_until_read(deadline)
        return self._audit(self._recorder.snapshot(), deadline)

    def finish(self, seconds: float) -> Audit:
        """The last audit of this rank; on rank 0, of every rank whose ledger is in the same folder."""
        self._stop.set()
        deadline = time.monotonic() + seconds
        self._poll()
        run = self._recorder.run
        own = self._audit(self._recorder.snapshot(), deadline)
        suspicious = any(artifact.verdict in _SUSPICIOUS for artifact in own.artifacts)
        if run.world_size == 1 or (run.rank != 0 and not suspicious):
            return own
        merged = self._with_other_ranks(deadline)
        whole = self._audit(merged, deadline)
        if run.rank == 0:
            return whole
        mine = [
            artifact for artifact in whole.artifacts if artifact.attempt.id in self._recorder.ledger.attempts
        ]
        uris = {artifact.attempt.uri for artifact in mine}
        findings = [
            f for f in whole.findings if getattr(f.where, "rank", None) == run.rank or str(f.where) in uris
        ]
        return Audit(mine, findings, own.attempted, own.superseded)

    # ---- the background thread ----------------------------------------------------------------

    def _work(self) -> None:
        next_round = time.monotonic() + self._interval
        while not self._stop.wait(_POLL_SECONDS) and not self._guard.off:
            with self._guard("verifier"):
                self._poll()
                if time.monotonic() >= next_round:
                    next_round = time.monotonic() + self._interval
                    self._verify_arrived()

    def _verify_arrived(self) -> None:
        """One round: what has ended and was read since the last one."""
        ledger = self._recorder.standing()
        arrived = [
            attempt
            for attempt in ledger.attempts
            if attempt in ledger.outcomes
            and attempt not in self._verdicts
            and (attempt in ledger.contents or ledger.outcomes[attempt].result != "uploaded")
        ]
        if arrived:
            found = audit(ledger.select(arrived), self._open, AuditOptions(seconds=_ROUND_SECONDS)).artifacts
            # Who did not answer is asked again in the next round; the end of the run is what counts.
            self._note(artifact for artifact in found if artifact.verdict is not Verdict.UNPROVABLE)

    def _note(self, artifacts: Iterable[Artifact]) -> None:
        # A newer file of the same name may have arrived while the store was asked about this one. It
        # was announced before it was sent, so it is in the ledger by now.
        own, standing = self._recorder.ledger.attempts, self._recorder.standing().attempts
        for artifact in artifacts:
            if artifact.attempt.id in own and artifact.attempt.id not in standing:
                continue
            before = self._verdicts.get(artifact.attempt.id)
            self._verdicts[artifact.attempt.id] = artifact
            if before is not None and before.verdict is artifact.verdict:
                continue
            self._recorder.add_verdict(artifact)
            if not artifact.verdict.is_fine and artifact.verdict is not Verdict.PRESENT:
                what = redact(f"{artifact.attempt.uri}: {artifact.reason}")
                _log.warning("%s: %s", artifact.verdict.value, what)

    # ---- the end ------------------------------------------------------------------------------

    def _under_way(self) -> bool:
        ledger = self._recorder.standing()
        return any(
            attempt.destination is not None and attempt.size is not None and id_ not in ledger.outcomes
            for id_, attempt in ledger.attempts.items()
        )

    def _audit(self, ledger: Ledger, deadline: float) -> Audit:
        """An audit that ends in time even if a store does not answer; then its verdicts say so."""
        result: list[Audit] = []
        left = max(2.0, deadline - time.monotonic())

        def work() -> None:
            with self._guard("audit"):
                result.append(audit(ledger, self._open, AuditOptions(seconds=left)))

        run_bounded(work, seconds=left + 5, name="composer_obs-audit")
        if not result:
            with self._guard("audit without a store"):
                result.append(audit(ledger, _no_time, AuditOptions()))
        self._note(result[0].artifacts)
        return result[0]

    def _with_other_ranks(self, deadline: float) -> Ledger:
        """Our ledger and those of the other ranks that share our run folder, once they have ended."""
        run = self._recorder.run
        while True:
            others = _last_sessions(self._recorder.writer.path.parent, run)
            waiting = [other for other in others.runs.values() if not other.ended and _may_run(other, run)]
            if not waiting or time.monotonic() > deadline - 2:
                break
            time.sleep(0.3)
        own = self._recorder.snapshot()
        return Ledger(
            others.runs | own.runs,
            others.destinations | own.destinations,
            others.savers + own.savers,
            others.attempts | own.attempts,
            others.contents | own.contents,
            others.outcomes | own.outcomes,
        )

    def _open(self, destination: Destination) -> Store:
        own = destination.id in self._recorder.ledger.destinations
        return self._open_own(destination) if own else open_store(destination)


def _no_time(destination: Destination) -> Store:
    raise StoreUnreachableError(f"{destination.uri} did not answer in the time that closing may take")


def _last_sessions(folder: Path, run: Run) -> Ledger:
    """What the other ranks of this run wrote last; a rank may have been started more than once."""
    files: dict[str, bytes] = {}
    for path in sorted(folder.glob("ledger-rank*.jsonl")):
        if path.name != f"ledger-rank{run.rank}.jsonl":
            try:
                files[path.name] = path.read_bytes()
            except OSError:
                continue
    ledger = replay(files)
    last = {other.rank: other for other in ledger.runs.values() if other.run_name == run.run_name}
    chosen = [a.id for a in ledger.attempts.values() if (r := ledger.session_of(a)) and last.get(r.rank) is r]
    selected = ledger.select(chosen)
    selected.runs = {other.session: other for other in last.values()}
    return selected


def _may_run(other: Run, own: Run) -> bool:
    """Whether another rank may still be at work; a dead process of this machine is not."""
    node, _, process = other.process.partition(":")
    if node != own.process.partition(":")[0] or not process.isdigit():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
