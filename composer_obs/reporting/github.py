"""Findings as workflow commands, which GitHub Actions shows as annotations.

Sources: GitHub Docs, "Workflow commands for GitHub Actions"; github.com/actions/toolkit,
``docs/problem-matchers.md`` (limits) and ``packages/core/src/command.ts`` (escaping).
"""

from __future__ import annotations

from collections.abc import Sequence

from composer_obs.findings import FileLocation, Finding, Severity
from composer_obs.redaction import redact
from composer_obs.reporting import text

__all__ = ["format_findings"]

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
# GitHub shows so many annotations of each kind for one step, and drops the rest without a word.
_MOST_OF_A_KIND = 10


def format_findings(findings: Sequence[Finding]) -> str:
    """One workflow command a finding, errors first; what GitHub would drop follows as plain lines.

    Example:
        >>> from composer_obs.findings import Rule
        >>> rule = Rule("PH301", "missing-rank", Severity.ERROR, "", "", "")
        >>> print(format_findings([Finding(rule, "100% of ranks write it", FileLocation("a.py", 3, 5))]))
        ::error file=a.py,line=3,col=5,title=PH301 missing-rank::100%25 of ranks write it
    """
    lines: list[str] = []
    dropped: list[Finding] = []
    for severity in reversed(Severity):
        # One notice is kept for the line that says how many more there are.
        room = _MOST_OF_A_KIND - (severity is Severity.INFO)
        ordered = [finding for finding in findings if finding.level is severity]
        lines += map(_command, ordered[:room])
        dropped += ordered[room:]
    if dropped:
        more = f"{len(dropped)} more findings are in the log of this step"
        lines += [f"::notice title=composer-obs::{more}", text.format_findings(dropped)]
    return "\n".join(lines)


def _command(finding: Finding) -> str:
    where, message = finding.where, redact(finding.message)
    properties = {}
    if isinstance(where, FileLocation):
        properties = {"file": redact(where.file), "line": str(where.line), "col": str(where.column)}
        if where.end_column is not None:
            properties["endColumn"] = str(where.end_column)
    else:
        message = f"{redact(str(where))}: {message}"
    properties["title"] = f"{finding.rule.code} {finding.rule.name}"
    if finding.fix:
        message += f"\nfix: {redact(finding.fix)}"
    listed = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[finding.level]} {listed}::{_escape(message)}"


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(value: str) -> str:
    return _escape(value).replace(":", "%3A").replace(",", "%2C")
