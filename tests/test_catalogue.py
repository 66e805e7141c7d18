from __future__ import annotations

import re

import pytest

from composer_obs import catalogue
from composer_obs.catalogue import Selection, UnknownRuleError, find_rule, rules
from composer_obs.findings import Rule, Severity

ALL = sorted(rules().values(), key=lambda rule: rule.code)


def test_codes_and_names_are_unique() -> None:
    codes = [rule.code for rule in catalogue._ALL]
    names = [rule.name for rule in catalogue._ALL]
    assert len(set(codes)) == len(codes)
    assert len(set(names)) == len(names)
    assert list(rules()) == sorted(codes)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.code)
def test_every_rule_is_explained(rule: Rule) -> None:
    assert re.fullmatch(r"(PH|UP|GP|PR|EN)\d{3}", rule.code)
    assert re.fullmatch(r"[a-z]+([-_][a-z]+){0,5}", rule.name)
    assert len(rule.reason) > 50
    assert rule.reason.endswith(".")
    assert rule.bad
    assert rule.good
    assert rule.bad != rule.good
    assert re.fullmatch(r"\d+\.\d+\.\d+", rule.since)


def test_every_rule_that_the_package_defines_is_in_the_catalogue() -> None:
    import importlib
    import pkgutil

    import composer_obs

    defined = set()
    # Not the plug-ins' own modules: rules live in the cores, which import without composer.
    for module in pkgutil.walk_packages(composer_obs.__path__, "composer_obs."):
        if ".rules" in module.name or module.name.endswith(".containment"):
            found = vars(importlib.import_module(module.name)).values()
            defined |= {value.code for value in found if isinstance(value, Rule)}
            # A check holds its rule.
            defined |= {value.rule.code for value in found if isinstance(getattr(value, "rule", None), Rule)}
    assert defined == set(rules())


@pytest.mark.parametrize("name", ["UP001", "up001", "missing", "Missing"])
def test_a_rule_is_found_by_code_or_name_in_any_case(name: str) -> None:
    assert find_rule(name).code == "UP001"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("EN9O1", "did you mean EN901 (contained-fault)"),
        ("corupt", "did you mean UP003 (corrupt)?"),
        ("truncate", "did you mean UP002 (truncated)"),
        ("xyz", "`composer-obs rule` lists all"),
    ],
)
def test_an_unknown_rule_is_refused_with_the_most_similar_ones(name: str, advice: str) -> None:
    with pytest.raises(UnknownRuleError) as refused:
        find_rule(name)
    assert repr(name) in str(refused.value)
    assert advice in str(refused.value)


@pytest.mark.parametrize(
    ("select", "ignore", "included"),
    [
        ([], [], {"UP001", "UP002", "UP016", "EN901"}),
        (["UP"], [], {"UP001", "UP002", "UP016"}),
        (["UP001,EN"], [], {"UP001", "EN901"}),
        (["up001", " up016 "], [], {"UP001", "UP016"}),
        ([], ["UP01"], {"UP001", "UP002", "EN901"}),
        (["UP"], ["UP00,EN"], {"UP016"}),
        (["UP001"], ["UP"], set()),
        ([","], [""], {"UP001", "UP002", "UP016", "EN901"}),
    ],
)
def test_a_selection_takes_beginnings_of_codes(
    select: list[str], ignore: list[str], included: set[str]
) -> None:
    selection = Selection.parse(select, ignore)
    codes = {"UP001", "UP002", "UP016", "EN901"}
    assert {code for code in codes if selection.includes(find_rule(code))} == included


def test_a_selection_of_rules_that_do_not_exist_is_refused() -> None:
    with pytest.raises(UnknownRuleError, match="begins with 'UP9'"):
        Selection.parse(["UP9"], [])
    with pytest.raises(UnknownRuleError, match="begins with 'missing'"):
        Selection.parse([], ["missing"])


def test_severities_are_spread() -> None:
    assert {rule.severity for rule in ALL} == {Severity.ERROR, Severity.WARNING}
