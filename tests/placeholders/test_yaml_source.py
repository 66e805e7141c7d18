"""YAML configurations of each layout become calls."""

from __future__ import annotations

import pytest

from composer_obs.placeholders.calls import walk
from composer_obs.placeholders.sources.yaml_source import read_yaml
from tests.placeholders.yaml_reading import named, one, plain


def test_a_top_level_mapping_with_a_configuration_key_is_a_trainer():
    source = (
        "max_duration: 10ba\nsave_folder: ckpt/{rank}\nseed: 17\nlr: 0.5\nok: yes\nnothing: ~\nlist: [a, 1]\n"
    )
    call = one(source)
    assert call.name == "Trainer"
    assert plain(call) == {
        "max_duration": "10ba", "save_folder": "ckpt/{rank}", "seed": 17, "lr": 0.5, "ok": True, "nothing": None,
        "list": ["a", 1],
    }  # fmt: skip
    assert source[slice(*call.span)] == "max_duration"
    assert [source[slice(*span)] for span in call.keys.values()] == list(call.arguments)


@pytest.mark.parametrize(
    "source", ["", "# nothing\n", "---\n...\n", "a: 1\nb: {c: [d]}\n", "- 1\n- 2\n", "text", "\ufeff"]
)
def test_what_holds_no_configuration_gives_no_calls(source, loader):
    assert read_yaml(source) == []


def test_mcli_parameters_lists_and_documents_each_give_their_own_trainer():
    source = """
name: job
image: x
parameters: {save_folder: a}
---
- save_folder: b
- other: 1
- load_path: c
---
outer:
  deep:
    trainer: {save_filename: d, inner: {save_folder: e}}
"""
    calls = read_yaml(source)
    assert [call.name for call in calls] == ["Trainer"] * 4
    assert [plain(call) for call in calls] == [
        {"save_folder": "a"}, {"save_folder": "b"}, {"load_path": "c"},
        {"save_filename": "d", "inner": {"save_folder": "e"}},
    ]  # fmt: skip


def test_hydra_targets_are_calls_of_the_last_part_of_their_name():
    source = """
logger:
  _target_: composer.loggers.FileLogger
  filename: log
trainer:
  _target_: composer.Trainer
  _convert_: all
  save_folder: ck
  callbacks:
    saver: {_target_: composer.callbacks.CheckpointSaver, folder: f}
  loggers:
    - _target_: composer.loggers.WandBLogger
      project: p
"""
    logger, trainer = read_yaml(source)
    assert (logger.name, plain(logger)) == ("FileLogger", {"filename": "log"})
    assert source[slice(*logger.span)] == "composer.loggers.FileLogger"
    assert trainer.name == "Trainer"
    assert not trainer.implied
    assert [call.name for call in walk(trainer)] == ["Trainer", "CheckpointSaver", "WandBLogger"]


def test_hydras_trainer_gets_the_loggers_and_callbacks_that_stand_beside_it():
    source = """
optimizer: {_target_: torch.optim.AdamW}
logger:
  wandb: {_target_: composer.loggers.WandBLogger, project: "${trainer.run_name}"}
callbacks:
  speed_monitor: {_target_: composer.callbacks.SpeedMonitor}
trainer: {_target_: composer.Trainer, run_name: a, save_folder: b}
other: {_target_: composer.loggers.FileLogger}
"""
    trainer, other = read_yaml(source)
    assert other.name == "FileLogger"
    assert [call.name for call in walk(trainer)] == ["Trainer", "WandBLogger", "SpeedMonitor"]
    assert plain(named(trainer, "WandBLogger")) == {"project": "a"}
    assert not trainer.implied


def test_the_trainer_of_another_framework_is_not_composers():
    assert read_yaml("_target_: lightning.pytorch.Trainer\ncallbacks: {}\n") == []


def test_a_configuration_inside_a_foreign_target_is_found():
    assert plain(one("_target_: my.Experiment\nconfig: {save_folder: a}\n")) == {"save_folder": "a"}


def test_registered_names_become_classes_in_mappings_and_in_lists():
    source = """
loggers:
  file_logger: {filename: a}
  in_memory_logger:
  mine: {x: 1}
callbacks:
  - hf_checkpointer: {save_folder: b}
    speed_monitor: {}
  - async_eval: {interval: 1ep}
  - lr_monitor
"""
    call = one(source)
    loggers, callbacks = call.arguments["loggers"], call.arguments["callbacks"]
    assert [(each.name, plain(each)) for each in loggers.values] == [
        ("FileLogger", {"filename": "a"}), ("InMemoryLogger", {}), ("mine", {"x": 1}),
    ]  # fmt: skip
    assert [each.name for each in callbacks.values] == [
        "HuggingFaceCheckpointer", "SpeedMonitor", "AsyncEval", "LRMonitor",
    ]  # fmt: skip
    assert [source[slice(*each.span)] for each in loggers.values] == [
        "file_logger",
        "in_memory_logger",
        "mine",
    ]
