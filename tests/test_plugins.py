"""Entry points: ours, and those of a package that really is installed on the import path."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path

import pytest

from composer_obs import plugins
from composer_obs.plugins import CALLBACKS, LOGGERS, STORES, PluginError


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A distribution of somebody else's, with a logger, a callback and a plug-in that is broken."""
    (tmp_path / "other_obs.py").write_text(
        textwrap.dedent("""
        class Chatty:
            def __init__(self, words=3, *, loud: bool = False):
                if words < 0:
                    raise ValueError("words must not be negative")
                self.words, self.loud = words, loud
        class Quiet: ...
        """)
    )
    (tmp_path / "other_broken.py").write_text("import a_package_that_is_not_installed\n")
    folder = tmp_path / "other_obs-4.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other-obs\nVersion: 4.5\n")
    (folder / "entry_points.txt").write_text(
        textwrap.dedent("""
        [composer_obs.loggers]
        chatty = other_obs:Chatty
        broken = other_broken:Broken
        [composer_obs.callbacks]
        quiet = other_obs:Quiet
        absent = other_obs:Absent
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return "other-obs"


def test_our_own_are_found_without_importing_them() -> None:
    found = {(plugin.kind, plugin.name): plugin for plugin in plugins.discover()}
    assert {("logger", "upload_auditor"), ("store", "s3"), ("store", "folder")} <= set(found)
    auditor = found["logger", "upload_auditor"]
    assert (auditor.package, auditor.target) == ("composer-obs", "composer_obs.uploads.auditor:UploadAuditor")


def test_those_of_other_packages_are_found_with_package_and_version(other_package: str) -> None:
    found = {plugin.name: plugin for plugin in plugins.discover()}
    assert (found["chatty"].kind, found["chatty"].package, found["chatty"].version) == (
        "logger",
        "other-obs",
        "4.5",
    )
    assert found["quiet"].kind == "callback"


def test_groups_are_kept_apart_and_none_is_listed_twice(
    other_package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same distribution twice on the path, as an editable install beside a normal one.
    shutil.copytree(tmp_path / "other_obs-4.5.dist-info", tmp_path / "again" / "other_obs-4.5.dist-info")
    monkeypatch.syspath_prepend(str(tmp_path / "again"))
    assert "chatty" not in {plugin.name for plugin in plugins.discover(CALLBACKS, STORES)}
    listed = [(plugin.kind, plugin.name) for plugin in plugins.discover()]
    assert len(set(listed)) == len(listed)


def test_one_is_built_by_name_with_its_options(other_package: str) -> None:
    built = plugins.build("chatty", words=5, loud=True)
    assert type(built).__name__ == "Chatty"
    assert (built.words, built.loud) == (5, True)


def test_an_unknown_name_is_refused_with_those_that_there_are(other_package: str) -> None:
    with pytest.raises(PluginError, match="no plug-in is named 'chatti'") as refused:
        plugins.build("chatti")
    assert "chatty" in str(refused.value)
    with pytest.raises(PluginError, match="no plug-in is named 'chatty'"):
        plugins.find("chatty", STORES)


@pytest.mark.parametrize("options", [{"wrods": 1}, {"words": -1}, {"words": "many"}])
def test_options_that_it_refuses_are_named(other_package: str, options: dict[str, object]) -> None:
    with pytest.raises(PluginError, match=r"the logger 'chatty' refuses its options \['w"):
        plugins.build("chatty", **options)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken", "No module named 'a_package_that_is_not_installed'"),
        ("absent", "has no attribute 'Absent'"),
    ],
)
def test_one_that_cannot_be_imported_says_why_and_whose_it_is(
    other_package: str, name: str, reason: str
) -> None:
    with pytest.raises(PluginError, match=reason) as refused:
        plugins.find(name, LOGGERS, CALLBACKS).load()
    assert "other-obs 4.5" in str(refused.value)


@pytest.mark.parametrize("plugin", list(plugins.discover()), ids=lambda plugin: plugin.name)
def test_every_one_of_ours_imports(plugin: plugins.Plugin) -> None:
    # One that does not would break LLM Foundry's look-up of everybody's.
    if plugin.package == "composer-obs":
        assert callable(plugin.load())


def test_llm_foundry_finds_the_same_loggers_and_callbacks_as_we_do() -> None:
    catalogue = pytest.importorskip("catalogue")
    for theirs, ours in (("loggers", LOGGERS), ("callbacks", CALLBACKS)):
        registry = catalogue.create("llmfoundry", theirs, entry_points=True)
        expected = {p.name: p.load() for p in plugins.discover(ours) if p.package == "composer-obs"}
        found = registry.get_entry_points()
        assert {name: found.get(name) for name in expected} == expected
