from __future__ import annotations

import ast
import re
import subprocess
import sys
from typing import Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.findings import Rule, Severity
from composer_obs.placeholders.fixes import apply_edits
from composer_obs.placeholders.suppressions import find_suppressions, removal

RULE = Rule("PH301", "missing-rank", Severity.ERROR, "-", "-", "-")
LANGUAGES: list[Literal["python", "yaml"]] = ["python", "yaml"]


def lines_of(text: str, language: Literal["python", "yaml"]) -> list[list[int] | None]:
    found = find_suppressions(text, language)
    return [None if suppression.lines is None else list(suppression.lines) for suppression in found]


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("# composer-obs: ignore", ()),
        ("#composer-obs:ignore", ()),
        ("# composer-obs: ignore -- the launcher adds the rank", ()),
        ("# composer-obs: ignore (the launcher adds the rank)", ()),
        ("# composer-obs: ignore[PH301]", ("PH301",)),
        ("# composer-obs: ignore[PH301] the launcher adds the rank", ("PH301",)),
        ("# composer-obs: ignore[PH301, PH303]", ("PH301", "PH303")),
        ("# composer-obs: ignore[ PH301 missing-rank,PH301,]", ("PH301", "missing-rank")),
        ("# composer-obs: ignore-file", ()),
        ("# composer-obs: ignore-file[PH301]", ("PH301",)),
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_comment_names_codes_or_names_or_nothing(
    comment: str, codes: tuple[str, ...], language: Literal["python", "yaml"]
) -> None:
    [found] = find_suppressions(f"a: b  {comment}  \n", language)
    assert found.codes == codes
    assert found.text == comment
    assert (found.line, found.column, found.end_column) == (1, 7, 7 + len(comment))
    assert found.lines == (None if "file" in comment else range(1, 2))


