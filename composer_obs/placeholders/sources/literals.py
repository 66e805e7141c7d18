r"""Where each character of a Python string literal stands in the source.

``ast`` tells what a literal says, not which characters say it, and its positions inside f-strings
differ between Python 3.10, 3.11 and 3.12, as does what ``tokenize`` makes of them. So the source is
read here, by the grammar of Python 3.12, to which everything that 3.10 and 3.11 accept conforms.

See Also:
    `String literals <https://docs.python.org/3.12/reference/lexical_analysis.html#string-and-bytes-literals>`_
    and `PEP 701 <https://peps.python.org/pep-0701/>`_.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from composer_obs.placeholders.calls import HOLE, Span, Text

__all__ = ["LineIndex", "line_index", "read_literal"]

_PREFIXES = frozenset({"", "r", "u", "f", "rf", "fr"})
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_SIMPLE_ESCAPES = dict(zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v", strict=True))

_OPENING = re.compile(r"""([A-Za-z]{0,2})('''|\"""|'|")""")
_GAP = re.compile(r"(?:[ \t\f\r\n]+|\\(?:\r\n?|\n)|#[^\r\n]*)*")
_CONVERSION = re.compile(r"![sra]")
_LINE_END = re.compile(r"\r\n?|\n")
#: What decides where the expression of a replacement field ends. Words, as one may be a prefix.
_PART = re.compile(r"""\#[^\r\n]*|\w+|'''|\"""|'|"|[!=<>]=|[][(){}:!=]""")
_ESCAPE = r"""
    \\(?:
        (?P<continuation>\r\n?|\n)
        |(?P<simple>[\\'"abfnrtv])
        |(?P<octal>[0-7]{1,3})
        |[xuU](?P<hexadecimal>
            (?<=x)[0-9a-fA-F]{2}|(?<=u)[0-9a-fA-F]{4}|(?<=U)00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}
        )
        |N\{(?P<name>[^}]*)\}
        |(?P<broken>[xuUN])
    )"""
_NEWLINE = r"(?P<newline>\r\n?)"
_BRACES = r"(?P<braces>\{\{|\}\})"


def read_literal(source: str, start: int, end: int) -> Text | None:
    r"""What a string literal says and where each of its characters stands.

    Each replacement field of an f-string is one `HOLE`, whose span is the field with its braces. A
    self-documenting field such as ``{x=}`` puts its own text before the hole; as an edit of that text
    would edit the expression, such a literal is not ``exact``.

    Args:
        source (str): Python source, with line ends of any kind.
        start (int): Offset, in characters, of the first string token, at its prefix.
        end (int): Offset behind the last string token. Tokens between the two are concatenated.

    Returns:
        Text | None: ``None`` for bytes and for whatever is no string literal. Nothing is raised.

    Example:
        >>> source = 'name = f"a\\tb{rank:02d}" "{x}"'
        >>> text = read_literal(source, 7, len(source))
        >>> text.value == "a\tb" + HOLE + "{x}", text.holes, sorted(text.doubled)
        (True, {3: 'rank'}, [0, 1, 2, 3])
        >>> source[slice(*text.spans[1])], source[slice(*text.spans[3])]
        ('\\t', '{rank:02d}')
    """
    try:
        return _read(source, start, end)
    except (ValueError, LookupError, RecursionError):  # LookupError: \N{no such name}
        return None


class LineIndex:
    r"""Converts between lines with columns and offsets into a source.

    Lines end as Python's tokenizer has it: at ``\n``, ``\r\n`` or ``\r``, and nowhere else. A place
    outside the source stands for the nearest one inside.

    Args:
        source (str): The source text.

    Example:
        >>> index = LineIndex("a = 1\r\né = 2")
        >>> index.offset(2, 3), index.position(9)
        (9, (2, 3))
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._ascii = source.isascii()
        self._starts = _line_starts(source) if self._ascii else [0, *_line_ends(source)]
        self._columns: dict[int, list[int]] = {}

    def offset(self, line: int, utf8_column: int) -> int:
        """The offset of what ``ast`` gives as ``lineno`` and ``col_offset``.

        Args:
            line (int): Number of the line, from 1.
            utf8_column (int): Column in bytes of UTF-8, from 0.
        """
        line = min(max(line, 1), len(self._starts))
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self._source)
        column = utf8_column if self._ascii else self._characters(line, start, end, utf8_column)
        return min(start + max(column, 0), end)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and the column in characters, both from 1, of an offset."""
        offset = min(max(offset, 0), len(self._source))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def _characters(self, line: int, start: int, end: int, utf8_column: int) -> int:
        columns = self._columns.get(line)
        if columns is None:
            text = self._source[start:end]
            columns = [] if text.isascii() else list(accumulate(map(_utf8_length, text)))
            self._columns[line] = columns
        return bisect_right(columns, utf8_column) if columns else utf8_column


