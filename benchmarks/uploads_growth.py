"""How reading a ledger and judging it grow with the number of uploads, without a network."""

from __future__ import annotations

import bisect
import hashlib
import json
import math
import statistics
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness import Section, in_own_process, memory_of_this_process
from workload import Workload

from composer_obs.run_folder import utc_now
from composer_obs.uploads.audit import audit
from composer_obs.uploads.checksums import Digest, hash_bytes
from composer_obs.uploads.ledger import Attempt, Content, Destination, Outcome, Run, replay, to_record
from composer_obs.uploads.stores.base import Store, StoredChecksum, StoredObject

__all__ = ["measure"]


def measure(work: Workload, section: Section) -> None:
    """Ledgers of three sizes, each in a process of its own, against a store in memory."""
    sizes = (300, 3000) if work.quick else (1000, 10_000, 100_000)
    ledgers = {size: work.folder / f"ledger-{size}" for size in sizes}
    for size, path in ledgers.items():
        _write_ledger(path, size)
    runs: dict[int, list[dict[str, float]]] = {size: [] for size in sizes}
    for _ in range(work.repetitions(3)):
        for size, path in ledgers.items():
            runs[size].append(in_own_process(_replay_and_audit, str(path), size))
    both = {size: [run["replay"] + run["audit"] for run in runs[size]] for size in sizes}
    for size in sizes:
        for what in ("replay", "audit"):
            section.add(f"{size:,} uploads: {what}", [run[what] for run in runs[size]], "s")
        section.add(f"{size:,} uploads: both, for each", [value / size * 1e6 for value in both[size]], "µs")
    logarithms = [math.log(size) for size in sizes]
    exponents = [
        statistics.linear_regression(logarithms, [math.log(value) for value in turn]).slope
        for turn in zip(*both.values(), strict=True)
    ]
    section.add("exponent of the growth (1 is linear)", exponents, "", at_most=1.1)
    large = sizes[-1]
    section.add(f"memory for each of {large:,}", [run["memory"] / large for run in runs[large]], "bytes")
    section.add(f"ledger for each of {large:,}", [ledgers[large].stat().st_size / large], "bytes")


class _InMemory(Store):
    """A bucket that holds, under each key, the key."""

    kind = "memory"
    can_list = True

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> _InMemory:
        raise NotImplementedError

    def list(self, prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        del prefix  # All keys have it.
        for at in range(bisect.bisect_right(self._keys, start_after), len(self._keys)):
            yield self.head(self._keys[at])

    def head(self, key: str) -> StoredObject:
        data = key.encode()
        md5 = StoredChecksum("md5", hashlib.md5(data, usedforsecurity=False).digest())
        return StoredObject(key, len(data), "memory", (md5,), complete=False)


def _keys(count: int) -> list[str]:
    return [f"run/{number:07}.bin" for number in range(count)]


def _write_ledger(path: Path, count: int) -> None:
    destination = Destination("s:0", "memory", "memory://bucket", {"bucket": "bucket"})
    with path.open("w") as file:

        def write(record: Mapping[str, Any]) -> None:
            file.write(json.dumps({"v": 1, "t": utc_now(), **record}) + "\n")

        write(to_record("run", Run("s", "run", 0, 1, ended=True)))
        write(to_record("destination", destination))
        for number, key in enumerate(_keys(count)):
            data, uri = key.encode(), f"memory://bucket/{key}"
            attempt = Attempt(f"s/{number}", 0, "s:0", key, key, uri, f"/data/{key}", len(data))
            digests = {kind: Digest(kind, hash_bytes(kind, data), len(data)) for kind in ("md5", "crc32")}
            write(to_record("attempt", attempt))
            write(to_record("outcome", Outcome("uploaded"), attempt=attempt.id))
            write(to_record("checksum", Content(len(data), digests), attempt=attempt.id))


def _replay_and_audit(path: str, count: int) -> dict[str, float]:
    """Seconds, and the memory that comes on top of what the process has before it begins."""
    store = _InMemory(_keys(count))
    before = memory_of_this_process("VmRSS")
    data = Path(path).read_bytes()
    start = time.perf_counter()
    ledger = replay({path: data})
    replayed = time.perf_counter()
    result = audit(ledger, lambda _: store)
    ended = time.perf_counter()
    assert result.counts() == {"proven": count}
    memory = memory_of_this_process("VmHWM") - before
    return {"replay": replayed - start, "audit": ended - replayed, "memory": memory}
