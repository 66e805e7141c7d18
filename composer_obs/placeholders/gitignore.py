r"""Patterns as in ``.gitignore``, matched as Git matches them.

Git asks about one entry at a time and does not look into an ignored folder; the last pattern that
matches the entry itself decides. A matcher that also matches through parent folders gets the usual
allow-list (``*``, ``!*/``, ``!*.py``) wrong. The rules are those of gitignore(5) and of Git's
``wildmatch.c``, bytes instead of characters included: ``?`` does not match ``é``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Patterns"]

# POSIX classes in the C locale.
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r" \t\n\v\f\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}
_TRAILING_SPACES = re.compile(r"((?:[^\\ ]|\\.| +(?=[^ ]))*) +", re.DOTALL)
_LITERAL = re.compile(r"[^*?\[\\]*")
_SET_ITEM = re.compile(r"\[:(?P<name>[^\]]*?):\]|(?P<low>\\.|[^\\])(?:-(?P<high>\\.|[^\\\]]))?", re.DOTALL)
_NEVER = "(?!)"
# What a path is matched with before it.
_FILE, _FOLDER = "-d"


@dataclass(frozen=True, slots=True)
class Patterns:
    """The lines of one ``.gitignore`` file, or of a list that is written in its syntax.

    Args:
        lines (Iterable[str]): The patterns, in order.

    Example:
        >>> patterns = Patterns(["*.yaml", "!/keep.yaml", "build/"])
        >>> patterns.verdict("a/b.yaml"), patterns.verdict("keep.yaml"), patterns.verdict("build")
        (True, False, None)
        >>> patterns.verdict("build", folder=True)
        True
    """

    lines: Iterable[str]
    _regex: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _ignores: tuple[bool, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parsed = [found for line in self.lines if (found := _parse(_bytewise(line)))]
        # The first alternative that matches wins, so the last pattern comes first.
        alternatives = "|".join(f"({regex})" for regex, _ in reversed(parsed))
        object.__setattr__(self, "_regex", re.compile(alternatives or _NEVER, re.DOTALL))
        object.__setattr__(self, "_ignores", tuple(ignores for _, ignores in reversed(parsed)))

    @classmethod
    def from_bytes(cls, data: bytes) -> Patterns:
        """From the content of a ``.gitignore`` file."""
        lines = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf")).split("\n")
        return cls([line.removesuffix("\r") for line in lines])

    def verdict(self, path: str, *, folder: bool = False) -> bool | None:
        """Whether this very entry is ignored.

        Args:
            path (str): Relative to the folder of the patterns, with ``/`` between its parts.
            folder (bool): Whether it is a folder. Default: ``False``.

        Returns:
            ``True``: ignored; ``False``: a negated pattern says that it is not; ``None``: no pattern
            speaks of it.
        """
        match = self._regex.fullmatch((_FOLDER if folder else _FILE) + _bytewise(path))
        return None if match is None else self._ignores[(match.lastindex or 1) - 1]


def _bytewise(text: str) -> str:
    """One character a byte."""
    return text if text.isascii() else os.fsencode(text).decode("latin-1")


def _parse(line: str) -> tuple[str, bool] | None:
    """The regular expression of a pattern, and whether it ignores what it matches."""
    if not line or line.startswith("#"):
        return None
    if trimmed := _TRAILING_SPACES.fullmatch(line):
        line = trimmed[1]
    ignores = not line.startswith("!")
    pattern = line.removeprefix("!")
    kind = _FOLDER if pattern.endswith("/") else "."
    pattern = pattern.removesuffix("/")
    if "/" not in pattern:
        return f"{kind}(?:.*/)?{_translate(pattern, across=False)}", ignores
    return kind + _translate(pattern.removeprefix("/"), across=True), ignores


def _translate(pattern: str, *, across: bool) -> str:
    """The regular expression of a pattern, in which ``**`` may or may not stand for several folders."""
    # Git compares the beginning without wildcards first and hands the rest to wildmatch, which
    # therefore takes the `**` of `a**/b` for one at the start.
    start = at = len(_LITERAL.match(pattern)[0])  # type: ignore[index]
    regex = [re.escape(pattern[:start])]
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            stars = at
            while pattern[at : at + 1] == "*":
                at += 1
            whole_part = (stars == start or pattern[stars - 1] == "/") and pattern[at : at + 1] in {"", "/"}
            if at - stars == 1 or not (across and whole_part):
                regex.append("[^/]*")
            elif at == len(pattern):
                regex.append(".*")
            else:
                regex.append("(?:.*/)?")
                at += 1
        elif character == "?":
            regex.append("[^/]")
            at += 1
        elif character == "[":
            found, at = _set(pattern, at + 1)
            regex.append(found)
        else:
            at += character == "\\"
            regex.append(re.escape(pattern[at]) if at < len(pattern) else _NEVER)
            at += 1
    return "".join(regex)


def _set(pattern: str, at: int) -> tuple[str, int]:
    """The regular expression of ``[...]``, and where it ends; ``at`` is behind the bracket."""
    negated = pattern[at : at + 1] in {"!", "^"}
    at += negated
    first, items = at, []
    while (item := _SET_ITEM.match(pattern, at)) and (pattern[at] != "]" or at == first):
        at = item.end()
        if (name := item["name"]) is not None:
            if name not in _CLASSES:
                return _NEVER, len(pattern)
            items.append(_CLASSES[name])
            continue
        low = item["low"][-1]
        high = (item["high"] or low)[-1]
        # A range that runs backwards still holds its first character.
        items.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low))
    if item is None:
        return _NEVER, len(pattern)  # never closed
    inside = "".join(items)
    return (f"[^/{inside}]" if negated else f"(?!/)[{inside}]"), at + 1
