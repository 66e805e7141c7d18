"""What every command shares that lists findings: its options, and how the result is written."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from composer_obs.catalogue import Selection
from composer_obs.errors import ComposerObsError, InvalidInputError
from composer_obs.findings import Finding

__all__ = ["OutputError", "Reporting", "note", "output_path", "reporting_options"]

_FORMATS = ("text", "json", "sarif", "github")


class OutputError(ComposerObsError):
    """The result of a command could not be written."""


@dataclass(frozen=True, slots=True)
class Reporting:
    """Where findings go, in which format, and which of them count.

    Args:
        format (str): ``text``, ``json``, ``sarif`` or ``github``.
        selection (Selection): From ``--select`` and ``--ignore``.
        output (str, optional): A file. Default: ``None``, standard output.
    """

    format: str
    selection: Selection
    output: str | None

    def write(
        self,
        findings: Sequence[Finding],
        *,
        headline: str,
        text_before: str = "",
        summary: Mapping[str, Any] | None = None,
        **sections: Iterable[Mapping[str, Any]],
    ) -> None:
        """Write the result of a command.

        Args:
            findings (Sequence[Finding]): Those that count.
            headline (str): The result in one line, for people.
            text_before (str): What people read before the findings.
            summary (Mapping, optional): For programs; see `composer_obs.reporting.json_report`.
            **sections (Iterable[Mapping]): Likewise.
        """
        write_text(self._render(findings, headline, text_before, summary, sections), self.output)

    def _render(
        self,
        findings: Sequence[Finding],
        headline: str,
        text_before: str,
        summary: Mapping[str, Any] | None,
        sections: Mapping[str, Iterable[Mapping[str, Any]]],
    ) -> str:
        if self.format == "json":
            from composer_obs.reporting import json_report

            return json_report.format_findings(findings, summary=summary, **sections)
        if self.format == "sarif":
            from composer_obs.reporting import sarif

            return sarif.format_findings(findings)
        if self.format == "github":
            from composer_obs.reporting import github

            return "\n".join(filter(None, (github.format_findings(findings), headline)))
        from composer_obs.reporting import text

        listed = text.format_findings(findings, colour=self.output is None and _wants_colour())
        return "\n\n".join(filter(None, (text_before, listed, headline)))


def reporting_options(function: Callable[..., int]) -> Callable[..., int]:
    """Adds ``--format``, ``--select``, ``--ignore`` and ``--output``; passes on a `Reporting`."""

    @click.option(
        "--format", "format_", type=click.Choice(_FORMATS), default="text", help="How to write the result."
    )
    @click.option("--select", multiple=True, metavar="CODES", help="Only these rules, e.g. UP001,UP01.")
    @click.option("--ignore", multiple=True, metavar="CODES", help="All but these rules.")
    @click.option(
        "--output", metavar="FILE", callback=output_path, help="Write to FILE, not to standard output."
    )
    @functools.wraps(function)
    def wrapper(
        *args: Any,
        format_: str,
        select: tuple[str, ...],
        ignore: tuple[str, ...],
        output: str | None,
        **options: Any,
    ) -> int:
        reporting = Reporting(format_, Selection.parse(select, ignore), output)
        return function(*args, reporting=reporting, **options)

    return wrapper


def output_path(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A click callback: refuse a file that cannot be written before the work is done for it."""
    del ctx, parameter
    if value is not None:
        folder = os.path.dirname(os.path.abspath(value))
        target = value if os.path.exists(value) else folder
        if os.path.isdir(value) or not os.path.isdir(folder) or not os.access(target, os.W_OK):
            raise InvalidInputError(f"cannot write {value!r}: not a file in a folder that can be written to")
    return value


def write_text(text: str, output: str | None) -> None:
    """Write to a file or to standard output, whatever characters there are.

    Raises:
        OutputError: There is no room, or the like.
    """
    try:
        if output is not None:
            with open(output, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text + "\n")
        elif sys.stdout is not None:  # closed by whoever started us
            sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
            print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        if output is None:
            # What is still buffered must not raise at exit again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        target = output or "standard output"
        raise OutputError(f"cannot write the result to {target}: {error.strerror or error}") from error


def note(text: str) -> None:
    """Say something beside the result."""
    click.echo(f"note: {text}", err=True)


def _wants_colour() -> bool:
    """See no-color.org."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not plain and sys.stdout is not None and sys.stdout.isatty()
