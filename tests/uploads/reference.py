"""Checksums by other means than the package's own, for tests to compare with.

CRC-32 comes from zlib, CRC-32C from Google's library (the package uses Amazon's), CRC-64/NVME from
the definition, bit by bit; the digests from hashlib.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Callable, Sequence

import google_crc32c

# "Catalogue of parametrised CRC algorithms": CRC-64/NVME, as a polynomial whose highest term is implied.
_NVME_POLYNOMIAL = 0xAD93D23594C93659


def _reversed_bits(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)


@functools.cache
def _nvme_table() -> list[int]:
    """What eight steps of the division do to each byte at the top of the register."""
    table = []
    for byte in range(256):
        register = byte << 56
        for _ in range(8):
            register = (register << 1) ^ (_NVME_POLYNOMIAL if register >> 63 else 0)
            register &= 2**64 - 1
        table.append(register)
    return table


@functools.lru_cache(maxsize=8)  # a Python loop over 20 MB takes seconds
def crc64nvme(data: bytes) -> bytes:
    """The division as the definition has it: bits reflected going in and coming out."""
    table, flip = _nvme_table(), [_reversed_bits(byte, 8) for byte in range(256)]
    register = 2**64 - 1
    for byte in data:
        register = ((register << 8) & (2**64 - 1)) ^ table[(register >> 56) ^ flip[byte]]
    return _reversed_bits(register ^ (2**64 - 1), 64).to_bytes(8, "big")


CHECKSUMS: dict[str, Callable[[bytes], bytes]] = {
    "md5": lambda data: hashlib.md5(data).digest(),
    "crc32": lambda data: zlib.crc32(data).to_bytes(4, "big"),
    "crc32c": lambda data: google_crc32c.value(data).to_bytes(4, "big"),
    "crc64nvme": crc64nvme,
    "sha1": lambda data: hashlib.sha1(data).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}


def cut(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The parts of these sizes, in order."""
    parts, at = [], 0
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    return parts


def equal_sizes(size: int, part_size: int) -> list[int]:
    """The sizes of parts as uploaders cut them: all alike but the last; one part for nothing."""
    return [part_size] * (size // part_size) + ([size % part_size] if size % part_size or not size else [])


def composite(kind: str, data: bytes, sizes: Sequence[int]) -> bytes:
    """Amazon S3 User Guide, "Checking object integrity": the checksum of the parts' checksums."""
    checksum = CHECKSUMS[kind]
    return checksum(b"".join(checksum(part) for part in cut(data, sizes)))
