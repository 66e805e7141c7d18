"""The one language of the package: a rule was broken, here, and this is what to do.

Linter, preflight, upload auditor, GPU telemetry and profiler widener produce `Finding`s; console,
JSON, SARIF, Slack and the HTML report consume them. A `Rule` is what a finding points at: it is
written once, beside the check that uses it, and read by ``composer-obs rule``, the README's table
and SARIF alike.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ArtifactLocation",
    "FileLocation",
    "Finding",
    "Location",
    "ObjectLocation",
    "Rule",
    "Severity",
]


@functools.total_ordering
class Severity(enum.Enum):
    """How much a finding matters. Ordered: ``INFO < WARNING < ERROR``."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Severity):
            return NotImplemented
        ranks = list(Severity)
        return ranks.index(self) < ranks.index(other)


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be wrong, explained.

    Args:
        code (str): Two letters for the capability and three digits, e.g. ``"UP001"``. Stable.
        name (str): The rule in two or three hyphenated words. Stable.
        severity (Severity): The severity that its findings have unless they say otherwise.
        reason (str): One paragraph: what happened or would happen, and why that hurts.
        bad (str): An example that breaks the rule.
        good (str): The same, put right.
        since (str): The version of this package that introduced the rule.
        language (str): Of both examples, ``"python"`` or ``"yaml"``; empty if they are prose.
        fix (str): ``"safe"`` or ``"unsafe"`` if a fix can be applied automatically, else empty.
    """

    code: str
    name: str
    severity: Severity
    reason: str
    bad: str
    good: str
    since: str = "0.1.0"
    language: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A place in a text file; line and column count from 1, and ``end_column`` is behind the last character.

    ``excerpt`` is the line's text, for people.
    """

    file: str
    line: int = 1
    column: int = 1
    end_column: int | None = None
    excerpt: str | None = None

    def to_json(self) -> dict[str, Any]:
        place: dict[str, Any] = {"file": self.file, "line": self.line, "column": self.column}
        return place if self.end_column is None else {**place, "end_column": self.end_column}

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class ObjectLocation:
    """A live object or a setting, e.g. ``"Trainer.save_folder"``."""

    object: str

    def to_json(self) -> dict[str, Any]:
        return {"object": self.object}

    def __str__(self) -> str:
        return self.object


@dataclass(frozen=True, slots=True)
class ArtifactLocation:
    """A file that a rank of a run uploaded, or meant to."""

    artifact: str
    rank: int

    def to_json(self) -> dict[str, Any]:
        return {"artifact": self.artifact, "rank": self.rank}

    def __str__(self) -> str:
        return f"{self.artifact} (rank {self.rank})"


Location = FileLocation | ObjectLocation | ArtifactLocation


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that was broken, once.

    Args:
        rule (Rule): Which rule.
        message (str): What is wrong here, in one sentence.
        where (Location): Where.
        fix (str, optional): What to do next. Default: ``None``.
        severity (Severity, optional): Default: the rule's own.

    Example:
        >>> rule = Rule("UP001", "missing", Severity.ERROR, "The store has no such object.", "-", "-")
        >>> finding = Finding(rule, "the store has no such object", ArtifactLocation("s3://b/a.pt", 0))
        >>> finding.to_json()["code"], str(finding.where)
        ('UP001', 's3://b/a.pt (rank 0)')
    """

    rule: Rule
    message: str
    where: Location
    fix: str | None = None
    severity: Severity | None = None

    @property
    def level(self) -> Severity:
        """The severity in force: the finding's own, else the rule's."""
        return self.severity or self.rule.severity

    def to_json(self) -> dict[str, Any]:
        """The finding as every ``--format json`` prints it and every run folder keeps it."""
        return {
            "code": self.rule.code,
            "name": self.rule.name,
            "severity": self.level.value,
            "message": self.message,
            "where": self.where.to_json(),
            "fix": self.fix,
        }
