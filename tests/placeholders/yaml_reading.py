"""Reads YAML texts for tests, and turns what was read into plain values."""

from __future__ import annotations

from composer_obs.placeholders.calls import Call, Constant, Items, Text, walk
from composer_obs.placeholders.sources.yaml_source import read_yaml


def one(source: str, **options) -> Call:
    [call] = read_yaml(source, **options)
    return call


def plain(value):
    """The Python value of what was read, each hole as its source."""
    if isinstance(value, Text):
        return "".join(value.holes.get(i, char) for i, char in enumerate(value.value))
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Items):
        return [plain(item) for item in value.values]
    if isinstance(value, Call):
        return {name: plain(item) for name, item in value.arguments.items() if name not in value.implied}
    return value


def folder(source: str, **options):
    return one(source, **options).arguments["save_folder"]


def named(call: Call, name: str) -> Call:
    [found] = [each for each in walk(call) if each.name == name]
    return found