def _line_ends(source: str) -> Iterator[int]:
    return (match.end() for match in _LINE_END.finditer(source))


def _line_starts(source: str) -> list[int]:
    """As `_line_ends`, several times as fast: bytes end their lines where Python's tokenizer does."""
    starts = [0, *accumulate(map(len, source.encode("ascii").splitlines(keepends=True)))]
    if source and source[-1] not in "\r\n":
        del starts[-1]
    return starts


def line_index(source: str) -> LineIndex:
    """The `LineIndex` of a source."""
    return LineIndex(source)


def _utf8_length(character: str) -> int:
    return 1 + (character > "\x7f") + (character > "\u07ff") + (character > "\uffff")


class _Kind(NamedTuple):
    """What a string token is, and whether it is read as the format of a field."""

    quote: str
    raw: bool
    formatted: bool
    format_of_field: bool = False


@dataclass(frozen=True, slots=True)
class _Field:
    """A replacement field; ``label`` is the text that a self-documenting one puts before its value."""

    span: Span
    expression: str
    label: tuple[Span, ...]


def _read(source: str, start: int, end: int) -> Text | None:
    if not 0 <= start < end <= len(source):
        return None
    value: list[str] = []
    spans: list[Span] = []
    holes: dict[int, str] = {}
    doubled: set[int] = set()
    exact = True
    position = start
    while position < end:
        opening = _OPENING.match(source, position, end)
        if opening is None or opening[1].lower() not in _PREFIXES:
            return None
        prefix = opening[1].lower()
        kind = _Kind(opening[2], raw="r" in prefix, formatted="f" in prefix)
        pieces, position = _pieces(source, opening.end(), end, kind)
        first = len(spans)
        for piece in pieces:
            if not isinstance(piece, _Field):
                _append(value, spans, source, piece, raw=kind.raw, formatted=kind.formatted)
                continue
            for run in piece.label:
                exact = False
                _append(value, spans, source, run, raw=True, formatted=False)
            holes[len(spans)] = piece.expression
            value.append(HOLE)
            spans.append(piece.span)
        if kind.formatted:
            doubled.update(range(first, len(spans)))
        position = _gap(source, position, end)
    return Text("".join(value), (start, end), tuple(spans), holes, frozenset(doubled), exact)


def _pieces(source: str, start: int, end: int, kind: _Kind) -> tuple[list[Span | _Field], int]:
    """The literal text and the fields up to the closing quote, and the offset behind that quote.

    What is the format of a field ends at the ``}`` of the field instead.
    """
    pieces: list[Span | _Field] = []
    stops = _stops(kind)
    position = start
    while match := stops.search(source, position, end):
        position = match.end()
        stop = match[0]
        if stop == ("}" if kind.format_of_field else kind.quote):
            pieces.append((start, match.start()))
            return pieces, position
        if stop == "{":
            pieces.append((start, match.start()))
            field, position = _field(source, match.start(), end, kind)
            pieces.append(field)
            start = position
        elif stop[0] != "\\" and stop not in {"{{", "}}"}:
            break  # a lone brace, the end of the line, or the end of the string amid a field
    raise ValueError("string is not closed")


@lru_cache(maxsize=64)
def _stops(kind: _Kind) -> re.Pattern[str]:
    stops = [kind.quote]
    if not kind.formatted:
        stops.append(r"\\(?:\r\n|[\s\S])")
    else:
        # A backslash before a brace stands for itself, save in the name of a character.
        name = "" if kind.raw else r"N\{[^{}]*\}|"
        stops.append(rf"\\(?:{name}\r\n|[^{{}}])?")
        stops.append(r"[{}]" if kind.format_of_field else r"\{\{|\}\}|[{}]")
    if len(kind.quote) == 1 and not kind.format_of_field:
        stops.append(r"[\r\n]")
    return re.compile("|".join(stops))


