"""Calls in the code cells of a Jupyter notebook.

All cells are one module, because names go from cell to cell; a cell that is no Python by itself (or
that another language's magic begins) is left out. Spans are offsets into the notebook's own text.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from composer_obs.placeholders.calls import Call, Span, Text, Unknown, Value, walk
from composer_obs.placeholders.sources.python_source import read_python

__all__ = ["read_notebook"]

# IPython's own lines are no Python: a comment of the same length keeps all places.
_MAGIC = re.compile(r"^(\s*)[%!?]")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of code, and where its text stands in the notebook (``-1`` if it was not found)."""

    code: str
    at: int


def read_notebook(source: str) -> list[Call]:
    """The calls of known classes in a notebook; see `read_python`.

    Args:
        source (str): The text of an ``.ipynb`` file.

    Raises:
        ValueError: It is no JSON, or JSON of something else.
        RecursionError: It is nested too deeply.

    Example:
        >>> cell = {"cell_type": "code", "source": ["FileLogger('log.txt')"]}
        >>> [call.name for call in read_notebook(json.dumps({"cells": [cell]}))]
        ['FileLogger']
    """
    notebook = json.loads(source)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise ValueError("not a notebook: there is no list of cells")  # noqa: TRY004 - of its text
    lines = [line for cell in _code_cells(cells, source) for line in cell]
    starts, length = [], 0
    for line in lines:
        starts.append(length)
        length += len(line.code)
    calls = read_python("".join(line.code for line in lines))

    def move(span: Span | None) -> Span | None:
        if span is None or not lines:
            return None
        line = lines[bisect_right(starts, span[0]) - 1]
        shift = span[0] - starts[lines.index(line)]
        at = max(line.at, 0) + (shift if line.at >= 0 else 0)
        return at, at + max(1, min(span[1] - span[0], len(line.code.rstrip("\n")) - shift))

    for call in calls:
        for inner in walk(call):
            _move(inner, move)
    return calls


def _code_cells(cells: list[object], source: str) -> Iterator[list[_Line]]:
    at = 0
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        text = cell.get("source", "")
        listed = text if isinstance(text, list) else str(text).splitlines(keepends=True)
        lines = []
        for line in map(str, listed):
            found, at = _find(source, line, at)
            lines.append(_Line(_MAGIC.sub(r"\1#", line), found))
        code = "".join(line.code for line in lines)
        if (listed and str(listed[0]).startswith("%%")) or not _parses(code):
            continue
        if lines and not code.endswith("\n"):
            lines[-1] = _Line(lines[-1].code + "\n", lines[-1].at)
        yield lines


def _parses(code: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except (SyntaxError, ValueError):
            return False
    return True


def _find(source: str, line: str, start: int) -> tuple[int, int]:
    """Where a line of code stands in the JSON text, and where to look for the next one."""
    for ascii_only in (False, True):
        text = json.dumps(line, ensure_ascii=ascii_only)
        # In a cell that is one string, the lines have no quotes around them.
        for wanted, skip in ((text, 1), (text[1:-1], 0)):
            at = source.find(wanted, start) if len(wanted) > 2 * skip else -1
            if at >= 0:
                return at + skip, at + len(wanted) - skip
    return -1, start


def _move(call: Call, move: object) -> None:
    shift = move
    assert callable(shift)
    call.span = shift(call.span)
    call.keys = {name: moved for name, span in call.keys.items() if (moved := shift(span))}
    for name, value in call.arguments.items():
        call.arguments[name] = _moved(value, shift)


def _moved(value: Value, shift: object) -> Value:
    assert callable(shift)
    if isinstance(value, Text):
        spans = tuple(shift(span) for span in value.spans)
        # JSON writes quotes and backslashes in a way of its own, so edits are not offered.
        return Text(value.value, shift(value.span), spans, value.holes, value.doubled, exact=False)
    if isinstance(value, Unknown):
        return Unknown(value.source, shift(value.span))
    return value
