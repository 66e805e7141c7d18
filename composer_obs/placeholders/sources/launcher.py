"""Command lines of the `composer` launcher inside strings, such as the ``command`` of an mcli YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from composer_obs.placeholders.calls import HOLE, Call, Span, Text

__all__ = ["launcher_calls"]

# Options that take the next word; all others are flags. Source: composer/cli/launcher.py.
_TAKES_VALUE = set("-n --nproc --world_size --base_rank --node_rank --master_addr --master_port".split())
# Bounded, so that a text full of unclosed ones is read in linear time.
_EXPANSION = r"(?P<hole>\$\{[^}]{0,500}\}|\$\([^)]{0,500}\)|`[^`]{0,500}`|\$\w+)"
_BARE = re.compile(
    rf"(?P<nothing>\\\r?\n)|\\(?P<char>.)|'(?P<literal>[^']*)'|(?P<quote>\")|{_EXPANSION}"
    r"|(?P<end>[;&|<>()\n])|(?P<blank>[^\S\n]+)|(?P<other>.)",
    re.DOTALL,
)
_QUOTED = re.compile(
    rf"(?P<nothing>\\\r?\n)|\\(?P<char>[$`\"\\])|(?P<quote>\")|{_EXPANSION}|(?P<other>.)", re.DOTALL
)


@dataclass(slots=True)
class _Word:
    """A word of a shell command: its characters, where in the string each is, and which are holes."""

    start: int
    end: int
    value: str = ""
    places: list[Span] = field(default_factory=list)
    holes: dict[int, str] = field(default_factory=dict)

    def add(self, character: str, start: int, end: int, hole: str | None = None) -> None:
        if hole is not None:
            self.holes[len(self.value)] = hole
        self.value += character
        self.places.append((start, end))
        self.end = end


def launcher_calls(text: Text) -> list[Call]:
    """A call of ``launcher`` for each launcher command with ``--stdout`` or ``--stderr``.

    What the shell fills in, such as ``$USER``, is a hole.

    Args:
        text (Text): Any string.

    Example:
        >>> [call] = launcher_calls(Text("composer -n 8 --stdout 'log{rank}' train.py --stderr no"))
        >>> {name: value.value for name, value in call.arguments.items()}
        {'stdout': 'log{rank}'}
    """
    if "--std" not in text.value or "composer" not in text.value:
        return []
    return [call for words in _commands(text) if (call := _launcher(words, text)) is not None]


def _launcher(words: list[_Word], text: Text) -> Call | None:
    remaining = iter(words)
    for word in remaining:
        if word.value.rpartition("/")[2] in {"composer", "composer.cli.launcher"}:
            break
    else:
        return None
    call = Call("launcher", {}, text.span_of(word.start, word.end))
    for word in remaining:
        option, equals, _ = word.value.partition("=")
        if option in {"--stdout", "--stderr"}:
            value, start = (word, len(option) + 1) if equals else (next(remaining, None), 0)
            if value is None:
                break
            call.arguments[option[2:]] = _slice(text, value, start)
            if (span := text.span_of(word.start, word.start + len(option))) is not None:
                call.keys[option[2:]] = span
        elif word.value in _TAKES_VALUE:
            next(remaining, None)
        elif not word.value.startswith("-"):
            break  # the training script; what follows are its own options
    return call if call.arguments else None


def _slice(text: Text, word: _Word, start: int) -> Text:
    """The characters of a word from an index on."""
    places = word.places[start:]
    span = text.span_of(places[0][0] if start and places else word.start, word.end)
    spans: tuple[Span, ...] = ()
    if text.spans:
        spans = tuple((text.spans[first][0], text.spans[last - 1][1]) for first, last in places)
    holes = {index - start: hole for index, hole in word.holes.items() if index >= start}
    doubled = frozenset(index for index, (first, _) in enumerate(places) if first in text.doubled)
    return Text(word.value[start:], span, spans, holes, doubled, text.exact)


def _commands(text: Text) -> Iterator[list[_Word]]:
    """The words of each simple command, split as a POSIX shell does."""
    words: list[_Word] = []
    word: _Word | None = None
    quoted = False
    position = 0
    while position < len(text.value):
        match = (_QUOTED if quoted else _BARE).match(text.value, position)
        assert match is not None  # the last alternative takes any character
        start, position = match.span()
        kind = match.lastgroup
        if kind in {"blank", "end"} or (kind == "other" and match[0] == "#" and word is None):
            if word is not None:
                words.append(word)
                word = None
            if kind == "end":
                yield words
                words = []
            elif kind == "other":
                position = (text.value.find("\n", position) + 1 or len(text.value) + 1) - 1
            continue
        if kind == "nothing":
            continue
        word = word or _Word(start, position)
        word.end = position
        if kind == "quote":
            quoted = not quoted
        elif kind == "literal":
            for index in range(start + 1, position - 1):
                word.add(text.value[index], index, index + 1, text.hole_at(index))
            word.end = position
        elif kind == "hole":
            word.add(HOLE, start, position, match[0])
        else:
            word.add(match[0][-1], start, position, text.hole_at(position - 1))
    yield [*words, word] if word is not None else words
