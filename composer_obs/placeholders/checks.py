"""What a rule is made of: an explanation for people, and one function over what it judges."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from composer_obs.findings import Rule, Severity
from composer_obs.placeholders.calls import HOLE, Call, Span, Text
from composer_obs.placeholders.fixes import Edit
from composer_obs.placeholders.grammar import Field
from composer_obs.placeholders.uses import Run, TemplateUse

__all__ = ["Check", "Effect", "Problem", "at_call", "at_use", "edit", "on_run", "on_template", "readable"]


class Effect(enum.Enum):
    """What happens to the name."""

    #: Composer's formatter raises.
    RAISES = enum.auto()
    #: Braces stay in the name.
    STAYS = enum.auto()


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found.

    Args:
        message (str): What is wrong here, in one sentence.
        span (Span, optional): Where, in the source.
        object (str): Where, by the name of the parameter or class.
        fix (str, optional): What to do.
        severity (Severity, optional): Default: the rule's.
        edits (tuple[Edit, ...]): Edits that fix it, all together; empty if there are none.
        effect (Effect, optional): What happens to the name.
    """

    message: str
    span: Span | None
    object: str
    fix: str | None = None
    severity: Severity | None = None
    edits: tuple[Edit, ...] = ()
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A rule with its function."""

    rule: Rule
    on_template: Callable[[TemplateUse], Iterable[Problem]] | None = None
    on_run: Callable[[Run], Iterable[Problem]] | None = None

    def run(self, run: Run) -> Iterator[Problem]:
        """Everything that the rule finds in a run."""
        if self.on_template is not None:
            for use in run.uses:
                yield from self.on_template(use)
        if self.on_run is not None:
            yield from self.on_run(run)


def on_template(
    code: str,
    name: str,
    severity: Severity,
    reason: str,
    *,
    bad: str,
    good: str,
    language: str = "python",
    fix: str = "",
) -> Callable[[Callable[[TemplateUse], Iterable[Problem]]], Check]:
    """Makes a `Check` of a function that looks at one template; see `composer_obs.findings.Rule`."""
    rule = Rule(code, name, severity, reason, bad, good, language=language, fix=fix)
    return lambda function: Check(rule, on_template=function)


def on_run(
    code: str,
    name: str,
    severity: Severity,
    reason: str,
    *,
    bad: str,
    good: str,
    language: str = "python",
    fix: str = "",
) -> Callable[[Callable[[Run], Iterable[Problem]]], Check]:
    """Makes a `Check` of a function that looks at a whole run."""
    rule = Rule(code, name, severity, reason, bad, good, language=language, fix=fix)
    return lambda function: Check(rule, on_run=function)


def at_use(
    use: TemplateUse,
    message: str,
    at: Field | tuple[int, int] | None = None,
    *,
    fix: str | None = None,
    severity: Severity | None = None,
    edits: Iterable[Edit | None] = (),
    effect: Effect | None = None,
) -> Problem:
    """A problem of a template.

    Args:
        use (TemplateUse): The template.
        message (str): What is wrong.
        at (Field | tuple[int, int], optional): Which part of it. Default: all.
        fix (str, optional): What to do.
        severity (Severity, optional): Default: the rule's.
        edits (Iterable[Edit]): If one of them is ``None``, there is no automatic fix.
        effect (Effect, optional): What happens to the name.
    """
    start, end = (at.start, at.end) if isinstance(at, Field) else at or (0, len(use.template))
    complete = tuple(edits)
    usable = tuple(item for item in complete if item is not None)
    return Problem(
        message,
        use.text.span_of(start, end) if at is not None else use.text.span,
        str(use.parameter),
        fix,
        severity,
        usable if len(usable) == len(complete) else (),
        effect,
    )


def at_call(
    call: Call,
    message: str,
    argument: str | None = None,
    *,
    fix: str | None = None,
    severity: Severity | None = None,
) -> Problem:
    """A problem of a call, or of one of its arguments."""
    value = call.arguments.get(argument) if argument else None
    # What a call stands for is told by its own name, not by that of the argument that holds it.
    span = call.keys.get(argument or "") or (value.span if value is not None else None) or call.span
    name = f"{call.name}.{argument}" if argument else call.name
    return Problem(message, span, name, fix, severity)


def edit(text: Text, start: int, end: int, new: str) -> Edit | None:
    """The edit of the source that replaces ``text.value[start:end]``; ``None`` if there is none.

    Args:
        text (Text): The template.
        start (int): The first character that goes.
        end (int): The one behind the last; equal to ``start`` for an insertion.
        new (str): What comes instead: template text without quotes or backslashes.
    """
    if not text.exact or not text.spans or any(c in new for c in "\\'\"\n"):
        return None
    touched = range(start, end) if end > start else range(max(start - 1, 0), min(start + 1, len(text.spans)))
    if any(index in text.holes for index in range(start, end)):
        return None
    # Only in an f-string does a brace have to be written twice.
    if any(index in text.doubled for index in touched):
        new = new.replace("{", "{{").replace("}", "}}")
    if end > start:
        first, last = text.spans[start][0], text.spans[end - 1][1]
    else:
        first = last = text.spans[start][0] if start < len(text.spans) else text.spans[-1][1]
    contiguous = all(text.spans[i][1] == text.spans[i + 1][0] for i in range(start, max(start, end - 1)))
    return Edit(first, last, new) if first <= last and contiguous else None


def readable(text: Text) -> str:
    """The template for a message, with its holes as ``…``."""
    return text.value.replace(HOLE, "…")
