"""Composer sees what LLM Foundry makes of its train YAML."""

from __future__ import annotations

import pytest

from composer_obs.placeholders.calls import walk
from tests.placeholders.yaml_reading import one, plain


def test_a_profiler_has_its_schedule_and_its_trace_handler():
    profiler = one(
        "profiler:\n  torch_prof_folder: f\n  schedule: {wait: 1}\n  json_trace_handler: {folder: g}\n"
    ).arguments["profiler"]
    assert profiler.name == "Profiler"
    assert [call.name for call in walk(profiler)] == ["Profiler", "cyclic_schedule", "JSONTraceHandler"]
    assert plain(profiler) == {
        "torch_prof_folder": "f",
        "schedule": {"wait": 1},
        "trace_handlers": [{"folder": "g"}],
    }


@pytest.mark.parametrize("handler", ["json_trace_handler: {}", "json_trace_handler:", "x: 1"])
def test_an_empty_trace_handler_is_none(handler):
    profiler = one(f"profiler:\n  schedule: {{wait: 1}}\n  {handler}\n").arguments["profiler"]
    assert profiler.arguments["trace_handlers"].values == ()


def test_a_profiler_that_is_its_own_configuration_is_incomplete():
    profiler = one("&a {save_folder: x, json_trace_handler: {}, profiler: *a}").arguments["profiler"]
    assert not profiler.complete


def test_an_empty_profiler_is_none():
    assert one("profiler: {}\n").arguments["profiler"].value is None


def test_foundrys_own_defaults_are_implied_and_only_where_nothing_is_written():
    call = one("train_loader: {}\nsave_folder: a\nseed: 3\nsave_latest_filename:\n")
    # llm-foundry 0.22, TrainConfig: save_interval: Union[str, int] = '1000ba'; Composer: '1ep'.
    assert call.arguments["save_interval"].value == "1000ba"
    assert call.arguments["seed"].value == 3
    assert "save_interval" in call.implied
    assert "seed" not in call.implied
    # LLM Foundry replaces null by Composer's own default.
    assert "save_latest_filename" not in call.arguments
    written = one("train_loader: {}\nsave_folder: a\nsave_interval: 5ba\n")
    assert written.arguments["save_interval"].value == "5ba"
    assert "save_interval" not in written.implied


def test_composers_own_layout_implies_nothing():
    call = one("trainer: {save_folder: a, max_duration: 1ep}\n")
    assert not call.implied
    assert set(call.arguments) == {"save_folder", "max_duration"}


def test_the_fsdp_configuration_stands_where_composer_has_it():
    call = one("save_folder: a\nfsdp_config: {state_dict_type: sharded}\n")
    fsdp = call.arguments["parallelism_config"].arguments["fsdp"]
    assert plain(fsdp) == {"state_dict_type": "sharded"}
    assert call.arguments["fsdp_config"] is fsdp
    # train(): 'latest-sharded-rank{rank}' if the state dict is sharded.
    assert call.arguments["save_latest_filename"].value == "latest-sharded-rank{rank}"
