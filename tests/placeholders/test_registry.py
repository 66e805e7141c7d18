"""LLM Foundry's registered names lead to classes; those without a template are nobody's business."""

from __future__ import annotations

import pytest

from composer_obs.placeholders.sources.python_source import read_python
from composer_obs.placeholders.sources.yaml_source import read_yaml


@pytest.mark.parametrize(
    ("registered", "name"), [("hf_checkpointer", "HuggingFaceCheckpointer"), ("oom_observer", "OOMObserver")]
)
def test_a_registered_callback_with_templates_is_a_call_in_python_and_in_yaml(registered, name):
    assert [call.name for call in read_python(f"build_callback({registered!r}, {{'a': 1}})")] == [name]
    [trainer] = read_yaml(f"callbacks: {{{registered}: {{a: 1}}}}")
    assert [call.name for call in trainer.arguments["callbacks"].values] == [name]


def test_a_registered_callback_without_templates_is_a_call_in_yaml_alone():
    assert read_python("build_callback('speed_monitor', {'window_size': 1})") == []
    [trainer] = read_yaml("callbacks: {speed_monitor: {window_size: 1}}")
    assert [call.name for call in trainer.arguments["callbacks"].values] == ["SpeedMonitor"]
