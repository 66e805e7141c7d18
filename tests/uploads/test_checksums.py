from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.uploads import checksums
from composer_obs.uploads.checksums import (
    KINDS,
    Digest,
    DigestPlan,
    MissingChecksumLibraryError,
    compose,
    compute_digests,
    hash_bytes,
)
from tests.uploads.reference import CHECKSUMS, composite, equal_sizes

CRCS = ("crc32", "crc32c", "crc64nvme")
ALL = tuple(KINDS)


def digest_of(
    data: bytes, *kinds: str, part_size: int | None = None, limit: int | None = None
) -> dict[str, Digest]:
    return compute_digests(io.BytesIO(data).readinto, DigestPlan(kinds, part_size), limit=limit)


# The check values of the "Catalogue of parametrised CRC algorithms" (CRC-32/ISO-HDLC, CRC-32/ISCSI,
# CRC-64/NVME); the digests as `printf 123456789 | md5sum` and its sisters print them.
@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("crc32", "cbf43926"),
        ("crc32c", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
        ("md5", "25f9e794323b453885f5181f1b624d0b"),
        ("sha1", "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        ("sha256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
    ],
)
def test_each_kind_gives_its_published_check_value(kind: str, check: str) -> None:
    assert hash_bytes(kind, b"123456789").hex() == check
    assert digest_of(b"123456789", kind)[kind].full.hex() == check
    # The reference that the other tests compare with is held to the same values.
    assert CHECKSUMS[kind](b"123456789").hex() == check


@given(data=st.binary(max_size=600), part_size=st.integers(1, 700) | st.none())
def test_whole_and_parts_agree_with_other_libraries_for_any_content(
    data: bytes, part_size: int | None
) -> None:
    digests = digest_of(data, *ALL, part_size=part_size)

    for kind, digest in digests.items():
        assert digest.full == CHECKSUMS[kind](data)
        assert digest.size == len(data)
        sizes = equal_sizes(len(data), part_size or max(1, len(data)))
        assert digest.composite(sizes) == composite(kind, data, sizes)
        assert compose(kind, [CHECKSUMS[kind](data)]) == composite(kind, data, [len(data)])


@given(
    data=st.binary(min_size=1, max_size=600),
    part_size=st.integers(1, 300),
    reads=st.lists(st.integers(1, 50), min_size=1),
)
def test_short_reads_change_nothing(data: bytes, part_size: int, reads: list[int]) -> None:
    """A read may return less than was asked for at any time, as pipes and network files do."""
    stream, count = io.BytesIO(data), iter(reads * 601)

    def read_into(buffer: memoryview) -> int:
        return stream.readinto(buffer[: next(count)])

    assert compute_digests(read_into, DigestPlan(ALL, part_size)) == digest_of(
        data, *ALL, part_size=part_size
    )


@pytest.mark.parametrize("part_size", [None, 1 << 18, 300_000, (1 << 20) + 7, 5 << 20])
def test_contents_larger_than_the_read_buffer_are_read_to_their_end(part_size: int | None) -> None:
    data = random.Random(1).randbytes((1 << 20) + 7)
    sizes = equal_sizes(len(data), part_size or len(data))

    for kind, digest in digest_of(data, *ALL, part_size=part_size).items():
        assert digest.full == CHECKSUMS[kind](data)
        assert digest.composite(sizes) == composite(kind, data, sizes)


@given(data=st.data(), kind=st.sampled_from(CRCS), part_size=st.integers(1, 20))
def test_crcs_of_small_parts_tell_those_of_any_larger_ones(
    data: st.DataObject, kind: str, part_size: int
) -> None:
    """One pass over the file serves whoever cut it at multiples of the part size, evenly or not."""
    groups = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    rest = data.draw(st.integers(0, part_size - 1))
    sizes = [count * part_size for count in groups]
    sizes[-1] += rest
    content = data.draw(st.binary(min_size=sum(sizes), max_size=sum(sizes)))

    digest = digest_of(content, kind, part_size=part_size)[kind]

    assert digest.composite(sizes) == composite(kind, content, sizes)


def test_part_boundaries_that_were_not_summed_give_no_answer() -> None:
    digest = digest_of(bytes(100), "crc32", part_size=10)["crc32"]
    assert digest.composite([15, 85]) is None
    assert digest.composite([10, 80, 10]) is not None


