"""YAML's numbers, truth values and nulls, as PyYAML takes them."""

from __future__ import annotations

from typing import Any

import yaml

from composer_obs.placeholders.calls import Constant, Span, Unknown

__all__ = ["read_constant"]

# Converting a number takes time that grows with the square of its length.
_LONGEST = 1000
_CONSTRUCTOR = yaml.constructor.SafeConstructor()


def _integer(node: yaml.ScalarNode) -> int:
    value: str = node.value
    if value.isdecimal() and value[0] != "0":
        return int(value)
    return int(_CONSTRUCTOR.construct_yaml_int(node))


_CONSTRUCT: dict[str, Any] = {
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": lambda node: _CONSTRUCTOR.bool_values[node.value.lower()],
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": _CONSTRUCTOR.construct_yaml_float,
}


def read_constant(node: yaml.ScalarNode, span: Span) -> Constant | Unknown:
    """The constant that a scalar is; unknown under any other tag, or if its tag contradicts its value.

    Example:
        >>> read_constant(yaml.compose("0x10"), (0, 4))
        Constant(value=16, span=(0, 4))
    """
    construct = _CONSTRUCT.get(node.tag)
    if construct is None:
        return Unknown(node.tag, span)
    try:
        return Constant(construct(node), span) if len(node.value) <= _LONGEST else Unknown(node.value, span)
    except (ArithmeticError, LookupError, ValueError):
        return Unknown(node.value, span)