@pytest.mark.parametrize(
    "comment",
    [
        "# composer-obs: ignore PH301",
        "# composer-obs: ignore: PH301",
        "# composer-obs: ignore=PH301",
        "# composer-obs: ignore[]",
        "# composer-obs: ignore[ , ]",
        "# composer-obs: ignore[PH301",
        "# composer-obs: ignore[PH301]x",
        "# composer-obs: ignored",
        "# composer-obs: ignore-files",
        "# composer-obs: ignore-line",
        "# composer-obs: disable",
        "# see composer-obs: ignore",
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_nearly_right_silences_nothing(comment: str, language: Literal["python", "yaml"]) -> None:
    assert find_suppressions(f"a: b  {comment}\n", language) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_comment_among_others_is_found(language: Literal["python", "yaml"]) -> None:
    text = "a: b  # noqa: E501  # composer-obs: ignore[PH301] # type: ignore\n"
    [found] = find_suppressions(text, language)
    assert found.text == "# composer-obs: ignore[PH301]"
    assert text[found.column - 1 : found.end_column - 1] == found.text


def test_a_comment_that_stands_alone_speaks_of_the_next_line_of_code() -> None:
    text = "# composer-obs: ignore\n\n  # why\n\t\nx: 1\n  # composer-obs: ignore\n# composer-obs: ignore[a]\ny: 2\n# composer-obs: ignore\n"
    assert lines_of(text, "yaml") == [[5], [8], [8], []]
    assert lines_of(text.replace(":", " =").replace("obs =", "obs:"), "python") == [[5], [8], [8], []]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("x = '# composer-obs: ignore'\n", []),
        ('"""\n# composer-obs: ignore\n"""\n', []),
        ("x = f'{1} # composer-obs: ignore'\n", []),
        ("x = 1# composer-obs: ignore", [[1]]),
        ("f(\n  1,  # composer-obs: ignore\n  2)\n", [[2]]),
        ("f(\n  # composer-obs: ignore\n  1,\n  2)\n", [[3]]),
        # There is no place for a comment before the last of these lines.
        ('x = """\na\n"""  # composer-obs: ignore\ny\n', [[1, 2, 3]]),
        ('f(1,\n"""\na\n""",  # composer-obs: ignore\ny)\n', [[2, 3, 4]]),
        ("x = 1 + \\\n  2 + \\\n  3  # composer-obs: ignore\n", [[1, 2, 3]]),
        ('# composer-obs: ignore\nx = """\na\n"""\n', [[2, 3, 4]]),
        ("if x:\n    y\n# composer-obs: ignore\nz\n", [[4]]),
        ("x = 1  # composer-obs: ignore\r\n# composer-obs: ignore\r\ny\r\n", [[1], [3]]),
        ("é = '\U0001f600'  # composer-obs: ignore\n", [[1]]),
        ("x\r# composer-obs: ignore\ry\r\nz", [[3]]),
        ("x\f = 1  # composer-obs: ignore\n\x0c\ny\n", [[1]]),
    ],
)
def test_comments_of_python_are_those_of_its_tokenizer(text: str, lines: list[list[int]]) -> None:
    ast.parse(text)
    assert lines_of(text, "python") == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: '# composer-obs: ignore'\n", []),
        ('a: " # composer-obs: ignore"\n', []),
        ("a: b# composer-obs:ignore\n", []),
        ("a: it's # composer-obs: ignore\n", [[1]]),
        ("a: 'it''s # composer-obs: ignore'\n", []),
        ('a: "b\n\n  # composer-obs: ignore"\n', []),
        ("a: |\n  # composer-obs: ignore\nb: 1\n", []),
        ("a: >-\n  x\n\n  # composer-obs: ignore\n", []),
        ("a: |\n    x\n  # composer-obs: ignore\nb: 1\n", [[4]]),
        ("a: |  # composer-obs: ignore\n  x\n  y\n\nb: 1\n", [[1, 2, 3]]),
        ("# composer-obs: ignore\na: |\n  x\n  y\n", [[2, 3, 4]]),
        ('a: "x\n  y"  # composer-obs: ignore\nb: 1\n', [[1, 2]]),
        ("a: x\n  y  # composer-obs: ignore\nb: 1\n", [[1, 2]]),
        ("a:\n  - {b: 1}  # composer-obs: ignore\n  # composer-obs: ignore\n  - [c,  # composer-obs: ignore\n     d]\n", [[2], [4], [4]]),
        ("%YAML 1.1\n---\na: &x 1  # composer-obs: ignore\n...\n# composer-obs: ignore\n--- !t\nb: *x\n", [[3], [6]]),
        ("a: 1  # composer-obs: ignore\r\n# composer-obs: ignore\r\nb: 2\r\n", [[1], [3]]),
        ("a: 1\r# composer-obs: ignore\rb: 2\r", [[3]]),
        ("a: '\u2028x'\nb: 1  # composer-obs: ignore\n", [[2]]),
    ],
)  # fmt: skip
def test_comments_of_yaml_are_what_its_parser_skips(text: str, lines: list[list[int]]) -> None:
    list(yaml.parse(text))
    assert lines_of(text, "yaml") == lines


@pytest.mark.parametrize(
    ("text", "language", "lines"),
    [
        ("# composer-obs: ignore-file\nx = (\n", "python", [None]),
        ("x = 'a\ny = 1  # composer-obs: ignore\n", "python", [[2]]),
        ("if x:\n    y\n  z\nw  # composer-obs: ignore\nv = ' # composer-obs: ignore'", "python", [[4]]),
        ("# composer-obs: ignore-file\na: {{ b }\nc: 1 # composer-obs: ignore\n", "yaml", [None, [3]]),
        ('a: "b\n  # composer-obs: ignore" @d\n', "yaml", []),
        ("a: @b\n# composer-obs: ignore\nc: '# composer-obs: ignore'\nd\\", "yaml", [[3]]),
    ],
)
def test_what_breaks_the_rules_of_its_language_still_has_comments(
    text: str, language: Literal["python", "yaml"], lines: list[list[int] | None]
) -> None:
    assert lines_of(text, language) == lines