@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_kinds_that_do_not_combine_answer_for_their_own_parts_alone(kind: str) -> None:
    digest = digest_of(bytes(100), kind, part_size=10)[kind]
    assert digest.composite([10] * 10) == composite(kind, bytes(100), [10] * 10)
    assert digest.composite([20] * 5) is None
    assert digest.composite([100]) == composite(kind, bytes(100), [100])


def test_parts_of_another_size_in_sum_give_no_answer() -> None:
    digest = digest_of(bytes(100), "crc32", part_size=10)["crc32"]
    assert digest.composite([10] * 9) is None
    assert digest.composite([]) is None


def test_a_digest_without_parts_answers_for_one_part_alone() -> None:
    digest = digest_of(b"abcd", "crc32")["crc32"]
    assert digest.composite([4]) == composite("crc32", b"abcd", [4])
    assert digest.composite([2, 2]) is None


@pytest.mark.parametrize("part_size", [None, 8])
@pytest.mark.parametrize("kind", ALL)
def test_nothing_has_a_checksum_too(kind: str, part_size: int | None) -> None:
    digest = digest_of(b"", kind, part_size=part_size)[kind]
    assert digest.full == CHECKSUMS[kind](b"")
    assert digest.composite([0]) == composite(kind, b"", [0])


@given(data=st.binary(max_size=300), limit=st.integers(0, 400), part_size=st.integers(1, 100) | st.none())
def test_bytes_after_the_limit_are_left_out(data: bytes, limit: int, part_size: int | None) -> None:
    """A log file may have grown since its upload was announced."""
    assert digest_of(data, *ALL, part_size=part_size, limit=limit) == digest_of(
        data[:limit], *ALL, part_size=part_size
    )


@given(data=st.binary(max_size=100), part_size=st.integers(1, 120) | st.none(), kind=st.sampled_from(ALL))
def test_a_digest_survives_the_ledger(data: bytes, part_size: int | None, kind: str) -> None:
    digest = digest_of(data, kind, part_size=part_size)[kind]
    record = json.loads(json.dumps(digest.to_json()))
    assert Digest.from_json(kind, len(data), record) == digest


@pytest.mark.parametrize(
    "record",
    [
        {"full": "00"},
        {"full": "not hexadecimal"},
        {"full": "00000000", "part_size": 5, "parts": "00000000"},
        {"full": "00000000", "part_size": 5, "parts": "0000000011"},
        {"full": "00000000", "part_size": 0, "parts": "0000000000000000"},
        {"full": "00000000", "parts": "00000000"},
    ],
)
def test_a_record_that_cannot_be_of_this_size_is_refused(record: dict[str, object]) -> None:
    """Taken as it is, it would call a healthy object corrupt."""
    with pytest.raises(ValueError, match=r"crc32 of 10 bytes|hexadecimal"):
        Digest.from_json("crc32", 10, record)


@pytest.fixture
def without_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Makes a module one that is not installed; the choices made so far are forgotten."""

    def remove(name: str) -> None:
        monkeypatch.setitem(sys.modules, name, None)

    checksums._crc_function.cache_clear()
    yield remove
    checksums._crc_function.cache_clear()


@pytest.mark.parametrize(
    ("kind", "modules", "package"),
    [
        ("crc32", ["isal.isal_zlib"], "isal"),
        ("crc32c", ["awscrt.checksums", "google_crc32c"], "awscrt"),
        ("crc64nvme", ["awscrt.checksums"], "awscrt"),
    ],
)
def test_a_missing_library_is_named(
    without_module: Callable[[str], None], kind: str, modules: list[str], package: str
) -> None:
    for module in modules:
        without_module(module)
    with pytest.raises(
        MissingChecksumLibraryError, match=rf"{kind} checksum: install {package} \(pip install"
    ):
        hash_bytes(kind, b"")


def test_crc32c_needs_amazons_library_or_googles(without_module: Callable[[str], None]) -> None:
    without_module("awscrt.checksums")
    data = random.Random(2).randbytes(600_000)
    for part_size in (None, 300_000):
        assert digest_of(data, "crc32c", part_size=part_size)["crc32c"].full == CHECKSUMS["crc32c"](data)
    assert hash_bytes("crc32c", b"123456789").hex() == "e3069283"
