"""Which files are looked at.

Whatever lies in a tree is survived: links that lead back or nowhere, named pipes, folders that cannot
be read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from composer_obs.errors import InvalidInputError
from composer_obs.placeholders.gitignore import Patterns
from composer_obs.placeholders.reading import read_bytes, reason

__all__ = ["SUFFIXES", "InvalidPathError", "find_files"]

#: The files of a folder that are looked at.
SUFFIXES = (".py", ".pyi", ".yaml", ".yml", ".ipynb")

# Version control, environments, caches and other people's packages.
_SKIPPED = frozenset(
    """.bzr .direnv .eggs .git .hg .ipynb_checkpoints .jj .mypy_cache .nox .pyenv .pytest_cache .pytype
    .ruff_cache .svn .tox .venv __pycache__ __pypackages__ node_modules site-packages""".split()
)

# How many characters of a path stand before what the patterns speak of, and the patterns.
_Rule = tuple[int, Patterns]


class InvalidPathError(InvalidInputError):
    """A path that was asked for is not there or cannot be reached."""


def _silent(note: str) -> None:
    del note


def find_files(
    paths: Sequence[str],
    *,
    exclude: Sequence[str] = (),
    root: str | None = None,
    respect_gitignore: bool = True,
    note: Callable[[str], None] = _silent,
) -> Iterator[str]:
    """The files to look at, each once, in an order that depends on nothing but their names.

    Files that are named are always taken. Folders are walked: files with one of the `SUFFIXES` are
    taken unless they are excluded or ignored. Links are followed after the rest of the folder, so
    that a file is shown by its own path where it has one there.

    Args:
        paths (Sequence[str]): Files and folders.
        exclude (Sequence[str]): Patterns as in ``.gitignore``. Default: none.
        root (str, optional): The folder that ``exclude`` is relative to; for paths outside of it, the
            folder that holds the path. Default: ``None``, the current one.
        respect_gitignore (bool): Leave out what the repository's ``.gitignore`` files and its
            ``.git/info/exclude`` ignore. The user's own settings for Git do not count, so that everybody
            gets the same files. Default: ``True``.
        note (Callable[[str], None]): Called with a sentence on what could not be looked into.
            Default: nothing is said.

    Raises:
        InvalidPathError: A path does not exist or cannot be reached; before any file is given.
    """
    kinds = [_kind(path) for path in paths]
    walk = _Walk(Patterns(exclude), os.path.realpath(root or "."), respect_gitignore, note)
    return walk.files(zip(paths, kinds, strict=True))


def _kind(path: str) -> int:
    try:
        return stat.S_IFMT(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidPathError(f"no such file or folder: {path!r}; check the spelling") from None
    except (OSError, ValueError) as error:
        raise InvalidPathError(f"cannot reach {path!r}: {reason(error)}") from None


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder to walk: as it is shown, as rules see it, and where it really is."""

    shown: str
    place: str
    real: str
    rules: tuple[_Rule, ...]
    excluded: _Rule


