"""Checksums as object stores keep them: of a whole object, or composed of its parts.

A store that received an object in parts often keeps only the checksum *of the part checksums*
(S3's ``COMPOSITE`` type, and the ``-N`` form of an ETag). Such a value can be compared only by who
knows the checksum of every part, so a `Digest` keeps those beside the whole. CRCs of neighbouring
parts combine without the bytes, so one pass over a file serves every part size that is a multiple
of the one it was read with.

Sources: AWS, "Checking object integrity for data uploads in Amazon S3" (composite and full-object
types); the CRC parameters are those of ISO-HDLC, Castagnoli and the NVM Express specification.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

from composer_obs.errors import ComposerObsError

__all__ = [
    "KINDS",
    "Digest",
    "DigestPlan",
    "MissingChecksumLibraryError",
    "compose",
    "compute_digests",
    "hash_bytes",
]

# Reflected polynomial and width of each CRC that combines.
_CRC_POLYNOMIALS = {
    "crc32": (0xEDB88320, 32),
    "crc32c": (0x82F63B78, 32),
    "crc64nvme": (0x9A6C9329AC4BC9B5, 64),
}
#: Every kind of checksum that is understood, with its length in bytes.
KINDS = {"md5": 16, "crc32": 4, "crc32c": 4, "crc64nvme": 8, "sha1": 20, "sha256": 32}

_CrcFunction = Callable[[Any, int], int]


class MissingChecksumLibraryError(ComposerObsError):
    """This kind of checksum needs a package that is not installed."""


class _Hasher(Protocol):
    def update(self, data: memoryview, /) -> None: ...
    def digest(self) -> bytes: ...


class _CrcHasher:
    __slots__ = ("_function", "_length", "_value")

    def __init__(self, function: _CrcFunction, length: int) -> None:
        self._function = function
        self._length = length
        self._value = 0

    def update(self, data: memoryview, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._length, "big")


@functools.cache
def _crc_function(kind: str) -> _CrcFunction:
    # isal's CRC-32 is several times faster than zlib's; the other kinds are asked for only by
    # stores that were configured for them, so their packages are optional.
    module, package = ("isal.isal_zlib", "isal") if kind == "crc32" else ("awscrt.checksums", "awscrt")
    try:
        found: _CrcFunction = getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError):
        if kind == "crc32c" and (google := _google_crc32c()) is not None:
            return google
    else:
        return found
    raise MissingChecksumLibraryError(
        f"cannot compute a {kind} checksum: install {package} (pip install 'composer-obs[crt]')"
    )


def _google_crc32c() -> _CrcFunction | None:
    """What every user of Google Cloud Storage has installed already."""
    try:
        extend = importlib.import_module("google_crc32c").extend
    except (ImportError, AttributeError):
        return None
    return lambda data, crc: int(extend(crc, bytes(data)))


def _hasher(kind: str) -> _Hasher:
    if kind in _CRC_POLYNOMIALS:
        return _CrcHasher(_crc_function(kind), KINDS[kind])
    # usedforsecurity: these tell damage from health; they defend against nobody.
    hasher: _Hasher = hashlib.new(kind, usedforsecurity=False)
    return hasher


def hash_bytes(kind: str, data: bytes) -> bytes:
    """The checksum of ``data``, big-endian as stores print it.

    Example:
        >>> hash_bytes("crc32", b"123456789").hex()  # the check value of CRC-32/ISO-HDLC
        'cbf43926'
    """
    hasher = _hasher(kind)
    hasher.update(memoryview(data))
    return hasher.digest()


def compose(kind: str, parts: Iterable[bytes]) -> bytes:
    """The composite checksum of an object uploaded in parts: the checksum of the parts' checksums."""
    return hash_bytes(kind, b"".join(parts))


@dataclass(frozen=True, slots=True)
class DigestPlan:
    """Which checksums of a file are worth their price.

    Args:
        kinds (tuple[str, ...]): Names from `KINDS`.
        part_size (int, optional): Keep the checksum of every part of this many bytes too.
            Default: ``None``, the whole alone.
    """

    kinds: tuple[str, ...]
    part_size: int | None = None


