"""Attach plug-ins to every Trainer that a script makes, without a change to the script.

``composer`` is not imported for it: a script may set variables of the environment that count only
until then. So the Trainer is changed at the moment when the script imports it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from composer_obs.plugins import CALLBACKS, LOGGERS, Plugin, find

__all__ = ["Attachment", "attach"]

_TRAINER_MODULE = "composer.trainer.trainer"
#: The Trainer's argument that takes plug-ins of a kind.
_ARGUMENTS = {"logger": "loggers", "callback": "callbacks"}


class Attachment:
    """Plug-ins, and their options, that each Trainer is to have.

    Args:
        plugins (Mapping[str, Mapping[str, Any]]): Options of each plug-in by its name.

    Raises:
        PluginError: No such plug-in is installed; the message lists those that are.
    """

    def __init__(self, plugins: Mapping[str, Mapping[str, Any]]) -> None:
        self._plugins = [(find(name, LOGGERS, CALLBACKS), dict(options)) for name, options in plugins.items()]

    def add_to(self, arguments: dict[str, Any]) -> None:
        """Add the plug-ins to a Trainer's arguments; what is there already is left alone.

        Raises:
            PluginError: A plug-in cannot be imported, or refuses its options.
        """
        present = [*_as_list(arguments.get("loggers")), *_as_list(arguments.get("callbacks"))]
        for plugin, options in self._plugins:
            if not _has_one(present, plugin):
                name = _ARGUMENTS[plugin.kind]
                arguments[name] = [*_as_list(arguments.get(name)), plugin.build(**options)]


def attach(attachment: Attachment) -> None:
    """From now on every `composer.Trainer` of this process is made with the plug-ins.

    Args:
        attachment (Attachment): The plug-ins.
    """
    if (module := sys.modules.get(_TRAINER_MODULE)) is not None:
        _wrap(module, attachment)
    else:
        sys.meta_path.insert(0, _OnImport(lambda module: _wrap(module, attachment)))


class _OnImport(importlib.abc.MetaPathFinder):
    """Calls ``action`` on Composer's trainer module once it has been executed."""

    def __init__(self, action: Callable[[ModuleType], None]) -> None:
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname != _TRAINER_MODULE:
            return None
        sys.meta_path.remove(self)  # The finders behind this one know where the module is.
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._action(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _wrap(module: ModuleType, attachment: Attachment) -> None:
    original = module.Trainer.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            original(*args, **kwargs)  # It says itself what is wrong with its arguments.
            return
        attachment.add_to(bound.arguments)
        original(*bound.args, **bound.kwargs)

    module.Trainer.__init__ = init


def _as_list(value: Any) -> list[Any]:
    """One, several or none, as the Trainer takes them."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, Sequence) else [value]


def _has_one(present: Sequence[Any], plugin: Plugin) -> bool:
    factory = plugin.load()
    return isinstance(factory, type) and any(isinstance(callback, factory) for callback in present)
