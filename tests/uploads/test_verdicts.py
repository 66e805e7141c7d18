"""What equality and difference of sizes and checksums prove, and what they do not."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.uploads import checksums
from composer_obs.uploads.checksums import DigestPlan, compute_digests
from composer_obs.uploads.stores.base import StoredChecksum, StoredObject
from composer_obs.uploads.verdicts import Verdict, judge
from tests.uploads.memory import HASHES, Kept, content_of


def stored(data: bytes, **more: object) -> StoredObject:
    checksums = tuple(StoredChecksum(kind, HASHES[kind](data)) for kind in ("crc32",))
    return StoredObject("a", len(data), "head", **{"checksums": checksums, **more})  # type: ignore[arg-type]


def sent(data: bytes, *kinds: str) -> dict[str, checksums.Digest]:
    digests = content_of(data).digests
    return {kind: digests[kind] for kind in kinds or digests}


def test_equality_of_one_checksum_proves_even_if_others_are_not_known() -> None:
    there = stored(b"weights", checksums=(
        StoredChecksum("sha256", HASHES["sha256"](b"weights")),
        StoredChecksum("md5", HASHES["md5"](b"weights")),
    ))  # fmt: skip
    judgement = judge(7, sent(b"weights"), there)
    assert judgement.verdict is Verdict.PROVEN
    assert judgement.reason == "size and md5 agree"


def test_the_evidence_holds_both_values_and_the_question() -> None:
    there = stored(b"weights", etag="x", encryption="aws:kms", version="3", modified="2025-01-01T00:00:00Z")
    evidence = judge(7, sent(b"weights"), there).evidence
    crc = HASHES["crc32"](b"weights").hex()
    assert evidence == {
        "expected": {"size": 7, "crc32": crc},
        "stored": {
            "size": 7, "crc32": crc, "etag": "x", "encryption": "aws:kms", "version": "3",
            "modified": "2025-01-01T00:00:00Z",
        },
        "how": "head",
    }  # fmt: skip


def test_sizes_come_before_checksums() -> None:
    assert judge(8, sent(b"weights"), stored(b"weights")).verdict is Verdict.TRUNCATED
    assert judge(6, sent(b"weights"), stored(b"weights")).verdict is Verdict.CLOBBERED


def test_an_empty_file_is_proven_like_any_other() -> None:
    assert judge(0, sent(b""), stored(b"")).verdict is Verdict.PROVEN


def test_a_difference_condemns_only_where_the_stores_value_is_certain_to_be_that_checksum() -> None:
    certain = stored(b"weighty", checksums=(StoredChecksum("md5", HASHES["md5"](b"weighty")),))
    unsure = stored(b"weighty", checksums=(StoredChecksum("md5", HASHES["md5"](b"weighty"), certain=False),))
    assert judge(7, sent(b"weights"), certain).verdict is Verdict.CORRUPT
    judgement = judge(7, sent(b"weights"), unsure)
    assert judgement.verdict is Verdict.PRESENT
    assert judgement.reason == "size agrees; its md5 differs, which proves nothing here"


def test_equality_proves_also_where_a_difference_would_not_condemn() -> None:
    unsure = stored(b"weights", checksums=(StoredChecksum("md5", HASHES["md5"](b"weights"), certain=False),))
    assert judge(7, sent(b"weights"), unsure).verdict is Verdict.PROVEN


def test_one_certain_difference_outweighs_nothing_if_another_checksum_agrees() -> None:
    there = stored(b"weights", checksums=(
        StoredChecksum("crc32", bytes(4)),
        StoredChecksum("md5", HASHES["md5"](b"weights")),
    ))  # fmt: skip
    assert judge(7, sent(b"weights"), there).verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    ("kinds", "keeps", "reason"),
    [
        ((), ("crc32",), "size agrees; no checksum was taken of the file"),
        (("md5",), ("crc32",), "size agrees; the store keeps crc32, of which no value was taken"),
        (("md5",), (), "size agrees; the store keeps no checksum"),
    ],
)
def test_without_a_value_on_both_sides_it_is_present_and_says_why(
    kinds: tuple[str, ...], keeps: tuple[str, ...], reason: str
) -> None:
    kept = StoredObject("a", 7, "head", Kept(b"weights", keeps=keeps).checksums())
    judgement = judge(7, sent(b"weights", *kinds) if kinds else {}, kept)
    assert (judgement.verdict, judgement.reason) == (Verdict.PRESENT, reason)


def test_a_checksum_that_needs_a_library_that_is_absent_is_no_verdict_against_the_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = bytes(range(100))
    digests = compute_digests(io.BytesIO(data).readinto, DigestPlan(("crc32",), 40))
    there = StoredObject("a", 100, "head", Kept(data, parts=(40, 40, 20)).checksums())

    def absent(kind: str) -> None:
        raise checksums.MissingChecksumLibraryError(f"install what computes {kind}")

    monkeypatch.setattr(checksums, "_crc_function", absent)
    judgement = judge(100, digests, there)
    assert judgement.verdict is Verdict.PRESENT
    assert "install what computes crc32" in judgement.reason


def test_a_wrong_guess_of_the_sizes_of_parts_condemns_nobody() -> None:
    data = bytes(range(100))
    digests = compute_digests(io.BytesIO(data).readinto, DigestPlan(("crc32",), 10))
    there = StoredObject("a", 100, "head", Kept(data, parts=(30, 70)).checksums())
    judgement = judge(100, digests, there, part_size=60)  # two parts as well, of 60 and 40
    assert judgement.verdict is Verdict.PRESENT
    assert judgement.reason == "size agrees; the sizes of its parts are not known"


@st.composite
def cuts(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """Sizes of the parts that an object of this size came in."""
    borders = sorted(draw(st.sets(st.integers(1, max(1, size - 1)), max_size=5)))
    edges = [0, *(border for border in borders if border < size), size]
    return tuple(b - a for a, b in pairwise(edges))


@given(data=st.data(), content=st.binary(min_size=1, max_size=64), part_size=st.integers(1, 70))
def test_whatever_the_parts_the_same_bytes_are_never_corrupt_and_other_bytes_never_proven(
    data: st.DataObject, content: bytes, part_size: int
) -> None:
    other = data.draw(st.binary(min_size=len(content), max_size=len(content)))
    parts = data.draw(st.none() | cuts(len(content)))
    known = data.draw(st.booleans())
    plan = DigestPlan(("crc32",), data.draw(st.none() | st.just(part_size)))
    digests = compute_digests(io.BytesIO(content).readinto, plan)
    configured = data.draw(st.none() | st.integers(1, 70))

    def ask(there: bytes) -> Verdict:
        answer = StoredObject(
            "a", len(there), "head", Kept(there, parts).checksums(), parts if known else None
        )
        return judge(len(content), digests, answer, part_size=configured).verdict

    assert ask(content) in (Verdict.PROVEN, Verdict.PRESENT)
    if other != content:
        assert ask(other) in (Verdict.CORRUPT, Verdict.PRESENT)
    if parts is None:
        assert ask(content) is Verdict.PROVEN
        assert other == content or ask(other) is Verdict.CORRUPT
