from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.findings import ArtifactLocation, Finding, Rule, Severity
from composer_obs.reporting.json_report import format_findings

RULE = Rule("UP001", "missing", Severity.ERROR, "why", "bad", "good")


def test_one_object_holds_version_findings_sections_and_summary() -> None:
    findings = [
        Finding(RULE, "gone", ArtifactLocation("s3://b/a.pt", 2), "upload it again"),
        Finding(RULE, "odd", ArtifactLocation("s3://b/b.pt", 0), severity=Severity.INFO),
    ]
    text = format_findings(findings, summary={"uploads": 2}, artifacts=iter([{"uri": "s3://b/a.pt"}]))
    assert json.loads(text) == {
        "version": 1,
        "findings": [
            {
                "code": "UP001", "name": "missing", "severity": "error", "message": "gone",
                "where": {"artifact": "s3://b/a.pt", "rank": 2}, "fix": "upload it again",
            },
            {
                "code": "UP001", "name": "missing", "severity": "info", "message": "odd",
                "where": {"artifact": "s3://b/b.pt", "rank": 0}, "fix": None,
            },
        ],
        "artifacts": [{"uri": "s3://b/a.pt"}],
        "summary": {"error": 1, "warning": 0, "info": 1, "uploads": 2},
    }  # fmt: skip
    assert list(json.loads(text)) == ["version", "findings", "artifacts", "summary"]


@given(st.lists(st.text(), max_size=3), st.lists(st.dictionaries(st.text(max_size=5), st.text()), max_size=3))
def test_any_text_gives_one_entry_a_line_in_ascii(messages: list[str], entries: list[dict[str, Any]]) -> None:
    findings = [Finding(RULE, message, ArtifactLocation(message, 0)) for message in messages]
    text = format_findings(findings, artifacts=entries)
    parsed = json.loads(text)
    assert len(parsed["findings"]) == len(messages)
    assert parsed["artifacts"] == entries
    assert text.isascii()
    assert sum(line.startswith('{"code"') for line in text.split("\n")) == len(messages)


def test_no_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    text = format_findings([Finding(RULE, "very-secret-value", ArtifactLocation("very-secret-value", 0))])
    assert "very-secret-value" not in text
    assert json.loads(text)["findings"][0]["message"] == "***"
