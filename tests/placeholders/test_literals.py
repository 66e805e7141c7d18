from __future__ import annotations

import ast
import random
import sys
import sysconfig
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from composer_obs.placeholders.calls import HOLE, Text
from composer_obs.placeholders.sources.literals import LineIndex, line_index, read_literal

# Python warns of escapes such as \d, and of octal ones above \377.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
]

PEP_701 = sys.version_info >= (3, 12)
VARIABLES = {"rank": 3, "name": "run", "width": 6, "table": {"a": 1}}


class Field(NamedTuple):
    """A replacement field and what it says, by hand. ``Q`` is a quote, ``q`` a single one of it."""

    source: str
    expression: str
    label: str
    shown: str

    def quoted(self, quote: str) -> Field:
        return Field(*(part.replace("Q", quote).replace("q", quote[0]) for part in self))


FIELDS = [
    Field("{rank}", "rank", "", "3"),
    Field("{ rank }", "rank", "", "3"),
    Field("{name!r}", "name", "", "'run'"),
    Field("{name !r:>6}", "name", "", " 'run'"),
    Field("{rank:{width}}", "rank", "", "     3"),
    Field("{rank:0{width}d}", "rank", "", "000003"),
    Field("{rank:=+5d}", "rank", "", "+   3"),
    Field("{rank!=3}", "rank!=3", "", "False"),
    Field("{rank!=3!s:>6}", "rank!=3", "", " False"),
    Field("{rank == 3}", "rank == 3", "", "True"),
    Field("{rank>=3}", "rank>=3", "", "True"),
    Field("{(n := 5)}", "(n := 5)", "", "5"),
    Field("{(lambda n: n + 1)(rank)}", "(lambda n: n + 1)(rank)", "", "4"),
    Field("{dict(a=1)}", "dict(a=1)", "", "{'a': 1}"),
    Field("{ {1: {2: 7}}[1][2] }", "{1: {2: 7}}[1][2]", "", "7"),
    Field("{name[0:2]:>4}", "name[0:2]", "", "  ru"),
    Field("{rank, 1}", "rank, 1", "", "(3, 1)"),
    Field("{rank:\\x3e4}", "rank", "", "   3"),
    Field("{name:#<\\N{DIGIT SIX}}", "name", "", "run###"),
    Field("{rank=}", "rank", "rank=", "3"),
    Field("{ rank = }", "rank", " rank = ", "3"),
    Field("{name=!s:>4}", "name", "name=", " run"),
    Field("{rank>=3=}", "rank>=3", "rank>=3=", "True"),
    Field("{(rank)=:=+5d}", "(rank)", "(rank)=", "+   3"),
    Field("{ {1: {2: 7}}=}", "{1: {2: 7}}", " {1: {2: 7}}=", "{1: {2: 7}}"),
    Field("{table[QaQ]}", "table[QaQ]", "", "1"),
    Field("{Q}Q}", "Q}Q", "", "}"),
    Field("{Q{!r:=#Q!s}", "Q{!r:=#Q", "", "{!r:=#"),
    Field("{QaQ if rank elseQbQ}", "QaQ if rank elseQbQ", "", "a"),
    Field("{QaQ QbQ}", "QaQ QbQ", "", "ab"),
    Field("{fQ{{{rank:{width}}}}Q}", "fQ{{{rank:{width}}}}Q", "", "{     3}"),
    Field("{len(bQ{Q)}", "len(bQ{Q)", "", "1"),
]
#: In raw strings the format is not decoded.
NOT_RAW = {"{rank:\\x3e4}", "{name:#<\\N{DIGIT SIX}}"}
MULTILINE_FIELDS = [
    Field("{\n rank\r\n}", "rank", "", "3"),
    Field("{rank\r\n=}", "rank", "rank\n=", "3"),
]
#: What only Python 3.12 takes; here with the quotes of the string itself.
NEW_FIELDS = [
    Field("{table[QaQ]}", "table[QaQ]", "", "1"),
    Field("{fQ{fQ{rank}Q}Q}", "fQ{fQ{rank}Q}Q", "", "3"),
    Field("{fQ{Q}Q}Q}", "fQ{Q}Q}Q", "", "}"),
    Field("{Q}\\qQ}", "Q}\\qQ", "", "}q"),
    Field("{rQ\\{Q}", "rQ\\{Q", "", "\\{"),
    Field("{fQ\\N{EM DASH}Q}", "fQ\\N{EM DASH}Q", "", "—"),
    Field("{rank # }Q\"'\n}", "rank", "", "3"),
    Field("{(rank # )\n + 1)}", "(rank \n + 1)", "", "4"),
    Field("{rank # =\n = # c\n}", "rank", "rank \n = \n", "3"),
    Field("{rank:{width:0{rank}}}", "rank", "", "000003"),
    Field("{name:{Q>Q}6}", "name", "", "   run"),
    Field("{name!r :>7}", "name", "", "  'run'"),
]

