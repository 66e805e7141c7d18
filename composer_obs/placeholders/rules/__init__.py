"""The rules, one function each, by the hundreds of their codes."""

from __future__ import annotations

from composer_obs.findings import Rule, Severity
from composer_obs.placeholders.checks import Check
from composer_obs.placeholders.rules import (
    checkpoints,
    folders,
    foreign,
    names,
    schedules,
    syntax,
    uris,
    writers,
)

__all__ = ["BLANKET_SUPPRESSION", "CHECKS", "RULES", "UNUSED_SUPPRESSION"]

UNUSED_SUPPRESSION = Rule(
    "PH901",
    "unused-suppression",
    Severity.WARNING,
    "The comment suppresses a rule that finds nothing here. It hides the next real finding of that rule.",
    bad='FileLogger(filename="{run_name}/log-{rank}.txt")  # composer-obs: ignore[PH301]',
    good='FileLogger(filename="{run_name}/log-{rank}.txt")',
    language="python",
    fix="safe",
)
BLANKET_SUPPRESSION = Rule(
    "PH902",
    "blanket-suppression",
    Severity.WARNING,
    "The comment names no rule and so hides all of them, those too that nobody has thought of yet.",
    bad='FileLogger(filename="log.txt")  # composer-obs: ignore',
    good='FileLogger(filename="log.txt")  # composer-obs: ignore[PH301]',
    language="python",
)
CHECKS: tuple[Check, ...] = (
    *syntax.CHECKS,
    *names.CHECKS,
    *checkpoints.CHECKS,
    *writers.CHECKS,
    *folders.CHECKS,
    *uris.CHECKS,
    *foreign.CHECKS,
    *schedules.CHECKS,
)
RULES: tuple[Rule, ...] = (
    syntax.UNREADABLE_FILE,
    *(check.rule for check in CHECKS),
    UNUSED_SUPPRESSION,
    BLANKET_SUPPRESSION,
)
