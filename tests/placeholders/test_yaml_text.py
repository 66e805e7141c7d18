"""Every character of a YAML scalar has its place, whatever its style."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from composer_obs.placeholders.sources.yaml_text import character_spans
from tests.placeholders.conftest import LOADERS
from tests.placeholders.yaml_reading import folder, one

TRICKY = [
    "a: {}\nsave_folder: {}\n",
    "\ufeffa: {}\nsave_folder: {}\n",
    "a: {}\r\nsave_folder: {}\r\n",
    "# \u00e9\u2028# \x85a: {}\nsave_folder: {}\n",
    "a: {}\rsave_folder: {}\r",
    "a: &x !!str {}\nsave_folder: !!str &y {}\n",
]


@pytest.mark.parametrize("pattern", TRICKY)
def test_spans_are_right_behind_anything_that_counts_differently(pattern, loader):
    source = pattern.format("\U0001f600 \u00e9", "/\U0001f600/{rank}")
    call = one(source)
    assert source[slice(*call.keys["a"])] == "a"
    assert source[slice(*call.arguments["a"].span)] == "\U0001f600 \u00e9"
    text = call.arguments["save_folder"]
    assert [source[slice(*span)] for span in text.spans] == list(text.value) == list("/\U0001f600/{rank}")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("'it''s/{x}'", "i t '' s / { x }"),
        (r'"\x41\u0042\U00000043\t\/{x}"', r"\x41 \u0042 \U00000043 \t \/ { x }"),
        ('"a/\\\n  b"', "a / b"),
        ("|\n  a/\n\n  b\n", "a / \n \n b \n"),
        (">-\n  a/\n  b\n", "a / \n·· b"),
        ("a/\n  b", "a / \n·· b"),
        ("|2-\n    a/\n", "· · a /"),
    ],
)
def test_each_style_of_scalar_has_its_characters_places(written, expected, loader):
    source = f"save_folder: {written}\nb: 1\n"
    text = folder(source)
    assert [source[slice(*span)] for span in text.spans] == [
        part.replace("·", " ") or "\n" for part in re.split("(?<=[^ ]) | (?=[^ ])", expected) if part
    ]


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("a/b", True),
        ("'a/b'", True),
        ('"a/b"', True),
        ("|\n  a/b", False),
        (">\n  a/b", False),
        ("a/\n  b", False),
    ],
)
def test_only_what_stands_on_one_line_is_exact(written, exact):
    assert folder(f"save_folder: {written}\n").exact is exact


ALPHABET = st.text(
    st.sampled_from("ab{}$/.:#'\"\\ \n\t-|>\u00e9\U0001f600%@`,[]&*!?\u2028\x85\x07"), max_size=40
)


@given(ALPHABET, st.sampled_from([None, "'", '"', "|", ">"]), st.sampled_from([10, 20, 80]), st.booleans())
@example("a  b\n\n c\nd\n\n", ">", 10, False)
@settings(max_examples=400, deadline=None)
def test_the_places_of_whatever_pyyaml_writes_hold_the_characters(value, style, width, unicode):
    assume("\x07" not in value or style == '"')
    source = yaml.safe_dump(
        {"save_folder": value, "z": 1},
        default_style=style,
        width=width,
        allow_unicode=unicode,
        sort_keys=False,
    )
    assume(yaml.safe_load(source)["save_folder"] == value)
    for loader in LOADERS:
        node = yaml.compose(source, Loader=loader).value[0][1]
        spans = character_spans(source, node.start_mark.index, node.end_mark.index, value, node.style)
        assert len(spans) == len(value)
        for char, (start, end) in zip(value, spans, strict=True):
            if not char.isspace():
                written = source[start:end]
                if written != char:
                    assert node.style in {"'", '"'}
                    assert yaml.safe_load(f"{node.style}{written}{node.style}") == char
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


@given(st.text(st.sampled_from("ab: -\n\r\x85\u2028\u2029\u00e9\U0001f600#'\"|>[]{}&*!?,\\"), max_size=30))
@settings(max_examples=400, deadline=None)
def test_both_loaders_put_nodes_at_the_same_places(text):
    def places(loader):
        found, seen = [], set()
        pending = list(yaml.compose_all(text, Loader=loader))
        while pending:
            node = pending.pop()
            if isinstance(node, yaml.ScalarNode):
                found.append((node.value, node.start_mark.index, node.end_mark.index))
            elif node is not None:
                children = (
                    node.value
                    if isinstance(node, yaml.SequenceNode)
                    else [n for pair in node.value for n in pair]
                )
                pending += [] if id(node) in seen else children
                seen.add(id(node))
        return found

    results = []
    for loader in LOADERS:
        try:
            results.append(places(loader))
        except (yaml.YAMLError, AttributeError):
            return  # what one of them refuses is no matter of places
    assert all(result == results[0] for result in results)
