from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.placeholders.settings import InvalidSettingsError, Settings, _settings, load_settings

FULL = """
[project]
name = "example"

[tool.composer_obs.lint]
select = ["PH"]
ignore = ["PH3", " PH101 "]
exclude = ["/old/", "name\\\\ "]
schemes = ["hf", "ADL"]
world-size = 16

[tool.composer_obs.lint.per-file-ignores]
"tests/" = ["PH1", "PH2"]
"/a.py" = ["PH1", "PH4"]
"*.yaml" = []
"""


@pytest.fixture(autouse=True)
def _in_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".git").mkdir()


def write(text: str, path: str = "pyproject.toml") -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def test_every_setting_is_read() -> None:
    write(FULL)
    assert load_settings() == Settings(
        path=os.path.abspath("pyproject.toml"),
        select=("PH",),
        ignore=("PH3", "PH101"),
        exclude=("/old/", "name\\ "),
        schemes=("hf", "adl"),
        world_size=16,
        per_file_ignores={"tests/": ("PH1", "PH2"), "/a.py": ("PH1", "PH4"), "*.yaml": ()},
    )


def test_without_a_table_everything_is_as_by_default() -> None:
    assert load_settings() == Settings()
    write("[project]\nname = 'x'\n[tool.ruff]\n")
    assert load_settings() == Settings()
    assert load_settings().root == os.getcwd()


def test_the_nearest_file_with_the_table_counts() -> None:
    write("[tool.composer_obs.lint]\nworld-size = 1")
    write("[tool.ruff]\n", "a/pyproject.toml")
    write("[tool.composer_obs.lint]\nworld-size = 2", "a/b/pyproject.toml")
    write("", "a/b/c/x.py")
    sizes = [load_settings(start).world_size for start in ("a", "a/b", "a/b/c", "a/b/c/x.py", "a/gone.py")]
    assert sizes == [1, 2, 2, 2, 1]
    assert load_settings("a/b/c").root == os.path.abspath("a/b")


def test_settings_end_at_the_top_of_the_repository() -> None:
    write("[tool.composer_obs.lint]\nworld-size = 1")
    Path("inner/.git").mkdir(parents=True)
    assert load_settings("inner") == Settings()


@pytest.mark.parametrize(
    ("path", "codes"),
    [
        ("a.py", ("PH1", "PH4")),
        ("b/a.py", ()),
        ("tests/x/b.py", ("PH1", "PH2")),
        ("b/tests/a.py", ("PH1", "PH2")),
        ("tests", ()),
        ("b.yaml", ()),
        ("../a.py", ()),
    ],
)
def test_codes_are_ignored_in_the_files_that_a_pattern_matches(path: str, codes: tuple[str, ...]) -> None:
    write(FULL)
    assert load_settings().ignored_in(path) == codes
    assert load_settings().ignored_in(os.path.abspath(path)) == codes


def test_a_pattern_may_name_a_file_in_the_folder_of_the_settings_from_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(FULL)
    settings = load_settings()
    Path("b").mkdir()
    monkeypatch.chdir("b")
    assert settings.ignored_in("../a.py") == ("PH1", "PH4")
    os.symlink("../tests", "link")
    Path("../tests").mkdir()
    assert settings.ignored_in("link/b.py") == ("PH1", "PH2")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("selekt = []", "unknown key tool.composer_obs.lint.selekt; did you mean select?"),
        ("world_size = 2", "unknown key tool.composer_obs.lint.world_size; did you mean world-size?"),
        ("colour = 1", "unknown key tool.composer_obs.lint.colour; known are exclude, ignore, per-file-ignores, "),
        ("select = 'PH'", "lint.select has to be a list of codes or their beginnings, e.g. [\"PH3\", \"PH101\"], not 'PH'"),
        ("ignore = [1]", "lint.ignore has to be a list of codes"),
        ("ignore = ['']", "lint.ignore has to be a list of codes"),
        ("exclude = '/old'", "lint.exclude has to be a list of patterns as in .gitignore"),
        ("schemes = ['hf://']", "lint.schemes has to be a list of URI schemes without \"://\", e.g. [\"hf\"], not ['hf://']"),
        ("world-size = '2'", "lint.world-size has to be the number of ranks, e.g. 16, not '2'"),
        ("world-size = true", "not True"),
        ("world-size = 0", "not 0"),
        ("world-size = 2.0", "not 2.0"),
        ("per-file-ignores = ['a']", "lint.per-file-ignores has to be a table of patterns and codes"),
        ("per-file-ignores = {a = 'PH1'}", "has to be a table of patterns, each with a list of codes"),
        ("select = [" + "[], " * 40 + "]", 'e.g. ["PH3", "PH101"], not list'),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_with_its_file_and_what_is_expected(lines: str, message: str) -> None:
    write(f"[tool.composer_obs.lint]\n{lines}\n")
    with pytest.raises(InvalidSettingsError) as refused:
        load_settings()
    assert str(refused.value).startswith(os.path.abspath("pyproject.toml") + ": ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.composer-obs.lint]", ": [tool.composer-obs] is not read; write [tool.composer_obs.lint]"),
        ("[tool.composer_obs.lnt]", ": unknown key tool.composer_obs.lnt; write [tool.composer_obs.lint]"),
        ("[tool]\ncomposer_obs = 1", ": tool.composer_obs has to be a table"),
        ("[tool.composer_obs]\nlint = 1", ": tool.composer_obs.lint has to be a table"),
        ("[tool", " is not valid TOML: "),
        ("a = " + "[" * 100_000, " is not valid TOML: "),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused(text: str, message: str) -> None:
    write(text)
    with pytest.raises(InvalidSettingsError, match=re.escape(message)):
        load_settings()


def test_a_file_that_cannot_be_read_is_refused() -> None:
    Path("pyproject.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(InvalidSettingsError, match="is not valid TOML: 'utf-8' codec"):
        load_settings()
    os.unlink("pyproject.toml")
    os.mkfifo("pyproject.toml")
    with pytest.raises(InvalidSettingsError, match=r"cannot read .*: not a regular file"):
        load_settings()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(
    key=st.sampled_from(["select", "ignore", "exclude", "schemes", "world-size", "per-file-ignores", "x"]),
    value=VALUES,
)
def test_whatever_a_value_is_it_is_taken_or_refused(key: str, value: object) -> None:
    with contextlib.suppress(InvalidSettingsError):
        assert len(_settings("pyproject.toml", {key: value})) == 1
