"""Findings as one JSON object, the same for every command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from composer_obs.findings import Finding, Severity
from composer_obs.redaction import redact_values

__all__ = ["VERSION", "format_findings"]

#: Version of the object's schema; a field that is added does not change it.
VERSION = 1


def format_findings(
    findings: Sequence[Finding],
    *,
    summary: Mapping[str, Any] | None = None,
    **sections: Iterable[Mapping[str, Any]],
) -> str:
    """``{"version": 1, "findings": […], …, "summary": {…}}``, one line an entry.

    Args:
        findings (Sequence[Finding]): In the order in which they are to be listed.
        summary (Mapping, optional): What stands in the summary beside the number of findings of
            each severity. Default: nothing.
        **sections (Iterable[Mapping]): Lists of the command's own, e.g. ``artifacts``; their texts
            are redacted already.

    Example:
        >>> print(format_findings([], summary={"uploads": 3}))
        {"version": 1,
        "findings": [],
        "summary": {"error": 0, "warning": 0, "info": 0, "uploads": 3}}
    """
    levels = [finding.level for finding in findings]
    counts = {severity.value: levels.count(severity) for severity in reversed(Severity)}
    lists = {"findings": (redact_values(finding.to_json()) for finding in findings), **sections}
    parts = [f'{{"version": {VERSION}']
    parts += [f'"{name}": {_list(entries)}' for name, entries in lists.items()]
    parts.append(f'"summary": {_dump({**counts, **(summary or {})})}}}')
    return ",\n".join(parts)


def _list(entries: Iterable[Mapping[str, Any]]) -> str:
    """An entry a line: quick to write, and kind to ``grep`` and ``diff``."""
    lines = ",\n".join(map(_dump, entries))
    return f"[\n{lines}\n]" if lines else "[]"


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, default=str)
