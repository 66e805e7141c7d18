"""References are filled in as OmegaConf does; what only the running program knows is a hole."""

from __future__ import annotations

import omegaconf
import pytest

from composer_obs.placeholders.calls import HOLE
from tests.placeholders.yaml_reading import folder, one

# Interpolation. The expected values are what OmegaConf makes of the same mappings.
REFERENCES = [
    ("${a}", "a: b", "b"),
    ("s3://${v.a}/${v.b}", "v: {a: x, b: y}", "s3://x/y"),
    ("${ a }", "a: b", "b"),
    ("$${a}", "a: b", "$b"),
    ("{${a}}", "a: b", "{b}"),
    ("q${a}", "a: true", "qTrue"),
    ("q${a}", "a: null", "qNone"),
    ("q${a}", "a: 0.001", "q0.001"),
    ("${l[0].q}/${l.0.q}/${[l][0][q]}", "l: [{q: b}]", "b/b/b"),
    ("${a.${k}}", "k: a\na: {a: r}", "r"),
    ("${a.c}x", "a: ${b}\nb: {c: 1}", "1x"),
    ("${a}${a}", "a: ${b}\nb: z", "zz"),
    ("${m.t}", "m: {t: '${.u}', u: in}\nu: out", "in"),
    ("${m.t}", "m: {t: '${..u}', u: in}\nu: out", "out"),
    ("${l.0}", "l: ['${.1}', b]", "b"),
    ("${.a}", "a: b", "b"),
    ("${oc.select:a,3}", "a: b", "b"),
    ("${a-b}", "a-b: c", "c"),
    (r"\${a}", "a: b", "${a}"),
    (r"\\${a}", "a: b", "\\b"),
    (r"\\\${a}", "a: b", "\\${a}"),
    (r"q\a${a}", "a: b", "q\\ab"),
    ("${a}", "a: \\${b}\nb: 2", "${b}"),
    ("$", "a: b", "$"),
]


@pytest.mark.parametrize(("written", "rest", "expected"), REFERENCES)
def test_references_to_the_document_are_filled_in(written, rest, expected):
    text = folder(f"save_folder: '{written}'\n{rest}\n")
    assert (text.value, dict(text.holes)) == (expected, {})


@pytest.mark.parametrize(("written", "rest", "expected"), REFERENCES)
def test_omegaconf_fills_in_the_same(written, rest, expected):
    assert str(omegaconf.OmegaConf.create(f"save_folder: '{written}'\n{rest}\n").save_folder) == expected


@pytest.mark.parametrize(
    ("written", "rest"),
    [
        ("${rank}", "a: b"),
        ("${oc.env:USER,x}", "a: b"),
        ("${a.b}", "a: b"),
        ("${..a}", "a: b"),
        ("${}", "a: b"),
        ("${a}", "a: ???"),
        ("${now:%Y}", "now: 1"),
        ("${a b}", "a b: 1"),
    ],
)
def test_what_the_document_does_not_know_is_a_hole_with_its_source(written, rest):
    source = f'save_folder: "x/{written}/y"\n{rest}\n'
    text = folder(source)
    assert text.value == f"x/{HOLE}/y"
    assert text.holes == {2: written}
    assert source[slice(*text.spans[2])] == written
    assert source[slice(*text.spans[3])] == "/"


def test_a_dollar_before_a_placeholder_that_is_no_key_is_a_hole():
    text = folder("save_folder: ep${rank}\n")
    assert text.holes == {2: "${rank}"}


def test_what_is_filled_in_stands_where_the_reference_stands_and_cannot_be_edited():
    source = "a: long value\nsave_folder: x/${a}/{rank}\n"
    text = folder(source)
    assert text.value == "x/long value/{rank}"
    assert {source[slice(*span)] for span in text.spans[2:12]} == {"${a}"}
    assert source[slice(*text.span_of(13, 19))] == "{rank}"
    assert not text.exact
    assert folder("save_folder: x/{rank}\n").exact


def test_an_unclosed_reference_is_literal():
    assert folder("save_folder: a${rank\n").value == "a${rank"


def test_holes_are_handed_on():
    text = folder("a: u-${oc.env:USER}\nsave_folder: x/${a}\n")
    assert text.value == f"x/u-{HOLE}"
    assert text.holes == {4: "${oc.env:USER}"}


def test_references_in_mcli_parameters_begin_at_the_parameters():
    source = "run: outer\nparameters:\n  run: inner\n  save_folder: ${run}/x\n"
    assert folder(source).value == "inner/x"
    assert folder("run: outer\ntrainer:\n  run: inner\n  save_folder: ${run}/x\n").value == "outer/x"


def test_references_to_whole_mappings_and_numbers_are_followed():
    call = one(
        "base: {speed_monitor: {window_size: 1}}\nn: 3\nsave_folder: x\ncallbacks: ${base}\nkeep: ${n}\n"
    )
    assert [each.name for each in call.arguments["callbacks"].values] == ["SpeedMonitor"]
    assert call.arguments["keep"].value == 3


def test_a_long_chain_of_references_is_followed_in_linear_time():
    source = "save_folder: ${a0}\n" + "".join(f"a{i}: ${{a{i + 1}}}\n" for i in range(40)) + "a40: end\n"
    assert folder(source).value == "end"


def test_known_values_stand_in_for_missing_keys():
    assert folder("save_folder: ${name}/${n}\n", known={"name": "demo", "n": 3}).value == "demo/3"
    assert folder("name: own\nsave_folder: ${name}\n", known={"name": "demo"}).value == "own"
