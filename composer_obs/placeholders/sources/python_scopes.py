"""Which names a Python module binds, and to what, read from its statements alone.

Only statements are visited, never expressions: there are ten times as many of those, and a name that
matters here is bound by an assignment or an import. Functions are read when somebody looks into them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

__all__ = ["Scope", "read_scope"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class or function.

    Args:
        node (ast.AST): The module, class or function itself.
        parent (Scope, optional): Where its names are looked up next.
        bound (dict[str, list[ast.expr | None]]): What each name is bound to, in order; ``None`` for
            what is no simple assignment.
        imports (dict[str, str]): Dotted names by the local name.
    """

    node: ast.AST
    parent: Scope | None = None
    bound: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)

    def inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Scope:
        """The scope of a function or class that is defined in this one."""
        inner = Scope(node, self)
        if not isinstance(node, ast.ClassDef):
            _bind_arguments(node.args, inner)
        _read(node.body, inner)
        return inner

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it; a class is not seen from the functions in it."""
        scope: Scope | None = self
        while scope is not None:
            if scope is self or not isinstance(scope.node, ast.ClassDef):
                yield scope
            scope = scope.parent

    def imported(self, name: str) -> str | None:
        """The dotted name that a local name was imported as."""
        for scope in self.chain():
            if name in scope.imports:
                return scope.imports[name]
            if name in scope.bound:
                return None
        return None

    def is_bound(self, name: str) -> bool:
        """Whether anything in the module binds the name."""
        return any(name in scope.bound or name in scope.imports for scope in self.chain())

    def value(self, name: str) -> tuple[ast.expr, Scope] | None:
        """The one expression that the name stands for, and where it is to be evaluated."""
        for scope in self.chain():
            if name in scope.imports:
                return None
            if name in scope.bound:
                values = scope.bound[name]
                only = values[0] if len(values) == 1 else None
                return None if only is None else (only, scope)
        return None


def read_scope(tree: ast.Module, *, has_global: bool = True) -> Scope:
    """The scope of a module.

    Args:
        tree (ast.Module): The module.
        has_global (bool): ``False`` if there is no ``global`` in it, which saves a walk. Default: ``True``.
    """
    module = Scope(tree)
    _read(tree.body, module)
    for node in ast.walk(tree) if has_global else ():
        if isinstance(node, ast.Global):
            # Functions bind these names of the module, too.
            for name in node.names:
                module.bound.setdefault(name, []).append(None)
    return module


def _read(statements: Iterable[ast.stmt], scope: Scope) -> None:
    for statement in statements:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                _bind(target, statement.value, scope)
        elif isinstance(statement, ast.AnnAssign):
            if statement.value is not None:
                _bind(statement.target, statement.value, scope)
        elif isinstance(statement, ast.AugAssign):
            _bind(statement.target, None, scope)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            _import(statement, scope)
        elif isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            scope.bound.setdefault(statement.name, []).append(None)
        else:
            if isinstance(statement, ast.For | ast.AsyncFor):
                _bind(statement.target, None, scope)
            elif isinstance(statement, ast.With | ast.AsyncWith):
                for item in statement.items:
                    if item.optional_vars is not None:
                        _bind(item.optional_vars, None, scope)
            elif isinstance(statement, ast.Global | ast.Nonlocal):
                for name in statement.names:
                    scope.bound.setdefault(name, []).append(None)
            for block in ("body", "orelse", "finalbody"):
                _read(getattr(statement, block, ()), scope)
            for handler in getattr(statement, "handlers", ()):
                if handler.name:
                    scope.bound.setdefault(handler.name, []).append(None)
                _read(handler.body, scope)
            for case in getattr(statement, "cases", ()):
                _read(case.body, scope)


def _bind(target: ast.expr, value: ast.expr | None, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        scope.bound.setdefault(target.id, []).append(value)
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            _bind(element, None, scope)
    elif isinstance(target, ast.Starred):
        _bind(target.value, None, scope)


def _bind_arguments(arguments: ast.arguments, scope: Scope) -> None:
    listed = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    for argument in listed:
        if argument is not None:
            scope.bound.setdefault(argument.arg, []).append(None)


def _import(statement: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            local = alias.asname or alias.name.partition(".")[0]
            scope.imports[local] = alias.name if alias.asname else local
        else:
            module = "." * statement.level + (statement.module or "")
            scope.imports[alias.asname or alias.name] = f"{module}.{alias.name}"
