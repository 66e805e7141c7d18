"""Calls in Python source: read from the syntax tree, never executed.

Names are followed through imports and through assignments that are the only one of their name;
strings are folded through ``+``, f-strings and `os.path.join`. What cannot be told is a hole or
unknown, and rules leave it alone.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from composer_obs.placeholders.calls import Call, Items, Text, Value
from composer_obs.placeholders.sources.candidates import CLASSES, CONFIGURATION
from composer_obs.placeholders.sources.launcher import launcher_calls
from composer_obs.placeholders.sources.literals import line_index, read_literal
from composer_obs.placeholders.sources.python_scopes import Scope, read_scope
from composer_obs.placeholders.sources.python_values import Evaluator
from composer_obs.placeholders.sources.registry import CALLBACKS, LOGGERS
from composer_obs.placeholders.table import TARGETS

__all__ = ["might_call", "read_python"]

# What follows a name that is called, handed on, or imported under another name.
_FOLLOWS = re.compile(r"\s*[(,]|\s+as\s+(\w+)")
_GLOBAL = re.compile(r"(?:^|[:;])\s*global\s", re.MULTILINE)
_FUNCTIONS = ("upload_file", "build_callback", "build_logger")
_WORDS = (*sorted(CONFIGURATION), "--stdout", "--stderr")
_NAMES = (*CLASSES, *_FUNCTIONS, *_WORDS)
# Those that can be wrong alone; the others matter to those beside them.
_FOR_THEMSELVES = (
    *(
        name
        for name in CLASSES
        if (TARGETS[name].parameters or TARGETS[name].arguments) and name != "Trainer"
    ),
    *_FUNCTIONS,
    *_WORDS,
)
_TOLD = ("save_", "load_path", "run_name")
_BUILDERS = {"build_callback": CALLBACKS, "build_logger": LOGGERS}
_NO_SCOPE = Scope(ast.Module([], []))


def might_call(source: str) -> bool:
    """Whether there can be anything in a module for `read_python` to find.

    Most files that name a class only annotate with it, and parsing is what takes the time.
    """
    if next(_candidates(source, _FOR_THEMSELVES), None) is not None:
        return True
    # A Trainer that is told no name has nothing wrong by itself, and most scripts hold one of those.
    is_told = any(word in source for word in _TOLD)
    return is_told and next(_candidates(source, ("Trainer",)), None) is not None


def _candidates(source: str, names: Iterable[str]) -> Iterator[tuple[int, str | None]]:
    """Offsets at which a call may begin, or the new name of a class that is imported under another.

    One name after the other: a pattern of all of them takes several times as long.
    """
    for name in names:
        at = source.find(name)
        while at >= 0:
            end = at + len(name)
            if name in _WORDS:
                yield at, None
            elif found := _FOLLOWS.match(source, end):
                yield at, found[1]
            at = source.find(name, end)


def read_python(source: str) -> list[Call]:
    """The calls of known classes in a module, outermost ones only, in the order of the source.

    Args:
        source (str): The module's text.

    Raises:
        SyntaxError: It is no Python.
        ValueError: Likewise (null bytes).
        RecursionError: It is nested deeper than Python itself can compile.

    Example:
        >>> [call.name for call in read_python("from composer.loggers import FileLogger as F\\nF('a.txt')")]
        ['FileLogger']
    """
    if not might_call(source):
        return []
    with warnings.catch_warnings():
        # Invalid escapes are not what this is about.
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    reader = _Reader(source, tree)
    try:
        return reader.roots()
    finally:
        reader.close()


class _Reader:
    def __init__(self, source: str, tree: ast.Module) -> None:
        self._source = source
        self._tree = tree
        self._index = line_index(source)
        self._module = read_scope(tree, has_global=_GLOBAL.search(source) is not None)
        self._values = Evaluator(source, self._index, self._call)
        self._calls: dict[ast.AST, Call] = {}
        self._in_progress: set[ast.AST] = set()
        # Dictionaries that configure a Trainer of which all arguments are known.
        self._whole: set[int] = set()
        self._found: list[Call] = []
        self._inner: set[int] = set()

    def roots(self) -> list[Call]:
        found = list(_candidates(self._source, _NAMES))
        if aliases := {alias for _, alias in found if alias is not None}:
            found += _candidates(self._source, aliases)
        lines = sorted({self._index.position(at)[0] for at, _ in found})
        if lines:
            self._visit_body(self._tree, self._module, lines, one_rank=False)
        return [call for call in self._found if id(call) not in self._inner]

    def close(self) -> None:
        """Part what refers to each other, so that a syntax tree goes at once and not with the collector."""
        self._calls.clear()
        del self._values

    # ---- finding calls ---------------------------------------------------------------------------

    def _visit_body(self, node: ast.AST, scope: Scope, lines: list[int], *, one_rank: bool) -> None:
        for child in ast.iter_child_nodes(node):
            first = getattr(child, "lineno", None)
            if first is not None:
                for decorator in getattr(child, "decorator_list", ()):
                    first = min(first, decorator.lineno)
                # A part of the file without a candidate is not looked into.
                nearest = bisect_left(lines, first)
                if nearest == len(lines) or lines[nearest] > child.end_lineno:  # type: ignore[attr-defined]
                    continue
            self._visit(child, scope, lines, one_rank=one_rank)

    def _visit(self, node: ast.AST, scope: Scope, lines: list[int], *, one_rank: bool) -> None:
        if isinstance(node, ast.If | ast.IfExp):
            guard = one_rank or "rank" in self._values.text(node.test).lower()
            self._visit(node.test, scope, lines, one_rank=one_rank)
            for part in (node.body, node.orelse):
                for child in part if isinstance(part, list) else [part]:
                    self._visit(child, scope, lines, one_rank=guard)
            return
        if isinstance(node, ast.Call | ast.Dict | ast.List | ast.Tuple):
            self._keep(self._call(node, scope, one_rank=one_rank))
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            self._keep_launcher(node)
            return
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict | ast.Call):
            mapping = self._call(node.value, scope)
            for target in node.targets:
                if mapping is not None and isinstance(target, ast.Name):
                    self._values.forget_changed(target.id, mapping)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope = scope.inside(node)
        self._visit_body(node, scope, lines, one_rank=one_rank)

    def _keep(self, call: Call | None) -> None:
        if call is not None and call.name != "dict" and not any(call is found for found in self._found[-50:]):
            self._found.append(call)

    def _keep_launcher(self, node: ast.Constant | ast.JoinedStr) -> None:
        if isinstance(node, ast.Constant) and (not isinstance(node.value, str) or "--std" not in node.value):
            return
        start, end = self._values.span(node)
        text = read_literal(self._source, start, end) if "--std" in self._source[start:end] else None
        if text is not None:
            self._found += launcher_calls(text)

    def _call(self, node: ast.AST, scope: Scope, *, one_rank: bool = False) -> Call | None:
        """The call that a node is, if it is one that the table knows."""
        if node in self._calls:
            return self._calls[node]
        if node in self._in_progress:
            return None
        self._in_progress.add(node)
        call: Call | None = None
        if isinstance(node, ast.Call):
            call = self._known_call(node, scope)
        elif isinstance(node, ast.Dict):
            mapping = self._values.mapping(node, scope)
            if CONFIGURATION & set(mapping.arguments):
                call = self._configuration(mapping)
        elif isinstance(node, ast.List | ast.Tuple):
            call = self._launcher_list(node)
        self._in_progress.discard(node)
        if call is not None:
            call.one_rank = one_rank
            self._calls[node] = call
        return call

    def _known_call(self, node: ast.Call, scope: Scope) -> Call | None:
        function = node.func
        dotted = self._values.dotted(function, scope)
        name = dotted and _target(dotted)
        if name:
            return self._arguments(
                Call(name, {}, self._values.span(function)), node.args, node.keywords, scope
            )
        last = (dotted or "").rpartition(".")[2] or (
            function.attr if isinstance(function, ast.Attribute) else ""
        )
        if last == "partial" and node.args:
            target = self._values.dotted(node.args[0], scope)
            if target and (name := _target(target)):
                call = Call(name, {}, self._values.span(node.args[0]))
                self._arguments(call, node.args[1:], node.keywords, scope)
                call.complete = False
                return call
        if last in _BUILDERS and node.args and isinstance(node.args[0], ast.Constant):
            return self._built(last, node, scope)
        keywords = {keyword.arg for keyword in node.keywords}
        if last == "upload_file" and "remote_file_name" in keywords and isinstance(function, ast.Attribute):
            call = Call("Logger.upload_file", {}, self._values.span(function))
            return self._arguments(call, node.args, node.keywords, scope)
        if last == "dict" and CONFIGURATION & keywords:
            span = self._values.span(function)
            return self._configuration(self._arguments(Call("Trainer", {}, span), [], node.keywords, scope))
        return None

    def _configuration(self, mapping: Call) -> Call:
        """A dictionary that configures a Trainer; what else the Trainer gets is not known."""
        if mapping.complete:
            self._whole.add(id(mapping))
        mapping.name, mapping.complete = "Trainer", False
        return mapping

    def _built(self, builder: str, node: ast.Call, scope: Scope) -> Call | None:
        """``build_callback("name", {…})`` of LLM Foundry."""
        registered = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        name = _BUILDERS[builder].get(registered) if isinstance(registered, str) else None
        given = self._values.value(node.args[1], scope) if len(node.args) > 1 else None
        if name not in TARGETS or not isinstance(given, Call):
            return None
        self._inner.add(id(given))
        return Call(name, given.arguments, self._values.span(node.args[0]), given.keys, given.complete)

    def _launcher_list(self, node: ast.List | ast.Tuple) -> Call | None:
        """``["composer", "-n", "2", "--stdout", "…"]``."""
        words = [
            e.value if isinstance(e, ast.Constant) and isinstance(e.value, str) else None for e in node.elts
        ]
        if "composer" not in words[:3]:
            return None
        arguments: dict[str, Value] = {}
        for option in ("stdout", "stderr"):
            if f"--{option}" in words[:-1]:
                value = self._values.value(node.elts[words.index(f"--{option}") + 1], _NO_SCOPE)
                if isinstance(value, Text):
                    arguments[option] = value
        return Call("launcher", arguments, self._values.span(node)) if arguments else None

    def _arguments(
        self, call: Call, positional: list[ast.expr], keywords: list[ast.keyword], scope: Scope
    ) -> Call:
        names = iter(TARGETS[call.name].positional)
        for node in positional:
            if isinstance(node, ast.Starred):
                call.complete = False
                break
            name = next(names, None)
            if name is not None:
                self._put(call, name, node, scope)
        for keyword in keywords:
            if keyword.arg is not None:
                self._put(call, keyword.arg, keyword.value, scope)
                start = self._index.offset(keyword.lineno, keyword.col_offset)
                call.keys[keyword.arg] = (start, start + len(keyword.arg))
                continue
            mapping = self._values.value(keyword.value, scope)
            if isinstance(mapping, Call) and mapping.name in {"dict", "Trainer"}:
                self._inner.add(id(mapping))
                for name, value in mapping.arguments.items():
                    call.arguments.setdefault(name, value)
                    if name in mapping.keys:
                        call.keys.setdefault(name, mapping.keys[name])
                whole = mapping.complete or id(mapping) in self._whole - self._values.changed
                call.complete = call.complete and whole
            else:
                call.complete = False
        return call

    def _put(self, call: Call, name: str, node: ast.expr, scope: Scope) -> None:
        value = self._values.value(node, scope)
        call.arguments[name] = value
        for item in value.values if isinstance(value, Items) else (value,):
            if isinstance(item, Call):
                self._inner.add(id(item))


def _target(dotted: str) -> str | None:
    """The class of the table that a dotted name is, if it is one.

    A name without a package is taken for Composer's: it came with ``import *``, or from a snippet.
    """
    package, _, name = dotted.rpartition(".")
    target = TARGETS.get(name)
    if target is None or name == "launcher":
        return None
    return name if not package or package.partition(".")[0] in {"composer", "llmfoundry"} else None
