"""Linting one source: from its text to what is wrong in it.

Pure and without state: the command line, the Callback and `lint_kwargs` all end here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from composer_obs.errors import ComposerObsError
from composer_obs.findings import FileLocation, Finding, Location, ObjectLocation, Rule
from composer_obs.placeholders.calls import Call
from composer_obs.placeholders.checks import Effect, Problem
from composer_obs.placeholders.fixes import Edit
from composer_obs.placeholders.rules import BLANKET_SUPPRESSION, CHECKS, UNUSED_SUPPRESSION
from composer_obs.placeholders.rules.syntax import UNREADABLE_FILE
from composer_obs.placeholders.sources import read
from composer_obs.placeholders.sources.literals import LineIndex, line_index
from composer_obs.placeholders.suppressions import Suppression, find_suppressions, removal
from composer_obs.placeholders.uses import Facts, Run

__all__ = ["Diagnostic", "Options", "is_readable", "language_of", "lint_calls", "lint_kwargs", "lint_text"]

# Of a line that is shown.
_LONGEST = 2000
_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".ipynb": "notebook"}


@dataclass(frozen=True, slots=True)
class Options:
    """How to lint.

    Args:
        facts (Facts): What is known about the run.
        enabled (Callable[[Rule], bool]): Whether a rule counts. Default: all do.
    """

    facts: Facts = field(default_factory=Facts)
    enabled: Callable[[Rule], bool] = lambda rule: True  # noqa: ARG005


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A finding, with the edits that put it right.

    Args:
        finding (Finding): What is wrong, and where.
        edits (tuple[Edit, ...]): To be applied together; empty if there is no automatic fix.
        effect (Effect, optional): What happens to the name.
    """

    finding: Finding
    edits: tuple[Edit, ...] = ()
    effect: Effect | None = None

    @property
    def is_safe(self) -> bool:
        """Whether its fix keeps what the author meant."""
        return bool(self.edits) and self.finding.rule.fix == "safe"


def language_of(path: str) -> str:
    """``"python"``, ``"yaml"`` or ``"notebook"``, by the file's name.

    Example:
        >>> language_of("train.yml"), language_of("train.py")
        ('yaml', 'python')
    """
    return next((name for suffix, name in _LANGUAGES.items() if path.lower().endswith(suffix)), "python")


def lint_kwargs(*, world_size: int | None = None, **trainer_kwargs: Any) -> list[Finding]:
    """Lint the keyword arguments of a Trainer before it is made.

    That is the last moment before folders are created and uploaders are started.

    Args:
        world_size (int, optional): The number of ranks. Default: ``None``, not known.
        **trainer_kwargs: What `composer.Trainer` would get; objects of Composer are looked into. What
            cannot be looked into is taken for unknown.

    Raises:
        ValueError: ``world_size`` is not a positive integer.

    Example:
        >>> findings = lint_kwargs(save_folder="ckpt", save_filename="{run_name}-ep{epoch}.pt")
        >>> [finding.rule.code for finding in findings]
        ['PH201']
    """
    from composer_obs.placeholders.sources.live import trainer_call

    if world_size is not None and (type(world_size) is not int or world_size < 1):
        raise ValueError(f"world_size must be a positive integer or None, not {world_size!r}")
    length = _length(trainer_kwargs.get("train_dataloader"))
    facts = Facts(world_size=world_size, batches_per_epoch=length)
    found = lint_calls([trainer_call(trainer_kwargs)], Options(facts))
    return [Finding(rule, p.message, ObjectLocation(p.object), p.fix, p.severity) for rule, p in found]


def _length(loader: object) -> int | None:
    try:
        return len(loader)  # type: ignore[arg-type]
    except Exception:
        return None


def lint_calls(
    calls: Iterable[Call], options: Options, language: str = "python"
) -> list[tuple[Rule, Problem]]:
    """What is wrong with calls, each thing once.

    Args:
        calls (Iterable[Call]): Outermost calls.
        options (Options): How.
        language (str): Of their source. Default: ``"python"``.
    """
    seen: dict[tuple[str, object, str], tuple[Rule, Problem]] = {}
    enabled = [check for check in CHECKS if options.enabled(check.rule)]
    for call in calls:
        run = Run(call, options.facts, language)
        for check in enabled:
            for problem in check.run(run):
                key = check.rule.code, problem.span or problem.object, problem.message
                seen.setdefault(key, (check.rule, problem))
    return list(seen.values())


