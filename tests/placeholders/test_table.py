"""The baked table against the installed Composer: a release that moves a template fails here."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest

from composer_obs.placeholders.parameter import (
    DIST,
    INTEGER_TIME,
    MLFLOW,
    TIME,
    URI_SCHEMES,
    Parameter,
    Target,
)
from composer_obs.placeholders.table import TARGETS, parameters

#: Modules of Composer in which the classes of the table are, and every class that is public there.
HOMES = ("composer", "composer.loggers", "composer.callbacks", "composer.profiler", "composer.profiler.torch_profiler",
         "composer.checkpoint.save", "composer.utils.parallelism")  # fmt: skip


def find(target: Target) -> Any:
    """The class or function itself."""
    first, _, method = target.name.partition(".")
    for home in HOMES:
        found = getattr(importlib.import_module(home), first, None)
        if found is not None:
            return getattr(found, method) if method else found
    raise AssertionError(f"Composer has no {target.name}")


def signature_of(target: Target) -> dict[str, inspect.Parameter]:
    listed = dict(inspect.signature(find(target)).parameters)
    listed.pop("self", None)
    return listed


OF_COMPOSER = [target for target in TARGETS.values() if target.package == "composer"]
# Its arguments are a dataclass's fields, made from keyword arguments.
WITH_SIGNATURE = [target for target in OF_COMPOSER if target.name != "FSDPConfig"]


@pytest.mark.parametrize("target", WITH_SIGNATURE, ids=lambda target: target.name)
def test_names_order_and_defaults_are_those_of_composer(target: Target) -> None:
    signature = signature_of(target)
    positional = [n for n, p in signature.items() if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert list(target.positional) == positional[: len(target.positional)]
    for name, parameter in target.parameters.items():
        default = signature[name].default
        assert parameter.default == (None if default is inspect.Parameter.empty else default), name
    for name, default in target.arguments.items():
        assert signature[name].default == default, name


def test_the_fsdp_configuration_has_the_prefix_and_its_default() -> None:
    from composer.utils.parallelism import FSDPConfig

    made = FSDPConfig()
    for name, parameter in TARGETS["FSDPConfig"].parameters.items():
        assert getattr(made, name) == parameter.default
    assert made.state_dict_type == TARGETS["FSDPConfig"].arguments["state_dict_type"]


def template_defaults() -> set[tuple[str, str]]:
    """Every argument of a public class whose default holds a placeholder."""
    found = set()
    for home in HOMES:
        for name, thing in vars(importlib.import_module(home)).items():
            module = getattr(thing, "__module__", None) or ""
            if name.startswith("_") or not callable(thing) or not module.startswith("composer."):
                continue
            try:
                signature = inspect.signature(thing)
            except (TypeError, ValueError):
                continue
            for argument, parameter in signature.parameters.items():
                if isinstance(parameter.default, str) and "{" in parameter.default:
                    found.add((name, argument))
    return found


def test_no_argument_whose_default_is_a_template_is_missing_from_the_table() -> None:
    found = template_defaults()
    assert len(found) > 20
    assert found <= {(parameter.owner, parameter.name) for parameter in parameters()}


def format_names(function: Any) -> set[str]:
    """The names that a formatter of Composer really fills in."""
    import composer.utils.file_helpers as helpers

    filled: dict[str, Any] = {}
    original = helpers.partial_format
    helpers.partial_format = lambda template, **given: filled.update(given) or template  # type: ignore[assignment]
    try:
        from composer.core import Timestamp

        arguments: tuple[Any, ...] = ("x", "run", Timestamp())
        function(*arguments[: 3 if "timestamp" in inspect.signature(function).parameters else 2])
    finally:
        helpers.partial_format = original
    return set(filled)


def test_the_sets_of_placeholders_are_what_the_formatters_fill_in() -> None:
    from composer.utils import format_name_with_dist, format_name_with_dist_and_time

    assert format_names(format_name_with_dist) == DIST
    assert format_names(format_name_with_dist_and_time) == DIST | TIME


def test_times_are_of_the_types_that_the_table_says() -> None:
    from composer.core import Timestamp
    from composer.utils import format_name_with_dist_and_time

    for name in TIME:
        filled = format_name_with_dist_and_time(f"{{{name}!r}}", "run", Timestamp())
        assert isinstance(ast.literal_eval(filled), int if name in INTEGER_TIME else float)


def test_the_names_of_mlflow_are_composers() -> None:
    from composer.utils.object_store import mlflow_object_store

    names = {
        mlflow_object_store.MLFLOW_EXPERIMENT_ID_FORMAT_KEY,
        mlflow_object_store.MLFLOW_RUN_ID_FORMAT_KEY,
    }
    assert names == MLFLOW


def test_the_schemes_are_those_that_composer_has_stores_for() -> None:
    from composer.utils.file_helpers import BACKEND_TO_OBJECT_STORE_FACTORY

    assert {*BACKEND_TO_OBJECT_STORE_FACTORY, "dbfs"} == URI_SCHEMES


# Which formatter each template of a class goes through, read from Composer's source: the attribute
# that holds it, and whether the call knows training time.
FORMATTERS = {
    "FileLogger": {"filename_format": False, "remote_file_name_format": False},
    "TorchProfiler": {
        "folder": False, "filename": True, "remote_file_name": True, "memory_filename": True,
        "memory_remote_file_name": True,
    },
    "JSONTraceHandler": {
        "folder": False, "filename": True, "remote_file_name": True, "merged_trace_filename": False,
        "merged_trace_remote_file_name": False,
    },
    "MemorySnapshot": {"folder": False, "filename": True},
    "OOMObserver": {"folder": False, "filename": True},
    "RemoteUploaderDownloader": {"file_path_format_string": False},
}  # fmt: skip


def formatter_calls(cls: type) -> dict[str, bool]:
    """Attributes of ``self`` that are given to a formatter in a class's source, and to which one."""
    tree = ast.parse(Path(inspect.getsourcefile(cls) or "").read_text())
    found: dict[str, bool] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id not in {"format_name_with_dist", "format_name_with_dist_and_time"}:
            continue
        for inner in ast.walk(node):
            if (
                isinstance(inner, ast.Attribute)
                and isinstance(inner.value, ast.Name)
                and inner.value.id == "self"
            ):
                found[inner.attr] = node.func.id.endswith("_and_time") or found.get(inner.attr, False)
    return found


