"""What a person reads when a run ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from composer_obs.findings import Finding, Severity
from composer_obs.redaction import redact
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.audit import Audit
from composer_obs.uploads.verdicts import Verdict

__all__ = ["complaint", "headline", "summary_lines", "table_rows"]

# More rows than a person reads do not help; the ledger and `composer-obs audit` have all.
_MOST_ROWS = 500
_MOST_LINES = 20


def headline(audit: Audit) -> str:
    """The run in one line.

    Example:
        >>> headline(Audit((), (), 0, 0))
        '0 uploads'
    """
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in audit.counts().items())
    plural = "" if audit.attempted == 1 else "s"
    return f"{audit.attempted:,} upload{plural}" + (f": {counts}" if counts else "")


def complaint(audit: Audit) -> str | None:
    """Why a run must not count as a success, or ``None`` if nothing is lost."""
    lost = [artifact for artifact in audit.artifacts if is_lost(artifact)]
    if not lost:
        return None
    named = "; ".join(f"{a.attempt.uri} is {a.verdict.value} ({a.reason})" for a in lost[:5])
    more = f"; and {len(lost) - 5} more" if len(lost) > 5 else ""
    total = len(audit.artifacts)
    return redact(f"{len(lost)} of {total} uploads are lost: {named}{more}. See `composer-obs audit`.")


def is_lost(artifact: Artifact) -> bool:
    """Whether the store is known not to have what was sent."""
    unknown = (Verdict.PRESENT, Verdict.UNPROVABLE, Verdict.UNROUTED)
    return not artifact.verdict.is_fine and artifact.verdict not in unknown


def summary_lines(audit: Audit, ledger: str, others: Sequence[int] = ()) -> list[str]:
    """The report at the end of a run, as plain lines.

    Args:
        audit (Audit): The last audit.
        ledger (str): Where the ledger is.
        others (Sequence[int]): Ranks whose ledgers are not in the same folder.
    """
    lines = [f"composer_obs: {headline(audit)}"]
    findings = [finding for finding in audit.findings if finding.level is not Severity.INFO]
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.rule.code, finding.message].append(finding)
    for alike in list(groups.values())[:_MOST_LINES]:
        first = alike[0]
        more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
        lines.append(f"  {first.level.value} {first.rule.code} {first.where}{more}: {first.message}")
        if first.fix:
            lines.append(f"      fix: {first.fix}")
    if len(groups) > _MOST_LINES:
        lines.append(f"  … and {len(groups) - _MOST_LINES} more kinds of finding")
    if others:
        ranks = ", ".join(map(str, others[:8])) + (", …" if len(others) > 8 else "")
        lines.append(f"  the ledgers of ranks {ranks} are elsewhere; audit all run folders together")
    lines.append(f"  ledger: {ledger}  (again, any time: composer-obs audit {ledger})")
    return [redact(line) for line in lines]


def table_rows(audit: Audit) -> tuple[list[str], list[list[str | int]]]:
    """Columns and rows of the table that goes to the loggers: what is not proven, worst first."""
    columns = ["verdict", "uri", "rank", "size", "reason"]
    open_ = [artifact for artifact in audit.artifacts if not artifact.verdict.is_fine]
    open_.sort(key=lambda artifact: (not is_lost(artifact), artifact.attempt.uri))
    rows: list[list[str | int]] = [
        [a.verdict.value, redact(a.attempt.uri), a.attempt.rank, a.attempt.size or 0, redact(a.reason)]
        for a in open_[:_MOST_ROWS]
    ]
    return columns, rows
