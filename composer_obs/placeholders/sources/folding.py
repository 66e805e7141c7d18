"""Strings put together of parts, of which each character keeps its place."""

from __future__ import annotations

from collections.abc import Iterable

from composer_obs.placeholders.calls import HOLE, Constant, Span, Text, Unknown, Value

__all__ = ["as_text", "concatenate", "join_path", "replace_hole"]


def as_text(value: Value) -> Text:
    """A value as a part of a string: one hole if it is not known."""
    if isinstance(value, Text):
        return value
    span = value.span
    source = value.source if isinstance(value, Unknown) else "…"
    if isinstance(value, Constant):
        return Text(str(value.value), span, exact=False)
    return Text(HOLE, span, (span,) if span else (), {0: source})


def concatenate(parts: list[Text], span: Span, *, exact: bool = True) -> Text:
    """What ``+`` makes of texts.

    Args:
        parts (list[Text]): The texts.
        span (Span): Where the whole expression stands.
        exact (bool): Whether an edit of the spans edits the result. Default: ``True``.
    """
    value = ""
    spans: list[Span] = []
    holes: dict[int, str] = {}
    doubled: set[int] = set()
    for part in parts:
        holes.update({len(value) + index: source for index, source in part.holes.items()})
        doubled.update(len(value) + index for index in part.doubled)
        spans += part.spans or [part.span or span] * len(part.value)
        exact = exact and (part.exact or not part.spans)
        value += part.value
    return Text(value, span, tuple(spans), holes, frozenset(doubled), exact)


def replace_hole(text: Text, index: int, value: str) -> Text:
    """The text with a hole filled in; an edit would change the variable's use, so it is not exact."""
    before = Text(text.value[:index], spans=text.spans[:index])
    after = Text(text.value[index + 1 :], spans=text.spans[index + 1 :])
    grown = len(value) - 1
    holes = {i + (grown if i > index else 0): s for i, s in text.holes.items() if i != index}
    doubled = frozenset(i + (grown if i > index else 0) for i in text.doubled if i != index)
    spans = (*before.spans, *(text.spans[index : index + 1] * len(value)), *after.spans)
    return Text(before.value + value + after.value, text.span, spans, holes, doubled, exact=False)


def join_path(parts: Iterable[Value], span: Span) -> Text:
    """What `os.path.join` makes of the parts."""
    joined: list[Text] = []
    for part in map(as_text, parts):
        if part.value.startswith("/"):
            joined = []
        elif joined and not joined[-1].value.endswith("/"):
            joined.append(Text("/", spans=(part.spans[0] if part.spans else span,)))
        joined.append(part)
    return concatenate(joined, span, exact=len(joined) == 1)
