"""How fast a file is summed, beside the same checksums by the standard library."""

from __future__ import annotations

import functools
import hashlib
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import Section, interleave, ratios, timed
from workload import MIB, Workload

from composer_obs.uploads.checksums import DigestPlan, compute_digests
from composer_obs.uploads.stores.s3 import S3Store

__all__ = ["measure", "sum_file"]


def measure(work: Workload, section: Section) -> None:
    """A file below the size from which boto3 sends parts, and one far above."""
    _rates(work, section, "4 MiB", 4 * MIB, 2 if work.quick else 25)
    large = ("64 MiB", 64 * MIB) if work.quick else ("1 GiB", 1024 * MIB)
    _rates(work, section, *large, 1)
    section.notes += [
        "ours takes the kinds that an upload by boto3 of this size can be checked with, parts included",
        "plain: hashlib.md5 and zlib.crc32; the loop reads the same file from the page cache by 1 MiB",
    ]


def _rates(work: Workload, section: Section, name: str, size: int, times: int) -> None:
    from awscrt import checksums as awscrt
    from isal import isal_zlib

    path, plan = work.file(size), S3Store("bucket").plan(size)
    with path.open("rb") as file:
        data = file.read(64 * MIB)

    def rate(length: int, function: Callable[[], object]) -> Callable[[], float]:
        return lambda: times * length / timed(lambda: [function() for _ in range(times)]) / 1e9

    def plain() -> list[Any]:
        return [_Crc(zlib.crc32) if kind == "crc32" else hashlib.new(kind) for kind in plan.kinds]

    kinds = "+".join(plan.kinds)
    ours, loop, floor = f"{kinds}, ours", f"{kinds}, plain loop", f"{kinds}, plain, in memory"
    cases = {
        "reading alone": rate(size, lambda: _plain_loop(path, [])),
        ours: rate(size, lambda: sum_file(path, plan)),
        loop: rate(size, lambda: _plain_loop(path, plain())),
        floor: rate(len(data), lambda: [hasher.update(data) for hasher in plain()]),
    }
    if plan.part_size is not None:
        cases |= {
            "crc32 of isal, plain loop": rate(size, lambda: _plain_loop(path, [_Crc(isal_zlib.crc32)])),
            "crc32 of isal, in memory": rate(len(data), functools.partial(isal_zlib.crc32, data)),
            "crc32 of awscrt, in memory": rate(len(data), functools.partial(awscrt.crc32, data)),
            "md5 of hashlib, in memory": rate(len(data), functools.partial(hashlib.md5, data)),
        }
    values = interleave(cases, work.repetitions(9))
    for what, series in values.items():
        section.add(f"{name}: {what}", series, "GB/s")
    section.add(f"{name}: ours / plain loop", ratios(values[ours], values[loop]), "x", at_least=0.9)
    section.add(f"{name}: ours / plain, in memory", ratios(values[ours], values[floor]), "x")


class _Crc:
    def __init__(self, function: Callable[[Any, int], int]) -> None:
        self._function, self._value = function, 0

    def update(self, data: Any) -> None:
        self._value = self._function(data, self._value)


def _plain_loop(path: Path, hashers: Sequence[Any]) -> None:
    buffer = memoryview(bytearray(MIB))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            for hasher in hashers:
                hasher.update(buffer[:count])


def sum_file(path: Path, plan: DigestPlan) -> None:
    """What the auditor's background thread does with a file."""
    with path.open("rb", buffering=0) as file:
        compute_digests(file.readinto, plan)
