from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.placeholders.gitignore import Patterns

#: Nobody's own Git settings.
GIT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True, env=GIT)
    return folder


def git_verdict(repository: Path, lines: list[str], path: str) -> bool | None:
    """What ``git check-ignore`` says of one entry, by the last pattern that matches the entry.

    Only entries at the top or below folders that no pattern names are asked about, because Git
    answers for the parent first.
    """
    (repository / ".gitignore").write_bytes(b"\n".join(os.fsencode(line) for line in lines) + b"\n")
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin"],
        cwd=repository,
        env=GIT,
        input=os.fsencode(path) + b"\0",
        capture_output=True,
    )
    assert done.returncode in {0, 1}, done.stderr
    pattern = done.stdout.split(b"\0")[2]
    return not pattern.startswith(b"!") if pattern else None


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        (["*.yaml"], "a.yaml", True),
        (["*.yaml"], "d/e/a.yaml", True),
        (["*.yaml", "!a.yaml"], "a.yaml", False),
        (["!a.yaml", "*.yaml"], "a.yaml", True),
        (["*.yaml", "!a.yaml", "b.yaml"], "a.yaml", False),
        (["*.yaml", "!a.yaml", "b.yaml"], "c.yaml", True),
        (["/a.yaml"], "a.yaml", True),
        (["//a.yaml"], "a.yaml", None),
        (["?**/a.yaml"], "d/e/a.yaml", None),
        (["?**/a.yaml"], "de/a.yaml", True),
        (["/a.yaml"], "d/a.yaml", None),
        (["d/a.yaml"], "e/d/a.yaml", None),
        (["**/d/a.yaml"], "e/d/a.yaml", True),
        (["**/d/a.yaml"], "d/a.yaml", True),
        (["d/**/a.yaml"], "d/a.yaml", True),
        (["d/**/a.yaml"], "d/e/f/a.yaml", True),
        (["d/**/a.yaml"], "dd/a.yaml", None),
        (["d/*/a.yaml"], "d/e/f/a.yaml", None),
        (["d/**"], "d/e/f", True),
        (["d/**"], "d", None),
        (["d**e"], "d/e", None),
        (["d**e"], "d--e", True),
        (["a.yaml/"], "a.yaml", None),
        (["a.yaml   "], "a.yaml", True),
        (["a.yaml\\ "], "a.yaml ", True),
        (["a.yaml\\ "], "a.yaml", None),
        (["a.yaml\t"], "a.yaml", None),
        (["  a.yaml"], "a.yaml", None),
        (["a b "], "a b", True),
        (["#a"], "#a", None),
        (["\\#a"], "#a", True),
        (["\\!a"], "!a", True),
        (["a\\"], "a", None),
        (["a\\"], "a\\", None),
        (["[ab].py"], "b.py", True),
        (["[!ab].py"], "b.py", None),
        (["[!ab].py"], "!.py", True),
        (["[^ab].py"], "c.py", True),
        (["[]-].py"], "].py", True),
        (["[a-c]"], "b", True),
        (["[c-a]"], "b", None),
        (["[c-a]"], "c", True),
        (["[a-c-e]"], "d", None),
        (["[a-c-e]"], "-", True),
        (["[A-\\]]"], "]", True),
        (["[\\a]"], "a", True),
        (["[[:digit:]]"], "7", True),
        (["[[:digits:]]"], "7", None),
        (["[a"], "[a", None),
        (["d[/]e"], "d/e", None),
        (["?"], "é", None),
        (["??"], "é", True),
        (["/"], "a", None),
        (["!"], "a", None),
        ([""], "a", None),
        (["a.*"], "aXb", None),
    ],
)
def test_a_pattern_means_what_it_means_to_git(
    repository: Path, lines: list[str], path: str, expected: bool | None
) -> None:
    assert git_verdict(repository, lines, path) is expected
    assert Patterns(lines).verdict(path) is expected


@given(
    lines=st.lists(st.text("ab*?[]!^-\\ /#.:é", min_size=1, max_size=7), min_size=1, max_size=3),
    path=st.text("ab-! ]\\é", min_size=1, max_size=4),
)
def test_any_pattern_means_to_a_file_what_it_means_to_git(
    repository: Path, lines: list[str], path: str
) -> None:
    assert Patterns(lines).verdict(path) is git_verdict(repository, lines, path)


@given(pattern=st.text("ab*?/", min_size=1, max_size=8), path=st.sampled_from(["a/b", "ab/b/a", "a/a/b/b"]))
def test_any_pattern_means_to_a_deep_file_what_it_means_to_git(
    repository: Path, pattern: str, path: str
) -> None:
    parents = [path[:index] for index, character in enumerate(path) if character == "/"]
    patterns = Patterns([pattern])
    # Git says of a file what holds for the first of its parents that is ignored.
    ours = any(patterns.verdict(parent, folder=True) for parent in parents) or patterns.verdict(path)
    assert ours is git_verdict(repository, [pattern], path)


def test_a_file_of_patterns_may_have_a_byte_order_mark_and_carriage_returns() -> None:
    patterns = Patterns.from_bytes("\ufeffa.py\r\nb.py\n".encode())
    assert [patterns.verdict(name) for name in ("a.py", "b.py", "c.py")] == [True, True, None]


def test_a_name_need_not_be_utf8() -> None:
    assert Patterns.from_bytes(b"\xe9.py").verdict(os.fsdecode(b"\xe9.py")) is True