@dataclass(frozen=True, slots=True)
class Digest:
    """One kind of checksum of one content.

    Args:
        kind (str): A name from `KINDS`.
        full (bytes): The checksum of the whole.
        size (int): Length of the content, in bytes.
        part_size (int, optional): Bytes in each part but the last. Default: ``None``.
        parts (tuple[bytes, ...]): The parts' checksums in order; empty without ``part_size``.
    """

    kind: str
    full: bytes
    size: int
    part_size: int | None = None
    parts: tuple[bytes, ...] = ()

    def composite(self, part_sizes: Sequence[int]) -> bytes | None:
        """The composite checksum that this content has when it is stored in parts of these sizes.

        Args:
            part_sizes (Sequence[int]): Size of every part in order, in bytes.

        Returns:
            The checksum, or ``None`` if the parts that were kept cannot tell: a boundary lies
            inside one of them, or the kind does not combine.
        """
        if sum(part_sizes) != self.size:
            return None
        parts = self._regroup(part_sizes)
        return None if parts is None else compose(self.kind, parts)

    def _regroup(self, part_sizes: Sequence[int]) -> list[bytes] | None:
        if len(part_sizes) == 1:
            return [self.full]
        if self.part_size is None:
            return None
        own_sizes = [self.part_size] * (len(self.parts) - 1)
        own_sizes.append(self.size - sum(own_sizes))
        if list(part_sizes) == own_sizes:
            return list(self.parts)
        if self.kind not in _CRC_POLYNOMIALS:
            return None
        starts = {0: 0, **{end: index + 1 for index, end in enumerate(accumulate(own_sizes))}}
        boundaries = [0, *accumulate(part_sizes)]
        if any(boundary not in starts for boundary in boundaries):
            return None
        groups = [slice(starts[begin], starts[end]) for begin, end in pairwise(boundaries)]
        return [_combine(self.kind, self.parts[group], own_sizes[group]) for group in groups]

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"full": self.full.hex()}
        if self.part_size is not None:
            record |= {"part_size": self.part_size, "parts": b"".join(self.parts).hex()}
        return record

    @classmethod
    def from_json(cls, kind: str, size: int, record: Mapping[str, Any]) -> Digest:
        """The inverse of `to_json`; raises ``KeyError`` or ``ValueError`` on a foreign record."""
        length = KINDS[kind]
        full, joined = bytes.fromhex(record["full"]), bytes.fromhex(record.get("parts", ""))
        part_size, count = record.get("part_size"), 0
        if part_size is not None:
            part_size = max(1, int(part_size))
            count = max(1, -(-size // part_size))
        if len(full) != length or len(joined) != count * length:
            raise ValueError(f"not the {kind} of {size} bytes in parts of {part_size}")
        if part_size is None:
            return cls(kind, full, size)
        parts = tuple(joined[at : at + length] for at in range(0, len(joined), length))
        return cls(kind, full, size, part_size, parts)


def compute_digests(
    read_into: Callable[[memoryview], int], plan: DigestPlan, *, limit: int | None = None
) -> dict[str, Digest]:
    """Read a content once and take every checksum of the plan. Memory stays flat at any size.

    Args:
        read_into (Callable[[memoryview], int]): Fills the buffer and returns how much, 0 at the
            end; ``open(path, "rb", buffering=0).readinto`` for a file.
        plan (DigestPlan): What to take.
        limit (int, optional): Stop after so many bytes (the rest was appended later).

    Raises:
        MissingChecksumLibraryError: A kind of the plan needs a package that is not installed.

    Example:
        >>> import io
        >>> digests = compute_digests(io.BytesIO(b"123456789").readinto, DigestPlan(("md5", "crc32")))
        >>> digests["crc32"].full.hex(), digests["crc32"].size
        ('cbf43926', 9)
    """
    # 1 MiB stays in a core's cache, so that each kind after the first reads from there, and costs few
    # calls: a CRC of 256 KiB takes hardly longer than they do.
    buffer = memoryview(bytearray(1 << 20))
    totals = {kind: _hasher(kind) for kind in plan.kinds}
    # The CRC of the whole follows from its parts; only other kinds need to see every byte twice.
    twice = [totals[kind] for kind in plan.kinds if plan.part_size is None or kind not in _CRC_POLYNOMIALS]
    parts: dict[str, list[bytes]] = {kind: [] for kind in plan.kinds}
    current = {kind: _hasher(kind) for kind in plan.kinds} if plan.part_size else {}
    size = in_part = 0
    while True:
        room = len(buffer)
        if plan.part_size:
            room = min(room, plan.part_size - in_part)
        if limit is not None:
            room = min(room, limit - size)
        count = read_into(buffer[:room]) if room else 0
        if not count:
            break
        block = buffer[:count]
        for hasher in (*twice, *current.values()):
            hasher.update(block)
        size += count
        in_part += count
        if in_part == plan.part_size:
            for kind, hasher in current.items():
                parts[kind].append(hasher.digest())
                current[kind] = _hasher(kind)
            in_part = 0
    if plan.part_size is None:
        return {kind: Digest(kind, hasher.digest(), size) for kind, hasher in totals.items()}
    if in_part or not size:
        for kind, hasher in current.items():
            parts[kind].append(hasher.digest())
    digests = {}
    for kind in plan.kinds:
        sizes = [plan.part_size] * (len(parts[kind]) - 1)
        sizes.append(size - sum(sizes))
        is_crc = kind in _CRC_POLYNOMIALS
        full = _combine(kind, parts[kind], sizes) if is_crc else totals[kind].digest()
        digests[kind] = Digest(kind, full, size, plan.part_size, tuple(parts[kind]))
    return digests


def _combine(kind: str, crcs: Sequence[bytes], sizes: Sequence[int]) -> bytes:
    """The CRC of neighbouring contents from their CRCs and lengths alone.

    Appending n bytes multiplies the CRC's polynomial by x^(8n); both steps are arithmetic modulo
    the CRC's own polynomial, as in zlib's ``crc32_combine``.
    """
    total = 0  # the CRC of nothing
    for crc, size in zip(crcs, sizes, strict=True):
        total = _multiply(kind, _power_of_x(kind, 8 * size), total) ^ int.from_bytes(crc, "big")
    return total.to_bytes(KINDS[kind], "big")


def _multiply(kind: str, a: int, b: int) -> int:
    """``a * b`` modulo the polynomial, both reflected: the highest bit is the coefficient of x^0."""
    polynomial, width = _CRC_POLYNOMIALS[kind]
    product = 0
    bit = 1 << (width - 1)
    while a:
        if a & bit:
            product ^= b
            a ^= bit
        bit >>= 1
        b = (b >> 1) ^ polynomial if b & 1 else b >> 1
    return product


@functools.lru_cache(maxsize=256)
def _power_of_x(kind: str, exponent: int) -> int:
    """x^exponent modulo the polynomial, by repeated squaring."""
    width = _CRC_POLYNOMIALS[kind][1]
    result, square = 1 << (width - 1), 1 << (width - 2)
    while exponent:
        if exponent & 1:
            result = _multiply(kind, result, square)
        square = _multiply(kind, square, square)
        exponent >>= 1
    return result
