from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.placeholders.reading import LARGEST, Prefilter, read_source


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def source_of(data: bytes, name: str = "a.py"):
    Path(name).write_bytes(data)
    return read_source(name)


def test_line_ends_and_the_byte_order_mark_are_kept_as_they_are() -> None:
    source = source_of(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert (source.text, source.bom, source.encoding, source.problem) == ("a\r\nb\rc\n", True, "utf-8", None)
    assert source_of(b"\xef\xbb\xbfa: 1", "a.yaml").text == "a: 1"


@pytest.mark.parametrize(
    ("cookie", "text"),
    [("latin-1", "é"), ("cp1252", "€"), ("shift_jis", "日本"), ("koi8-r", "Ж"), ("utf-8", "日本")],
)
def test_python_is_decoded_as_it_declares(cookie: str, text: str) -> None:
    code = f"#!/usr/bin/env python\n# -*- coding: {cookie} -*-\nx = '{text}'\n"
    data = code.encode(cookie)
    # Python itself agrees.
    namespace: dict[str, object] = {}
    exec(compile(data, "a.py", "exec"), namespace)
    assert namespace["x"] == text
    source = source_of(data)
    assert (source.text, source.problem) == (code, None)
    assert source.encode(source.text) == data


def test_a_declaration_means_nothing_outside_of_python() -> None:
    assert source_of("# coding: latin-1\né: 1".encode(), "a.yaml").text == "# coding: latin-1\né: 1"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a = 1\nb = '\xe9'\n", "not UTF-8: byte 0xe9 at line 2"),
        (b"a = 1\r\n\r\nb = '\xff'", "not UTF-8: byte 0xff at line 3"),
        (b"# coding: ascii\nb = '\xe9'\n", "not ascii: byte 0xe9 at line 2"),
        (b"\xef\xbb\xbfb = '\xe9'\n", "not UTF-8: byte 0xe9 at line 1"),
        (b"# coding: hex\nb = 1\n", "hex is no encoding of text"),
        (b"# coding: undefined\nb = 1\n", "undefined is no encoding of text"),
    ],
)
def test_what_is_not_in_its_encoding_has_a_problem_and_a_text(data: bytes, problem: str) -> None:
    source = source_of(data)
    assert source.problem == problem
    assert source.text == data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"# coding: klingon\nb = 1\n", "unknown encoding"),
        (b"\xef\xbb\xbf# coding: latin-1\nb = 1\n", "encoding problem"),
    ],
)
def test_a_wrong_declaration_is_a_problem(data: bytes, problem: str) -> None:
    with pytest.raises(SyntaxError):
        compile(data, "a.py", "exec")
    source = source_of(data)
    assert source.problem is not None
    assert problem in source.problem
    assert source.text == data.decode("utf-8-sig")


def test_a_binary_file_has_no_text() -> None:
    source = source_of(b"a\0b")
    assert (source.text, source.problem) == (None, "a binary file, or not in UTF-8: it holds zero bytes")


def test_what_is_too_large_is_not_read() -> None:
    with open("a.py", "wb") as file:
        file.truncate(LARGEST + 1)
    assert read_source("a.py").problem == "larger than 20 MB"
    assert source_of(b" " * LARGEST).problem is None


def test_what_cannot_be_read_has_a_problem() -> None:
    os.mkfifo("pipe.py")
    os.symlink("pipe.py", "link.py")
    os.mkdir("folder.py")
    problems = [
        read_source(path).problem
        for path in ("pipe.py", "link.py", "folder.py", "gone.py", "/dev/null", "a\0")
    ]
    assert problems == [
        "not a regular file",
        "not a regular file",
        "a folder",
        "No such file or directory",
        "not a regular file",
        "embedded null byte",
    ]


def test_a_file_without_permission_has_a_problem() -> None:
    """In a child without the powers of root, which may read everything."""
    Path("a.py").touch(mode=0)
    program = (
        "import os\n"
        "from composer_obs.placeholders.reading import read_source\n"
        "os.geteuid() or (os.setgroups([]), os.setgid(65534), os.setuid(65534))\n"
        "print(read_source('a.py').problem)\n"
    )
    for folder in [Path.cwd(), *Path.cwd().parents][:3]:
        os.chmod(folder, 0o755)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "Permission denied\n"


@given(
    data=st.binary(max_size=60) | st.text("# coding:utf789-sigrot1_xéa\n").map(str.encode),
    name=st.sampled_from(["a.py", "a.yaml"]),
)
def test_whatever_the_bytes_are_they_are_read_without_loss_or_said_to_be_wrong(
    data: bytes, name: str
) -> None:
    source = source_of(data, name)
    assert source.data == data
    if source.text is None:
        assert source.problem
    elif source.encoding in {"utf-8", "latin-1"}:
        assert source.encode(source.text) == data


def test_a_file_that_does_not_pass_the_filter_has_neither_text_nor_problem() -> None:
    Path("a.py").write_bytes(b"x = Saver\xff")
    assert read_source("a.py", prefilter=Prefilter(["Logger"])).text is None
    assert read_source("a.py", prefilter=Prefilter(["Logger"])).problem is None
    assert read_source("a.py", prefilter=Prefilter(["Logger", "Saver"])).problem is not None


@given(names=st.sets(st.text("ab", min_size=1, max_size=3)), data=st.text("abc", max_size=8))
def test_a_file_passes_the_filter_if_a_name_occurs(names: set[str], data: str) -> None:
    expected = any(data[i : i + len(name)] == name for name in names for i in range(len(data)))
    assert Prefilter(names).might_hold_templates(data.encode()) is expected
