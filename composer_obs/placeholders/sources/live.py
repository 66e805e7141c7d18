"""Calls out of live objects: the arguments of a Trainer to be, or the parts of one that is there.

Objects are known by the names of their classes, so that nothing of Composer is imported. What equals
a parameter's default counts as not given, because an object cannot tell the two apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from composer_obs.placeholders.calls import Call, Constant, Items, Text, Unknown, Value
from composer_obs.placeholders.parameter import Target
from composer_obs.placeholders.table import TARGETS

__all__ = ["call_of", "trainer_call"]

# Of mappings and lists in one another; a list can even hold itself.
_DEEPEST = 20


def trainer_call(arguments: Mapping[str, Any]) -> Call:
    """The call of a Trainer with these arguments.

    Args:
        arguments (Mapping[str, Any]): Keyword arguments of `composer.Trainer`, as they would be passed.

    Example:
        >>> call = trainer_call({"save_folder": "ckpt", "loggers": [], "model": object()})
        >>> call.arguments["save_folder"].value
        'ckpt'
    """
    return Call("Trainer", {name: _value(value) for name, value in arguments.items()})


def _value(value: Any, depth: int = 0) -> Value:
    try:
        return _known_value(value, depth) if depth < _DEEPEST else Unknown("…")
    except Exception:
        # Objects may do anything when they are looked at; then they stay unknown.
        return Unknown(type(value).__name__)


def _known_value(value: Any, depth: int) -> Value:
    if value is None or isinstance(value, bool):
        return Constant(value)
    # The methods of the types themselves: a subclass may have replaced them, a mock has none.
    if isinstance(value, str):
        return Text(str.__str__(value))
    if isinstance(value, int):
        return Constant(int.__int__(value))
    if isinstance(value, float):
        return Constant(float.__float__(value))
    if isinstance(value, os.PathLike):
        return Text(str(os.fspath(value)))
    if isinstance(value, Mapping):
        return Call("dict", {str(key): _value(item, depth + 1) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return Items(tuple(_value(item, depth + 1) for item in value))
    return call_of(value) or Unknown(type(value).__name__)


def call_of(thing: Any) -> Call | None:
    """The call that made an object of Composer or LLM Foundry; ``None`` for other objects.

    An object that raises when it is looked at is another object.

    Args:
        thing (Any): A callback, logger, profiler, trace handler or schedule.
    """
    try:
        return _call_of(thing)
    except Exception:
        return None


def _call_of(thing: Any) -> Call | None:
    if (schedule := _schedule(thing)) is not None:
        return schedule
    if type(thing).__module__.partition(".")[0] == "composer_obs":
        return Call(type(thing).__name__, {})  # Ours write no files under templates.
    target = _target(type(thing))
    if target is None:
        return None
    call = Call(target.name, {})
    for name, parameter in target.parameters.items():
        if parameter.attribute == "":
            continue
        value = _attribute(thing, parameter.attribute or name)
        if isinstance(value, str | os.PathLike):
            found = _value(value)
            if not isinstance(found, Text) or found.value != parameter.default:
                call.arguments[name] = found
        elif value is None and parameter.default is not None:
            call.arguments[name] = Constant(None)
    for name in target.arguments:
        value = _attribute(thing, name)
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]  # FileLogger keeps its overwrite like that.
        if isinstance(value, bool | int | float | str) and value != target.arguments[name]:
            call.arguments[name] = _value(value)
    if target.name == "CheckpointSaver":
        _restore_uri(thing, call)
    if target.name == "RemoteUploaderDownloader":
        _restore_bucket(thing, call)
    if target.name == "FileLogger" and _value_of(call, "remote_file_name") == _value_of(call, "filename"):
        call.arguments.pop("remote_file_name", None)  # Which is its default.
    if target.name == "Profiler":
        call.complete = False  # What it was given went on to its parts.
        listed = (*_listed(thing, "_callbacks"), *_listed(thing, "_trace_handlers"))
        parts = {id(part): part for part in listed}.values()
        call.arguments["trace_handlers"] = Items(tuple(filter(None, map(call_of, parts))))
        call.arguments["schedule"] = call_of(getattr(thing, "schedule", None)) or Unknown("schedule")
    return call


def _value_of(call: Call, name: str) -> str | None:
    value = call.arguments.get(name)
    return value.value if isinstance(value, Text) else None


def _target(cls: type) -> Target | None:
    """Of the first class that the table knows; a subclass may well do something else with its names."""
    for base in cls.__mro__:
        target = TARGETS.get(base.__name__)
        if target is not None and base.__module__.partition(".")[0] == target.package:
            return target
    return None


def _attribute(thing: Any, path: str) -> Any:
    for name in path.split("."):
        thing = getattr(thing, name, None)
    return thing


def _listed(thing: Any, name: str) -> Iterable[Any]:
    value = getattr(thing, name, ())
    return value if isinstance(value, list | tuple) else ()


def _restore_uri(saver: Any, call: Call) -> None:
    """A CheckpointSaver strips its folder; its uploader still knows the URI."""
    folder = getattr(getattr(saver, "remote_uploader", None), "remote_folder", None)
    if isinstance(folder, str):
        call.arguments["folder"] = Text(folder)
    elif isinstance(folder := call.arguments.get("folder"), Text) and not folder.value:
        del call.arguments["folder"]


def _restore_bucket(uploader: Any, call: Call) -> None:
    scheme, bucket = (
        getattr(uploader, "remote_backend_name", None),
        getattr(uploader, "remote_bucket_name", None),
    )
    if isinstance(scheme, str) and isinstance(bucket, str):
        call.arguments["bucket_uri"] = Text(f"{scheme}://{bucket}")


def _schedule(thing: Any) -> Call | None:
    """A schedule that `cyclic_schedule` made is a closure over its arguments."""
    code = getattr(thing, "__code__", None)
    if code is None or not getattr(thing, "__qualname__", "").startswith("cyclic_schedule."):
        return None
    cells = dict(zip(code.co_freevars, thing.__closure__ or (), strict=False))
    names = TARGETS["cyclic_schedule"].positional
    return Call(
        "cyclic_schedule", {name: _value(cells[name].cell_contents) for name in names if name in cells}
    )
