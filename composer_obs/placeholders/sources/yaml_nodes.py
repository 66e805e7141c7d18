"""YAML nodes: composed within limits and never constructed, so that no tag is executed.

A text of any size and shape is read in bounded time or refused, with the line and column.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from composer_obs.errors import ComposerObsError
from composer_obs.placeholders.calls import Span, Text
from composer_obs.placeholders.sources.yaml_text import character_spans, skip_properties

__all__ = ["DEEPEST", "LARGEST", "MAP", "NULL", "SEQ", "STR", "Chain", "Nodes", "Pairs", "YAMLSourceError"]

#: Levels of nesting, and of references to references. Nobody writes a tenth of it.
DEEPEST = 100
#: Nodes of all configurations of a file, with aliases and merge keys written out.
LARGEST = 200_000

STR, MAP, SEQ, NULL, _MERGE = (f"tag:yaml.org,2002:{kind}" for kind in "str map seq null merge".split())

#: The collections around a node, outermost first.
Chain = tuple[yaml.Node, ...]
#: The keys of a mapping, each with its two nodes.
Pairs = dict[str, tuple[yaml.ScalarNode, yaml.Node]]

_KINDS = {STR: yaml.ScalarEvent, MAP: yaml.MappingStartEvent, SEQ: yaml.SequenceStartEvent}
_ScalarNode = yaml.ScalarNode
_IMPLICIT = yaml.resolver.Resolver.yaml_implicit_resolvers
_UNPRINTABLE = yaml.reader.Reader.NON_PRINTABLE
# What holds none of these is neither template nor path, and spans cost more than all the rest.
_HAS_PARTS = re.compile(r"[{}$/.]")
# Every level of a block stands further right, at most two at the same column. A pattern that begins with
# a character is searched for at the speed of memchr; line breaks that nobody uses count as deep.
# Nor does anybody write the tags of YAML itself, which may contradict their nodes.
_DEEP = rf"[ \t?:-]{{{DEEPEST}}}"
_SUSPICIOUS = [
    re.compile(part)
    for part in (rf"\A{_DEEP}", rf"\n{_DEEP}", r"\r(?!\n)", "\x85", "\u2028", "\u2029", "!!", "!<", "%TAG")
]


class _Tags:
    """The tags that PyYAML gives, in half its time: it also looks for tags by path, which nobody has."""

    def descend_resolver(self, *_: object) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is _ScalarNode:
            if implicit[0] and (known := _IMPLICIT.get(value[:1])):
                for tag, pattern in known:
                    if pattern.match(value):
                        return str(tag)
            return STR
        return MAP if kind is yaml.MappingNode else SEQ


_LOADER: Any = type("_Loader", (_Tags, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), {})


class YAMLSourceError(ComposerObsError):
    """The text is not YAML, or its nesting or expansion knows no bounds.

    Args:
        message (str): What is wrong.
        line, column (int): Where, from 1.

    Example:
        >>> Nodes("save_folder: [a").compose()
        Traceback (most recent call last):
        ...
        composer_obs.placeholders.sources.yaml_nodes.YAMLSourceError: not YAML: line 1, column 16: ...
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"not YAML: line {line}, column {column}: {message}")
        self.line = line
        self.column = column