PLAIN = "ab7 \té日😀#!=:/()\x0c\x85\u2028" + HOLE
ESCAPES = [
    *(f"\\{letter}" for letter in "\\'\"abfnrtv"),
    *("\\x41", "\\u1234", "\\U0001F600", "\\ud800", "\\7", "\\101", "\\400", "\\8", "\\d", "\\ "),
    *("\\N{EM DASH}", "\\N{digit one}", "\\\n", "\\\r\n", "\\\r"),
]
RAW_ESCAPES = ["\\n", "\\d", "\\\\", "\\'", '\\"', "\\u1", "\\x", "\\\n", "\\\r\n"]
GAPS = ["", " ", "\n", "\r\n", "\r", "\x0c", "\\\n", "\\\r\n ", ' # it\'s {"so"}\n', "#\r\n\t"]


class Token(NamedTuple):
    source: str
    fields: list[Field]
    raw: bool
    new: bool


@st.composite
def tokens(draw: st.DrawFn, prefixes: tuple[str, ...]) -> Token:
    prefix = draw(st.sampled_from(prefixes))
    quote = draw(st.sampled_from(["'", '"', "'''", '"""']))
    other = '"' if quote[0] == "'" else "'"
    raw = "r" in prefix.lower()
    formatted = "f" in prefix.lower()
    triple = len(quote) == 3
    choices = [
        st.text(PLAIN + other, min_size=1, max_size=4),
        st.sampled_from(RAW_ESCAPES if raw else ESCAPES),
    ]
    if triple:
        choices.append(st.sampled_from(["\n", "\r\n", "\r", f"{quote[0]}.", f"{quote[:2]}."]))
    if formatted:
        old = [f for f in FIELDS if not (raw and f.source in NOT_RAW)] + (MULTILINE_FIELDS if triple else [])
        choices.append(st.sampled_from(["{{", "}}", "\\{{", "{{x}}"]))
        choices.append(st.sampled_from(old).map(lambda f: (f, other, False)))
        # Within triple quotes the string's own quotes are three, too.
        choices.append(st.sampled_from(NEW_FIELDS).map(lambda f: (f, quote, True)))
    else:
        choices.append(st.sampled_from(["{", "}", "\\{", "{{", "{x}"]))
    source = prefix + quote
    fields: list[Field] = []
    new = False
    for part in draw(st.lists(st.one_of(choices), max_size=8)):
        if isinstance(part, str):
            source += part
            continue
        field, mark, recent = part
        field = field.quoted(mark)
        source += field.source
        fields.append(field)
        new |= recent
    return Token(source + quote, fields, raw, new)


PLAIN_PREFIXES = ("", "r", "R", "u", "U")
ALL_PREFIXES = ("", "r", "u", "f", "F", "rf", "fR", "Fr")


@st.composite
def literals(draw: st.DrawFn, prefixes: tuple[str, ...]) -> tuple[str, list[Token]]:
    parts = draw(st.lists(tokens(prefixes), min_size=1, max_size=4))
    source = parts[0].source
    for part in parts[1:]:
        gap = draw(st.sampled_from(GAPS))
        if not gap and part.source[0] == source[-1]:
            gap = " "  # two adjacent quotes may be half of three
        source += gap + part.source
    return source, parts


