"""Entry points: which plug-ins are installed, and how to build one by name.

Two sets of groups name the same classes. LLM Foundry reads ``llmfoundry_callbacks`` and
``llmfoundry_loggers`` through `catalogue`, so its YAML files can name ours. Our own groups below
work without LLM Foundry, and any package may add to them.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from composer_obs.errors import InvalidInputError

__all__ = ["CALLBACKS", "LOGGERS", "STORES", "Plugin", "PluginError", "build", "discover", "find"]

CALLBACKS = "composer_obs.callbacks"
LOGGERS = "composer_obs.loggers"
STORES = "composer_obs.stores"

_KINDS = {CALLBACKS: "callback", LOGGERS: "logger", STORES: "store"}


class PluginError(InvalidInputError):
    """A plug-in is unknown or cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed entry point.

    Args:
        name (str): Name to build it by, e.g. ``"upload_auditor"``.
        kind (str): ``"callback"``, ``"logger"`` or ``"store"``.
        package (str): The distribution that declares it.
        version (str): That distribution's version.
        target (str): ``"module:attribute"``.
    """

    name: str
    kind: str
    package: str
    version: str
    target: str

    def load(self) -> Any:
        """Import the object.

        Raises:
            PluginError: The import fails.
        """
        point = importlib.metadata.EntryPoint(self.name, self.target, "")
        try:
            return point.load()
        except Exception as error:
            raise PluginError(
                f"the {self.kind} {self.name!r} of {self.package} {self.version} cannot be imported from "
                f"{self.target}: {type(error).__name__}: {error}"
            ) from error

    def build(self, **options: Any) -> Any:
        """Import the object and call it.

        Raises:
            PluginError: It cannot be imported, or refuses the options.
        """
        factory = self.load()
        try:
            return factory(**options)
        except (TypeError, ValueError) as error:
            raise PluginError(
                f"the {self.kind} {self.name!r} refuses its options {sorted(options)}: {error}"
            ) from error


def discover(*groups: str) -> Iterator[Plugin]:
    """Every plug-in of the groups (default: all of ours), by name; nothing is imported.

    Example:
        >>> "s3" in [plugin.name for plugin in discover(STORES)]
        True
    """
    for group in groups or tuple(_KINDS):
        for point in sorted(importlib.metadata.entry_points(group=group), key=lambda p: p.name):
            distribution = point.dist
            yield Plugin(
                name=point.name,
                kind=_KINDS.get(group, group),
                package=distribution.name if distribution is not None else "?",
                version=distribution.version if distribution is not None else "?",
                target=point.value,
            )


def find(name: str, *groups: str) -> Plugin:
    """The plug-in of that name.

    Raises:
        PluginError: There is none; the message lists those that there are.
    """
    plugins = list(discover(*groups))
    for plugin in plugins:
        if plugin.name == name:
            return plugin
    known = ", ".join(sorted(plugin.name for plugin in plugins)) or "none"
    raise PluginError(f"no plug-in is named {name!r}; installed are: {known}")


def build(name: str, **options: Any) -> Any:
    """Build a callback or logger by name.

    Args:
        name (str): As ``composer-obs plugins`` lists it.
        **options: Its constructor's arguments; values that YAML can hold.

    Raises:
        PluginError: No such plug-in, it cannot be imported, or it refuses the options.

    Example:
        >>> build("upload_auditor", timeout=60).timeout
        60.0
    """
    return find(name, LOGGERS, CALLBACKS).build(**options)
