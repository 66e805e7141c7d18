"""OmegaConf's ``${…}``: filled in where the document itself has the answer, else a hole."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import yaml

from composer_obs.placeholders.calls import HOLE, Constant, Span, Text, Unknown, Value
from composer_obs.placeholders.sources.yaml_nodes import DEEPEST, MAP, SEQ, STR, Chain, Nodes

__all__ = ["References"]

_BRACE = re.compile(r"[{}]")
_KEY = re.compile(r"[^.\[\]]+")
_PATH = re.compile(r"\.*[^\s.:,{}$][^\s:,{}$]*")


class References(Nodes, ABC):
    """The nodes of one text with what its references stand for.

    A subclass reads the nodes that references lead to. (A function to call back would make a cycle, and
    all nodes would outlive their use.)

    Args:
        source (str): The text of all documents.
        known (Mapping[str, Any]): What ``${name}`` stands for if the document has no such key.

    Example:
        >>> class Strings(References):
        ...     def value(self, node, chain):
        ...         return self.filled(node, chain)
        >>> strings = Strings("a: b\\nfolder: ${a}/${oc.env:USER}", {})
        >>> [root] = strings.compose()
        >>> text = strings.value(strings.pairs(root)["folder"][1], (root,))
        >>> text.value, text.holes
        ('b/￼', {2: '${oc.env:USER}'})
    """

    def __init__(self, source: str, known: Mapping[str, Any]) -> None:
        super().__init__(source)
        self._known = known

    @abstractmethod
    def value(self, node: yaml.Node, chain: Chain) -> Value:
        """The value of any node."""

    def followed(self, node: yaml.Node, chain: Chain) -> tuple[yaml.Node, Chain]:
        """What a node that is nothing but ``${…}`` refers to and what is around that, else the node."""
        for _ in range(DEEPEST):
            if node.tag != STR or not _is_reference(node.value):
                break
            found = self._look_up(self._path(node.value[2:-1], chain), chain)
            if found is None:
                break
            node, chain = found
        return node, chain

    def filled(self, node: yaml.ScalarNode, chain: Chain) -> Value:
        """The value of a string, with its references filled in."""
        self.check_depth(node, len(self.active))
        self.active.add(id(node))
        whole = _is_reference(node.value)
        value = self._referred(node.value[2:-1], chain) if whole else self._filled(self.text(node), chain)
        self.active.discard(id(node))
        if value is not None and not whole:
            return value
        span = self.span(node)
        if value is None:
            return Text(HOLE, span, (span,), {0: node.value}, exact=self.text(node).exact)
        if isinstance(value, Text):
            return Text(value.value, span, (span,) * len(value.value), value.holes, exact=False)
        return Constant(value.value, span) if isinstance(value, Constant) else value

    def _path(self, inner: str, chain: Chain) -> str:
        """The path in a reference, ``""`` if it holds something else."""
        if "${" in inner:
            filled = self._filled(Text(inner), chain)
            if filled.holes:
                return ""
            inner = filled.value
        inner = inner.strip()
        if inner.startswith("oc.select:"):
            inner = inner[10:].partition(",")[0].strip()
        return inner if _PATH.fullmatch(inner) else ""

    def _look_up(self, path: str, chain: Chain) -> tuple[yaml.Node, Chain] | None:
        """The node at a path, and what is around it."""
        name = path.lstrip(".")
        # The first dot is the collection that the reference stands in.
        dots = len(path) - len(name)
        around = chain[: len(chain) - dots + 1] if dots else chain[:1]
        if not name or not around:
            return None
        node, above = around[-1], around[:-1]
        for key in _KEY.findall(name):
            self.spend(node)
            self.check_depth(node, len(above))
            if node.tag == STR and id(node) not in self.active:
                self.active.add(id(node))
                followed = self.followed(node, above)
                self.active.discard(id(node))
                node, above = followed
            found = self._child(node, key)
            if found is None:
                return None
            node, above = found, (*above, node)
        return node, above

    def _child(self, node: yaml.Node, key: str) -> yaml.Node | None:
        if node.tag == MAP:
            pair = self.pairs(node).get(key)
            return pair[1] if pair else None
        if node.tag == SEQ and key.isdecimal() and len(key) < 10 and int(key) < len(node.value):
            child: yaml.Node = node.value[int(key)]
            return child
        return None

    def _referred(self, inner: str, chain: Chain) -> Value | None:
        """What a reference stands for; ``None`` if only the running program knows."""
        if not (path := self._path(inner, chain)):
            return None
        found = self._look_up(path, chain)
        if found is None:
            given = self._known.get(path)
            if isinstance(given, str):
                return Text(given)
            return Constant(given) if isinstance(given, int | float) else None
        if id(found[0]) in self.active:
            return None
        value = self.value(*found)
        return None if isinstance(value, Unknown) else value

    def _filled(self, text: Text, chain: Chain) -> Text:
        """The text with its references filled in."""
        raw, exact = text.value, text.exact
        filled = ""
        spans: list[Span] = []
        holes: dict[int, str] = {}

        def keep(start: int, end: int) -> None:
            nonlocal filled
            filled += raw[start:end]
            spans.extend(text.spans[start:end])

        def add(added: str, start: int, end: int) -> None:
            nonlocal filled
            filled += added
            if text.spans:
                spans.extend([(text.spans[start][0], text.spans[end - 1][1])] * len(added))

        position = 0
        while (start := raw.find("${", position)) >= 0:
            # OmegaConf halves the backslashes before a reference; an odd one escapes it.
            slashes = position + len(raw[position:start].rstrip("\\"))
            keep(position, slashes)
            for index in range(slashes, start - 1, 2):
                add("\\", index, index + 2)
            position = start + 2
            escaped = (start - slashes) % 2
            end = None if escaped else _end(raw, start)
            self.spend(chain[-1], (len(raw) - start + len(filled)) // 100)
            if end is None:  # or it is never closed
                add("$", start - escaped, start + 1)
                keep(start + 1, position)
                continue
            position = end
            value = self._referred(raw[start + 2 : end - 1], chain)
            if isinstance(value, Text):
                holes |= {len(filled) + index: hole for index, hole in value.holes.items()}
                add(value.value, start, end)
            elif isinstance(value, Constant):
                add(str(value.value), start, end)
            else:
                holes[len(filled)] = raw[start:end]
                add(HOLE, start, end)
            exact = exact and not isinstance(value, Text | Constant)
        keep(position, len(raw))
        return Text(filled, text.span, tuple(spans), holes, exact=exact)


def _is_reference(text: str) -> bool:
    return text.startswith("${") and _end(text, 0) == len(text)


def _end(text: str, start: int) -> int | None:
    """Where the reference ends that starts here; ``None`` if it is not closed."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return None
