"""Read a content a second time: from the local file while it is still the same, or from the store."""

from __future__ import annotations

import os
from collections.abc import Iterator

from composer_obs.uploads.checksums import Digest, DigestPlan, compute_digests
from composer_obs.uploads.ledger import Attempt
from composer_obs.uploads.stores.base import Store

__all__ = ["read_back", "read_source"]


def read_source(attempt: Attempt, plan: DigestPlan) -> dict[str, Digest] | None:
    """Checksums of the local file of an upload; ``None`` if it is not there or not the same any more.

    Raises:
        MissingChecksumLibraryError: A kind of the plan needs a package that is not installed.
    """
    if not _is_same_file(attempt):
        return None
    try:
        with open(attempt.source, "rb", buffering=0) as file:
            digests = compute_digests(file.readinto, plan, limit=attempt.size)
    except OSError:
        return None
    return digests if _is_same_file(attempt) else None


def read_back(store: Store, key: str, plan: DigestPlan) -> dict[str, Digest]:
    """Checksums of the bytes that the store really sends.

    Raises:
        StoreError: The store would not send it.
        MissingChecksumLibraryError: A kind of the plan needs a package that is not installed.
    """
    return compute_digests(_Blocks(store.read(key)).read_into, plan)


class _Blocks:
    """An iterator of blocks as something that fills a buffer."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def read_into(self, buffer: memoryview) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _is_same_file(attempt: Attempt) -> bool:
    try:
        now = os.stat(attempt.source)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False
    return (now.st_size, now.st_mtime_ns) == (attempt.size, attempt.mtime_ns)
