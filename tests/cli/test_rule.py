from __future__ import annotations

import json

import pytest

from composer_obs.catalogue import rules
from tests.cli.conftest import invoke


def words(text: str) -> list[str]:
    return text.split()


def test_without_a_code_every_rule_is_listed() -> None:
    result = invoke("rule")
    assert result.exit_code == 0
    lines = result.stdout.rstrip("\n").split("\n")
    assert words(lines[0]) == ["code", "name", "severity", "what"]
    assert [words(line)[:3] for line in lines[1:]] == [
        [rule.code, rule.name, rule.severity.value] for rule in rules().values()
    ]


@pytest.mark.parametrize("code", list(rules()))
def test_a_rule_is_explained_with_reason_bad_and_good_example(code: str) -> None:
    result = invoke("rule", code)
    assert result.exit_code == 0
    rule = rules()[code]
    shown = words(result.stdout)
    for text in (rule.reason, rule.bad, rule.good):
        parts = words(text)
        assert any(shown[at : at + len(parts)] == parts for at in range(len(shown)))
    assert result.stdout.startswith(f"{rule.code} {rule.name} ({rule.severity.value}, since {rule.since})\n")
    assert max(map(len, result.stdout.split("\n"))) <= 100


def test_a_name_will_do() -> None:
    assert invoke("rule", "missing").stdout == invoke("rule", "UP001").stdout


def test_json_is_for_programs() -> None:
    every = json.loads(invoke("rule", "--format", "json").stdout)
    one = json.loads(invoke("rule", "UP001", "--format", "json").stdout)
    assert every["version"] == 1
    assert [rule["code"] for rule in every["rules"]] == list(rules())
    assert one["rules"] == [rule for rule in every["rules"] if rule["code"] == "UP001"]
    assert set(one["rules"][0]) == {
        "code",
        "name",
        "severity",
        "reason",
        "bad",
        "good",
        "since",
        "language",
        "fix",
    }


def test_an_unknown_rule_is_wrong_usage_with_what_was_meant() -> None:
    result = invoke("rule", "corupt")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "no rule is called 'corupt'; did you mean UP003 (corrupt)?\n"
