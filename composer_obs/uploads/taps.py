"""Listen to a method of somebody else's class or object without changing what it does."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

__all__ = ["Listener", "tap", "tap_class"]


class Listener(Protocol):
    """What a tap tells: before a call, after it returned, or that it raised.

    None of the three may raise. The value that `before` returns is handed to the other two.
    """

    def before(self, instance: Any, arguments: Mapping[str, Any]) -> Any: ...
    def returned(self, ticket: Any, result: Any) -> None: ...
    def raised(self, ticket: Any, error: BaseException) -> None: ...


def _wrap(
    original: Callable[..., Any], listener: Listener, is_on: Callable[[], bool], instance: Any = None
) -> Callable[..., Any]:
    signature = inspect.signature(original)
    kinds = {parameter.kind: name for name, parameter in signature.parameters.items()}
    collector = kinds.get(inspect.Parameter.VAR_KEYWORD, "")

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not is_on():
            return original(*args, **kwargs)
        try:
            # Subclasses drop or reorder arguments; only the names are relied on.
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return original(*args, **kwargs)  # Which raises the same error, as it would without us.
        arguments |= arguments.get(collector, {})
        ticket = listener.before(arguments["self"] if instance is None else instance, arguments)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            listener.raised(ticket, error)
            raise
        listener.returned(ticket, result)
        return result

    return wrapper


def tap(instance: Any, name: str, listener: Listener) -> Callable[[], None]:
    """Listen to one object's method; returns what undoes it."""
    on = [True]
    before = vars(instance).get(name)
    wrapper = _wrap(getattr(instance, name), listener, lambda: on[0], instance)
    setattr(instance, name, wrapper)

    def undo() -> None:
        on[0] = False
        if vars(instance).get(name) is not wrapper:
            return
        if before is None:
            delattr(instance, name)
        else:
            setattr(instance, name, before)

    return undo


def tap_class(cls: type, name: str, listener: Listener) -> Callable[[], None]:
    """Listen to a method of every instance of a class; returns what undoes it."""
    on = [True]
    original = vars(cls)[name]
    wrapper = _wrap(original, listener, lambda: on[0])
    setattr(cls, name, wrapper)

    def undo() -> None:
        on[0] = False  # A tap above this one may hold it, so it must pass through in any case.
        if vars(cls).get(name) is wrapper:
            setattr(cls, name, original)

    return undo
