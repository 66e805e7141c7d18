from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.placeholders.grammar import parse
from tests.placeholders.grammar_strategies import TEMPLATES

ANY_TEXT = st.text("{}[]:!.ab0 ", max_size=12)


@given(st.one_of(TEMPLATES, ANY_TEXT))
def test_fields_are_those_that_python_reads(template: str) -> None:
    try:
        # Python splits a name off only when it formats, so both are compared as it reads them.
        python = [
            (name, spec, conversion)
            for _, name, spec, conversion in string.Formatter().parse(template)
            if name is not None
        ]
    except ValueError:
        assert parse(template).fault is not None
        return
    assert parse(template).fault is None
    ours = [(f.name + f.path, f.spec, f.conversion or None) for f in parse(template).fields]
    assert ours == python


@given(st.one_of(TEMPLATES, ANY_TEXT))
def test_positions_cut_the_template_into_fields_escapes_and_literal_text(template: str) -> None:
    read = parse(template)
    taken = set()
    for field in read.fields:
        assert template[field.start] == "{"
        assert template[field.end - 1] == "}"
        taken |= set(range(field.start, field.end))
    for escape in read.escapes:
        assert template[escape : escape + 2] in {"{{", "}}"}
        taken |= {escape, escape + 1}
    if read.fault is None:
        assert not {"{", "}"} & {c for i, c in enumerate(template) if i not in taken}


@pytest.mark.parametrize(
    ("template", "index"),
    [
        ("{", 0),
        ("ab}", 2),
        ("x{rank", 1),
        ("{rank}}", 6),
        ("{{rank}", 6),
        ("{a{b}", 2),
        ("{rank!", 0),
        ("{rank!rx}", 7),
    ],
)
def test_a_fault_is_where_the_brace_is_that_breaks_it(template: str, index: int) -> None:
    fault = parse(template).fault
    assert fault is not None
    assert fault.index == index
    with pytest.raises(ValueError):
        list(string.Formatter().parse(template))


def test_nested_fields_are_named() -> None:
    assert [name for name, _ in parse("{rank:{world_size}d}").names()] == ["rank", "world_size"]
