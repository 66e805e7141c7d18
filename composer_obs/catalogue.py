"""Every rule of every capability, by code and by name.

A capability keeps its rules beside the checks that use them; this is the one place that knows all
of those places. ``composer-obs rule``, the README's table and SARIF read from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from composer_obs import containment
from composer_obs.errors import InvalidInputError
from composer_obs.findings import Rule
from composer_obs.placeholders import rules as placeholders
from composer_obs.uploads import rules as uploads

__all__ = ["Selection", "UnknownRuleError", "find_rule", "rules"]

_ALL = (*containment.RULES, *placeholders.RULES, *uploads.RULES)


class UnknownRuleError(InvalidInputError):
    """No rule has this code or name."""


def rules() -> dict[str, Rule]:
    """All rules by code, in the order of their codes.

    Example:
        >>> rules()["UP001"].name
        'missing'
    """
    return {rule.code: rule for rule in sorted(_ALL, key=lambda rule: rule.code)}


def find_rule(code_or_name: str) -> Rule:
    """The rule of this code or name, in upper or lower case.

    Raises:
        UnknownRuleError: There is none; the message names the most similar ones.

    Example:
        >>> find_rule("up001") is find_rule("missing")
        True
    """
    known = {name.lower(): rule for rule in _ALL for name in (rule.code, rule.name)}
    if (found := known.get(code_or_name.lower())) is not None:
        return found
    from difflib import get_close_matches

    similar = [known[name] for name in get_close_matches(code_or_name.lower(), known, n=3)]
    listed = ", ".join(dict.fromkeys(f"{rule.code} ({rule.name})" for rule in similar))
    advice = f"did you mean {listed}?" if listed else "`composer-obs rule` lists all"
    raise UnknownRuleError(f"no rule is called {code_or_name!r}; {advice}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which rules count.

    Args:
        select (tuple[str, ...]): Beginnings of codes, e.g. ``"UP"`` or ``"UP001"``. Default: all rules.
        ignore (tuple[str, ...]): Beginnings of codes that do not count, whatever ``select`` says.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def parse(cls, select: Iterable[str], ignore: Iterable[str]) -> Selection:
        """From comma-separated lists, as the command line takes them.

        Raises:
            UnknownRuleError: No rule's code begins like that.

        Example:
            >>> Selection.parse(["UP,EN9"], ["up008"]).includes(find_rule("UP008"))
            False
        """
        return cls(_prefixes(select), _prefixes(ignore))

    def includes(self, rule: Rule) -> bool:
        """Whether findings of this rule count."""
        return rule.code.startswith(self.select or "") and not rule.code.startswith(self.ignore)


def _prefixes(lists: Iterable[str]) -> tuple[str, ...]:
    prefixes = [item.strip() for text in lists for item in text.split(",") if item.strip()]
    for prefix in prefixes:
        if not any(rule.code.startswith(prefix.upper()) for rule in _ALL):
            raise UnknownRuleError(f"no rule's code begins with {prefix!r}; `composer-obs rule` lists all")
    return tuple(prefix.upper() for prefix in prefixes)
