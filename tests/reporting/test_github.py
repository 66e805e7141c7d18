"""Workflow commands, read back as GitHub's runner reads them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.findings import ArtifactLocation, FileLocation, Finding, ObjectLocation, Rule, Severity
from composer_obs.reporting.github import format_findings

RULE = Rule("UP001", "missing", Severity.ERROR, "why", "bad", "good")


def read_command(line: str) -> tuple[str, dict[str, str], str] | None:
    """As the runner does (actions/runner, ``ActionCommand.TryParseV2``): percent signs come last."""
    if not line.startswith("::"):
        return None
    head, _, data = line[2:].partition("::")
    command, _, properties = head.partition(" ")
    named = dict(item.split("=", 1) for item in properties.split(",") if item)
    for_properties = [("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")]

    def undo(text: str, pairs: list[tuple[str, str]]) -> str:
        for escaped, plain in pairs:
            text = text.replace(escaped, plain)
        return text

    return command, {k: undo(v, for_properties) for k, v in named.items()}, undo(data, for_properties[2:])


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    return [command for line in text.split("\n") if (command := read_command(line))]


# Texts that look escaped already are among them.
TEXTS = st.text(min_size=1) | st.text("%0235ACD:,\r\n", min_size=1)


@given(TEXTS, TEXTS, st.none() | TEXTS)
def test_every_text_arrives_as_it_was(message: str, file: str, fix: str | None) -> None:
    (command,) = commands(format_findings([Finding(RULE, message, FileLocation(file, 3, 5), fix)]))
    expected = message if fix is None else f"{message}\nfix: {fix}"
    assert command == ("error", {"file": file, "line": "3", "col": "5", "title": "UP001 missing"}, expected)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (ArtifactLocation("s3://b/a.pt", 2), "s3://b/a.pt (rank 2): gone"),
        (ObjectLocation("Trainer"), "Trainer: gone"),
    ],
)
def test_what_is_no_file_is_named_in_the_message(where: ArtifactLocation | ObjectLocation, text: str) -> None:
    assert commands(format_findings([Finding(RULE, "gone", where)])) == [
        ("error", {"title": "UP001 missing"}, text)
    ]


def test_severities_become_the_commands_of_github_errors_first() -> None:
    findings = [Finding(RULE, level.value, ObjectLocation("x"), severity=level) for level in Severity]
    assert [name for name, _, _ in commands(format_findings(findings))] == ["error", "warning", "notice"]


def test_what_github_would_drop_is_counted_and_still_in_the_log() -> None:
    findings = [
        Finding(RULE, f"{level.value} number {number}", ObjectLocation("x"), severity=level)
        for number in range(12)
        for level in Severity
    ]
    text = format_findings(findings)
    by_name = [name for name, _, _ in commands(text)]
    # github.com/actions/toolkit, docs/problem-matchers.md: ten of each kind for a step.
    assert {name: by_name.count(name) for name in set(by_name)} == {"error": 10, "warning": 10, "notice": 10}
    assert commands(text)[-1] == (
        "notice",
        {"title": "composer-obs"},
        "7 more findings are in the log of this step",
    )
    for finding in findings:
        assert len(re.findall(rf"{finding.message}\b", text)) == 1
    plain = [line for line in text.split("\n") if not line.startswith("::")]
    assert [line.split()[0] for line in plain] == ["error"] * 2 + ["warning"] * 2 + ["info"] * 3


def test_ten_of_each_are_shown_without_a_word_about_more() -> None:
    findings = [Finding(RULE, "m", ObjectLocation("x")) for _ in range(10)]
    assert len(commands(format_findings(findings))) == 10
    assert "more findings" not in format_findings(findings)


def test_nothing_found_is_nothing_said() -> None:
    assert format_findings([]) == ""


def test_no_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    findings = [
        Finding(RULE, "very-secret-value", where, "very-secret-value")
        for where in (FileLocation("very-secret-value"), ObjectLocation("very-secret-value"))
    ]
    assert "very-secret-value" not in format_findings(findings)
