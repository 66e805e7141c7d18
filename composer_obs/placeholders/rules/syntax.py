"""PH00x: is it a format string, and does formatting it work?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from composer_obs.findings import Rule, Severity
from composer_obs.placeholders.calls import HOLE
from composer_obs.placeholders.checks import Effect, Problem, at_use, edit, on_template
from composer_obs.placeholders.formatter import TooWideError, render
from composer_obs.placeholders.grammar import Field
from composer_obs.placeholders.moments import values
from composer_obs.placeholders.parameter import Kind
from composer_obs.placeholders.uses import TemplateUse

__all__ = ["CHECKS", "UNREADABLE_FILE", "doubled_braces", "keeps_braces", "outcome"]

UNREADABLE_FILE = Rule(
    "PH000",
    "unreadable-file",
    Severity.ERROR,
    "The file cannot be read as what its name says, so nothing in it was checked: a syntax error, an "
    "encoding that Python or YAML would refuse, binary content, or more than 20 MB.",
    bad='FileLogger(filename="{run_name}/log-rank{rank}.txt"',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt")',
    language="python",
)


def outcome(use: TemplateUse, field: Field) -> tuple[str | None, Exception | None]:
    """What one placeholder becomes: its text, or the exception that Composer would raise."""
    rendered = render(use.template[field.start : field.end], values(use.legal))
    return rendered.text, rendered.error


def keeps_braces(use: TemplateUse, field: Field) -> Effect | None:
    """Whether braces are left of a placeholder; a format such as ``:.0s`` can take them away."""
    text, _ = outcome(use, field)
    return Effect.STAYS if text is not None and set("{}") & set(text) else None


def _raises(error: Exception) -> str:
    return f"raises {type(error).__name__} ({' '.join(str(error).split())})"


@on_template(
    "PH001",
    "unbalanced-brace",
    Severity.ERROR,
    "Composer formats the name with str.format, which raises ValueError for a brace that is never closed or "
    "never opened. It happens when the name is first needed, often at the end of the first epoch.",
    bad='FileLogger(filename="{run_name}/log-rank{rank.txt")',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt")',
)
def unbalanced_brace(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind in {Kind.PLAIN, Kind.BUCKET} or (fault := use.parsed.fault) is None:
        return
    if HOLE in use.template[fault.index :] and use.template[fault.index] == "{":
        return  # What is filled in there may close it.
    yield at_use(
        use,
        f"{fault.reason}; formatting it raises ValueError",
        (fault.index, fault.index + 1),
        fix="close the placeholder, or write the brace twice if it is meant literally",
        effect=Effect.RAISES,
    )


@on_template(
    "PH002",
    "positional-field",
    Severity.ERROR,
    "Composer gives its formatter names only. `{}` stays `{}` in the file name, `{0}` turns into `{}`, and "
    "both in one template raise ValueError. A `.format(…)` was probably forgotten.",
    bad='FileLogger(filename="{}/log-rank{rank}.txt")',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt")',
)
def positional_field(use: TemplateUse) -> Iterator[Problem]:
    if not use.is_formatted or use.parsed.fault is not None:
        return
    found = [field for field in use.fields() if field.positional]
    nested = [f for f in use.fields() if not f.positional and any(inner.positional for inner in f.nested)]
    # Nested ones count too: str.format numbers them all.
    numbered = {
        bool(name)
        for name, field in use.parsed.names()
        if not field.has_hole and not name.strip("0123456789")
    }
    mixed = len(numbered) == 2
    for field in found:
        text, error = outcome(use, field)
        effect: Effect | None
        if mixed:
            what, effect = "{} and {0} in one template raise ValueError", Effect.RAISES
        elif error is not None:
            what, effect = f"formatting it {_raises(error)}", Effect.RAISES
        else:
            what, effect = f"it becomes {text!r} in the name", keeps_braces(use, field)
        yield at_use(
            use,
            f"a placeholder needs a name; {what}",
            field,
            fix=f"name one of {_listed(use.legal)}",
            effect=effect,
        )
    if mixed and not found:
        yield at_use(use, "{} and {0} in one template raise ValueError", nested[0], effect=Effect.RAISES)


@on_template(
    "PH003",
    "attribute-or-index",
    Severity.ERROR,
    "Placeholders are plain numbers and strings: an attribute or index raises AttributeError or TypeError, "
    "or puts something meaningless like '<built-in method upper of str object>' into the name.",
    bad='FileLogger(filename="{run_name.name}/log-rank{rank}.txt")',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt")',
)
def attribute_or_index(use: TemplateUse) -> Iterator[Problem]:
    if not use.is_formatted or use.parsed.fault is not None:
        return
    for field in use.fields():
        if field.positional or not field.path:
            continue
        text, error = outcome(use, field)
        # An address would differ from run to run.
        text = re.sub(r" at 0x[0-9a-f]+", "", text or "")
        what = f"formatting it {_raises(error)}" if error else f"the name gets {text!r}"
        yield at_use(
            use,
            f"{{{field.name}{field.path}}} asks for a part of {{{field.name}}}; {what}",
            field,
            fix=f"write {{{field.name}}}",
            effect=Effect.RAISES if error else keeps_braces(use, field),
        )


@on_template(
    "PH004",
    "bad-spec-or-conversion",
    Severity.ERROR,
    "The format specification does not fit what is filled in. Where a placeholder is not known, Composer "
    "fills in its own text, and a number format such as :04d raises ValueError then: {epoch:04d} is fine "
    "where training time is known, and raises everywhere else.",
    bad='FileLogger(filename="{run_name}/ep{epoch:04d}-rank{rank}.txt")',
    good='FileLogger(filename="{run_name}/rank{rank:04d}.txt")',
)
def bad_spec_or_conversion(use: TemplateUse) -> Iterator[Problem]:
    if not use.is_formatted or use.parsed.fault is not None:
        return
    for field in use.fields():
        if field.positional or field.path:
            continue
        _, error = outcome(use, field)
        if error is None:
            continue
        known = field.name in use.legal
        where = "" if known else f"; {{{field.name}}} is not filled in for {use.parameter}"
        if isinstance(error, TooWideError):
            yield at_use(use, f"{error}", field, fix="file systems allow 255 bytes in a name")
            continue
        yield at_use(
            use,
            f"formatting {use.template[field.start : field.end]} {_raises(error)}{where}",
            field,
            fix="leave the format out" if known else f"legal here: {_listed(use.legal)}",
            effect=Effect.RAISES,
        )


@on_template(
    "PH005",
    "escaped-braces-formatted-twice",
    Severity.WARNING,
    "Doubled braces mean literal ones, but this name is formatted twice: once for the local file, and again "
    "for its upload. The file is called '{rank}.json', and the upload looks for '0.json', which does not "
    "exist.",
    bad='FileLogger(filename="{{run_name}}/log-rank{rank}.txt")',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt")',
    fix="safe",
)
def escaped_braces_formatted_twice(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.formatted_twice:
        yield from doubled_braces(
            use, "the local file keeps the braces and its upload looks for the filled-in name"
        )


def doubled_braces(use: TemplateUse, consequence: str) -> Iterator[Problem]:
    """Each ``{{name}}``, or each pair of braces by itself where there is no name between them."""
    if use.parsed.fault is not None:
        return
    escapes = list(use.parsed.escapes)
    while escapes:
        start = escapes.pop(0)
        end = start + 2
        name = ""
        if escapes and use.template[start] == "{" and use.template[escapes[0]] == "}":
            name = use.template[end : escapes[0]]
            end = escapes.pop(0) + 2
        wanted = name in use.legal
        yield at_use(
            use,
            f"doubled braces are literal ones: {consequence}",
            (start, end),
            fix=f"write {{{name}}}" if wanted else "use a name without braces",
            edits=(edit(use.text, start, end, f"{{{name}}}") if wanted else None,),
            effect=Effect.STAYS,
        )


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))


CHECKS = (
    unbalanced_brace,
    positional_field,
    attribute_or_index,
    bad_spec_or_conversion,
    escaped_braces_formatted_twice,
)
