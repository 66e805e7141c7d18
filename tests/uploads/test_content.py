"""A held file keeps its content, tells when that is uncertain, and never makes anybody wait."""

from __future__ import annotations

import os
import threading
import zlib
from pathlib import Path

import pytest

from composer_obs.uploads.checksums import DigestPlan
from composer_obs.uploads.content import HeldFile, read_content

PLAN = DigestPlan(("crc32",))


def crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def test_a_file_that_is_removed_meanwhile_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"weights" * 1000)
    held = HeldFile.open(str(path))
    path.unlink()
    content = read_content(held, PLAN, "file")
    assert (content.size, content.note) == (7000, None)
    assert content.digests["crc32"].full == crc(b"weights" * 1000)


def test_a_log_that_grows_is_summed_up_to_its_size_at_the_time_and_said_to_be_uncertain(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"first\n")
    held = HeldFile.open(str(path))
    with path.open("ab") as file:
        file.write(b"second\n")
    content = read_content(held, PLAN, "file")
    assert content.size == 6
    assert content.digests["crc32"].full == crc(b"first\n")
    assert "written to" in str(content.note)


def test_a_file_that_is_rewritten_in_place_is_said_to_be_uncertain(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    os.utime(path, ns=(1, 1))
    held = HeldFile.open(str(path))
    path.write_bytes(b"new")
    assert "written to" in str(read_content(held, PLAN, "file").note)


def test_a_staged_copy_is_certain_although_its_name_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "staged"
    path.write_bytes(b"x" * 100)
    held = HeldFile.open(str(path), is_ours=True)
    path.unlink()
    assert read_content(held, PLAN, "file").note is None


def test_without_a_free_descriptor_the_file_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("composer_obs.uploads.content._DESCRIPTORS", threading.BoundedSemaphore(1))
    first, second, third = (tmp_path / name for name in ("1", "2", "3"))
    for path in (first, second, third):
        path.write_bytes(path.name.encode())
    holder = HeldFile.open(str(first))
    by_name, changed = HeldFile.open(str(second)), HeldFile.open(str(third))
    assert by_name.descriptor is None
    third.write_bytes(b"other")
    assert read_content(by_name, PLAN, "file").digests["crc32"].full == crc(b"2")
    assert read_content(changed, PLAN, "file").digests == {}
    holder.close()
    holder.close()  # the second time does nothing
    assert HeldFile.open(str(first)).descriptor is not None


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = {"pipe": tmp_path / "pipe", "folder": tmp_path, "device": Path("/dev/zero")}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        HeldFile.open(str(path))


def test_a_pointer_is_kept_as_text_and_a_large_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "latest.symlink"
    path.write_text("run/ep1.pt")
    assert read_content(HeldFile.open(str(path)), PLAN, "pointer").text == "run/ep1.pt"
    path.write_text("x" * 5000)
    assert read_content(HeldFile.open(str(path)), PLAN, "pointer").text is None
