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
from itertools import accumulate

from composer_obs.placeholders.calls import Call, Span, Text, Unknown, Value, walk
from composer_obs.placeholders.sources.python_source import read_python

__all__ = ["read_notebook"]

# IPython's own lines (`!ls`, `%pip`, `files = !ls`, `Trainer?`) are no Python: a comment of the same
# length keeps all places.
_MAGIC = re.compile(r"^(\s*)(?:[%!?]|\w(?=[\w., ]*=\s*[%!]\w)|\w(?=[\w.]*\?{1,2}\s*$))")
# Those of the magics of a whole cell that leave it Python.
_PYTHON_CELL = re.compile(r"%%(?:time|timeit|capture|prun)\b")


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
    code = [line for cell in _code_cells(cells) for line in cell]
    calls = read_python("".join(code))
    if not calls:
        return []
    lines = _located(code, source)
    starts = [0, *accumulate(map(len, code))]

    def move(span: Span | None) -> Span | None:
        if span is None:
            return None
        number = min(bisect_right(starts, span[0]), len(lines)) - 1
        line, shift = lines[number], span[0] - starts[number]
        at = max(line.at, 0) + (shift if line.at >= 0 else 0)
        return at, at + max(1, min(span[1] - span[0], len(line.code.rstrip("\n")) - shift))

    for call in calls:
        for inner in walk(call):
            _move(inner, move)
    return calls


def _code_cells(cells: list[object]) -> Iterator[list[str]]:
    """The lines of each cell that is Python, each with its end."""
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        text = cell.get("source", "")
        lines = (
            [str(line) for line in text] if isinstance(text, list) else str(text).splitlines(keepends=True)
        )
        if not lines or (lines[0].startswith("%%") and not _PYTHON_CELL.match(lines[0])):
            continue
        lines[-1] = lines[-1].rstrip("\n") + "\n"
        code = [_MAGIC.sub(r"\1#", line) for line in lines]
        if _parses("".join(code)):
            yield code


def _located(code: list[str], source: str) -> list[_Line]:
    """Where each line stands in the notebook's text, in the order in which they stand there."""
    located, at = [], 0
    for line in code:
        found, at = _find(source, line.rstrip("\n"), at)
        located.append(_Line(line, found))
    return located


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
    if not line.strip():
        return -1, start
    for ascii_only in (False, True):
        # A magic's own sign was replaced, so what follows it is looked for.
        wanted = json.dumps(
            line.removeprefix("#") if line.startswith("#") else line, ensure_ascii=ascii_only
        )[1:-1]
        at = source.find(wanted, start)
        if at >= 0:
            return at, at + len(wanted)
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
