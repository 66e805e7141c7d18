"""Where each character of a YAML scalar stands in the source.

Every answer is proved: the characters found must be the scalar's value, else there is no answer.
"""

from __future__ import annotations

import re

from composer_obs.placeholders.calls import Span

__all__ = ["character_spans", "skip_properties"]

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+(?:#.*\s+)*)+")
_BREAK = "(?:\r\n|[\n\r\x85\u2028\u2029])"
_NOT_BREAK = "[^\n\r\x85\u2028\u2029]"
_SPACE = re.compile(f"(?P<before>[ \t]*)(?P<breaks>(?:{_BREAK}[ \t]*)*)")
_ONE_BREAK = re.compile(_BREAK)
_ESCAPE = re.compile(
    r"\\(?:x(?P<x>[0-9A-Fa-f]{2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<one>.))", re.DOTALL
)
_ESCAPES = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r",
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0",
    "L": "\u2028", "P": "\u2029",
}  # fmt: skip
_HEADER = re.compile(f"[|>][-+0-9]*[ \t]*(?:#{_NOT_BREAK}*)?{_BREAK}")
_LINE = re.compile(f"({_NOT_BREAK}*)({_BREAK}|\\Z)")

# The characters of a value, each with its span.
_Characters = list[tuple[str, Span]]


def skip_properties(source: str, start: int, end: int) -> int:
    """Where a node begins behind its anchor and tag.

    Example:
        >>> skip_properties("a: &b !!str c", 3, 13)
        12
    """
    properties = _PROPERTIES.match(source, start, end)
    return properties.end() if properties else start


def character_spans(source: str, start: int, end: int, value: str, style: str | None) -> tuple[Span, ...]:
    r"""Where each character of a scalar stands.

    Args:
        source (str): The YAML text.
        start (int): Where the scalar begins in it, with its quotes or block header.
        end (int): Where it ends.
        value (str): The scalar's value.
        style (str, optional): ``'"'``, ``"'"``, ``"|"``, ``">"``, or nothing for a plain scalar.

    Returns:
        tuple[Span, ...]: One span a character; an escape's is longer, and a folded line break's holds
        the indentation. Empty if it cannot be told.

    Example:
        >>> character_spans('a: "b\\tc"', 3, 9, "b\tc", '"')
        ((4, 5), (5, 7), (7, 8))
    """
    if style not in {"|", ">"}:
        first, last = (start + 1, end - 1) if style else (start, end)
        if last - first == len(value) and source.startswith(value, first):
            return tuple(zip(range(first, last), range(first + 1, last + 1), strict=True))
        found = _flow(source, first, last, style or "")
    else:
        found = _block(source, start, end, value, style)
    extra = found[len(value) :]
    # Chomping drops line breaks at the end, and nothing else.
    if "".join(char for char, _ in found[: len(value)]) != value or any(char != "\n" for char, _ in extra):
        return ()
    return tuple(span for _, span in found[: len(value)])


def _normal(line_break: str) -> str:
    return line_break if line_break in "\u2028\u2029" else "\n"


def _folded(source: str, start: int, end: int) -> _Characters:
    """What the line breaks and indentation in between two lines of a scalar stand for."""
    breaks = [(_normal(found[0]), found.span()) for found in _ONE_BREAK.finditer(source, start, end)]
    if breaks[0][0] != "\n":
        return breaks
    return breaks[1:] or [(" ", (start, end))]


def _flow(source: str, start: int, end: int, style: str) -> _Characters:
    """The characters of a plain or quoted scalar, without its quotes."""
    found: _Characters = []
    position = start
    while position < end:
        space = _SPACE.match(source, position, end)
        if space is not None and space[0]:
            before = space.end("before")
            if space["breaks"]:
                found += _folded(source, before, space.end())
            else:
                found += [(source[i], (i, i + 1)) for i in range(position, before)]
            position = space.end()
            continue
        if style == "'" and source.startswith("''", position):
            found.append(("'", (position, position + 2)))
            position += 2
        elif style == '"' and source[position] == "\\" and (escape := _ESCAPE.match(source, position, end)):
            position = _escape(escape, found, end)
        else:
            found.append((source[position], (position, position + 1)))
            position += 1
    return found


def _escape(escape: re.Match[str], found: _Characters, end: int) -> int:
    """Add what an escape stands for; return where the text goes on."""
    if (digits := escape["x"] or escape["u"] or escape["U"]) is not None:
        code = int(digits, 16)
        found.append((chr(code) if code < 0x110000 else "", escape.span()))
    elif (known := _ESCAPES.get(escape["one"])) is not None:
        found.append((known, escape.span()))
    elif space := _SPACE.match(escape.string, escape.start("one"), end):
        # An escaped line break joins the lines; empty lines behind it are kept.
        breaks = list(_ONE_BREAK.finditer(space.string, *space.span()))
        found += [(_normal(each[0]), each.span()) for each in breaks[1:]]
        return max(space.end(), escape.end())
    return escape.end()


def _block(source: str, start: int, end: int, value: str, style: str) -> _Characters:
    header = _HEADER.match(source, start, end)
    if header is None:
        return []
    lines = [match for match in _LINE.finditer(source, header.end(), end) if match[0]]
    indent = _indentation(lines, value)
    found: _Characters = []
    pending: _Characters = []  # line breaks since the last line with content
    spaced = True  # whether that line began with a blank, or there was none: then nothing is folded
    for line in lines:
        content = line[1][indent:]
        if content:
            blank = content[0] in " \t"
            if style == ">" and pending and not (spaced or blank) and pending[0][0] == "\n":
                found += pending[1:] or [(" ", (pending[0][1][0], line.start() + indent))]
            else:
                found += pending
            pending, spaced = [], blank
            begin = line.start() + indent
            found += [(char, (begin + i, begin + i + 1)) for i, char in enumerate(content)]
        if line[2]:
            pending.append((_normal(line[2]), line.span(2)))
    return found + pending


def _indentation(lines: list[re.Match[str]], value: str) -> int:
    """How far the block is indented: the source's spaces that are not in the value."""
    for line in lines:
        if line[1].strip(" "):
            first = value.lstrip("\n\u2028\u2029")
            own = len(first) - len(first.lstrip(" "))
            return len(line[1]) - len(line[1].lstrip(" ")) - own
    return max((len(line[1]) for line in lines), default=0)
