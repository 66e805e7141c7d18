"""From what was sent and what the store says to a verdict, with the evidence for it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from composer_obs.uploads import rules
from composer_obs.uploads.checksums import Digest, MissingChecksumLibraryError
from composer_obs.uploads.stores.base import StoredChecksum, StoredObject

__all__ = ["Judgement", "Verdict", "judge"]


class Verdict(enum.Enum):
    """What became of one upload."""

    PROVEN = "proven"
    PRESENT = "present"
    MISSING = "missing"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    CLOBBERED = "clobbered"
    SUPERSEDED = "superseded"
    UNROUTED = "unrouted"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    UNPROVABLE = "unprovable"
    NO_FILE = "no_file"

    @property
    def is_fine(self) -> bool:
        """Whether nothing needs to be done."""
        return self in (Verdict.PROVEN, Verdict.SUPERSEDED)


#: The rule that a verdict breaks; proven and superseded break none.
RULE_OF = {
    Verdict.PRESENT: rules.SIZE_ONLY,
    Verdict.MISSING: rules.MISSING,
    Verdict.TRUNCATED: rules.TRUNCATED,
    Verdict.CORRUPT: rules.CORRUPT,
    Verdict.CLOBBERED: rules.CLOBBERED,
    Verdict.UNROUTED: rules.UNROUTED,
    Verdict.FAILED: rules.FAILED,
    Verdict.UNFINISHED: rules.UNFINISHED,
    Verdict.UNPROVABLE: rules.UNPROVABLE,
    Verdict.NO_FILE: rules.NO_FILE,
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and why.

    Args:
        verdict (Verdict): The verdict.
        reason (str): One sentence for a person.
        evidence (Mapping[str, Any]): What was expected, what the store said, how it was asked.
    """

    verdict: Verdict
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


def judge(
    size: int, digests: Mapping[str, Digest], stored: StoredObject, *, part_size: int | None = None
) -> Judgement:
    """Compare one content with one stored object.

    Equality of one checksum proves. A difference condemns only where the store's value is certain
    to be that checksum *and* the sizes of the parts are known from the store itself.

    Args:
        size (int): Size of what was sent, in bytes.
        digests (Mapping[str, Digest]): Its checksums by kind.
        stored (StoredObject): The store's answer.
        part_size (int, optional): Part size that the uploader was configured with, in bytes.

    Example:
        >>> from composer_obs.uploads.checksums import hash_bytes
        >>> sent = {"crc32": Digest("crc32", hash_bytes("crc32", b"weights"), 7)}
        >>> there = StoredObject(
        ...     "a.pt", 7, "HeadObject", (StoredChecksum("crc32", hash_bytes("crc32", b"weights")),)
        ... )
        >>> judge(7, sent, there).verdict
        <Verdict.PROVEN: 'proven'>
        >>> judge(8, sent, there).verdict
        <Verdict.TRUNCATED: 'truncated'>
    """
    expected: dict[str, Any] = {"size": size}
    found: dict[str, Any] = {"size": stored.size}
    for name in ("etag", "encryption", "version", "modified"):
        if (value := getattr(stored, name)) is not None:
            found[name] = value
    evidence = {"expected": expected, "stored": found, "how": stored.how}

    def judged(verdict: Verdict, reason: str) -> Judgement:
        return Judgement(verdict, reason, evidence)

    if stored.size < size:
        reason = f"the store has {stored.size:,} of {size:,} bytes"
        return judged(Verdict.TRUNCATED, reason)
    if stored.size > size:
        reason = f"the store has {stored.size:,} bytes, {size:,} were sent: somebody else wrote this key"
        return judged(Verdict.CLOBBERED, reason)
    obstacles: list[str] = []
    differs: StoredChecksum | None = None
    for checksum in stored.checksums:
        own, obstacle = _own_value(size, digests, checksum, stored, part_size)
        if own is None:
            obstacles.append(obstacle)
            continue
        name = checksum.kind if checksum.parts is None else f"{checksum.kind} of {checksum.parts} parts"
        expected[name], found[name] = own.hex(), checksum.value.hex()
        if own == checksum.value:
            return judged(Verdict.PROVEN, f"size and {name} agree")
        if checksum.certain and not obstacle:
            differs = differs or checksum
        else:
            obstacles.append(obstacle or f"its {name} differs, which proves nothing here")
    if differs is not None:
        reason = f"same size, but the store's {differs.kind} is not that of the file that was sent"
        return judged(Verdict.CORRUPT, reason)
    if not digests:
        obstacles = ["no checksum was taken of the file"]
    reason = "size agrees; " + ("; ".join(dict.fromkeys(obstacles)) or "the store keeps no checksum")
    return judged(Verdict.PRESENT, reason)


def _own_value(
    size: int,
    digests: Mapping[str, Digest],
    checksum: StoredChecksum,
    stored: StoredObject,
    part_size: int | None,
) -> tuple[bytes | None, str]:
    """Our value of the store's checksum, and what stands in the way of believing a difference."""
    digest = digests.get(checksum.kind)
    if digest is None:
        return None, f"the store keeps {checksum.kind}, of which no value was taken"
    if checksum.parts is None:
        return digest.full, ""
    part_sizes = stored.part_sizes
    obstacle = ""
    if part_sizes is None:
        part_sizes = _guess_part_sizes(size, checksum.parts, part_size or digest.part_size)
        obstacle = "the sizes of its parts are not known"
    if part_sizes is None:
        return None, obstacle
    try:
        own = digest.composite(part_sizes)
    except MissingChecksumLibraryError as error:
        return None, str(error)
    return own, obstacle if own is not None else "its parts do not line up with those that were summed"


def _guess_part_sizes(size: int, count: int, part_size: int | None) -> tuple[int, ...] | None:
    """Equal parts and a rest; equality under a guess proves as much as under knowledge."""
    if count == 1:
        return (size,)
    if not part_size or -(-size // part_size) != count:
        return None
    return (*(part_size,) * (count - 1), size - part_size * (count - 1))