def _field(source: str, start: int, end: int, kind: _Kind) -> tuple[_Field, int]:
    """The replacement field whose ``{`` is at ``start``, and the offset behind it."""
    runs, documents_itself, position = _expression(source, start + 1, end)
    expression = "".join(source[slice(*run)] for run in runs).strip()
    if documents_itself:
        expression = expression.removesuffix("=").rstrip()
    if not expression:
        raise ValueError("replacement field without an expression")
    if conversion := _CONVERSION.match(source, position, end):
        position = _gap(source, conversion.end(), end)
    if source.startswith("}", position, end):
        position += 1
    elif source.startswith(":", position, end):
        nested = _Kind(kind.quote, kind.raw, formatted=True, format_of_field=True)
        _, position = _pieces(source, position + 1, end, nested)
    else:
        raise ValueError("replacement field is not closed")
    return _Field((start, position), expression, tuple(runs) if documents_itself else ()), position


def _expression(source: str, start: int, end: int) -> tuple[list[Span], bool, int]:
    """The expression from ``start`` without its comments.

    With whether ``=`` follows, which is then in it too, and the offset of the ``!``, ``:`` or ``}``
    that ends it.
    """
    runs: list[Span] = []
    closers: list[str] = []
    documents_itself = False
    word = ""
    position = start
    while match := _PART.search(source, position, end):
        part = match[0]
        # A word directly before a quote may be its prefix.
        prefix = word.lower() if match.start() == position else ""
        word = ""
        position = match.end()
        if part[0] == "#":
            runs.append((start, match.start()))
            start = position
        elif not closers and part in {"!", ":", "}"}:
            runs.append((start, match.start()))
            return runs, documents_itself, match.start()
        elif documents_itself:
            break
        elif part in _BRACKETS:
            closers.append(_BRACKETS[part])
        elif part in {")", "]", "}"}:
            if not closers or closers.pop() != part:
                break
        elif part[0] in "'\"":
            formatted = prefix in _PREFIXES and "f" in prefix
            _, position = _pieces(source, position, end, _Kind(part, "r" in prefix, formatted))
        elif part == "=":
            documents_itself = not closers
        else:
            word = part
    raise ValueError("expression is not closed")


def _append(
    value: list[str], spans: list[Span], source: str, run: Span, *, raw: bool, formatted: bool
) -> None:
    """Append the characters that a run of literal text stands for, each with its span."""
    position, end = run
    for match in _special(raw, formatted).finditer(source, position, end):
        value.append(source[position : match.start()])
        spans.extend(_each(position, match.start()))
        position = match.end()
        if character := _decode(match):
            value.append(character)
            spans.append(match.span())
    value.append(source[position:end])
    spans.extend(_each(position, end))


def _each(start: int, end: int) -> Iterator[Span]:
    return zip(range(start, end), range(start + 1, end + 1), strict=True)


@lru_cache(maxsize=4)
def _special(raw: bool, formatted: bool) -> re.Pattern[str]:  # noqa: FBT001
    """What does not stand for itself in literal text."""
    parts = [_NEWLINE, *([] if raw else [_ESCAPE]), *([_BRACES] if formatted else [])]
    return re.compile("|".join(parts), re.VERBOSE)


def _decode(match: re.Match[str]) -> str:
    """The character that an escape, a line end or a doubled brace stands for, if any."""
    text = match[0]
    found = match.lastgroup
    if found == "newline":
        return "\n"
    if found == "braces":
        return text[0]
    if found == "simple":
        return _SIMPLE_ESCAPES[text[1]]
    if found == "octal":
        return chr(int(match["octal"], 8))
    if found == "hexadecimal":
        return chr(int(match["hexadecimal"], 16))
    if found == "name":
        character = unicodedata.lookup(match["name"])
        if len(character) == 1:  # and not a named sequence, which an escape cannot name
            return character
    if found == "continuation":
        return ""
    raise ValueError(f"escape {text} is not complete")


def _gap(source: str, position: int, end: int) -> int:
    """The offset behind blanks, line ends and comments."""
    match = _GAP.match(source, position, end)
    return match.end() if match else position
