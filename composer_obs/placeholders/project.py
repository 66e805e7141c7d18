"""Linting many files, on several cores where that pays."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from composer_obs.findings import FileLocation, Finding, Rule, Severity
from composer_obs.placeholders.fixes import apply_edits
from composer_obs.placeholders.lint import Diagnostic, Options, is_readable, language_of, lint_text
from composer_obs.placeholders.reading import Prefilter, Source, read_source
from composer_obs.placeholders.rules.syntax import UNREADABLE_FILE
from composer_obs.placeholders.settings import Settings
from composer_obs.placeholders.sources.candidates import PYTHON, YAML
from composer_obs.placeholders.uses import Facts

__all__ = ["FileResult", "Linting", "lint_files"]

# Below this, starting processes takes longer than what they save.
_WORTH_PROCESSES = 400
_CHUNK = 64
# A fix can uncover another; more rounds than that would mean that two undo each other.
_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Linting:
    """How files are linted.

    Args:
        settings (Settings): Of the project.
        facts (Facts): What is known about the run.
        selected (Callable[[Rule], bool]): Whether a rule counts at all.
        fix (str): Which fixes to apply: ``""`` none, ``"safe"`` or ``"unsafe"`` for all.
        named (frozenset[str]): Files that were asked for by name: read whatever is in them.
    """

    settings: Settings = field(default_factory=Settings)
    facts: Facts = field(default_factory=Facts)
    selected: Callable[[Rule], bool] = lambda rule: True  # noqa: ARG005
    fix: str = ""
    named: frozenset[str] = frozenset()

    def options(self, path: str) -> Options:
        """The options for one file."""
        ignored = self.settings.ignored_in(path)
        selected = self.selected
        return Options(self.facts, lambda rule: selected(rule) and not rule.code.startswith(ignored))


@dataclass(frozen=True, slots=True)
class FileResult:
    """What became of one file.

    Args:
        source (Source): The file as it was read.
        diagnostics (list[Diagnostic]): What is wrong with it, after fixing.
        fixed_text (str, optional): Its text with the fixes applied, if there were any.
        fixes (int): How many fixes were applied.
    """

    source: Source
    diagnostics: list[Diagnostic]
    fixed_text: str | None = None
    fixes: int = 0


def lint_files(paths: Iterable[str], linting: Linting) -> Iterator[FileResult]:
    """Lint files; yields those in which there is something to say, in their order.

    Args:
        paths (Iterable[str]): The files; they may be found while others are linted.
        linting (Linting): How.
    """
    remaining = iter(paths)
    first = list(islice(remaining, _WORTH_PROCESSES))
    cores = os.cpu_count() or 1
    if len(first) < _WORTH_PROCESSES or cores == 1:
        yield from _lint_some(chain(first, remaining), linting)
    else:
        yield from _in_processes(_chunks(chain(first, remaining)), linting, cores)


def _chunks(paths: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(paths, _CHUNK)):
        yield chunk


def _in_processes(chunks: Iterable[list[str]], linting: Linting, processes: int) -> Iterator[FileResult]:
    import multiprocessing

    # Nothing here has threads, so a fork is safe, and it costs a tenth of a new interpreter.
    method = "fork" if sys.platform == "linux" else None
    global _shared  # noqa: PLW0603 - what a fork hands on without pickling
    _shared = linting
    with multiprocessing.get_context(method).Pool(processes, _adopt, (None if method else linting,)) as pool:
        for results in pool.imap(_lint_shared, chunks):
            yield from results


_shared: Linting | None = None


def _adopt(linting: Linting | None) -> None:
    global _shared  # noqa: PLW0603
    _shared = linting or _shared
    # An interrupt is the parent's to handle. Faults reach it as results; what is left to say here is
    # that the parent has died.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def _lint_shared(paths: list[str]) -> list[FileResult]:
    assert _shared is not None
    return list(_lint_some(paths, _shared))


def _lint_some(paths: Iterable[str], linting: Linting) -> Iterator[FileResult]:
    python, yaml = Prefilter(PYTHON), Prefilter(YAML)
    for path in paths:
        prefilter = yaml if language_of(path) == "yaml" else python
        source = read_source(path, prefilter=None if path in linting.named else prefilter)
        if source.text is None and source.problem is None:
            continue
        result = lint_source(source, linting)
        if result.diagnostics or result.fixes:
            yield result


def lint_source(source: Source, linting: Linting) -> FileResult:
    """Lint one source, and fix it as far as that is asked for."""
    options = linting.options(source.path)
    unreadable = _unreadable(source, options)
    if source.text is None:
        return FileResult(source, unreadable)
    try:
        text, fixes, diagnostics = _fixed(source.text, source.path, linting, options)
    except Exception as error:
        # One file must not cost the others.
        fault = f"the linter itself failed on it with {type(error).__name__}: {error}"
        return FileResult(source, _unreadable(replace(source, text=None, problem=fault), options))
    fixed = text if text != source.text else None
    return FileResult(source, [*unreadable, *diagnostics], fixed, fixes)


def _fixed(text: str, path: str, linting: Linting, options: Options) -> tuple[str, int, list[Diagnostic]]:
    """The text after all fixes that are asked for, how many they were, and what is left."""
    diagnostics = lint_text(text, path, options)
    fixes, seen = 0, {text}
    for _ in range(_ROUNDS if linting.fix else 0):
        wanted = [d.edits for d in diagnostics if d.edits and (linting.fix == "unsafe" or d.is_safe)]
        changed, applied = apply_edits(text, wanted)
        # Two fixes that undo each other, and one that breaks the file, are faults of ours; either way
        # the file is better left alone.
        if changed in seen or not is_readable(changed, path):
            break
        seen.add(changed)
        text, fixes = changed, fixes + applied
        diagnostics = lint_text(text, path, options)
    return text, fixes, diagnostics


def _unreadable(source: Source, options: Options) -> list[Diagnostic]:
    if source.problem is None or not options.enabled(UNREADABLE_FILE):
        return []
    # What can be read in part is linted all the same, and only warned of.
    severity = Severity.WARNING if source.text is not None else None
    where = FileLocation(source.path)
    return [Diagnostic(Finding(UNREADABLE_FILE, source.problem, where, severity=severity))]
