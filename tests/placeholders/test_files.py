from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.placeholders.files import InvalidPathError, find_files
from tests.placeholders.folders import open_to_all
from tests.placeholders.test_gitignore import GIT


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(*names: str, text: str = "") -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def git_files(folder: str = ".") -> list[str]:
    """What Git takes for files that are not ignored, relative to the current folder."""
    command = ["git", "ls-files", "-z", "--others", "--cached", "--exclude-standard", folder]
    done = subprocess.run(command, env=GIT, capture_output=True, check=True)
    return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name.endswith((b".py", b".yaml")))


def test_a_folder_is_walked_in_the_order_of_names() -> None:
    write("z/b.py", "y/a.py")
    assert list(find_files(["."])) == ["y/a.py", "z/b.py"]


def test_only_python_yaml_and_notebooks_are_taken() -> None:
    write("b.py", "a.pyi", "c/d.yaml", "c/e.yml", "c/f.ipynb", "g.txt", "h.pyc", "py", "c/yaml")
    assert list(find_files(["."])) == ["a.pyi", "b.py", "c/d.yaml", "c/e.yml", "c/f.ipynb"]
    assert list(find_files([".", "c", "b.py"])) == ["a.pyi", "b.py", "c/d.yaml", "c/e.yml", "c/f.ipynb"]
    assert list(find_files(["./c/"])) == ["./c/d.yaml", "./c/e.yml", "./c/f.ipynb"]
    here = os.getcwd()
    assert next(find_files([f"{here}/c"])) == f"{here}/c/d.yaml"


def test_a_named_file_is_taken_whatever_it_is_called_and_ignored_or_not() -> None:
    write("train", "a.txt", "b.py", ".venv/c.py")
    write(".gitignore", text="*\n")
    Path(".git").mkdir()
    named = ["train", "a.txt", "b.py", ".venv/c.py"]
    assert list(find_files(named, exclude=["*"])) == named
    assert list(find_files(["b.py", "./b.py"])) == ["b.py"]


def test_a_path_that_does_not_exist_is_refused_before_anything_is_found() -> None:
    write("a.py")
    os.symlink("nowhere", "link.py")
    for path in ("b.py", "link.py", "a.py/c", ""):
        with pytest.raises(InvalidPathError, match=f"no such file or folder: '{path}'"):
            find_files(["a.py", path])
    with pytest.raises(InvalidPathError, match=r"cannot reach 'a.*null"):
        find_files(["a\0"])


def test_caches_environments_and_version_control_are_left_out() -> None:
    write(
        "a.py",
        "env/pyvenv.cfg",
        "env/lib/b.py",
        "node_modules/c.py",
        "x/__pycache__/d.py",
        ".git/e.py",
        ".github/f.yml",
    )
    assert list(find_files(["."])) == ["a.py", ".github/f.yml"]
    assert list(find_files(["env", "node_modules"])) == ["env/lib/b.py", "node_modules/c.py"]


NAMES = ["a.py", "b.py", "a.yaml", "x y.py", "x.py ", "é.py", "build.py"]
FOLDERS = ["", "a/", "b/", "a/b/", "a/b/a/", "build/", "build/a/"]


@pytest.mark.parametrize(
    "ignored",
    [
        {"": "*.yaml\nbuild/\n"},
        {"": "*\n!*/\n!*.py\n"},
        {"": "/*\n!/a/\n/a/*\n!/a/b/\n"},
        {"": "a/**\n!a/**/\n!a/**/a.py\n"},
        {"": "**/a/*.py\n", "a/": "!b.py\n", "a/b/": "*.yaml\n!/a/a.py\n"},
        {"": "build\n", "build/": "!a.py\n"},
        {"": "\\*.py\nx.py\\ \nx?y.py   \r\n#a.py\n\\#\n"},
        {"": "a/b\n!a/b/a\n"},
        {"a/": "/b\n", "b/": "*\n!.gitignore\n"},
        {"a/b/": "*\n!a**\n"},
        {".git/info/": "a.py\n*.yaml\n", "a/": "!a.py\n"},
    ],
)
@pytest.mark.parametrize("start", [".", "a", "a/b"])
def test_a_repository_is_walked_as_git_does(ignored: dict[str, str], start: str) -> None:
    write(*(folder + name for folder in FOLDERS for name in NAMES))
    subprocess.run(["git", "init", "-q"], env=GIT, check=True)
    for folder, lines in ignored.items():
        name = "exclude" if folder == ".git/info/" else ".gitignore"
        Path(folder, name).write_text(lines)
    if subprocess.run(["git", "check-ignore", "-q", start], env=GIT).returncode == 0:
        return  # what is named is looked into, which Git does not do
    expected = git_files(start)
    assert sorted(find_files([start])) == expected
    everything = [str(path) for path in Path(start).rglob("*") if path.suffix in {".py", ".yaml"}]
    assert sorted(find_files([start], respect_gitignore=False)) == sorted(everything)


def test_a_folder_that_is_named_is_looked_into_although_it_is_ignored() -> None:
    write("build/a.py", "build/b.py")
    write(".gitignore", text="build/\nb.py\n")
    Path(".git").mkdir()
    assert list(find_files(["."])) == []
    assert list(find_files(["build"])) == ["build/a.py"]


