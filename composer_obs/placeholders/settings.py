"""What a project says about linting in its ``pyproject.toml``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from composer_obs.errors import InvalidInputError
from composer_obs.placeholders.gitignore import Patterns
from composer_obs.placeholders.reading import read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["InvalidSettingsError", "Settings", "load_settings"]

_TABLE = "tool.composer_obs.lint"
# RFC 3986, section 3.1.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


class InvalidSettingsError(InvalidInputError):
    """A ``pyproject.toml`` says something that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a project.

    Args:
        path (str, optional): The file that they come from. Default: ``None``, no file.
        select (tuple[str, ...]): Beginnings of the codes that count. Default: all.
        ignore (tuple[str, ...]): Beginnings of the codes that do not count.
        exclude (tuple[str, ...]): Patterns, as in ``.gitignore``, of what is left out; relative to `root`.
        schemes (tuple[str, ...]): URI schemes that are legal beside Composer's own, in lower case.
        world_size (int, optional): How many ranks run. Default: ``None``, not known.
        per_file_ignores (Mapping[str, tuple[str, ...]]): Beginnings of codes that do not count in the
            files that a pattern matches; patterns as in ``exclude``.

    Example:
        >>> settings = Settings(per_file_ignores={"tests/": ("PH3",), "*.yaml": ("PH101",)})
        >>> settings.ignored_in("tests/runs/a.yaml")
        ('PH3', 'PH101')
    """

    path: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    world_size: int | None = None
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The folder that patterns are relative to."""
        return os.path.dirname(self.path) if self.path else os.getcwd()

    def ignored_in(self, path: str) -> tuple[str, ...]:
        """The beginnings of codes that do not count in a file."""
        if not self.per_file_ignores:
            return ()
        relative = os.path.relpath(os.path.realpath(path), self.root)
        parts = relative.split(os.sep)
        codes: dict[str, None] = {}
        for pattern, ignored in self.per_file_ignores.items():
            patterns = Patterns([pattern])
            parents = ("/".join(parts[:length]) for length in range(1, len(parts)))
            if patterns.verdict(relative) or any(patterns.verdict(parent, folder=True) for parent in parents):
                codes.update(dict.fromkeys(ignored))
        return tuple(codes)


def load_settings(start: str = ".") -> Settings:
    """The settings in force for a file or folder.

    They are in the table ``[tool.composer_obs.lint]`` of the nearest ``pyproject.toml`` at or above it
    that has one, up to the top of the repository: ``select``, ``ignore``, ``exclude``, ``schemes``,
    ``world-size`` and ``per-file-ignores``, as `Settings` has them.

    Args:
        start (str): A file or folder. Default: the current folder.

    Returns:
        `Settings` without a ``path`` if there are none.

    Raises:
        InvalidSettingsError: A file cannot be understood; the message says where and what is expected.
    """
    folder = os.path.realpath(start)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    while True:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.lexists(path) and (table := _table(path)) is not None:
            return Settings(path, **_settings(path, table))
        parent = os.path.dirname(folder)
        if parent == folder or os.path.lexists(os.path.join(folder, ".git")):
            return Settings()
        folder = parent


def _table(path: str) -> Mapping[str, Any] | None:
    data = read_bytes(path)
    if isinstance(data, str):
        raise InvalidSettingsError(f"cannot read {path}: {data}")
    try:
        tool = tomllib.loads(data.decode()).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSettingsError(f"{path} is not valid TOML: {error}") from None
    if not isinstance(tool, dict):
        return None
    if "composer-obs" in tool:
        raise InvalidSettingsError(f"{path}: [tool.composer-obs] is not read; write [{_TABLE}]")
    ours = tool.get("composer_obs", {})
    if not isinstance(ours, dict):
        raise InvalidSettingsError(f"{path}: tool.composer_obs has to be a table; write [{_TABLE}]")
    if unknown := ours.keys() - {"lint"}:
        raise InvalidSettingsError(f"{path}: unknown key tool.composer_obs.{min(unknown)}; write [{_TABLE}]")
    table = ours.get("lint")
    if table is not None and not isinstance(table, dict):
        raise InvalidSettingsError(f"{path}: {_TABLE} has to be a table; write [{_TABLE}]")
    return table


class _Mismatch(Exception):  # noqa: N818 - never leaves this module
    """A value is not what is expected, which is the argument."""


def _settings(path: str, table: Mapping[str, Any]) -> dict[str, Any]:
    settings = {}
    for key, value in table.items():
        if key not in _KEYS:
            similar = get_close_matches(key.replace("_", "-"), _KEYS, n=1)
            advice = f"did you mean {similar[0]}?" if similar else f"known are {', '.join(sorted(_KEYS))}"
            raise InvalidSettingsError(f"{path}: unknown key {_TABLE}.{key}; {advice}")
        try:
            settings[key.replace("-", "_")] = _KEYS[key](value)
        except _Mismatch as mismatch:
            found = repr(value) if len(repr(value)) <= 60 else type(value).__name__
            raise InvalidSettingsError(f"{path}: {_TABLE}.{key} has to be {mismatch}, not {found}") from None
    return settings


def _texts(value: Any, expected: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise _Mismatch(expected)
    return tuple(item.strip() for item in value)


def _codes(value: Any) -> tuple[str, ...]:
    return _texts(value, 'a list of codes or their beginnings, e.g. ["PH3", "PH101"]')


def _exclude(value: Any) -> tuple[str, ...]:
    expected = 'a list of patterns as in .gitignore, e.g. ["/old/", "*.gen.yaml"]'
    _texts(value, expected)
    return tuple(value)  # a space may be meant


def _schemes(value: Any) -> tuple[str, ...]:
    expected = 'a list of URI schemes without "://", e.g. ["hf"]'
    schemes = _texts(value, expected)
    if not all(map(_SCHEME.fullmatch, schemes)):
        raise _Mismatch(expected)
    return tuple(scheme.lower() for scheme in schemes)


def _world_size(value: Any) -> int:
    if type(value) is not int or value < 1:  # a boolean is an int, too
        raise _Mismatch("the number of ranks, e.g. 16")
    return value


def _per_file_ignores(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise _Mismatch('a table of patterns and codes, e.g. {"tests/" = ["PH3"]}')
    try:
        return {pattern: _codes(codes) for pattern, codes in value.items()}
    except _Mismatch:
        raise _Mismatch('a table of patterns, each with a list of codes, e.g. {"tests/" = ["PH3"]}') from None


_KEYS: dict[str, Callable[[Any], Any]] = {
    "exclude": _exclude,
    "ignore": _codes,
    "per-file-ignores": _per_file_ignores,
    "schemes": _schemes,
    "select": _codes,
    "world-size": _world_size,
}
