"""What every source of templates is turned into: calls of known classes with their arguments.

Python, YAML, notebooks, keyword arguments and live Trainers all become trees of `Call`s, so that a
rule never has to know where a template came from. A `Span` is a pair of character offsets in the
source; what comes from no text has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["HOLE", "Call", "Constant", "Items", "Span", "Text", "Unknown", "Value", "walk"]

#: Stands in a template for a part that only the running program knows.
HOLE = "\ufffc"

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Text:
    r"""A string, as far as the source tells.

    Args:
        value (str): The string; each part that is not known is one `HOLE`.
        span (Span, optional): Where the whole expression stands. Default: ``None``.
        spans (tuple[Span, ...]): Where each character of ``value`` stands, so that an escape such as
            ``\n`` has a span of two. Empty if the source cannot tell.
        holes (Mapping[int, str]): The source text of each hole by its index in ``value``.
        doubled (frozenset[int]): Indexes of the characters that stand in an f-string, where a brace
            has to be written twice.
        exact (bool): Whether an edit of the spans edits the string: ``False`` where characters are
            computed or folded.

    Example:
        >>> text = Text("log-" + HOLE, (4, 20), holes={4: "rank"})
        >>> text.known, text.hole_at(4)
        (False, 'rank')
    """

    value: str
    span: Span | None = None
    spans: tuple[Span, ...] = ()
    holes: Mapping[int, str] = field(default_factory=dict)
    doubled: frozenset[int] = frozenset()
    exact: bool = True

    @property
    def known(self) -> bool:
        """Whether every character is known."""
        return not self.holes

    def hole_at(self, index: int) -> str | None:
        """The source text of the hole at this index."""
        return self.holes.get(index)

    def span_of(self, start: int, end: int) -> Span | None:
        """Where ``value[start:end]`` stands; where the whole stands if that cannot be told."""
        if not self.spans or start >= len(self.spans):
            return self.span
        last = self.spans[max(start, min(end, len(self.spans)) - 1)]
        first = self.spans[start]
        return (first[0], last[1]) if first[0] <= last[1] else first


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a truth value or ``None``."""

    value: int | float | bool | None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """What only the running program knows; ``source`` is how the source writes it."""

    source: str = ""
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """A list or tuple; not ``complete`` if it has elements that the source does not show."""

    values: tuple[Value, ...]
    complete: bool = True
    span: Span | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A call of a class or function that the table knows, or a mapping.

    Args:
        name (str): Its name in the table, e.g. ``"FileLogger"``; ``"dict"`` for a plain mapping.
        arguments (dict[str, Value]): By name of the parameter.
        span (Span, optional): Where the call's name stands. Default: ``None``.
        keys (dict[str, Span]): Where the name of each argument stands, if it is written.
        complete (bool): Whether ``arguments`` holds all; ``False`` behind ``**options``.
        implied (frozenset[str]): Arguments that a configuration's own defaults supply, not the user.
        one_rank (bool): Whether it is made only where a condition about the rank holds.
    """

    name: str
    arguments: dict[str, Value]
    span: Span | None = None
    keys: dict[str, Span] = field(default_factory=dict)
    complete: bool = True
    implied: frozenset[str] = frozenset()
    one_rank: bool = False


Value = Text | Constant | Unknown | Items | Call


def walk(value: Value) -> Iterator[Call]:
    """The call itself and every call below it, outermost first, each once.

    Example:
        >>> handler = Call("JSONTraceHandler", {})
        >>> profiler = Call("Profiler", {"trace_handlers": Items((handler, handler))})
        >>> [call.name for call in walk(profiler)]
        ['Profiler', 'JSONTraceHandler']
    """
    seen: set[int] = set()
    pending: list[Value] = [value]
    while pending:
        current = pending.pop(0)
        if isinstance(current, Items):
            pending = [*current.values, *pending]
        elif isinstance(current, Call) and id(current) not in seen:
            seen.add(id(current))
            yield current
            pending = [*current.arguments.values(), *pending]
