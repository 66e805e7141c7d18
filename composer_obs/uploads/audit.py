"""Account for every announced upload: replay ledgers, ask the stores, reach a verdict on each.

The same function ends a run (over the ledgers that the run folder holds) and serves
``composer-obs audit`` (later, from any machine).
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from composer_obs.findings import Finding, Severity
from composer_obs.redaction import redact
from composer_obs.uploads import reports
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.checksums import DigestPlan
from composer_obs.uploads.judging import Judge
from composer_obs.uploads.ledger import Attempt, Content, Destination, Ledger
from composer_obs.uploads.lookup import Answer, look_up
from composer_obs.uploads.parallel import run_parallel
from composer_obs.uploads.places import Place, place_of, superseded_attempts
from composer_obs.uploads.reread import read_back, read_source
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    Store,
    StoredChecksum,
    StoredObject,
    StoreError,
    UnfinishedUpload,
)
from composer_obs.uploads.verdicts import Verdict

__all__ = ["Audit", "AuditOptions", "OpenStore", "audit"]

#: Opens the store of a destination; raises `StoreError` if it cannot.
OpenStore = Callable[[Destination], Store]


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How far an audit goes.

    Args:
        jobs (int): Requests at a time. Default: ``16``.
        download (bool): Read objects back where the store keeps no checksum that proves them.
            Default: ``False``.
        seconds (float, optional): Stop asking after so long. Default: ``None``, ask to the end.
        progress (Callable[[int, int], None], optional): Told (answered, total). Default: ``None``.
    """

    jobs: int = 16
    download: bool = False
    seconds: float | None = None
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome of an audit.

    Args:
        artifacts (Sequence[Artifact]): Every upload that was not superseded, in order.
        findings (Sequence[Finding]): What is wrong, worst first.
        attempted (int): All uploads, the superseded ones too.
        superseded (int): Those that a later upload of ours replaced, as asked.
    """

    artifacts: Sequence[Artifact]
    findings: Sequence[Finding]
    attempted: int
    superseded: int

    @property
    def all_proven(self) -> bool:
        """Whether each artifact is proven and nothing else is an error."""
        return all(artifact.verdict.is_fine for artifact in self.artifacts) and not any(
            finding.level is Severity.ERROR for finding in self.findings
        )

    def counts(self) -> dict[str, int]:
        """How many uploads got each verdict; verdicts that none got are left out."""
        counts = Counter(artifact.verdict.value for artifact in self.artifacts)
        counts[Verdict.SUPERSEDED.value] += self.superseded
        return {verdict.value: counts[verdict.value] for verdict in Verdict if counts[verdict.value]}


def audit(ledger: Ledger, open_store: OpenStore, options: AuditOptions | None = None) -> Audit:
    """Reach a verdict on every upload of the ledger.

    Args:
        ledger (Ledger): From `composer_obs.uploads.ledger.replay`.
        open_store (Callable): Opens the store of a destination.
        options (AuditOptions, optional): Default: ``AuditOptions()``.

    Returns:
        Audit: Never raises for what a store does; that is a verdict.
    """
    judge = Judge(ledger)
    inquiry = _Inquiry(ledger, judge, open_store, options or AuditOptions())
    try:
        replaced_by = superseded_attempts(ledger)
        standing = [attempt for attempt in ledger.attempts.values() if attempt.id not in replaced_by]
        inquiry.ask(standing)
        earlier = Counter(replaced_by.values())
        artifacts = [judge.settle(a, inquiry.answer_to(a), earlier[a.id]) for a in standing]
        findings = reports.findings_of(ledger, artifacts, inquiry.unfinished, inquiry.holds_key)
    finally:
        inquiry.close()
    return Audit(artifacts, findings, len(ledger.attempts), len(replaced_by))


def _never(key: str, stored: StoredObject) -> bool:
    del key, stored
    return False


class _Inquiry:
    """Asks the stores about every place where an upload should stand."""

    def __init__(self, ledger: Ledger, judge: Judge, open_store: OpenStore, options: AuditOptions) -> None:
        self.ledger = ledger
        self.options = options
        self.unfinished: list[tuple[Destination, UnfinishedUpload]] = []
        self._open_store = open_store
        self._deadline = None if options.seconds is None else time.monotonic() + options.seconds
        self._stores: dict[str, Store | StoreError] = {}
        self._answers: dict[Place, Answer] = {}
        self._judge = judge

    def close(self) -> None:
        for store in self._stores.values():
            if isinstance(store, Store):
                store.close()

    def ask(self, standing: Sequence[Attempt]) -> None:
        """Get the stores' answers about every place where an upload should stand."""
        groups: dict[str, dict[str, list[Attempt]]] = defaultdict(lambda: defaultdict(list))
        for attempt in standing:
            if attempt.destination is not None and attempt.size is not None:
                where, key = place_of(self.ledger, attempt)
                groups[where][key].append(attempt)
        total = sum(len(keys) for keys in groups.values())
        answered = 0

        def progress(more: int) -> None:
            nonlocal answered
            answered += more
            if self.options.progress is not None:
                self.options.progress(answered, total)

        for where, keys in groups.items():
            some_attempt = next(iter(keys.values()))[0]
            destination = self.ledger.destinations.get(str(some_attempt.destination))
            store = self._open(where, destination)
            if not isinstance(store, Store):
                self._answers.update(((where, key), store) for key in keys)
                progress(len(keys))
                continue

            def settled(key: str, stored: StoredObject, keys: Mapping[str, list[Attempt]] = keys) -> bool:
                return all(self._judge.compare(a, stored).verdict is Verdict.PROVEN for a in keys[key])

            found = look_up(
                store, keys, settled, jobs=self.options.jobs, deadline=self._deadline, progress=progress
            )
            self._answers.update(((where, key), answer) for key, answer in found.items())
            self._look_closer(store, where, keys)
            if destination is not None:
                self._find_unfinished(store, destination, keys)

    def answer_to(self, attempt: Attempt) -> Answer | None:
        """What the store said about the place of an upload; ``None`` if it was not asked."""
        return self._answers.get(place_of(self.ledger, attempt))

    def holds_key(self, attempt: Attempt, key: str) -> bool:
        """Whether the store of ``attempt`` may have an object of this key: it did not deny it."""
        where, _ = place_of(self.ledger, attempt)
        if (where, key) not in self._answers:
            store = self._stores.get(where)
            if not isinstance(store, Store):
                return True
            self._answers[where, key] = look_up(store, [key], _never, deadline=self._deadline)[key]
        return not isinstance(self._answers[where, key], ObjectNotFoundError)

    def _open(self, where: str, destination: Destination | None) -> Store | StoreError:
        if where not in self._stores:
            if destination is None:
                self._stores[where] = StoreError("the ledger does not say where this upload went")
            else:
                try:
                    self._stores[where] = self._open_store(destination)
                except StoreError as error:
                    self._stores[where] = error
                except Exception as error:  # another package's store
                    self._stores[where] = StoreError(redact(f"cannot open {destination.uri}: {error!r}"))
        return self._stores[where]

    def _look_closer(self, store: Store, where: str, keys: Mapping[str, list[Attempt]]) -> None:
        """Where the answer so far proves nothing: part sizes, the local file, a download."""

        def closer(key: str) -> Answer:
            answer = self._answers[where, key]
            if isinstance(answer, StoredObject):
                for step in (self._ask_part_sizes, self._read_source, self._download):
                    if all(self._judge.compare(a, answer).verdict is Verdict.PROVEN for a in keys[key]):
                        break
                    try:
                        answer = step(store, keys[key], answer)
                    except StoreError as error:
                        return error if step == self._download else answer
                    except Exception:  # noqa: S112 - no library for it, or a fault of another package's store
                        continue
            return answer

        open_keys = [
            key
            for key, attempts in keys.items()
            if isinstance(answer := self._answers[where, key], StoredObject)
            and any(self._judge.compare(a, answer).verdict is not Verdict.PROVEN for a in attempts)
        ]
        answers = run_parallel(closer, open_keys, jobs=self.options.jobs, deadline=self._deadline)
        self._answers.update(((where, key), answer) for key, answer in answers.items())

    def _ask_part_sizes(
        self, store: Store, attempts: Sequence[Attempt], stored: StoredObject
    ) -> StoredObject:
        del attempts
        composite = any(checksum.parts is not None for checksum in stored.checksums)
        return store.with_part_sizes(stored) if composite and stored.part_sizes is None else stored

    def _read_source(self, store: Store, attempts: Sequence[Attempt], stored: StoredObject) -> StoredObject:
        """Take the checksums that are missing from the local file, if it is still the same one."""
        for attempt in attempts:
            content = self._judge.contents.get(attempt.id)
            have = content.digests if content is not None else {}
            kinds = tuple(c.kind for c in stored.checksums if c.kind not in have) or (
                () if have else store.plan(stored.size).kinds
            )
            if not kinds:
                continue
            part_size = stored.part_sizes[0] if stored.part_sizes else store.plan(stored.size).part_size
            digests = read_source(attempt, DigestPlan(kinds, part_size))
            if digests is not None:
                self._judge.contents[attempt.id] = Content(attempt.size or 0, {**have, **digests})
        return stored

    def _download(self, store: Store, attempts: Sequence[Attempt], stored: StoredObject) -> StoredObject:
        """Read the object back and sum it, where that was asked for and nothing else proves it."""
        known = [self._judge.contents[a.id].digests for a in attempts if a.id in self._judge.contents]
        kinds = tuple(dict.fromkeys(kind for digests in known for kind in digests))[:1]
        undecided = any(self._judge.compare(a, stored).verdict is Verdict.PRESENT for a in attempts)
        if not (self.options.download and kinds and undecided):
            return stored
        return _downloaded(store, stored, kinds)

    def _find_unfinished(self, store: Store, destination: Destination, keys: Collection[str]) -> None:
        def ask(prefix: str) -> Sequence[UnfinishedUpload]:
            try:
                return store.unfinished_uploads(prefix)
            except Exception:  # This question is beside the point; the others have said what is wrong.
                return ()

        prefix = os.path.commonprefix(list(keys))
        for uploads in run_parallel(ask, [prefix], jobs=1, deadline=self._deadline).values():
            self.unfinished.extend((destination, upload) for upload in uploads if upload.key in keys)


def _downloaded(store: Store, stored: StoredObject, kinds: Sequence[str]) -> StoredObject:
    """The same object with checksums of the bytes that the store really sends."""
    digests = read_back(store, stored.key, DigestPlan(tuple(kinds)))
    size = next(iter(digests.values())).size
    checksums = tuple(StoredChecksum(kind, digest.full) for kind, digest in digests.items())
    return replace(stored, size=size, checksums=checksums, how=f"{stored.how}, then downloaded")
