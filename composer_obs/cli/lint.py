"""``composer-obs lint``: wrong file-name templates, found in the text of a project."""

from __future__ import annotations

import gc
import itertools
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import click

from composer_obs.catalogue import Selection
from composer_obs.cli._options import Reporting, note, reporting_options
from composer_obs.errors import InvalidInputError
from composer_obs.findings import Finding, Severity
from composer_obs.placeholders.files import find_files
from composer_obs.placeholders.fixes import WriteError, unified_diff, write_source
from composer_obs.placeholders.project import FileResult, Linting, lint_files, lint_source
from composer_obs.placeholders.reading import Source
from composer_obs.placeholders.settings import Settings, load_settings
from composer_obs.placeholders.uses import Facts
from composer_obs.reporting.text import format_table

__all__ = ["command"]

# As for any other fault, see `composer_obs.cli`.
_NOT_WRITTEN = 3


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--world-size", type=click.IntRange(1), help="The number of ranks that will run.")
@click.option("--fix", is_flag=True, help="Apply fixes that keep what was meant.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="With --fix or --diff: apply fixes that may change it, too."
)
@click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing.")
@click.option("--statistics", is_flag=True, help="Count findings by rule.")
@click.option(
    "--stdin-filename", metavar="NAME", help="The name of what is read from standard input (PATH is -)."
)
@reporting_options
def command(
    *,
    paths: tuple[str, ...],
    world_size: int | None,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    statistics: bool,
    stdin_filename: str | None,
    reporting: Reporting,
) -> int:
    """Find file-name templates that Composer will not fill in as meant, before a run does.

    PATH is a Python, YAML or Jupyter file, a folder of them, or - for standard input. Without PATH
    the current folder is linted. Settings are in [tool.composer_obs.lint] of pyproject.toml.

    Ends with 0 if nothing was found, else with 1; with --diff, with 1 if there is something to change.
    With - as PATH, --fix is --diff.
    """
    from_stdin = paths == ("-",) or (stdin_filename is not None and not paths)
    if "-" in paths and not from_stdin:
        raise InvalidInputError("'-' (standard input) cannot be linted together with other paths")
    if from_stdin and fix and not diff:
        diff = True  # There is no file to change; the change is the answer.
    paths = paths or (".",)
    settings = load_settings(stdin_filename or "." if from_stdin else paths[0])
    linting = Linting(
        settings,
        Facts(world_size or settings.world_size, frozenset(settings.schemes)),
        _selection(reporting.selection, settings).includes,
        ("unsafe" if unsafe_fixes else "safe") if fix or diff else "",
    )
    # What is imported by now stays; the collector would walk it once for every few files.
    gc.freeze()
    gc.set_threshold(100_000)
    if from_stdin:
        results = [lint_source(_standard_input(stdin_filename or "stdin.py"), linting)]
        count = 1
    else:
        found = find_files(paths, exclude=settings.exclude, root=settings.root, note=note)
        counter = itertools.count()
        files = (file for file, _ in zip(found, counter, strict=False))
        results = list(lint_files(files, replace(linting, named=frozenset(paths))))
        count = next(counter)
    if diff:
        return _show_diff(results, reporting)
    failed = False
    for index, result in enumerate(results):
        try:
            if result.fixed_text is not None:
                write_source(result.source, result.fixed_text)
        except WriteError as error:
            # The others are fixed nonetheless; of this one, all that was found stays.
            note(str(error))
            results[index] = lint_source(result.source, replace(linting, fix=""))
            failed = True
    code = _report(results, count, reporting, statistics=statistics, fixing=fix)
    return _NOT_WRITTEN if failed else code


def _selection(asked: Selection, settings: Settings) -> Selection:
    """What the command line selects replaces the project's choice; what either ignores is ignored."""
    configured = Selection.parse(settings.select, settings.ignore)
    return Selection(asked.select or configured.select, asked.ignore + configured.ignore)


def _standard_input(name: str) -> Source:
    if sys.stdin is None:
        raise InvalidInputError("standard input is closed, so there is nothing to lint")
    data = sys.stdin.buffer.read()
    try:
        return Source(name, data.decode("utf-8"), data=data)
    except UnicodeDecodeError as error:
        return Source(name, data.decode("latin-1"), f"not UTF-8: {error.reason}", "latin-1", data=data)


def _show_diff(results: Sequence[FileResult], reporting: Reporting) -> int:
    from composer_obs.cli._options import write_text

    changed = [
        result for result in results if result.fixed_text is not None and result.source.text is not None
    ]
    diffs = [unified_diff(r.source.path, r.source.text or "", r.fixed_text or "") for r in changed]
    if diffs:
        write_text("".join(diffs).removesuffix("\n"), reporting.output)
    fixes = sum(result.fixes for result in results)
    note(f"{_plural(fixes, 'fix', 'fixes')} would be applied in {_plural(len(changed), 'file')}")
    return 1 if changed else 0


def _report(
    results: Sequence[FileResult], files: int, reporting: Reporting, *, statistics: bool, fixing: bool
) -> int:
    diagnostics = [diagnostic for result in results for diagnostic in result.diagnostics]
    findings = [diagnostic.finding for diagnostic in diagnostics]
    fixable = [diagnostic for diagnostic in diagnostics if diagnostic.edits]
    safe = sum(diagnostic.is_safe for diagnostic in fixable)
    applied = sum(result.fixes for result in results)
    with_findings = sum(bool(result.diagnostics) for result in results)
    headline = _headline(findings, files, with_findings)
    if applied:
        headline += f"; {_plural(applied, 'fix', 'fixes')} applied"
    elif safe and not fixing:
        headline += f"; --fix mends {safe}"
    if len(fixable) > safe:
        headline += f"; --fix --unsafe-fixes mends {len(fixable)}"
    reporting.write(
        [] if statistics and reporting.format == "text" else findings,
        headline=headline,
        text_before=_statistics(findings) if statistics else "",
        summary={"files": files, "fixable": len(fixable), "safely_fixable": safe, "fixed": applied},
    )
    return 1 if findings else 0


def _headline(findings: Sequence[Finding], files: int, with_findings: int) -> str:
    counts = Counter(finding.level for finding in findings)
    if not findings:
        return f"no findings in {_plural(files, 'file')}"
    listed = ", ".join(_plural(counts[level], level.value) for level in reversed(Severity) if counts[level])
    return f"{listed} in {with_findings} of {_plural(files, 'file')}"


def _statistics(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.rule for finding in findings)
    rows = [[str(count), rule.code, rule.name] for rule, count in counts.most_common()]
    return format_table(["count", "code", "name"], rows, right=["count"]) if rows else ""


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