LINE = st.builds(
    "".join, st.tuples(st.sampled_from(["", "!", "/", "!/", "**/"]), st.lists(st.sampled_from(["a", "b", "*", ".py", ".yaml", "/", "**", "/*"]), min_size=1, max_size=4).map("".join))
)  # fmt: skip
LINES = st.lists(LINE, max_size=4).map("\n".join)


@given(top=LINES, inner=LINES, deep=LINES)
def test_whatever_is_ignored_a_repository_is_walked_as_git_does(top: str, inner: str, deep: str) -> None:
    if not Path(".git").exists():
        write(*(folder + name for folder in FOLDERS for name in NAMES))
        subprocess.run(["git", "init", "-q"], env=GIT, check=True)
    for folder, lines in ((".", top), ("a", inner), ("a/b", deep)):
        Path(folder, ".gitignore").write_text(lines)
    assert sorted(find_files(["."])) == git_files()


def test_a_repository_inside_another_has_rules_of_its_own() -> None:
    write("a.py", "inner/a.py", "inner/b.py")
    write(".gitignore", text="a.py\n")
    write("inner/.gitignore", text="b.py\n")
    Path(".git").mkdir()
    Path("inner/.git").mkdir()
    assert list(find_files(["."])) == list(find_files(["inner"])) == ["inner/a.py"]


def test_outside_of_a_repository_the_ignore_files_of_the_tree_count() -> None:
    write("c/a.py", "c/b.py", "c/d/b.py")
    write(".gitignore", text="*.py\n")
    write("c/.gitignore", text="/b.py\n")
    assert list(find_files(["c"])) == ["c/a.py", "c/d/b.py"]


def test_excluded_paths_are_relative_to_the_root() -> None:
    write("a.py", "tests/a.py", "src/tests/a.py", "src/b.py")
    assert list(find_files(["."], exclude=["/tests"])) == ["a.py", "src/b.py", "src/tests/a.py"]
    assert list(find_files(["src"], exclude=["src/b.py"])) == ["src/tests/a.py"]
    assert list(find_files(["."], exclude=["tests/", "!a.py"])) == ["a.py", "src/b.py"]
    assert list(find_files(["src"], exclude=["/tests"], root="src")) == ["src/b.py"]
    assert list(find_files(["src"], exclude=["src/tests"], root="tests")) == ["src/b.py"]


def test_a_link_is_followed_once_and_gives_way_to_the_real_path() -> None:
    write("real/a.py", "other/b.py", "tree/z/c.py")
    os.symlink("../other", "tree/a")  # leads out of the tree
    os.symlink("z", "tree/b")  # leads to what is in the tree
    os.symlink("z/c.py", "tree/d.py")
    os.symlink("../real/a.py", "tree/e.py")
    os.symlink("../../other/b.py", "tree/z/f.py")
    write(".venv/x.py")
    os.symlink("../.venv", "tree/current")
    assert list(find_files(["tree"])) == ["tree/z/c.py", "tree/a/b.py", "tree/e.py"]


def test_links_that_lead_back_end() -> None:
    write("top.py", "tree/a.py", "tree/x/b.py")
    os.symlink(".", "tree/self")
    os.symlink("..", "tree/up")
    os.symlink("../..", "tree/x/upper")
    os.symlink("../x", "tree/x/again")
    assert list(find_files(["tree"])) == ["tree/a.py", "tree/x/b.py"]
    assert list(find_files(["tree/x/again"])) == ["tree/x/again/b.py"]


def test_what_cannot_be_looked_into_is_noted_and_the_rest_is_found() -> None:
    write("tree/a.py")
    os.symlink("nowhere", "tree/gone.py")
    os.symlink("loop.py", "tree/loop.py")
    os.mkfifo("tree/pipe.py")
    Path("tree/folder.py").mkdir()
    Path("tree/.gitignore").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("tree/socket.py")
        notes: list[str] = []
        assert list(find_files(["tree"], note=notes.append)) == ["tree/a.py"]
    assert [note.removeprefix(f"{os.getcwd()}/") for note in notes] == [
        "tree/.gitignore is not respected: a folder",
        "tree/gone.py was skipped: it links to nothing",
        "tree/loop.py was skipped: Too many levels of symbolic links",
    ]


def test_a_folder_that_cannot_be_read_is_noted() -> None:
    """In a child without the powers of root, which may read everything."""
    write("tree/a.py", "tree/locked/b.py", "tree/z.py")
    os.chmod("tree/locked", 0)
    program = (
        "import os, sys\n"
        "from composer_obs.placeholders.files import find_files\n"
        "os.geteuid() or (os.setgroups([]), os.setgid(65534), os.setuid(65534))\n"
        "print(*find_files([sys.argv[1]], note=print), sep='\\n')\n"
    )
    open_to_all()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, "tree"], capture_output=True, text=True, check=True
        )
    finally:
        os.chmod("tree/locked", 0o755)
    assert done.stdout.splitlines() == [
        "tree/locked was not looked into: Permission denied",
        "tree/a.py",
        "tree/z.py",
    ]


def test_a_tree_may_be_deeper_than_the_stack_of_python() -> None:
    depth, here = 1200, os.open(".", os.O_RDONLY)
    try:
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
        Path("a.py").touch()
        os.fchdir(here)
        assert list(find_files(["."])) == ["d/" * depth + "a.py"]
    finally:
        os.fchdir(here)
        os.close(here)
        subprocess.run(["rm", "-r", "d"], check=True)  # too deep for pytest
