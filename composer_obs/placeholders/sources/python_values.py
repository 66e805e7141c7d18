"""What an expression of Python source stands for, as far as the source tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from composer_obs.placeholders.calls import Call, Constant, Items, Span, Text, Unknown, Value
from composer_obs.placeholders.parameter import PLACEHOLDERS
from composer_obs.placeholders.sources.folding import as_text, concatenate, join_path, replace_hole
from composer_obs.placeholders.sources.literals import LineIndex, read_literal
from composer_obs.placeholders.sources.python_scopes import Scope

__all__ = ["Evaluator"]

# Of expressions in expressions, and of names that stand for names.
_DEEPEST = 30


def _changes_of(name: str) -> str:
    """A pattern of what changes a list or a mapping; it begins with letters, which makes it fast."""
    methods = r"append|extend|insert|update|setdefault|pop|remove|clear"
    name = re.escape(name)
    return rf"{name}(?<!\w{name})\s*(?:\.\s*(?:{methods})\b|\[[^\]]*\]\s*=(?!=)|\+=|\|=)"


class Evaluator:
    """Values of expressions; nothing is executed.

    Args:
        source (str): The module's text.
        index (LineIndex): Of the text.
        known (Callable[[ast.AST, Scope], Call | None]): The call that a node is, if it is a known one.
    """

    def __init__(self, source: str, index: LineIndex, known: Callable[[ast.AST, Scope], Call | None]) -> None:
        self._source = source
        self._index = index
        self._known = known
        #: The mappings that the module changes after they were made, by `id`.
        self.changed: set[int] = set()

    def value(self, node: ast.expr, scope: Scope, depth: int = 0) -> Value:
        """The value of an expression, looked up from a scope.

        Args:
            node (ast.expr): The expression.
            scope (Scope): Where it stands.
            depth (int): Of expressions around it that are being evaluated. Default: ``0``.
        """
        value = self._value(node, scope, depth) if depth <= _DEEPEST else None
        return Unknown(self.text(node), self.span(node)) if value is None else value

    def _value(self, node: ast.expr, scope: Scope, depth: int) -> Value | None:
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.JoinedStr):
            return self._fstring(node, scope, depth)
        if isinstance(node, ast.Name):
            return self._name(node, scope, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Div):
            return self._binary(node, scope, depth)
        if isinstance(node, ast.List | ast.Tuple):
            return self._items(node, scope, depth)
        if isinstance(node, ast.Dict):
            return self._known(node, scope) or self.mapping(node, scope, depth)
        if isinstance(node, ast.Call):
            return self._call_value(node, scope, depth)
        if isinstance(node, ast.NamedExpr):
            return self.value(node.value, scope, depth + 1)
        if isinstance(node, ast.IfExp):
            return self._one_of(node, scope, depth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = node.operand.value if isinstance(node.operand, ast.Constant) else None
            return Constant(-number, self.span(node)) if isinstance(number, int | float) else None
        return None

    def _constant(self, node: ast.Constant) -> Value | None:
        value, span = node.value, self.span(node)
        if isinstance(value, str):
            return read_literal(self._source, *span) or Text(value, span, exact=False)
        return Constant(value, span) if value is None or isinstance(value, int | float) else None

    def _fstring(self, node: ast.JoinedStr, scope: Scope, depth: int) -> Value | None:
        text = read_literal(self._source, *self.span(node))
        if text is None:
            return None
        for index in sorted(text.holes, reverse=True):
            name = text.holes[index].strip()
            # A variable that is called like a placeholder is what PH702 is about.
            if name.isidentifier() and name not in PLACEHOLDERS:
                known = self._lookup(name, scope, depth)
                if isinstance(known, Text) and known.known:
                    text = replace_hole(text, index, known.value)
        return text

    def _name(self, node: ast.Name, scope: Scope, depth: int) -> Value | None:
        value = self._lookup(node.id, scope, depth)
        if isinstance(value, Items) and self._is_mutated(node.id):
            return Items(value.values, complete=False, span=value.span)
        if isinstance(value, Call):
            self.forget_changed(node.id, value)
        return value

    def forget_changed(self, name: str, mapping: Call) -> None:
        """Take what the module puts into a mapping later on for unknown.

        Args:
            name (str): The variable that holds the mapping.
            mapping (Call): What it was made with; changed in place.
        """
        if not self._is_mutated(name):
            return
        self.changed.add(id(mapping))
        mapping.complete = False
        item = rf"(?<!\w){re.escape(name)}\s*\[\s*(['\"])(\w+)\1\s*\]\s*=(?!=)"
        keys = [found[2] for found in re.finditer(item, self._source)]
        changes = len(re.findall(_changes_of(name), self._source))
        for key in mapping.arguments if changes > len(keys) else set(keys) & set(mapping.arguments):
            mapping.arguments[key] = Unknown(f"{name}[{key!r}]")

    def _lookup(self, name: str, scope: Scope, depth: int) -> Value | None:
        found = scope.value(name)
        return None if found is None else self.value(found[0], found[1], depth + 1)

    def _is_mutated(self, name: str) -> bool:
        return re.search(_changes_of(name), self._source) is not None

    def _binary(self, node: ast.BinOp, scope: Scope, depth: int) -> Value | None:
        left = self.value(node.left, scope, depth + 1)
        right = self.value(node.right, scope, depth + 1)
        if isinstance(node.op, ast.Div):
            # Of paths; numbers are not text.
            return join_path([left, right], self.span(node)) if isinstance(left, Text) else None
        if isinstance(left, Items) or isinstance(right, Items):
            values = [value for side in (left, right) if isinstance(side, Items) for value in side.values]
            complete = all(isinstance(side, Items) and side.complete for side in (left, right))
            return Items(tuple(values), complete, self.span(node))
        if isinstance(left, Text) or isinstance(right, Text):
            return concatenate([as_text(left), as_text(right)], self.span(node))
        return None

    def _items(self, node: ast.List | ast.Tuple, scope: Scope, depth: int) -> Items:
        values: list[Value] = []
        complete = True
        for element in node.elts:
            if not isinstance(element, ast.Starred):
                values.append(self.value(element, scope, depth + 1))
                continue
            inner = self.value(element.value, scope, depth + 1)
            values += inner.values if isinstance(inner, Items) else ()
            complete = complete and isinstance(inner, Items) and inner.complete
        return Items(tuple(values), complete, self.span(node))

    def mapping(self, node: ast.Dict, scope: Scope, depth: int = 0) -> Call:
        call = Call("dict", {}, self.span(node))
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                call.arguments[key.value] = self.value(value, scope, depth + 1)
                call.keys[key.value] = self.span(key)
                continue
            inner = self.value(value, scope, depth + 1) if key is None else None
            if isinstance(inner, Call):
                call.arguments.update(inner.arguments)
                call.keys.update(inner.keys)
            call.complete = call.complete and isinstance(inner, Call) and inner.complete
        return call

    def _call_value(self, node: ast.Call, scope: Scope, depth: int) -> Value | None:
        if (call := self._known(node, scope)) is not None:
            return call
        dotted = self.dotted(node.func, scope) or ""
        makes_path = dotted.rpartition(".")[2] in {"str", "Path", "PurePath", "PosixPath"}
        if node.args and not node.keywords and (makes_path or dotted.endswith("path.join")):
            parts = [self.value(argument, scope, depth + 1) for argument in node.args]
            known = not makes_path or isinstance(parts[0], Text)
            return join_path(parts, self.span(node)) if known else None
        if dotted == "dict" and not node.args:
            result = Call("dict", {}, self.span(node))
            for keyword in node.keywords:
                if keyword.arg is None:
                    result.complete = False
                else:
                    result.arguments[keyword.arg] = self.value(keyword.value, scope, depth + 1)
            return result
        return None

    def _one_of(self, node: ast.IfExp, scope: Scope, depth: int) -> Value | None:
        """A condition between something and nothing is the something, for whoever judges it."""
        for chosen, other in ((node.body, node.orelse), (node.orelse, node.body)):
            if isinstance(other, ast.Constant) and other.value is None:
                value = self.value(chosen, scope, depth + 1)
                return value if isinstance(value, Call) else None
        return None

    def dotted(self, node: ast.expr, scope: Scope) -> str | None:
        """The full name of a function or class, through its imports."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        base = scope.imported(node.id)
        if base is None:
            if scope.is_bound(node.id):
                return None
            base = node.id
        return ".".join([base, *reversed(attributes)])

    def span(self, node: ast.AST) -> Span:
        place: Any = node
        start = self._index.offset(place.lineno, place.col_offset)
        return start, self._index.offset(place.end_lineno, place.end_col_offset)

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self._source[start : min(end, start + 200)]
