from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.placeholders.fixes import Edit, WriteError, apply_edits, unified_diff, write_source
from composer_obs.placeholders.reading import read_source
from tests.placeholders.folders import open_to_all
from tests.placeholders.test_gitignore import GIT


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("fixes", "expected", "applied"),
    [
        ([], "abcdef", 0),
        ([[]], "abcdef", 0),
        ([[Edit(0, 1, "X")], [Edit(5, 6, "")]], "Xbcde", 2),
        ([[Edit(5, 6, "")], [Edit(0, 1, "X")]], "Xbcde", 2),
        ([[Edit(0, 2, "X")], [Edit(2, 4, "Y")]], "XYef", 2),
        ([[Edit(0, 2, "X")], [Edit(1, 3, "Y")]], "Xcdef", 1),
        ([[Edit(1, 2, "X")], [Edit(0, 6, "Y")]], "aXcdef", 1),
        ([[Edit(0, 6, "Y")], [Edit(1, 2, "X")]], "Y", 1),
        # A fix is not applied by halves.
        ([[Edit(0, 1, "X")], [Edit(0, 1, "Y"), Edit(4, 5, "Z")], [Edit(4, 5, "W")]], "XbcdWf", 2),
        # The order of insertions at one place is nobody's choice.
        ([[Edit(2, 2, "X")], [Edit(2, 2, "Y")]], "abXcdef", 1),
        ([[Edit(2, 2, "X")], [Edit(2, 4, "Y")]], "abXcdef", 1),
        ([[Edit(0, 2, "X")], [Edit(2, 2, "Y")]], "Xcdef", 1),
        ([[Edit(1, 2, "Z")], [Edit(2, 3, "X")], [Edit(2, 2, "Y")]], "aZXdef", 2),
        # Inside of one fix it is.
        ([[Edit(2, 2, "X"), Edit(2, 2, "Y"), Edit(2, 3, "Z")]], "abXYZdef", 1),
        ([[Edit(0, 1, "X")], [Edit(0, 1, "X")]], "Xbcdef", 1),
        ([[Edit(3, 3, "X")], [Edit(3, 3, "X")]], "abcXdef", 1),
        ([[Edit(0, 1, "X"), Edit(5, 6, "Y")], [Edit(5, 6, "Y"), Edit(0, 1, "X")]], "XbcdeY", 1),
    ],
)
def test_fixes_are_applied_wholly_or_left_for_the_next_round(
    fixes: list[list[Edit]], expected: str, applied: int
) -> None:
    assert apply_edits("abcdef", fixes) == (expected, applied)


@pytest.mark.parametrize(
    "fix", [[Edit(0, 7, "")], [Edit(-1, 0, "")], [Edit(2, 1, "")], [Edit(0, 2, ""), Edit(1, 3, "")]]
)
def test_an_impossible_edit_is_a_fault(fix: list[Edit]) -> None:
    with pytest.raises(ValueError, match="outside of the source"):
        apply_edits("abcdef", [fix])


@st.composite
def a_source_and_fixes(draw: st.DrawFn) -> tuple[str, list[list[Edit]]]:
    source = draw(st.text("ab\r\né\ufeff", max_size=20))
    fixes = []
    for _ in range(draw(st.integers(0, 5))):
        ends = sorted(draw(st.lists(st.integers(0, len(source)), min_size=2, max_size=4)))
        pairs = zip(ends[::2], ends[1::2], strict=False)
        # Digits do not occur in the source: what is left of it can be told from what is new.
        fixes.append([Edit(start, end, draw(st.text("0123456789", max_size=3))) for start, end in pairs])
    return source, fixes


@given(a_source_and_fixes())
def test_every_character_outside_of_the_edits_is_unchanged(case: tuple[str, list[list[Edit]]]) -> None:
    source, fixes = case
    changed, applied = apply_edits(source, fixes)
    touched = {index for fix in fixes for edit in fix for index in range(edit.start, edit.end)}
    kept = "".join(character for character in changed if not character.isdecimal())
    remaining = iter(kept)
    # In order, everything that no fix touches is still there, and nothing else than what was there.
    assert all(any(c == source[i] for c in remaining) for i in range(len(source)) if i not in touched)
    rest = iter(source)
    assert all(character in rest for character in kept)
    assert applied <= len(fixes)
    if fixes and any(fixes):
        assert applied >= 1


@given(a_source_and_fixes())
def test_fixes_that_do_not_meet_are_all_applied_as_if_one_after_the_other(
    case: tuple[str, list[list[Edit]]],
) -> None:
    source, fixes = case
    edits = [edit for fix in fixes for edit in fix]
    apart = all(max(a.start, b.start) > min(a.end, b.end) for i, a in enumerate(edits) for b in edits[:i])
    if apart:
        expected = source
        for edit in sorted(edits, key=lambda edit: -edit.start):
            expected = expected[: edit.start] + edit.text + expected[edit.end :]
        assert apply_edits(source, fixes) == (expected, len(fixes))


CONTENT = st.lists(
    st.sampled_from(["a", "b", "--- a", "+x", "", " ", "é", "a\f", "\u2028", "a\r", "\\ No"]), max_size=12
)


