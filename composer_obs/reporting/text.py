"""Findings and tables for a terminal or a log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from composer_obs.findings import FileLocation, Finding, Severity
from composer_obs.redaction import redact

__all__ = ["format_findings", "format_size", "format_table", "printable"]

# Columns that are shown on each side of a place in a long line.
_MARGIN = 80
_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}


def format_findings(findings: Iterable[Finding], *, colour: bool = False) -> str:
    """One line a finding, and one for what to do.

    Args:
        findings (Iterable[Finding]): In the order in which they are to be shown.
        colour (bool): Whether the severity is coloured. Default: ``False``.

    Example:
        >>> from composer_obs.findings import ArtifactLocation, Rule
        >>> rule = Rule("UP001", "missing", Severity.ERROR, "", "", "")
        >>> where = ArtifactLocation("s3://b/a.pt", 0)
        >>> print(format_findings([Finding(rule, "the store has no such object", where, "upload it again")]))
        error UP001 missing  s3://b/a.pt (rank 0)  the store has no such object
            fix: upload it again
    """
    lines = []
    for finding in findings:
        level = finding.level.value
        if colour:
            level = f"\x1b[1;{_COLOURS[finding.level]}m{level}\x1b[0m"
        rule = finding.rule
        where, message = printable(redact(str(finding.where))), printable(redact(finding.message))
        lines.append(f"{level} {rule.code} {rule.name}  {where}  {message}")
        if isinstance(finding.where, FileLocation):
            lines += _excerpt(finding.where)
        if finding.fix:
            lines.append(f"    fix: {printable(redact(finding.fix))}")
    return "\n".join(lines)


def _excerpt(where: FileLocation) -> list[str]:
    """The line of the source, with carets under the place."""
    if not where.excerpt or not where.excerpt.strip():
        return []
    # Far from the place nobody looks.
    start = max(0, where.column - 1 - _MARGIN)
    shown = where.excerpt[start : start + 2 * _MARGIN]
    before = where.excerpt[start : where.column - 1]
    marked = where.excerpt[where.column - 1 : (where.end_column or where.column + 1) - 1][:_MARGIN]
    number = str(where.line)
    lines = [f"    {number} | {printable(redact(shown.expandtabs(1)))}"]
    # Redaction moves what stands behind it, and a caret under the wrong word is worse than none.
    if redact(shown) == shown:
        gap = " " * _width(printable(before.expandtabs(1)))
        lines.append(
            f"    {' ' * len(number)} | {gap}{'^' * max(1, _width(printable(marked.expandtabs(1))))}"
        )
    return lines


def _width(text: str) -> int:
    """How many columns a text takes in a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def format_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()
) -> str:
    """Aligned columns with a line of titles.

    Args:
        columns (Sequence[str]): Titles.
        rows (Iterable[Sequence[str]]): Cells, as many as there are titles.
        right (Collection[str]): Titles of the columns that are aligned to the right. Default: none.

    Example:
        >>> print(format_table(["name", "size"], [["a.pt", "7"], ["b.pt", "12"]], right=["size"]))
        name  size
        a.pt     7
        b.pt    12
    """
    table = [list(columns), *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if title in right else cell.ljust(width)
            for title, cell, width in zip(columns, row, widths, strict=True)
        ).rstrip()
        for row in table
    )


def format_size(size: int | None) -> str:
    """A number of bytes for a person; ``-`` if it is not known.

    Example:
        >>> [format_size(size) for size in (None, 999, 1024, 20_971_520)]
        ['-', '999 B', '1.0 KiB', '20.0 MiB']
    """
    if size is None:
        return "-"
    if size < 1024:
        return f"{size} B"
    scaled, unit = size / 1024, 0
    while scaled >= 1023.95 and unit < 3:
        scaled, unit = scaled / 1024, unit + 1
    return f"{scaled:,.1f} {('KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def printable(text: str) -> str:
    r"""The same text with every character escaped that could break a line or steer a terminal.

    Example:
        >>> print(printable("a\n\x1b[2Jb"))
        a\n\x1b[2Jb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