@pytest.mark.parametrize("name", sorted(FORMATTERS))
def test_each_template_goes_through_the_formatter_that_the_table_says(name: str) -> None:
    called = formatter_calls(find(TARGETS[name]))
    for attribute, with_time in FORMATTERS[name].items():
        assert called[attribute] is with_time, attribute
    by_attribute: dict[str, Parameter] = {
        parameter.attribute or argument: parameter for argument, parameter in TARGETS[name].parameters.items()
    }
    for attribute, with_time in FORMATTERS[name].items():
        assert (by_attribute[attribute].legal >= TIME) is with_time, attribute


def test_live_attributes_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    required = {"LoadCheckpoint": ("x",), "ExportForInferenceCallback": ("torchscript", "x"), "MLPerfCallback": None,
                "RemoteUploaderDownloader": ("s3://bucket",)}  # fmt: skip
    for target in OF_COMPOSER:
        attributes = [p.attribute or n for n, p in target.parameters.items() if p.attribute != ""]
        arguments = required.get(target.name, ())
        if (
            not attributes
            or arguments is None
            or "." in target.name
            or target.name in {"Trainer", "MLFlowLogger"}
        ):
            continue
        thing = find(target)(*arguments)
        for path in attributes:
            value = thing
            for name in path.split("."):
                assert hasattr(value, name), (target.name, path)
                value = getattr(value, name)


FOUNDRY = {
    "HuggingFaceCheckpointer": ("save_folder", "save_interval", "huggingface_folder_name"),
    "MonolithicCheckpointSaver": ("save_folder", "batch_interval", "filename"),
}


@pytest.mark.parametrize("name", sorted(FOUNDRY))
def test_llm_foundrys_checkpointers_are_as_its_version_0_22_has_them(name: str) -> None:
    # Written down from its source; where it is installed, it is asked.
    assert TARGETS[name].positional == FOUNDRY[name]
    foundry = importlib.util.find_spec("llmfoundry")
    if foundry is None or foundry.origin is None:
        return
    folder = Path(foundry.origin).parent / "callbacks"
    definitions = {
        node.name: node
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    init = next(n for n in definitions[name].body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    assert tuple(argument.arg for argument in init.args.args[1:4]) == FOUNDRY[name]