def applied_by(tool: list[str], name: str, before: str, diff: str) -> str:
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_bytes(before.encode())
    done = subprocess.run(tool, input=diff.encode(), capture_output=True, env=GIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(name).read_bytes().decode()


TOOLS = pytest.mark.parametrize(
    "tool", [["git", "apply", "-"], ["patch", "-p1", "-s", "--binary"]], ids=["git", "patch"]
)


@TOOLS
@given(before=CONTENT, after=CONTENT, ends=st.tuples(*[st.sampled_from(["", "\n"])] * 2))
def test_a_diff_is_applied_by_git_and_patch(
    tool: list[str], before: list[str], after: list[str], ends: tuple[str, str]
) -> None:
    old, new = "\n".join(before) + ends[0], "\n".join(after) + ends[1]
    # Tools take an empty file for one that is to be made or to be deleted.
    if old.strip("\n") and new.strip("\n") and old != new:
        assert applied_by(tool, "a.py", old, unified_diff("a.py", old, new)) == new
    assert (unified_diff("a.py", old, new) == "") == (old == new)


@TOOLS
@pytest.mark.parametrize(
    "name", ["d/a.py", "./a.py", "a b.py", "é.py", 'a"b.py', "a\\b.py", "a\tb.py", "d d/x y.py"]
)
def test_a_diff_names_files_as_git_and_patch_read_them(tool: list[str], name: str) -> None:
    assert applied_by(tool, name, "x\n", unified_diff(name, "x\n", "y\n")) == "y\n"


def test_the_diff_of_an_absolute_path_applies_at_the_root() -> None:
    path = os.path.abspath("a.py")
    assert unified_diff(path, "x", "y").startswith(f"--- a{path}\n+++ b{path}\n")


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "b", "c", b"a\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb", "b", "c", b"\xef\xbb\xbfa\nc"),
        (
            "# coding: latin-1\né = 1".encode("latin-1"),
            "1",
            "ü",
            "# coding: latin-1\né = ü".encode("latin-1"),
        ),
        (b"a = '\xe9'\n", "a", "b", b"b = '\xe9'\n"),  # not UTF-8
    ],
)
def test_every_byte_that_is_not_fixed_stays(before: bytes, old: str, new: str, after: bytes) -> None:
    Path("a.py").write_bytes(before)
    source = read_source("a.py")
    assert source.text is not None
    write_source(source, source.text.replace(old, new) if old != "1" else source.text[:-1] + new)
    assert Path("a.py").read_bytes() == after
    assert os.listdir() == ["a.py"]


def test_permissions_and_links_stay() -> None:
    Path("real").mkdir()
    Path("real/a.sh").write_text("a")
    os.chmod("real/a.sh", 0o751)
    os.symlink("real/a.sh", "link.py")
    write_source(read_source("link.py"), "b")
    assert os.readlink("link.py") == "real/a.sh"
    assert Path("real/a.sh").read_text() == "b"
    assert stat.S_IMODE(os.stat("real/a.sh").st_mode) == 0o751


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_stays() -> None:
    Path("a.py").write_text("a")
    os.chown("a.py", 1234, 2345)
    write_source(read_source("a.py"), "b")
    assert (os.stat("a.py").st_uid, os.stat("a.py").st_gid) == (1234, 2345)


def test_a_file_that_changed_in_the_meantime_is_left_alone() -> None:
    Path("a.py").write_text("a")
    source = read_source("a.py")
    Path("a.py").write_text("other")
    with pytest.raises(WriteError, match=r"a\.py was not changed: it is not as it was read"):
        write_source(source, "b")
    assert Path("a.py").read_text() == "other"
    os.unlink("a.py")
    with pytest.raises(WriteError, match="not as it was read"):
        write_source(source, "b")
    assert os.listdir() == []


def test_a_fix_that_the_encoding_lacks_is_refused() -> None:
    Path("a.py").write_bytes(b"# coding: latin-1\n")
    with pytest.raises(WriteError, match="the fix is not in iso-8859-1"):
        write_source(read_source("a.py"), "# coding: latin-1\nx = '\u20ac'\n")
    assert Path("a.py").read_bytes() == b"# coding: latin-1\n"


def test_an_encoding_that_would_change_other_bytes_is_refused() -> None:
    # UTF-7 may write an "a" as it is or in base64.
    Path("a.py").write_bytes(b"# coding: utf-7\n+AGE-\n")
    source = read_source("a.py")
    assert source.text == "# coding: utf-7\na\n"
    with pytest.raises(WriteError, match="would not give the same bytes"):
        write_source(source, "# coding: utf-7\nb\n")


def test_a_file_that_cannot_be_written_is_left_alone() -> None:
    """In a child without the powers of root, which may write everything."""
    Path("locked").mkdir()
    Path("locked/a.py").write_text("a")
    os.chmod("locked/a.py", 0o666)
    os.chmod("locked", 0o555)
    Path("a.py").write_text("a")
    os.chmod("a.py", 0o444)
    program = (
        "import os\n"
        "from composer_obs.placeholders.fixes import WriteError, write_source\n"
        "from composer_obs.placeholders.reading import read_source\n"
        "os.geteuid() or (os.setgroups([]), os.setgid(65534), os.setuid(65534))\n"
        "for path in ('a.py', 'locked/a.py'):\n"
        "    try: write_source(read_source(path), 'b')\n"
        "    except WriteError as error: print(error)\n"
    )
    open_to_all()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "a.py was not changed: it is read-only",
        "locked/a.py was not changed: Permission denied",
    ]
    assert Path("a.py").read_text() == Path("locked/a.py").read_text() == "a"


def test_nothing_is_written_where_nothing_changes() -> None:
    Path("a.py").write_text("a")
    before = os.stat("a.py")
    write_source(read_source("a.py"), "a")
    assert os.stat("a.py").st_ino == before.st_ino
