from __future__ import annotations

import json

import pytest

from composer_obs.findings import FileLocation
from composer_obs.placeholders.lint import lint_text
from composer_obs.placeholders.sources.notebook import read_notebook


def notebook(*cells: str, indent: int | None = 1, as_list: bool = True, ascii_only: bool = True) -> str:
    def source(cell: str) -> object:
        return cell.splitlines(keepends=True) if as_list else cell

    listed = [{"cell_type": "code", "source": source(cell)} for cell in cells]
    text = {"cell_type": "markdown", "source": ["FileLogger('{')"]}
    return json.dumps({"cells": [text, *listed]}, indent=indent, ensure_ascii=ascii_only)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_finding_is_where_the_placeholder_stands_in_the_file(
    indent: int | None, as_list: bool, ascii_only: bool
) -> None:
    text = notebook("x = 1\ny = 2", "#\nz = FileLogger('ä-{rnk}-{rank}.txt')\n", indent=indent, as_list=as_list,
                    ascii_only=ascii_only)  # fmt: skip
    [found] = lint_text(text, "a.ipynb")
    where = found.finding.where
    assert isinstance(where, FileLocation)
    line = text.splitlines()[where.line - 1]
    # An escaped character is longer in the file than in the cell.
    shift = 5 if ascii_only else 0
    assert line[where.column - 1 + shift :].startswith("{rnk}")


def test_names_go_from_cell_to_cell() -> None:
    [call] = read_notebook(
        notebook("from composer.loggers import FileLogger as F", "root = 'runs'", "F(root + '/a')")
    )
    assert call.arguments["filename"].value == "runs/a"  # type: ignore[union-attr]


def test_magics_and_broken_cells_are_passed_over() -> None:
    text = notebook(
        "%pip install x\n!ls\nFileLogger('a')", "%%bash\nFileLogger('b')", "def (", "FileLogger('c')"
    )
    assert [call.arguments["filename"].value for call in read_notebook(text)] == ["a", "c"]  # type: ignore[union-attr]


def test_no_fix_is_offered_in_a_notebook() -> None:
    assert all(not found.edits for found in lint_text(notebook("FileLogger('{rnk}.txt')"), "a.ipynb"))


def test_findings_are_silenced_by_comments_in_a_cell() -> None:
    text = notebook(
        'FileLogger("a.txt")  # composer-obs: ignore[PH301]\n'
        "# composer-obs: ignore[missing-rank]\n"
        "\n"
        "FileLogger('b.txt')\n"
        'FileLogger("c.txt")  # composer-obs: ignore[PH302]'
    )
    found = lint_text(text, "n.ipynb")
    [last] = [number for number, line in enumerate(text.splitlines(), 1) if "c.txt" in line]
    assert [(d.finding.rule.code, d.finding.where.line) for d in found] == [("PH301", last), ("PH901", last)]
    assert not any(diagnostic.edits for diagnostic in found)


@pytest.mark.parametrize(
    "line", ["files = !ls", "a, b = %time f()", "Trainer?", "Trainer.fit??", "!ls", "%pip x"]
)
def test_a_line_of_ipython_does_not_hide_its_cell(line: str) -> None:
    [call] = read_notebook(notebook(f"{line}\nFileLogger('a.txt')\n"))
    assert call.name == "FileLogger"


@pytest.mark.parametrize(
    ("magic", "calls"), [("%%time", 1), ("%%capture out", 1), ("%%bash", 0), ("%%timex", 0)]
)
def test_a_magic_of_a_whole_cell_hides_it_if_it_is_no_longer_python(magic: str, calls: int) -> None:
    assert len(read_notebook(notebook(f"{magic}\nFileLogger('a.txt')\n"))) == calls
