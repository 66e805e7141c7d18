"""From the stores' answers and the ledger to one verdict an upload, and who is to blame."""

from __future__ import annotations

from collections import defaultdict

from composer_obs.redaction import MASK
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.ledger import Attempt, Content, Ledger, Outcome
from composer_obs.uploads.lookup import Answer
from composer_obs.uploads.places import Place, place_of, writer_of
from composer_obs.uploads.stores.base import ObjectNotFoundError, StoredObject
from composer_obs.uploads.verdicts import Judgement, Verdict, judge

__all__ = ["Judge"]


class Judge:
    """Reaches a verdict on each upload of a ledger.

    Args:
        ledger (Ledger): What was announced, and how it ended.

    Attributes:
        contents (dict[str, Content]): What each upload held; more may be learnt during an audit.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.contents: dict[str, Content] = dict(ledger.contents)
        self._judged: dict[str, tuple[StoredObject, Content | None, Judgement]] = {}
        self._at: dict[Place, list[Attempt]] = defaultdict(list)
        self._holders: dict[Place, Attempt | None] = {}
        for attempt in ledger.attempts.values():
            self._at[place_of(ledger, attempt)].append(attempt)

    def settle(self, attempt: Attempt, answer: Answer | None, superseded: int) -> Artifact:
        """The verdict on one upload that should stand.

        Args:
            attempt (Attempt): The upload.
            answer (Answer, optional): What the store said; ``None`` if there was nothing to ask.
            superseded (int): How many earlier uploads it replaced.
        """
        outcome = self.ledger.outcomes.get(attempt.id)
        judgement, holds = self._settle(attempt, answer, outcome)
        evidence = dict(judgement.evidence)
        if outcome is not None:
            evidence["uploader"] = outcome.result
            if outcome.error:
                evidence["error"] = outcome.error
        return Artifact(attempt, judgement.verdict, judgement.reason, evidence, superseded, holds)

    def _settle(
        self, attempt: Attempt, answer: Answer | None, outcome: Outcome | None
    ) -> tuple[Judgement, str | None]:
        if attempt.destination is None:
            reason = "no destination among the loggers uploads files"
            return Judgement(Verdict.UNROUTED, reason), None
        if attempt.size is None:
            reason = f"{attempt.source} was no regular file when its upload was asked for"
            return Judgement(Verdict.NO_FILE, reason), None
        if MASK in attempt.key:
            reason = "its key holds a secret that the ledger did not keep, so it cannot be asked about"
            return Judgement(Verdict.UNPROVABLE, reason), None
        failed = outcome is not None and outcome.result in ("failed", "lost")
        holds: Attempt | None = None
        if isinstance(answer, StoredObject):
            judgement = self._doubt(attempt, self.compare(attempt, answer))
            if judgement.verdict is Verdict.PROVEN:
                return judgement, attempt.id
            holds = self._whose(attempt, answer)
            if judgement.verdict is Verdict.PRESENT and not failed and holds is None:
                return judgement, None
            state = self._explain(attempt, holds) or judgement.reason
        elif isinstance(answer, ObjectNotFoundError):
            what = "bucket" if "NoSuchBucket" in str(answer) else "object"
            state = f"the store has no such {what}"
            judgement = Judgement(Verdict.MISSING, state, {"stored": None, "told": str(answer)})
        else:
            judgement = Judgement(Verdict.UNPROVABLE, str(answer), {"how": type(answer).__name__})
            state = str(answer)
        return self._blame(attempt, outcome, judgement, state, holds), holds.id if holds else None

    def _blame(
        self,
        attempt: Attempt,
        outcome: Outcome | None,
        judgement: Judgement,
        state: str,
        holds: Attempt | None,
    ) -> Judgement:
        """The store does not have this content: which of the reasons is it?"""
        evidence = judgement.evidence
        if outcome is not None and outcome.result in ("failed", "lost"):
            how = "the upload failed" if outcome.result == "failed" else "lost with its upload worker"
            return Judgement(
                Verdict.FAILED, f"{how}: {outcome.error or 'no error was told'}; {state}", evidence
            )
        if judgement.verdict is Verdict.UNPROVABLE:
            return judgement
        if holds is not None and self._is_stranger(attempt, holds):
            return Judgement(Verdict.CLOBBERED, state, evidence)
        run = self.ledger.session_of(attempt)
        if outcome is None and not (run is not None and run.ended):
            reason = f"announced, and nothing is known of its end; {state}"
            return Judgement(Verdict.UNFINISHED, reason, evidence)
        if holds is not None:
            return Judgement(Verdict.MISSING, f"it never replaced the earlier upload; {state}", evidence)
        return judgement

    def _doubt(self, attempt: Attempt, judgement: Judgement) -> Judgement:
        """A difference condemns only if it is known to the byte what was sent."""
        content = self.contents.get(attempt.id)
        if content is None or content.note is None or judgement.verdict is Verdict.PROVEN:
            return judgement
        return Judgement(Verdict.PRESENT, content.note, judgement.evidence)

    def _explain(self, attempt: Attempt, holds: Attempt | None) -> str | None:
        if holds is None:
            return None
        when = f"epoch {holds.epoch}, batch {holds.batch}"
        if self._is_stranger(attempt, holds):
            whose = f"rank {holds.rank}{self._of_other_run(attempt, holds)}"
            return f"the store holds what {whose} uploaded ({when})"
        return f"the store holds the upload of {when} ({holds.id})"

    def _is_stranger(self, attempt: Attempt, other: Attempt) -> bool:
        return writer_of(self.ledger, attempt) != writer_of(self.ledger, other)

    def _of_other_run(self, attempt: Attempt, other: Attempt) -> str:
        (own, _), (name, _) = writer_of(self.ledger, attempt), writer_of(self.ledger, other)
        return f" of run {name}" if name != own else ""

    def _whose(self, attempt: Attempt, stored: StoredObject) -> Attempt | None:
        """Another upload of this place whose content the store holds, the newest first."""
        place = place_of(self.ledger, attempt)
        if place not in self._holders:
            holders = (
                other
                for other in reversed(self._at[place])
                if other.size is not None and self.compare(other, stored).verdict is Verdict.PROVEN
            )
            self._holders[place] = next(holders, None)
        return self._holders[place]

    def compare(self, attempt: Attempt, stored: StoredObject) -> Judgement:
        """What was sent beside what is stored, whatever else is known of the upload."""
        content = self.contents.get(attempt.id)
        last = self._judged.get(attempt.id)
        if last is not None and last[0] is stored and last[1] is content:
            return last[2]
        size = attempt.size if content is None else content.size
        digests = {} if content is None else content.digests
        destination = self.ledger.destinations.get(str(attempt.destination))
        part_size = None if destination is None else destination.options.get("part_size")
        known = part_size if isinstance(part_size, int) else None
        judgement = judge(size or 0, digests, stored, part_size=known)
        self._judged[attempt.id] = (stored, content, judgement)
        return judgement