def read(source: str, before: str = "", after: str = "") -> Text | None:
    return read_literal(before + source + after, len(before), len(before) + len(source))


def read_well(source: str) -> Text:
    text = read(source)
    assert text is not None, source
    assert text.span == (0, len(source))
    assert len(text.spans) == len(text.value)
    return text


def evaluate(source: str) -> str:
    value = eval(compile(f"({source})", "a.py", "eval"), dict(VARIABLES))
    assert isinstance(value, str)
    return value


def check_spans(source: str, text: Text) -> None:
    """Each character is where it says, by what Python makes of that piece of the source alone."""
    for index, (character, (start, end)) in enumerate(zip(text.value, text.spans, strict=True)):
        piece = source[start:end]
        if index in text.holes:
            assert (piece[0], piece[-1]) == ("{", "}")
        elif piece in {"{{", "}}"}:
            assert character == piece[0]
            assert index in text.doubled
        elif piece in {"\r\n", "\r"}:
            assert character == "\n"
        elif len(piece) > 1:
            assert piece[0] == "\\"
            assert ast.literal_eval(f"'''{piece}'''") == character
        else:
            assert piece == character


@given(literals(PLAIN_PREFIXES), st.sampled_from(["", "x = (", "é\n\t", "'"]))
def test_a_plain_literal_says_what_python_reads(literal: tuple[str, list[Token]], before: str) -> None:
    source, _ = literal
    text = read_well(source)
    assert text.value == ast.literal_eval(f"({source})")
    assert (text.known, text.exact, text.doubled) == (True, True, frozenset())
    check_spans(source, text)
    spans = list(text.spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    # Offsets are those of the whole source.
    within = read(source, before, "'" + before)
    assert within is not None
    shift = len(before)
    assert within.value == text.value
    assert [(a - shift, b - shift) for a, b in within.spans] == spans
    assert within.span == (shift, shift + len(source))


@given(literals(ALL_PREFIXES))
def test_an_f_string_has_a_hole_for_each_field(literal: tuple[str, list[Token]]) -> None:
    source, parts = literal
    text = read_well(source)
    fields = [field for part in parts for field in part.fields]
    assert list(text.holes) == sorted(text.holes)
    assert list(text.holes.values()) == [field.expression for field in fields]
    for index, field in zip(text.holes, fields, strict=True):
        assert source[slice(*text.spans[index])] == field.source
        assert text.value[index] == HOLE
        assert text.value[:index].endswith(field.label)
    assert text.exact == (not any(field.label for field in fields))
    check_spans(source, text)
    if PEP_701 or not any(part.new for part in parts):
        shown = list(text.value)
        for index, field in zip(text.holes, fields, strict=True):
            shown[index] = field.shown
        assert "".join(shown) == evaluate(source)


@given(literals(ALL_PREFIXES), st.data())
def test_an_edit_of_a_character_edits_the_string(
    literal: tuple[str, list[Token]], data: st.DataObject
) -> None:
    source, parts = literal
    text = read_well(source)
    if not text.value or not text.exact or (not PEP_701 and any(part.new for part in parts)):
        return
    index = data.draw(st.integers(0, len(text.value) - 1))
    if text.value[index] == "\\" and any(part.raw for part in parts):
        return  # in a raw string it may be what keeps a quote from ending the string
    start, end = text.spans[index]
    replacement = "{{" if index in text.doubled else "{"
    edited = source[:start] + replacement + source[end:]
    if source[:start].endswith("\\N"):
        return  # is the begin of a name then
    values = list(text.value)
    values[index] = "{"
    for hole, field in zip(text.holes, [f for part in parts for f in part.fields], strict=True):
        if hole != index:
            values[hole] = field.shown
    assert evaluate(edited) == "".join(values)


@pytest.mark.parametrize("field", [*NEW_FIELDS, *FIELDS, *MULTILINE_FIELDS], ids=lambda f: f.source)
def test_the_grammar_of_python_3_12_is_read_by_every_python(field: Field) -> None:
    field = field.quoted('"')
    source = f'f"<{field.source}>"'
    text = read_well(source)
    assert text.value == f"<{field.label}{HOLE}>"
    assert text.holes == {len(field.label) + 1: field.expression}
    assert source[slice(*text.spans[len(field.label) + 1])] == field.source
    if PEP_701:
        assert evaluate(source) == f"<{field.label}{field.shown}>"


def test_the_characters_of_f_strings_are_told_from_those_beside_them() -> None:
    source = "'{a}' f'{{{rank}' \"b\" rf'\\d'"
    text = read_well(source)
    assert text.value == "{a}{" + HOLE + "b\\d"
    assert text.doubled == {3, 4, 6, 7}
    assert text.exact
    assert [source[slice(*span)] for span in text.spans[3:5]] == ["{{", "{rank}"]


def test_the_name_of_a_character_is_no_field_of_an_f_string() -> None:
    text = read_well("f'\\N{EM DASH}\\\\N{rank}' rf'\\N{rank}'")
    assert (text.value, list(text.holes)) == ("—\\N" + HOLE + "\\N" + HOLE, [3, 6])


def test_a_character_that_looks_like_a_hole_is_none() -> None:
    assert read_well(f"'{HOLE}'").known


@pytest.mark.parametrize(
    "source",
    [
        "b'a'", "Rb'a'", "'a' b'b'", "ur'a'", "ff'a'", "a", "1", "'a' + 'b'", "('a')", "'a", "'a\n'", "'''a''", "'a' b", "'",
        "'\\x4'", "'\\u123'", "'\\U00110000'", "'\\N{no such}'", "'\\N'", "'\\N{KEYCAP DIGIT ONE}'", "'\\",
        "f'{'", "f'}'", "f'{}'", "f'{ }'", "f'{=}'", "f'{# c\n}'", "f'{x'", "f'{x)}'", "f'{(x]}'", "f'{x!}'", "f'{x!x}'", "f'{x!rs}'",
        "f'{x:'", "f'{x:{y}'", "f'{x=y}'", "f'{x!r=}'", "f'{\"x}'", "f'{x}}'", "f'{x # }'", "f'a\n'", "f'\\x{1}'", "f'\\N{no such}'",
    ],
)  # fmt: skip
def test_what_is_no_string_literal_is_not_read(source: str) -> None:
    assert read(source) is None
    # Nor does Python read a string there.
    try:
        node = ast.parse(f"{source}\n", mode="eval").body
    except (SyntaxError, ValueError):
        return
    assert not isinstance(node, ast.JoinedStr)
    assert not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or source[0] == "("


@pytest.mark.parametrize(("start", "end"), [(0, 0), (2, 1), (-3, 3), (0, 4), (3, 3), (9, 12)])
def test_what_is_no_part_of_the_source_is_not_read(start: int, end: int) -> None:
    assert read_literal("'a'", start, end) is None


GARBAGE = st.lists(
    st.sampled_from(["'", '"', "'''", '"""', "f", "r", "b", "{", "}", "{{", "!r", ":", "=", "\\", "\n", "\r", "#", "(", "]", "x", "N{", " ", "\ud800", "0"])
    | st.text(max_size=3)
).map("".join)  # fmt: skip


@given(GARBAGE, st.integers(-2, 20), st.integers(-2, 40))
@example("f'{" * 20_000, 0, 60_000)
@example("f'{(" + "[" * 20_000, 0, 20_004)
@example("f'{x:" + "{x:" * 20_000, 0, 60_005)
@example("'\\N{\ud800}'", 0, 7)
def test_no_text_at_all_raises(source: str, start: int, end: int) -> None:
    for text in (read_literal(source, start, end), read_literal("f'" + source, 0, len(source) + 2)):
        if text is not None:
            assert text.span is not None
            assert len(text.spans) == len(text.value)
            assert all(text.span[0] < a < b < text.span[1] for a, b in text.spans)


@given(GARBAGE)
def test_what_python_reads_is_read_and_says_the_same(middle: str) -> None:
    for source in (f"'{middle}'", f'"""{middle}"""', f"f'{middle}'", f'rf"""{middle}"""'):
        try:
            node = ast.parse(f"({source})", mode="eval").body
        except (SyntaxError, ValueError):
            continue
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            same_as_ast(node, read(source))


def same_as_ast(node: ast.Constant | ast.JoinedStr, text: Text | None) -> None:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            assert text is not None
            assert text.value == node.value
        else:
            assert text is None
        return
    assert text is not None
    fields = [part for part in node.values if isinstance(part, ast.FormattedValue)]
    assert text.value == "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else HOLE
        for part in node.values
    )
    assert len(text.holes) == len(fields)
    for expression, field in zip(text.holes.values(), fields, strict=True):
        assert ast.dump(ast.parse(f"({expression}\n)", mode="eval").body) == ast.dump(field.value)


