"""YAML is composed within limits or refused with its place; nothing is executed."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from composer_obs.placeholders.calls import Call, Unknown, walk
from composer_obs.placeholders.sources import yaml_nodes
from composer_obs.placeholders.sources.yaml_nodes import YAMLSourceError
from composer_obs.placeholders.sources.yaml_source import read_yaml
from tests.placeholders.conftest import LOADERS
from tests.placeholders.yaml_reading import one, plain

# Anchors, merge keys, duplicates


@pytest.mark.parametrize(
    "source",
    [
        "d: &d {a: 1, b: 2}\ne: &e {b: 3, c: 4}\nx: {<<: [*d, *e], c: 5, save_folder: s}\n",
        "d: &d {a: 1, b: 2}\ne: &e {b: 3, c: 4}\nx: {save_folder: s, c: 5, <<: [*e, *d]}\n",
        "d: &d {a: 1}\ne: &e {<<: *d, b: 2}\nx: {<<: *e, save_folder: s}\n",
        "x: {save_folder: a, n: 1, save_folder: b, n: 2}\n",
        "x: {save_folder: s, on: 1, 2: b, null: c, 1.5: d}\n",
    ],
)
def test_mappings_are_merged_as_pyyaml_merges_them(source, loader):
    def text(mapping):
        return {str(key): value for key, value in mapping.items()}

    names = {"True": "on", "None": "null"}
    expected = {names.get(key, key): value for key, value in text(yaml.safe_load(source)["x"]).items()}
    assert plain(one(source)) == expected


def test_keys_that_are_not_scalars_and_merges_of_nothing_leave_the_call_incomplete(loader):
    assert not one("? [a, b]\n: 1\n? save_folder\n: s\n").complete
    assert not one("save_folder: s\n<<: 5\n").complete
    assert one("save_folder: s\n").complete


@pytest.mark.parametrize(
    "source",
    [
        "&a [*a]",
        "&a {b: *a}",
        "&a {save_folder: x, b: *a}",
        "&a {save_folder: x, callbacks: *a}",
        "&a {save_folder: x, callbacks: [*a], profiler: *a, loggers: {y: *a}}",
        "&a {save_folder: x, <<: *a}",
        "save_folder: &a [*a]",
        "save_folder: '${.}'\nb: ${b}\nc: ${d}\nd: ${c}\ne: ${e.e}\nf: ${g.x}\ng: ${f.x}\nloggers: ${loggers}",
        "save_folder: x\nb: {c: '${b}'}\nd: ['${d}']\n",
    ],
)
def test_what_refers_to_itself_ends(source, loader):
    for call in read_yaml(source):
        assert list(walk(call))


def test_bombs_of_aliases_merges_and_references_are_refused(loader):
    lists = "save_folder: x\na0: &a0 [x]\n" + "".join(
        f"a{i}: &a{i} [{f'*a{i - 1},' * 10}]\n" for i in range(1, 9)
    )
    maps = "save_folder: x\na0: &a0 {k: v}\n" + "".join(
        f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(10))}}}\n" for i in range(1, 9)
    )
    texts = "save_folder: x\na0: xxxxxxxxxx\n" + "".join(
        f"a{i}: {f'${{a{i - 1}}}' * 10}\n" for i in range(1, 9)
    )
    for bomb in (lists, maps, texts):
        with pytest.raises(YAMLSourceError):
            read_yaml(bomb)
    # A merge drops what it repeats.
    merges = "a0: &a0 {save_folder: x}\n" + "".join(
        f"a{i}: &a{i} {{<<: [{f'*a{i - 1},' * 10}]}}\n" for i in range(1, 9)
    )
    assert len(read_yaml(merges)) == 9


@pytest.mark.parametrize(
    "source",
    [
        "[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 50_000, "save_folder: " + "[" * 20_000 + "]" * 20_000,
        "".join(" " * i + "a:\n" for i in range(3000)), "x: &a " + "[" * 150 + "]" * 150, "a: " + "${" * 100_000,
        "save_folder: " + "${" * 50_000,
    ],
)  # fmt: skip
def test_deep_nesting_is_an_error_or_read_but_never_a_crash(source, loader):
    with contextlib.suppress(YAMLSourceError):
        read_yaml(source)


def test_a_hundred_levels_are_the_limit(loader):
    def nested(levels):
        return "save_folder: a\nx: " + "[" * levels + "]" * levels + "\n"

    assert one(nested(98))
    with pytest.raises(YAMLSourceError, match="levels deep"):
        read_yaml(nested(110))


# Tags and bad input


@pytest.mark.parametrize("base", LOADERS)
@given(
    value=st.text(st.sampled_from("0123456789.eExob+-_:~nulyYNOofTtrasFi=<. \u00e9"), max_size=8)
    | st.text(max_size=9)
)
@example(value="")
@example(value=".inf")
@example(value="2024-01-01")
@settings(max_examples=300, deadline=None)
def test_tags_are_those_of_pyyaml(base, value):
    def tags(loader):
        try:
            root = yaml.compose(f"{value}: [{value}, '{value}', ! {value}, !!str 1, {{}}]", Loader=loader)
            return [node.tag for node in (root, *root.value[0], *root.value[0][1].value)]
        except (yaml.YAMLError, AttributeError, TypeError, IndexError, UnicodeEncodeError) as error:
            return type(error)

    assert tags(type("Ours", (yaml_nodes._Tags, base), {})) == tags(base)


def test_no_tag_is_executed(tmp_path, loader):
    target = tmp_path / "written"
    source = (
        f"save_folder: !!python/object/apply:os.system ['touch {target}']\n"
        f"a: !!python/object/apply:subprocess.check_call [[touch, {target}]]\n"
        f"b: !!python/object/new:os.mkdir [{target}]\n"
        "c: !custom {d: 1}\ne: !!str 5\nf: !!binary aGk=\nloggers: !x {file_logger: {filename: a}}\n"
    )
    call = one(source)
    assert not target.exists()
    assert isinstance(call.arguments["save_folder"], Unknown)
    assert isinstance(call.arguments["c"], Unknown)
    assert call.arguments["e"].value == "5"
    # The same text does what it says when it is loaded by the loader that executes tags.
    yaml.unsafe_load(source.splitlines()[0])
    assert target.exists()


@pytest.mark.parametrize(
    "written", ["!!map x", "!!map [x]", "!!seq x", "!!seq {x: 1}", "!!str [x]", "!!str {x: 1}"]
)
def test_a_tag_that_contradicts_its_node_is_refused_as_pyyaml_does(written, loader):
    source = f"save_folder: a\nb: {written}\ncallbacks: [*x]\n".replace("b: ", "b: &x ")
    with pytest.raises(yaml.constructor.ConstructorError):
        yaml.safe_load(source)
    with pytest.raises(YAMLSourceError) as caught:
        read_yaml(source)
    assert (caught.value.line, caught.value.column) == (2, 4)


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("save_folder: [a", 1, 16),
        ("save_folder: a\nb: 'c\n", 3, 1),
        ("a: b: c\n", 1, 5),
        ("a:\n\t- b\n", 2, 1),
        ("save_folder: *nobody\n", 1, 14),
        ("a: \x00\n", 1, 4),
        ("\u00e9: x\nb: \x07\n", 2, 4),
        ("a: 1\nb: \ud800\n", 2, 4),
        ("\ufeffa: b\nc: \x00", 2, 4),
        ("a: %b\n", 1, 4),
        ("%YAML 3.0\n---\na: b\n", 1, 1),
        ("a: !<x\n", 1, 4),
    ],
)
def test_whatever_is_not_yaml_is_an_error_with_its_place(source, line, column, loader):
    with pytest.raises(YAMLSourceError) as caught:
        read_yaml(source)
    assert caught.value.line == line
    assert f"line {line}, column {caught.value.column}" in str(caught.value)


@given(
    st.text(max_size=60)
    | st.text(st.sampled_from("save_folder:loggers \n-[]{}&*!<>|'\"$\\?#%\ufeff\x00"), max_size=60)
)
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused(text):
    calls, place = [], (1, 1)
    try:
        calls = read_yaml(text)
    except YAMLSourceError as error:
        place = (error.line, error.column)
    assert all(isinstance(call, Call) for call in calls)
    assert 1 <= place[0] <= text.count("\n") + 1
    assert 1 <= place[1] <= len(text) + 1


def test_a_truncated_file_is_read_or_refused_at_every_length():
    source = "save_folder: 'a/${x}'\nloggers:\n  file_logger: {filename: \"b\\x41\"}\nx: |\n  y\n"
    for end in range(len(source)):
        with contextlib.suppress(YAMLSourceError):
            read_yaml(source[:end])