class Nodes:
    """The nodes of one text: where they stand and which keys they have, with anchors and merge keys followed.

    Args:
        source (str): The text of all documents.

    Example:
        >>> nodes = Nodes("base: &base {a: 1}\\nmore: {<<: *base, b: 2}")
        >>> [document] = nodes.compose()
        >>> list(nodes.pairs(nodes.pairs(document)["more"][1]))
        ['a', 'b']
    """

    def __init__(self, source: str) -> None:
        #: Nodes that are being read, which an alias or reference must not enter again.
        self.active: set[int] = set()
        #: Mappings with keys that cannot be told.
        self.incomplete: set[int] = set()
        self._source = source
        # libyaml does not count a byte order mark at the beginning.
        self._text = source.lstrip("\ufeff")
        self._shift = len(source) - len(self._text)
        self._first = source + " "  # so that what stands at the end has a first character, too
        self._left = LARGEST
        self._pairs: dict[int, Pairs] = {}

    def compose(self) -> list[yaml.Node]:
        """The root of each document.

        Raises:
            YAMLSourceError: It is not YAML, or nested too deeply.
        """
        try:
            self._guard()
            return [node for node in yaml.compose_all(self._text, Loader=_LOADER) if node is not None]
        except yaml.MarkedYAMLError as error:
            problem = ", ".join(part for part in (error.context, error.problem) if part)
            mark = error.problem_mark or error.context_mark
            raise self.error(problem, mark.index if mark else 0) from error
        except (yaml.YAMLError, UnicodeEncodeError) as error:
            # Without a mark there is only the reader's: a character that YAML does not allow.
            found = _UNPRINTABLE.search(self._text)
            what = f"U+{ord(found[0]):04X} is not allowed" if found else str(error)
            raise self.error(what, found.start() if found else 0) from error

    def _guard(self) -> None:
        """Refuse nesting without end, and a list or mapping under another's tag.

        Composing is recursive, and some releases of libyaml overflow the stack; parsing is not.
        """
        text = self._text
        shallow = text.count("[") + text.count("{") <= DEEPEST
        if shallow and not any(suspicious.search(text) for suspicious in _SUSPICIOUS):
            return
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            tag = getattr(event, "tag", "")
            if not isinstance(event, _KINDS.get(tag, yaml.Event)):
                raise self.error(f"it is not what its tag {tag} says", _index(event))
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                self.check_depth(event, depth)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1

    def error(self, message: str, index: int = 0) -> YAMLSourceError:
        """The error at an index of the composed text."""
        offset = min(index + self._shift, len(self._source))
        line = self._source.count("\n", 0, offset) + 1
        return YAMLSourceError(message, line, offset - self._source.rfind("\n", 0, offset))

    def check_depth(self, node: yaml.Node | yaml.Event, depth: int) -> None:
        """Refuse what is nested too deeply."""
        if depth > DEEPEST:
            raise self.error(f"nested more than {DEEPEST} levels deep", _index(node))

    def spend(self, node: yaml.Node, amount: int = 1) -> None:
        """Count so many nodes as read."""
        self._left -= amount
        if self._left < 0:
            what = f"more than {LARGEST} nodes with its aliases and references written out"
            raise self.error(what, _index(node))

    def span(self, node: yaml.Node) -> Span:
        """Where a node stands, behind its anchor and tag."""
        start, end = node.start_mark.index + self._shift, node.end_mark.index + self._shift
        if self._first[start] in "&!":
            start = skip_properties(self._source, start, end)
        return start, end

    def text(self, node: yaml.ScalarNode) -> Text:
        """A scalar as a string, with the place of each character."""
        value, style = node.value, node.style
        span = start, end = self.span(node)
        wanted = _HAS_PARTS.search(value) is not None
        spans = character_spans(self._source, start, end, value, style) if wanted else ()
        if style in {"|", ">"}:
            span = start, start + len(self._source[start:end].rstrip())
            return Text(value, span, spans, exact=False)
        return Text(value, span, spans, exact=node.start_mark.line == node.end_mark.line)

    def pairs(self, node: yaml.Node) -> Pairs:
        """The keys of a mapping, with those that it merges."""
        pairs = self._pairs.get(id(node))
        if pairs is not None:
            return pairs
        # A mapping that merges itself gets nothing from it.
        merged: Pairs = {}
        own: Pairs = {}
        self._pairs[id(node)] = merged
        for pair in node.value:
            key = pair[0]
            if key.tag == _MERGE:
                self._merge(node, pair[1], merged)
            elif isinstance(key, yaml.ScalarNode):
                own[key.value] = pair
            else:
                self.incomplete.add(id(node))
        merged.update(own)
        return merged

    def _merge(self, node: yaml.Node, value: yaml.Node, merged: Pairs) -> None:
        listed = reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]
        for source in listed:  # the first of a list has the last word
            if not isinstance(source, yaml.MappingNode):
                self.incomplete.add(id(node))
                continue
            pairs = self.pairs(source)
            self.spend(source, 1 + len(pairs))
            merged.update(pairs)
            if id(source) in self.incomplete:
                self.incomplete.add(id(node))


def _index(node: yaml.Node | yaml.Event) -> int:
    return int(node.start_mark.index) if node.start_mark else 0
