"""``composer-obs rule``: explain a rule, or list all."""

from __future__ import annotations

import click

from composer_obs.catalogue import find_rule, rules
from composer_obs.findings import Rule
from composer_obs.reporting.text import format_table

__all__ = ["command"]


@click.command("rule")
@click.argument("rule", required=False, metavar="[CODE]")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text")
def command(rule: str | None, format_: str) -> None:
    """Explain a rule by its code or name, or list all."""
    chosen = rules().values() if rule is None else [find_rule(rule)]
    if format_ == "json":
        import json

        print(json.dumps({"version": 1, "rules": [_to_json(rule) for rule in chosen]}, indent=1))
    elif rule is None:
        rows = [[r.code, r.name, r.severity.value, r.reason.partition(". ")[0].rstrip(".")] for r in chosen]
        print(format_table(["code", "name", "severity", "what"], rows))
    else:
        print("\n\n".join(map(_explain, chosen)))


def _to_json(rule: Rule) -> dict[str, str]:
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "reason": rule.reason,
        "bad": rule.bad,
        "good": rule.good,
        "since": rule.since,
        "language": rule.language,
        "fix": rule.fix,
    }


def _explain(rule: Rule) -> str:
    from textwrap import fill

    parts = [
        f"{rule.code} {rule.name} ({rule.severity.value}, since {rule.since})",
        fill(rule.reason, 88, break_on_hyphens=False),
        f"Instead of:\n{_example(rule.bad)}",
        f"Good:\n{_example(rule.good)}",
    ]
    if rule.fix:
        asked = "--fix" if rule.fix == "safe" else "--fix --unsafe-fixes"
        parts.append(f"Fixed by: composer-obs lint {asked}")
    return "\n\n".join(parts)


def _example(text: str) -> str:
    """Indented, its own lines kept; a line that is too long goes on further to the right."""
    from textwrap import TextWrapper

    wrapper = TextWrapper(
        88,
        initial_indent="    ",
        subsequent_indent="        ",
        break_on_hyphens=False,
        break_long_words=False,
    )
    return "\n".join(wrapper.fill(line) for line in text.splitlines())
