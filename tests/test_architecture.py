"""The directions of imports, read from the source, and what an import costs in modules."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import composer_obs

ROOT = Path(composer_obs.__file__).parent
MODULES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in ROOT.rglob("*.py")
}
#: What every part may build on.
BASE = {"errors", "findings", "run_folder", "containment", "redaction", "plugins"}
#: The only modules that know Composer: a callback or logger, what hooks Composer for it, and the
#: training script of the demonstration.
ADAPTERS = {
    "composer_obs.demo.training",
    "composer_obs.placeholders.linter",
    "composer_obs.uploads.auditor",
    "composer_obs.uploads.destinations",
    "composer_obs.uploads.stores.composer",
    "composer_obs.uploads.uploaders",
    "composer_obs.uploads.watch",
}
#: Parts that may know others.
KNOWS = {
    "cli": None,
    "__main__": {"cli"},
    "attach": set(),
    "catalogue": {"placeholders", "uploads"},
    "demo": set(),
    "": None,
}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, also inside functions, but not for type checking alone."""
    tree = ast.parse(path.read_bytes())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            module = node.module or ""
            yield module
            yield from (
                f"{module}.{alias.name}" for alias in node.names if f"{module}.{alias.name}" in MODULES
            )


def part(module: str) -> str:
    """``uploads`` of ``composer_obs.uploads.audit``."""
    return [*module.split("."), ""][1]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_only_adapters_import_composer_or_torch(module: str) -> None:
    foreign = {name.partition(".")[0] for name in imports(MODULES[module])} & {"composer", "torch"}
    assert not foreign or module in ADAPTERS


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_part_imports_another_but_those_that_it_builds_on(module: str) -> None:
    own = part(module)
    allowed = KNOWS.get(own, set())
    if allowed is None:
        return
    used = {part(name) for name in imports(MODULES[module]) if name.startswith("composer_obs")} - {"", own}
    if own in BASE:
        assert used <= BASE
    else:
        assert used <= BASE | allowed


def test_cores_do_not_import_adapters() -> None:
    for module in sorted(set(MODULES) - ADAPTERS):
        assert not ADAPTERS & set(imports(MODULES[module])), module


def test_only_the_main_module_imports_the_command_line() -> None:
    users = {module for module in MODULES if "cli" in {part(name) for name in imports(MODULES[module])}}
    assert {module for module in users if part(module) != "cli"} == {"composer_obs.__main__"}


def test_every_adapter_exists_and_is_one() -> None:
    for adapter in ADAPTERS:
        assert "composer" in {name.partition(".")[0] for name in imports(MODULES[adapter])}, adapter


@pytest.mark.parametrize("module", sorted(set(MODULES) - ADAPTERS - {"composer_obs.__main__"}))
def test_what_a_module_says_is_public_is_there(module: str) -> None:
    loaded = importlib.import_module(module)
    for name in getattr(loaded, "__all__", []):
        assert hasattr(loaded, name)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_every_module_has_a_docstring_and_defers_annotations(module: str) -> None:
    tree = ast.parse(MODULES[module].read_bytes())
    assert ast.get_docstring(tree)
    if len(tree.body) > 1:
        assert "__future__" in set(imports(MODULES[module]))


def loaded_by(code: str) -> set[str]:
    """Top-level packages in a fresh interpreter after this code."""
    script = f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}}, sep='\\n', file=sys.__stdout__)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.split())


HEAVY = {"torch", "composer", "boto3", "botocore", "numpy", "rich", "awscrt", "yaml"}


def test_the_package_itself_imports_nothing_foreign() -> None:
    assert not loaded_by("import composer_obs; composer_obs.Finding") & (HEAVY | {"click"})


def test_help_imports_nothing_heavy() -> None:
    code = """
import io
from composer_obs.cli import cli
sys.stdout = io.StringIO()
for arguments in (["--help"], ["audit", "--help"], ["lint", "--help"], ["run", "--help"], ["rule", "UP001"], ["plugins"]):
    try:
        cli(arguments)
    except SystemExit as ended:
        assert ended.code == 0
"""
    assert not loaded_by(code) & HEAVY


def test_every_core_imports_without_composer_and_torch() -> None:
    cores = sorted(set(MODULES) - ADAPTERS - {"composer_obs.__main__"})
    assert not loaded_by("\n".join(f"import {core}" for core in cores)) & {"torch", "composer"}


def test_public_names_are_loaded_on_first_use() -> None:
    assert "composer" not in loaded_by("import composer_obs; dir(composer_obs)")
    assert set(composer_obs.__all__) <= set(dir(composer_obs))
    assert composer_obs.UploadAuditor.__module__ == "composer_obs.uploads.auditor"
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        _ = composer_obs.Nonsense