@dataclass(slots=True)
class _Walk:
    exclude: Patterns
    root: str
    respect_gitignore: bool
    note: Callable[[str], None]
    seen: set[str] = field(default_factory=set)

    def files(self, paths: Iterable[tuple[str, int]]) -> Iterator[str]:
        for path, kind in paths:
            real = os.path.realpath(path)
            if kind == stat.S_IFDIR:
                shown = "" if path == os.curdir else path
                yield from self._walk(
                    _Folder(shown, real, real, self._rules_above(real), self._excluded(real))
                )
            elif self._first(real):
                yield path

    def _first(self, real: str) -> bool:
        if real in self.seen:
            return False
        self.seen.add(real)
        return True

    def _excluded(self, real: str) -> _Rule:
        within = _inside(real).startswith(_inside(self.root))
        return len(_inside(self.root if within else os.path.dirname(real))), self.exclude

    def _rules_above(self, real: str) -> tuple[_Rule, ...]:
        """The rules of the repository for a folder, without those inside of it."""
        above: list[str] = []
        folder = real
        while not os.path.lexists(os.path.join(folder, ".git")):
            parent = os.path.dirname(folder)
            if parent == folder or not self.respect_gitignore:
                return ()
            above.append(folder := parent)
        if not above:
            return ()
        rules = self._repository_rules(folder)
        for outer in reversed(above):
            rules += self._patterns(outer, ".gitignore")
        return rules

    def _repository_rules(self, folder: str) -> tuple[_Rule, ...]:
        return self._patterns(folder, os.path.join(".git", "info", "exclude"))

    def _patterns(self, folder: str, name: str) -> tuple[_Rule, ...]:
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            return ()
        data = read_bytes(path)
        if isinstance(data, str):
            self.note(f"{path} is not respected: {data}")
            return ()
        return ((len(_inside(folder)), Patterns.from_bytes(data)),)

    def _walk(self, start: _Folder) -> Iterator[str]:
        folders, links = [start], list[tuple[str, str, _Folder]]()
        while folders or links:
            while folders:
                folder = folders.pop()
                if self._first(folder.real):
                    yield from self._look_into(folder, folders, links, asked_for=folder is start)
            # Only now: what a link leads to may have a path of its own in here.
            if links:
                name, real, folder = links.pop(0)
                shown = os.path.join(folder.shown, name)
                if os.path.isdir(real):
                    place = _inside(folder.place) + name
                    folders.append(_Folder(shown, place, real, folder.rules, folder.excluded))
                elif self._first(real):
                    yield shown

    def _look_into(
        self,
        folder: _Folder,
        folders: list[_Folder],
        links: list[tuple[str, str, _Folder]],
        *,
        asked_for: bool,
    ) -> Iterator[str]:
        try:
            with os.scandir(folder.real) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            self.note(f"{folder.shown or '.'} was not looked into: {reason(error)}")
            return
        names = {entry.name for entry in entries}
        if "pyvenv.cfg" in names and not asked_for:
            return
        rules = folder.rules
        if self.respect_gitignore:
            if ".git" in names:
                rules = self._repository_rules(folder.place)
            if ".gitignore" in names:
                rules += self._patterns(folder.place, ".gitignore")
        folder = replace(folder, rules=rules)
        place, real, below = _inside(folder.place), _inside(folder.real), []
        for entry in entries:
            name = entry.name
            try:
                is_folder, is_link = entry.is_dir(), entry.is_symlink()
                wanted = name not in _SKIPPED if is_folder else name.endswith(SUFFIXES)
                if is_link and not is_folder and not entry.is_file() and not os.path.exists(entry.path):
                    self.note(f"{os.path.join(folder.shown, name)} was skipped: it links to nothing")
                    continue
                if not wanted or not (is_folder or entry.is_file()):
                    continue
            except OSError as error:  # a link through a folder that cannot be searched, or to itself
                self.note(f"{os.path.join(folder.shown, name)} was skipped: {reason(error)}")
                continue
            if self._is_out(place + name, folder, is_folder=is_folder):
                continue
            if is_link:
                target = os.path.realpath(entry.path)
                leads_back = real.startswith(_inside(target))
                if not (is_folder and (leads_back or os.path.basename(target) in _SKIPPED)):
                    links.append((name, target, folder))
            elif is_folder:
                shown = os.path.join(folder.shown, name)
                below.append(_Folder(shown, place + name, real + name, rules, folder.excluded))
            elif self._first(real + name):
                yield os.path.join(folder.shown, name)
        folders.extend(reversed(below))

    def _is_out(self, place: str, folder: _Folder, *, is_folder: bool) -> bool:
        cut, patterns = folder.excluded
        if patterns.verdict(place[cut:], folder=is_folder):
            return True
        for cut, patterns in reversed(folder.rules):
            if (verdict := patterns.verdict(place[cut:], folder=is_folder)) is not None:
                return verdict
        return False


def _inside(folder: str) -> str:
    """What the path of everything in a folder begins with."""
    return folder if folder.endswith("/") else folder + "/"
