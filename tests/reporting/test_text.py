from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.findings import ArtifactLocation, FileLocation, Finding, Rule, Severity
from composer_obs.reporting.text import format_findings, format_size, format_table, printable

RULE = Rule("UP001", "missing", Severity.ERROR, "why", "bad", "good")


def test_a_finding_is_a_line_and_its_fix_another() -> None:
    findings = [
        Finding(RULE, "it is gone", ArtifactLocation("s3://b/a.pt", 2), "upload it again"),
        Finding(RULE, "torn", FileLocation("ledger.jsonl", 7), severity=Severity.INFO),
    ]
    assert format_findings(findings).split("\n") == [
        "error UP001 missing  s3://b/a.pt (rank 2)  it is gone",
        "    fix: upload it again",
        "info UP001 missing  ledger.jsonl:7:1  torn",
    ]


def test_nothing_found_is_nothing_said() -> None:
    assert format_findings([]) == ""


def test_colour_stands_around_the_severity_alone() -> None:
    plain = format_findings([Finding(RULE, "gone", ArtifactLocation("a", 0))])
    coloured = format_findings([Finding(RULE, "gone", ArtifactLocation("a", 0))], colour=True)
    assert coloured == plain.replace("error", "\x1b[1;31merror\x1b[0m", 1)
    assert "\x1b" not in plain


@given(message=st.text(), name=st.text(), fix=st.text(min_size=1))
def test_no_text_can_break_the_line_or_steer_the_terminal(message: str, name: str, fix: str) -> None:
    text = format_findings([Finding(RULE, message, ArtifactLocation(name, 0), fix)])
    assert text.count("\n") == 1
    assert not {unicodedata.category(character) for character in text.replace("\n", "")} & {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }
    text.encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" ")))
def test_letters_of_every_language_are_left_as_they_are(text: str) -> None:
    assert printable(text) == text


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    secret = "very-secret-value"
    text = format_findings(
        [Finding(RULE, f"m {secret}", ArtifactLocation(f"s3://b/{secret}", 0), f"f {secret}")]
    )
    assert secret not in text
    assert text.count("***") == 3


def test_columns_are_aligned() -> None:
    table = format_table(
        ["verdict", "size", "uri"], [["proven", "7 B", "a"], ["missing", "1.0 GiB", "b\nc"]], right=["size"]
    )
    assert table.split("\n") == [
        "verdict     size  uri",
        "proven       7 B  a",
        "missing  1.0 GiB  b\\nc",
    ]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1024**2 - 1, "1.0 MiB"),
        (20 * 1024**2, "20.0 MiB"), (1024**3, "1.0 GiB"), (5 * 1024**4, "5.0 TiB"), (5000 * 1024**4, "5,000.0 TiB"),
    ],
)  # fmt: skip
def test_sizes_are_told_in_powers_of_1024(size: int | None, text: str) -> None:
    assert format_size(size) == text