def lint_text(text: str, path: str, options: Options | None = None) -> list[Diagnostic]:
    """Lint the text of a file.

    Args:
        text (str): The text.
        path (str): Its name, which tells the language, and is shown.
        options (Options, optional): How. Default: all rules, nothing known about the run.

    Returns:
        In the order of the file. A file that cannot be read gives one diagnostic, PH000.

    Example:
        >>> found = lint_text("FileLogger('{run_nam}/log-{rank}.txt')", "train.py")
        >>> found[0].finding.rule.code, str(found[0].finding.where)
        ('PH101', 'train.py:1:13')
    """
    options = options or Options()
    language = language_of(path)
    lines = _Lines(text)
    calls = _read(text, language)
    if isinstance(calls, _Unreadable):
        where = FileLocation(path, calls.line, calls.column, excerpt=lines.text(calls.line))
        finding = Finding(UNREADABLE_FILE, calls.reason, where, "mend it, or exclude the file")
        return [Diagnostic(finding)] if options.enabled(UNREADABLE_FILE) else []
    found = [
        Diagnostic(Finding(rule, p.message, lines.place(path, p), p.fix, p.severity), p.edits, p.effect)
        for rule, p in lint_calls(calls, options, language.replace("notebook", "python"))
    ]
    found = _suppress(found, find_suppressions(text, language), lines, path, options)
    return sorted(found, key=_order)


def _order(diagnostic: Diagnostic) -> tuple[int, int, str]:
    where = diagnostic.finding.where
    assert isinstance(where, FileLocation)
    return where.line, where.column, diagnostic.finding.rule.code


def is_readable(text: str, path: str) -> bool:
    """Whether a text is in the language that the file's name tells."""
    return not isinstance(_read(text, language_of(path)), _Unreadable)


@dataclass(frozen=True, slots=True)
class _Unreadable:
    reason: str
    line: int = 1
    column: int = 1


def _read(text: str, language: str) -> list[Call] | _Unreadable:
    try:
        return read(text, language)
    except SyntaxError as error:
        # A notebook's line is that of its cells, which says little about the file.
        return _Unreadable(f"not Python: {error.msg}", error.lineno or 1, max(error.offset or 1, 1))
    except ComposerObsError as error:
        return _Unreadable(str(error), getattr(error, "line", 1), getattr(error, "column", 1))
    except (RecursionError, MemoryError):
        return _Unreadable("nested too deeply to be read")
    except ValueError as error:
        return _Unreadable(str(error), getattr(error, "lineno", 1), getattr(error, "colno", 1))


class _Lines:
    """Places in a text by its offsets."""

    def __init__(self, source: str) -> None:
        self.source = source

    @functools.cached_property
    def _index(self) -> LineIndex:
        return line_index(self.source)

    def place(self, path: str, problem: Problem) -> Location:
        if problem.span is None:
            return FileLocation(path)
        line, column = self._index.position(problem.span[0])
        last_line, last_column = self._index.position(problem.span[1])
        text = self.text(line) or ""
        end = last_column if last_line == line else len(text) + 1
        return FileLocation(path, line, column, max(end, column + 1), text)

    def text(self, line: int) -> str | None:
        """One line, without its end."""
        try:
            start = self._index.offset(line, 0)
        except IndexError:
            return None
        return next(iter(self.source[start : start + _LONGEST].splitlines()), "")


def _suppress(
    found: list[Diagnostic],
    suppressions: Sequence[Suppression],
    lines: _Lines,
    path: str,
    options: Options,
) -> list[Diagnostic]:
    if not suppressions:
        return found
    used: dict[int, set[str]] = {index: set() for index in range(len(suppressions))}
    kept = []
    for diagnostic in found:
        rule, where = diagnostic.finding.rule, diagnostic.finding.where
        assert isinstance(where, FileLocation)
        matches = [suppression.matching(rule, where.line) for suppression in suppressions]
        for index, codes in enumerate(matches):
            used[index] |= set(codes or ())
        if all(codes is None for codes in matches):
            kept.append(diagnostic)
    for index, suppression in enumerate(suppressions):
        kept += _judge(suppression, used[index], lines, path, options)
    return kept


def _judge(
    suppression: Suppression, used: set[str], lines: _Lines, path: str, options: Options
) -> Iterator[Diagnostic]:
    where = FileLocation(
        path, suppression.line, suppression.column, suppression.end_column, lines.text(suppression.line)
    )
    if not suppression.codes:
        if options.enabled(BLANKET_SUPPRESSION):
            fix = "name the rules that it is for: ignore[PH301]"
            yield Diagnostic(Finding(BLANKET_SUPPRESSION, "it suppresses every rule", where, fix))
        return
    rules = {name.lower(): check.rule for check in CHECKS for name in (check.rule.code, check.rule.name)}
    unused = []
    for code in suppression.codes:
        rule = rules.get(code.lower())
        # A rule that is switched off finds nothing, which says nothing about the comment.
        if code not in used and (rule is None or options.enabled(rule)):
            unused.append(code)
    if unused and options.enabled(UNUSED_SUPPRESSION):
        unknown = [code for code in unused if code.lower() not in rules]
        message = (
            f"no rule is called {', '.join(unknown)}"
            if unknown
            else f"{', '.join(unused)} finds nothing here"
        )
        # What is misspelt was meant for something, and a notebook is JSON.
        edits = () if unknown or path.endswith(".ipynb") else (removal(lines.source, suppression, unused),)
        fix = "`composer-obs rule` lists them" if unknown else "take it out, or put it on the finding's line"
        yield Diagnostic(Finding(UNUSED_SUPPRESSION, message, where, fix), edits)
