"""SHA-256 lists that the real ``sha256sum`` accepts, and that name nothing that is not proven."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from composer_obs.uploads.ledger import Content
from composer_obs.uploads.manifest import Manifest, make_manifest, manifest_line
from composer_obs.uploads.stores.base import StoreDeniedError
from tests.uploads.memory import Uploads, content_of


@pytest.fixture
def uploads() -> Uploads:
    return Uploads()


def manifest(uploads: Uploads) -> Manifest:
    result = uploads.audit()
    return make_manifest(uploads.ledger, result.artifacts, lambda destination: uploads.stores[destination.id])


def line(name: str, data: bytes) -> bytes:
    return f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode()


def from_disk(uploads: Uploads, folder: Path, key: str, data: bytes) -> Path:
    source = folder / key
    source.write_bytes(data)
    uploads.attempt(key, data, source=str(source), mtime_ns=source.stat().st_mtime_ns)
    return source


def test_the_local_file_is_summed_and_the_object_is_not_read(uploads: Uploads, tmp_path: Path) -> None:
    from_disk(uploads, tmp_path, "a.pt", b"weights")
    assert manifest(uploads).lines == [line("a.pt", b"weights")]
    assert uploads.store.asked["read"] == 0


def test_without_the_local_file_the_object_is_read_back(uploads: Uploads) -> None:
    uploads.attempt("a.pt", b"weights")
    assert manifest(uploads).lines == [line("a.pt", b"weights")]
    assert uploads.store.asked["read"] == 1


def test_a_local_file_with_other_bytes_is_not_believed_even_if_size_and_time_are_the_same(
    uploads: Uploads, tmp_path: Path
) -> None:
    import os

    source = from_disk(uploads, tmp_path, "a.pt", b"weights")
    mtime = source.stat().st_mtime_ns
    source.write_bytes(b"WEIGHTS")
    os.utime(source, ns=(mtime, mtime))
    assert manifest(uploads).lines == [line("a.pt", b"weights")]
    assert uploads.store.asked["read"] == 1


def test_a_sum_that_the_ledger_has_is_taken_from_there(uploads: Uploads) -> None:
    from composer_obs.uploads.checksums import Digest

    digests = {"sha256": Digest("sha256", hashlib.sha256(b"weights").digest(), 7)}
    uploads.attempt("a.pt", b"weights", content=Content(7, digests), kept={"keeps": ("sha256",)})
    assert manifest(uploads).lines == [line("a.pt", b"weights")]
    assert uploads.store.asked["read"] == 0


def test_only_what_is_proven_is_listed(uploads: Uploads) -> None:
    uploads.attempt("proven", b"1")
    uploads.attempt("present", b"1", kept={"keeps": ()})
    uploads.attempt("missing", b"1", arrives=False)
    made = manifest(uploads)
    assert made.lines == [line("proven", b"1")]
    assert made.problems == {}


def test_what_cannot_be_read_is_named_with_the_reason(uploads: Uploads) -> None:
    uploads.attempt("a.pt", b"weights")
    uploads.attempt("b.pt", b"weights")
    uploads.store.faults["read a.pt"] = StoreDeniedError("no permission to read")
    made = manifest(uploads)
    assert made.lines == [line("b.pt", b"weights")]
    assert made.problems == {"s3://bucket/a.pt": "no permission to read"}


def test_an_object_that_changes_after_the_audit_has_no_line(uploads: Uploads) -> None:
    uploads.attempt("a.pt", b"weights")
    result = uploads.audit()
    uploads.store.add("a.pt", b"WEIGHTS")
    made = make_manifest(uploads.ledger, result.artifacts, lambda destination: uploads.store)
    assert made.lines == []
    assert made.problems == {"s3://bucket/a.pt": "what the store sends is not what was proven"}


def test_the_same_object_of_two_ranks_has_one_line(uploads: Uploads) -> None:
    for rank in range(2):
        uploads.run(f"s{rank}", rank=rank, world_size=2)
        uploads.attempt("config.yaml", b"same", session=f"s{rank}")
    assert manifest(uploads).lines == [line("config.yaml", b"same")]


def test_two_buckets_that_use_one_name_for_two_contents_cannot_both_be_listed(uploads: Uploads) -> None:
    import dataclasses

    other = Uploads()
    uploads.attempt("a.pt", b"weights")
    theirs = other.attempt("a.pt", b"others")
    uploads.ledger.destinations["e"] = dataclasses.replace(
        uploads.ledger.destinations["d"], id="e", uri="s3://other", options={"bucket": "other"}
    )
    uploads.stores["e"] = other.store
    moved = dataclasses.replace(theirs, id="t/1", destination="e", uri="s3://other/a.pt")
    uploads.ledger.attempts[moved.id] = moved
    uploads.ledger.contents[moved.id] = content_of(b"others")
    made = manifest(uploads)
    assert made.lines == [line("a.pt", b"weights")]
    assert made.problems == {"s3://other/a.pt": "s3://bucket/a.pt has the same name and other content"}


def test_a_name_that_no_file_can_have_is_a_problem_and_not_a_crash(uploads: Uploads) -> None:
    uploads.attempt("a\ud800", b"weights")
    assert manifest(uploads).problems == {"s3://bucket/a\ud800": "no file can have this name"}


NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda name: name not in {".", ".."})


@settings(max_examples=40)
@given(st.dictionaries(NAMES, st.binary(max_size=20), min_size=1, max_size=5))
@example(
    {
        "a\nb": b"1",
        "a\\b": b"2",
        "a\rb": b"3",
        "\\": b"4",
        "-x": b"5",
        " a ": b"6",
        "#*?": b"7",
        "é\u202e": b"8",
    }
)
def test_sha256sum_accepts_every_name(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("download")
    for name, data in files.items():
        (folder / name).write_bytes(data)
    sums = b"".join(manifest_line(hashlib.sha256(data).digest(), name) for name, data in files.items())
    (folder.parent / "SHA256SUMS").write_bytes(sums)
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "../SHA256SUMS"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_a_fault_of_another_packages_store_is_a_problem_and_not_a_crash(uploads: Uploads) -> None:
    uploads.attempt("a.pt", b"weights")
    uploads.store.faults["read"] = ZeroDivisionError("a fault")
    assert manifest(uploads).problems == {"s3://bucket/a.pt": "ZeroDivisionError: a fault"}


@pytest.mark.parametrize("name", ["a.pt", "a b", "a\nb", "a\\b", "a\rb", "\\n", "é", "*", "-x"])
def test_a_line_is_the_very_line_that_sha256sum_writes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"weights")
    written = subprocess.run(["sha256sum", "--", name], cwd=tmp_path, capture_output=True, check=True)
    assert manifest_line(hashlib.sha256(b"weights").digest(), name) == written.stdout


def test_a_key_that_begins_with_a_slash_stays_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"weights")
    sums = manifest_line(hashlib.sha256(b"weights").digest(), "/a.pt")
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict"], cwd=tmp_path, input=sums, capture_output=True
    )
    assert checked.stdout == b"./a.pt: OK\n"