def string_nodes(node: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """String literals that stand in no f-string."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from string_nodes(child)


def standard_library() -> list[Path]:
    return sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))


def check_file(path: Path, newline: str) -> int:
    """How many literals of the file are read as ``ast`` reads them; all, or it fails."""
    try:
        with tokenize.open(path) as file:
            source = file.read().replace("\n", newline)
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return 0  # some are there to be wrong
    index = line_index(source)
    count = 0
    for node in string_nodes(tree):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = index.offset(node.lineno, node.col_offset)
        end = index.offset(node.end_lineno, node.end_col_offset)
        text = read_literal(source, start, end)
        same_as_ast(node, text)
        assert text is not None
        check_spans(source, text)
        count += 1
    return count


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=repr)
def test_the_standard_library_is_read_as_python_reads_it(newline: str) -> None:
    files = random.Random(701).sample(standard_library(), 100)
    assert sum(check_file(path, newline) for path in files) > 1000


NAMES = ["a", "é", "日本", "𝒳", "ab"]
BETWEEN = ["\n", "\r\n", "\r", "; ", "\n\n", ";'\x0c\x85\u2028\x0b\x1c';", "\n\x0c", ";\\\r\n", "#é\x85é\n"]


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(BETWEEN))))
def test_places_of_ast_become_offsets_and_back(parts: list[tuple[str, str]]) -> None:
    source = ""
    offsets = []
    for name, between in parts:
        offsets.append((len(source), len(source) + len(name)))
        source += name + between
    source += "0"  # Python 3.12 takes no backslash before the end
    index = line_index(source)
    assert isinstance(index, LineIndex)
    names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    found = [
        (index.offset(n.lineno, n.col_offset), index.offset(n.end_lineno or 0, n.end_col_offset or 0))
        for n in names
    ]
    assert found == offsets
    for node, (start, _) in zip(names, offsets, strict=True):
        line, column = index.position(start)
        assert line == node.lineno
        before = source[start - column + 1 : start]
        assert len(before.encode()) == node.col_offset


def test_positions_count_characters_from_one() -> None:
    index = line_index("a\r\nbé日c\x0c\x85\u2028d\re\n")
    assert [index.position(offset) for offset in (0, 1, 2, 3, 6, 10, 11, 12, 13, 14)] == [
        (1, 1), (1, 2), (1, 3), (2, 1), (2, 4), (2, 8), (2, 9), (3, 1), (3, 2), (4, 1),
    ]  # fmt: skip


@given(GARBAGE, st.integers(-2, 9), st.integers(-2, 99))
@example("é\nb", 1, 99)
def test_a_place_outside_the_source_is_the_nearest_inside(source: str, line: int, column: int) -> None:
    index = line_index(source)
    offset = index.offset(line, column)
    assert 0 <= offset <= len(source)
    lines = source.replace("\r\n", "\n ").replace("\r", "\n").count("\n") + 1
    nearest = min(max(line, 1), lines)
    assert index.position(offset)[0] in {nearest, nearest + 1}  # the end of a line begins the next
    assert index.position(-5) == (1, 1)
    assert index.position(len(source) + 5) == index.position(len(source))
