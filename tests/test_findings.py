from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from composer_obs.findings import (
    ArtifactLocation,
    FileLocation,
    Finding,
    Location,
    ObjectLocation,
    Rule,
    Severity,
)

RULE = Rule("UP001", "missing", Severity.ERROR, "why", "bad", "good")


def test_severities_are_ordered_from_info_to_error() -> None:
    assert sorted([Severity.ERROR, Severity.INFO, Severity.WARNING]) == [
        Severity.INFO, Severity.WARNING, Severity.ERROR,
    ]  # fmt: skip
    for low, high in itertools.combinations([Severity.INFO, Severity.WARNING, Severity.ERROR], 2):
        assert low < high
        assert high >= low
        assert max(low, high) is high


def test_a_severity_is_not_compared_with_anything_else() -> None:
    with pytest.raises(TypeError):
        _ = Severity.ERROR < 3


def test_a_finding_is_as_severe_as_its_rule_unless_it_says_otherwise() -> None:
    where = ObjectLocation("x")
    assert Finding(RULE, "m", where).level is Severity.ERROR
    assert Finding(RULE, "m", where, severity=Severity.INFO).level is Severity.INFO


@pytest.mark.parametrize(
    ("where", "as_json", "as_text"),
    [
        (FileLocation("a.py", 3, 7), {"file": "a.py", "line": 3, "column": 7}, "a.py:3:7"),
        (FileLocation("a.py"), {"file": "a.py", "line": 1, "column": 1}, "a.py:1:1"),
        (ObjectLocation("Trainer.save_folder"), {"object": "Trainer.save_folder"}, "Trainer.save_folder"),
        (ArtifactLocation("s3://b/a.pt", 3), {"artifact": "s3://b/a.pt", "rank": 3}, "s3://b/a.pt (rank 3)"),
    ],
)
def test_each_place_is_told_to_programs_and_to_people(
    where: Location, as_json: dict[str, Any], as_text: str
) -> None:
    finding = Finding(RULE, "it is gone", where, "upload it again")
    assert str(where) == as_text
    assert json.loads(json.dumps(finding.to_json())) == {
        "code": "UP001",
        "name": "missing",
        "severity": "error",
        "message": "it is gone",
        "where": as_json,
        "fix": "upload it again",
    }


def test_findings_can_be_counted_and_compared() -> None:
    where = ArtifactLocation("s3://b/a.pt", 3)
    assert len({Finding(RULE, "m", where), Finding(RULE, "m", where), Finding(RULE, "n", where)}) == 2
