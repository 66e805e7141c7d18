"""One upload that should stand, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from composer_obs.uploads.ledger import Attempt
from composer_obs.uploads.verdicts import Verdict

__all__ = ["Artifact"]


@dataclass(frozen=True, slots=True)
class Artifact:
    """An upload and its verdict.

    Args:
        attempt (Attempt): The upload.
        verdict (Verdict): What became of it.
        reason (str): Why, for a person.
        evidence (Mapping[str, Any]): What was expected, what the store said, how it was asked.
        superseded (int): How many earlier uploads of ours it replaced.
        holds (str, optional): Id of the upload whose content the store holds, if known.
    """

    attempt: Attempt
    verdict: Verdict
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    superseded: int = 0
    holds: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The artifact as ``composer-obs audit --format json`` prints it."""
        return {
            "uri": self.attempt.uri,
            "rank": self.attempt.rank,
            "source": self.attempt.source,
            "size": self.attempt.size,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "evidence": dict(self.evidence),
            "superseded": self.superseded,
            "attempt": self.attempt.id,
        }