FRAGMENTS = ["# composer-obs: ignore", "# composer-obs: ignore[a, b] c", "#", "'", '"', '"""', "\\", "\n", "\r", " ", "x", ":", "|", "(", "}", "-", "é", "\f", "\x85", "\ud800", "\x01", "{"]  # fmt: skip


@given(
    text=st.lists(st.sampled_from(FRAGMENTS), max_size=15).map("".join), language=st.sampled_from(LANGUAGES)
)
def test_whatever_the_text_is_every_suppression_is_where_it_says(
    text: str, language: Literal["python", "yaml"]
) -> None:
    for found in find_suppressions(text, language):
        line = re.split(r"\r\n|\r|\n", text)[found.line - 1]
        assert line[found.column - 1 : found.end_column - 1] == found.text
        edit = removal(text, found, found.codes)
        left, applied = apply_edits(text, [[edit]])
        assert applied == 1
        # Nothing goes but the comment and white space around it.
        assert text[edit.start : edit.end].strip() == found.text
        assert len(left) == len(text) - (edit.end - edit.start)


def test_a_finding_is_silenced_by_code_or_name_in_any_case_on_its_lines() -> None:
    [both, everything, other, whole_file] = find_suppressions(
        "a: b  # composer-obs: ignore[ph301, Missing-Rank, PH1]\n"
        "a: b  # composer-obs: ignore\n"
        "a: b  # composer-obs: ignore[PH302]\n"
        "a: b  # composer-obs: ignore-file[PH301]\n",
        "python",
    )
    assert both.matching(RULE, 1) == ("ph301", "Missing-Rank")
    assert both.matching(RULE, 2) is None
    assert everything.matching(RULE, 2) == ()
    assert everything.matching(RULE, 1) is None
    assert other.matching(RULE, 3) is None
    assert whole_file.matching(RULE, 1) == whole_file.matching(RULE, 99) == ("PH301",)


@pytest.mark.parametrize(
    ("before", "unused", "after"),
    [
        ("x  # composer-obs: ignore\ny\n", [], "x\ny\n"),
        ("x  # composer-obs: ignore  \r\ny\r\n", [], "x  \r\ny\r\n"),
        ("x  # composer-obs: ignore", [], "x"),
        ("x  # composer-obs: ignore[a] why\ny\n", ["a"], "x\ny\n"),
        ("x  # composer-obs: ignore[a,b , c] why\n", ["b"], "x  # composer-obs: ignore[a, c] why\n"),
        ("x  # composer-obs: ignore[a, b]\n", ["a", "b"], "x\n"),
        ("w\n  # composer-obs: ignore[a]\nx\n", ["a"], "w\nx\n"),
        ("w\r\n# composer-obs: ignore[a]\r\nx\r\n", ["a"], "w\r\nx\r\n"),
        ("w\n# composer-obs: ignore[a]", ["a"], "w\n"),
        ("w\r# composer-obs: ignore[a]\rx\r", ["a"], "w\rx\r"),
        ("w\n# composer-obs: ignore[a, b]\nx\n", ["a"], "w\n# composer-obs: ignore[b]\nx\n"),
        ("x  # noqa  # composer-obs: ignore\n", [], "x  # noqa\n"),
        ("x  # composer-obs: ignore  # noqa\n", [], "x  # noqa\n"),
        ("# composer-obs: ignore # noqa\nx\n", [], "# noqa\nx\n"),
        ("x  # a # composer-obs: ignore[a] # b\n", ["a"], "x  # a # b\n"),
        ("# composer-obs: ignore-file[a,b]\nx\n", ["b"], "# composer-obs: ignore-file[a]\nx\n"),
    ],
)
def test_what_is_unused_is_removed_without_a_trace(before: str, unused: list[str], after: str) -> None:
    [found] = find_suppressions(before, "python")
    assert apply_edits(before, [[removal(before, found, unused)]]) == (after, 1)


def test_sources_without_suppressions_are_not_tokenized() -> None:
    program = (
        "import sys\n"
        "from composer_obs.placeholders.suppressions import find_suppressions\n"
        "assert find_suppressions('a: 1  # comment', 'yaml') == []\n"
        "assert 'yaml' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
