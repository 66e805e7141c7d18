"""What the README says is what there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from composer_obs.catalogue import rules
from composer_obs.cli import cli
from composer_obs.uploads import ledger
from composer_obs.uploads.verdicts import RULE_OF, Verdict

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def rules_table() -> str:
    """The README's table of rules, as the catalogue has it."""
    rows = [f"| {rule.code} | {rule.name} | {rule.severity.value} |" for rule in rules().values()]
    return "\n".join(["| Code | Name | Severity |", "|---|---|---|", *sorted(rows)])


def test_the_table_of_rules_is_the_catalogue() -> None:
    assert rules_table() in README


def test_the_table_of_verdicts_names_each_with_its_rule() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (UP\d{3})? ?\|$", README, re.MULTILINE))
    assert told == {v.value: RULE_OF[v].code if v in RULE_OF else "" for v in Verdict}


def test_the_table_of_the_ledger_names_every_field() -> None:
    rows = dict(
        re.findall(
            r"^\| `(\w+)` \| (.+) \|$", README.split("## The ledger")[1].split("\n## ")[0], re.MULTILINE
        )
    )
    kinds = {
        "run": ledger.Run,
        "destination": ledger.Destination,
        "saver": ledger.Saver,
        "attempt": ledger.Attempt,
        "checksum": ledger.Content,
        "outcome": ledger.Outcome,
    }
    for kind, record in kinds.items():
        told = set(re.findall(r"`(\w+)`", rows[kind]))
        # `time` is the line's own `t`, and a run's end is a line of its own.
        missing = {field.name for field in dataclasses.fields(record)} - told - {"time", "ended"}
        assert not missing, (kind, missing)
    assert set(rows) - {"kind"} == {*kinds, "verdict", "end"}


def test_every_command_is_named() -> None:
    commands = cli.list_commands(None)  # type: ignore[arg-type]
    assert all(f"`{command}`" in README for command in commands)


def test_every_path_in_the_map_exists() -> None:
    table = README.split("## Map of the code")[1].split("\n## ")[0]
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", table):
        parts = ("", "composer_obs", "composer_obs/uploads", "composer_obs/placeholders", "composer_obs/gpu")
        found = [ROOT / part / name for part in parts]
        assert any(path.exists() for path in found), name
