"""A store in memory, and ledgers made by hand.

`MemoryStore` is a store like any other: it keeps the bytes that it is given and takes their
checksums itself, with other code than the package does.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from composer_obs.uploads.audit import Audit, AuditOptions, audit
from composer_obs.uploads.checksums import Digest, DigestPlan, compute_digests
from composer_obs.uploads.ledger import Attempt, Content, Destination, Ledger, Outcome, Run
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    Store,
    StoredChecksum,
    StoredObject,
    UnfinishedUpload,
)
from composer_obs.uploads.verdicts import Verdict

HASHES: dict[str, Callable[[bytes], bytes]] = {
    "md5": lambda data: hashlib.md5(data).digest(),
    "crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}


@dataclass
class Kept:
    """An object, and how it came: in parts of these sizes, or whole."""

    data: bytes
    parts: tuple[int, ...] | None = None
    keeps: tuple[str, ...] = ("crc32",)
    tells_part_sizes: bool = True

    def checksums(self) -> tuple[StoredChecksum, ...]:
        if self.parts is None:
            return tuple(StoredChecksum(kind, HASHES[kind](self.data)) for kind in self.keeps)
        pieces, rest = [], self.data
        for size in self.parts:
            pieces.append(rest[:size])
            rest = rest[size:]
        return tuple(
            StoredChecksum(kind, HASHES[kind](b"".join(map(HASHES[kind], pieces))), len(pieces))
            for kind in self.keeps
        )


class MemoryStore(Store):
    """A bucket in memory. A listing tells sizes and MD5s; `head` what was kept of each object."""

    kind = "memory"
    can_list = True
    page = 1000

    def __init__(self) -> None:
        self.objects: dict[str, Kept] = {}
        self.faults: dict[str, Exception] = {}
        self.begun: list[UnfinishedUpload] = []
        self.asked: Counter[str] = Counter()
        self.closed = 0

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> MemoryStore:
        return cls()

    def add(self, key: str, data: bytes, **how: Any) -> None:
        self.objects[key] = Kept(data, **how)

    def plan(self, size: int) -> DigestPlan:
        return DigestPlan(("md5", "crc32"))

    def list(self, prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > start_after)
        for position, key in enumerate(keys):
            if position % self.page == 0:
                self.asked["page"] += 1
            kept = self.objects[key]
            md5 = (
                (StoredChecksum("md5", HASHES["md5"](kept.data)),)
                if kept.parts is None and kept.keeps
                else ()
            )
            yield StoredObject(key, len(kept.data), "list", md5, complete=False)
        self.asked["page"] += not keys

    def head(self, key: str) -> StoredObject:
        self.asked["head"] += 1
        self._raise("head", key)
        if key not in self.objects:
            raise ObjectNotFoundError(f"memory has no {key}")
        kept = self.objects[key]
        return StoredObject(key, len(kept.data), "head", kept.checksums())

    def with_part_sizes(self, stored: StoredObject) -> StoredObject:
        self.asked["parts"] += 1
        kept = self.objects[stored.key]
        return replace(stored, part_sizes=kept.parts) if kept.tells_part_sizes else stored

    def read(self, key: str) -> Iterator[bytes]:
        self.asked["read"] += 1
        self._raise("read", key)
        data = self.objects[key].data
        yield from (data[at : at + 7] for at in range(0, len(data), 7))

    def unfinished_uploads(self, prefix: str) -> Sequence[UnfinishedUpload]:
        return [upload for upload in self.begun if upload.key.startswith(prefix)]

    def close(self) -> None:
        self.closed += 1

    def _raise(self, question: str, key: str) -> None:
        for name in (f"{question} {key}", key, question):
            if name in self.faults:
                raise self.faults[name]


def content_of(data: bytes, **more: Any) -> Content:
    """What the ledger says about a file that was read in the background."""
    digests = {
        kind: Digest(kind, hash_(data), len(data)) for kind, hash_ in HASHES.items() if kind != "sha256"
    }
    return Content(len(data), digests, **more)


def content_in_parts(data: bytes, part_size: int, kind: str = "crc32") -> Content:
    import io

    return Content(len(data), compute_digests(io.BytesIO(data).readinto, DigestPlan((kind,), part_size)))


@dataclass
class Uploads:
    """Ledgers of one or more runs, and the stores that their uploads went to."""

    ledger: Ledger = field(default_factory=Ledger)
    store: MemoryStore = field(default_factory=MemoryStore)
    stores: dict[str, Store] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger.destinations["d"] = Destination("d", "memory", "s3://bucket", {"bucket": "bucket"})
        self.stores["d"] = self.store

    def run(
        self, session: str = "s", *, name: str = "run", rank: int = 0, world_size: int = 1, ended: bool = True
    ) -> None:
        self.ledger.runs[session] = Run(session, name, rank, world_size, "node:1", ended)

    def attempt(
        self,
        key: str,
        data: bytes | None,
        *,
        session: str = "s",
        outcome: str | None = "uploaded",
        error: str | None = None,
        arrives: bool = True,
        content: Content | str | None = "read",
        destination: str | None = "d",
        kept: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Attempt:
        """Announce an upload; by default it is read, ends well, and arrives."""
        if session not in self.ledger.runs:
            self.run(session)
        rank = self.ledger.runs[session].rank
        made = Attempt(
            f"{session}/{len(self.ledger.attempts) + 1}",
            rank,
            destination,
            more.pop("artifact", key),
            key,
            f"s3://bucket/{key}",
            more.pop("source", f"/nowhere/{key}"),
            None if data is None else len(data),
            **{"overwrite": True, **more},
        )
        self.ledger.attempts[made.id] = made
        if data is not None and content is not None:
            self.ledger.contents[made.id] = content_of(data) if isinstance(content, str) else content
        if outcome is not None:
            self.ledger.outcomes[made.id] = Outcome(outcome, error)  # type: ignore[arg-type]
        if arrives and data is not None:
            self.store.add(key, data, **(kept or {}))
        return made

    def audit(self, **options: Any) -> Audit:
        return audit(self.ledger, lambda destination: self.stores[destination.id], AuditOptions(**options))

    def verdicts(self, **options: Any) -> dict[str, Verdict]:
        """Verdict by attempt."""
        return {artifact.attempt.id: artifact.verdict for artifact in self.audit(**options).artifacts}


def codes(result: Audit) -> list[str]:
    return [finding.rule.code for finding in result.findings]
