"""YAML configurations: LLM Foundry's, mcli's, Hydra's, and lists and documents of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from composer_obs.placeholders.calls import Call, Constant, Items, Span, Text, Unknown, Value
from composer_obs.placeholders.sources.launcher import launcher_calls
from composer_obs.placeholders.sources.registry import CALLBACKS, LOGGERS
from composer_obs.placeholders.sources.yaml_constants import read_constant
from composer_obs.placeholders.sources.yaml_foundry import (
    FOUNDRY_KEYS,
    adapt_parallelism,
    adapt_profiler,
    add_defaults,
)
from composer_obs.placeholders.sources.yaml_nodes import MAP, NULL, SEQ, STR, Chain, Pairs
from composer_obs.placeholders.sources.yaml_references import References
from composer_obs.placeholders.table import TARGETS

__all__ = ["read_yaml"]

# A mapping with one of these is a configuration.
_CONFIGURES = frozenset(
    "autoresume callbacks load_path loggers profiler save_filename save_folder save_interval "
    "save_latest_filename save_num_checkpoints_to_keep save_overwrite".split()
)
_HYDRA = {"_target_", "_partial_", "_recursive_", "_convert_"}
# Their Trainer is not Composer's.
_FOREIGN = {"accelerate", "lightning", "pytorch_lightning", "ray", "transformers"}
_REGISTERED = {"loggers": LOGGERS, "callbacks": CALLBACKS}
# OmegaConf takes a date for a string.
_STRINGS = {STR, "tag:yaml.org,2002:timestamp"}


def read_yaml(source: str, known: Mapping[str, Any] | None = None) -> list[Call]:
    """The configurations in a YAML text, each as the call of a ``Trainer``, in the order of the text.

    Besides, objects that Hydra builds (``_target_``) outside of a configuration, and commands of the
    launcher. An unknown part of a string, such as ``${oc.env:USER}``, is a hole.

    Args:
        source (str): The text of all documents.
        known (Mapping[str, Any], optional): What ``${name}`` stands for if the document has no such key.
            Default: ``None``.

    Raises:
        YAMLSourceError: It is not YAML, or nested too deeply, or too large with its aliases written out.

    Example:
        >>> [call] = read_yaml("variables: {name: demo}\\nsave_folder: s3://b/${variables.name}/{rank}")
        >>> call.name, call.arguments["save_folder"].value
        ('Trainer', 's3://b/demo/{rank}')
    """
    reader = _Reader(source, known or {})
    try:
        for document in reader.compose():
            reader.search(document, ())
    except RecursionError:
        raise reader.error("nested too deeply") from None
    return sorted(reader.calls, key=lambda call: call.span or (0, 0))


class _Reader(References):
    """Makes calls of the nodes of one text."""

    def __init__(self, source: str, known: Mapping[str, Any]) -> None:
        super().__init__(source, known)
        self.calls: list[Call] = []
        self._searched: set[int] = set()
        self._commands: set[Span | None] = set()

    # Where configurations are

    def search(self, node: yaml.Node, chain: Chain, *, mcli: bool = False) -> None:
        """Read what is outermost: configurations, Hydra's objects and launcher commands."""
        if isinstance(node, yaml.ScalarNode):
            if "--std" in node.value:
                self._add_launchers(self.text(node))
            return
        if id(node) in self._searched:
            return
        self._searched.add(id(node))
        self.check_depth(node, len(chain))
        if node.tag == SEQ:
            # Each configuration of a list is one of its own.
            below = (*chain, node) if chain else ()
            for item in node.value:
                self.search(item, below)
        elif node.tag == MAP:
            below = (*chain, node)
            pairs, name = self.pairs(node), self._target(node)
            trainers = [
                key
                for key, (_, value) in pairs.items()
                if value.tag == MAP and self._target(value) == "Trainer"
            ]
            if len(trainers) == 1:
                pairs = self._add_hydra_trainer(pairs, trainers[0], below)
            elif name is None and not _CONFIGURES.isdisjoint(pairs):
                self.calls.append(self._configuration(node, chain, mcli=mcli))
                return
            elif name in TARGETS:
                self.calls.append(self._mapping(node, chain, None))
                return
            for key, (_, value) in pairs.items():
                # mcli writes the mapping below into a file of its own.
                nested = key == "parameters" and not chain
                self.search(value, () if nested else below, mcli=nested)

    def _add_hydra_trainer(self, pairs: Pairs, name: str, chain: Chain) -> Pairs:
        """Read a Trainer with the loggers and callbacks that stand beside it; return the rest."""
        trainer = self._mapping(pairs[name][1], chain, None)
        self.calls.append(trainer)
        rest = {key: pair for key, pair in pairs.items() if key != name}
        for beside, argument in (("loggers", "loggers"), ("logger", "loggers"), ("callbacks", "callbacks")):
            if beside in rest and argument not in trainer.arguments:
                key, value = rest.pop(beside)
                at = trainer.keys[argument] = self.span(key)
                trainer.arguments[argument] = self._registered(value, chain, argument, at)
        return rest

    def _add_launchers(self, text: Text) -> None:
        for call in launcher_calls(text):
            if call.span not in self._commands:
                self._commands.add(call.span)
                self.calls.append(call)

    # From nodes to values

    def value(self, node: yaml.Node, chain: Chain, named: Span | None = None) -> Value:
        self.spend(node)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, chain)
        if id(node) in self.active:
            return Unknown("an alias of what it is part of", self.span(node))
        if node.tag == MAP:
            return self._mapping(node, chain, named)
        if node.tag != SEQ:
            return Unknown(node.tag, self.span(node))
        self.check_depth(node, len(self.active))
        below = (*chain, node)
        self.active.add(id(node))
        values = tuple([self.value(item, below) for item in node.value])
        self.active.discard(id(node))
        return Items(values, span=self.span(node))

    def _scalar(self, node: yaml.ScalarNode, chain: Chain) -> Value:
        value = node.value
        if node.tag not in _STRINGS:
            return read_constant(node, self.span(node))
        if value == "???":  # OmegaConf's mandatory value, given on the command line
            return Unknown(value, self.span(node))
        result = self.filled(node, chain) if "${" in value else self.text(node)
        if isinstance(result, Text) and "--std" in result.value:
            self._add_launchers(result)
        return result

    def _target(self, node: yaml.Node) -> str | None:
        """The class of which Hydra makes an object of this node; ``None`` if it makes none."""
        if node.tag != MAP or "_target_" not in (pairs := self.pairs(node)):
            return None
        dotted = str(pairs["_target_"][1].value)
        return dotted if dotted.partition(".")[0] in _FOREIGN else dotted.rpartition(".")[2]

    def _is_plain(self, node: yaml.Node) -> bool:
        """Whether it is a mapping that Hydra makes nothing of."""
        return node.tag == MAP and self._target(node) is None

    def _is_foundry(self, pairs: Pairs) -> bool:
        """Whether the keys are those of LLM Foundry's train YAML."""
        if any(self._target(pairs[name][1]) is None for name in FOUNDRY_KEYS & pairs.keys()):
            return True
        for name in ("loggers", "callbacks", "profiler"):
            if name in pairs and self._is_plain(node := pairs[name][1]):
                values = [value for _, value in self.pairs(node).values()]
                return all(value.tag != MAP or self._is_plain(value) for value in values)
        return False

    # Calls

    def _configuration(self, node: yaml.Node, chain: Chain, *, mcli: bool) -> Call:
        """A mapping of the Trainer's arguments."""
        trainer = self._call("Trainer", node, chain, self.span(node.value[0][0]))
        if mcli or self._is_foundry(self.pairs(node)):
            add_defaults(trainer)
        return trainer

    def _mapping(self, node: yaml.Node, chain: Chain, named: Span | None) -> Call:
        name = self._target(node)
        if name is None:
            return self._call("dict", node, chain, named)
        return self._call(name, node, chain, self.span(self.pairs(node)["_target_"][1]))

    def _call(self, name: str, node: yaml.Node, chain: Chain, span: Span | None) -> Call:
        self.check_depth(node, len(self.active))
        call = Call(name, {}, span, complete=id(node) not in self.incomplete)
        if id(node) in self.active:
            call.complete = False
            return call
        below = (*chain, node)
        self.active.add(id(node))
        trainer = name == "Trainer"
        for argument, (key, value) in self.pairs(node).items():
            if argument in _HYDRA:
                continue
            at = call.keys[argument] = self.span(key)
            if trainer and argument in _REGISTERED:
                call.arguments[argument] = self._registered(value, below, argument, at)
            elif trainer and argument == "profiler":
                call.arguments[argument] = self._profiler(value, below, at)
            else:
                call.arguments[argument] = self.value(value, below, at)
        self.active.discard(id(node))
        if trainer:
            adapt_parallelism(call)
        return call

    def _registered(self, node: yaml.Node, chain: Chain, argument: str, named: Span) -> Value:
        """Loggers or callbacks: a mapping of registered names to arguments, or a list of such mappings."""
        table = _REGISTERED[argument]
        node, chain = self.followed(node, chain)
        if self._is_plain(node):
            entries = tuple(self._entries(node, chain, table))
            return Items(entries, id(node) not in self.incomplete, self.span(node))
        if node.tag == SEQ:
            below = (*chain, node)
            found: list[Value] = []
            for item in node.value:
                element, above = self.followed(item, below)
                if self._is_plain(element):
                    found += self._entries(element, above, table)
                elif element.tag == STR and element.value in table:
                    found.append(Call(table[element.value], {}, self.span(element)))
                else:
                    found.append(self.value(element, above))
            return Items(tuple(found), span=self.span(node))
        value = self.value(node, chain, named)
        return Items((value,), span=value.span) if isinstance(value, Call) else value

    def _entries(self, node: yaml.Node, chain: Chain, table: Mapping[str, str]) -> Iterable[Call]:
        below = (*chain, node)
        for registered, (key, value) in self.pairs(node).items():
            self.spend(key)
            name, span = table.get(registered, registered), self.span(key)
            arguments, above = self.followed(value, below)
            if self._is_plain(arguments):
                yield self._call(name, arguments, above, span)
            elif arguments.tag == MAP:
                yield self._mapping(arguments, above, span)
            else:
                yield Call(name, {}, span, complete=arguments.tag == NULL)

    def _profiler(self, node: yaml.Node, chain: Chain, named: Span) -> Value:
        node, chain = self.followed(node, chain)
        if not self._is_plain(node):
            return self.value(node, chain, named)
        if not self.pairs(node):
            return Constant(None, self.span(node))
        profiler = self._call("Profiler", node, chain, named)
        adapt_profiler(profiler)
        return profiler
