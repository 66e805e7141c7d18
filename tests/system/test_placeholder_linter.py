"""The linter on live Trainers."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from composer import Callback
from composer.callbacks import CheckpointSaver, MemorySnapshot
from composer.loggers import FileLogger, InMemoryLogger
from composer.profiler import JSONTraceHandler, Profiler, cyclic_schedule

from composer_obs import PlaceholderLinter
from composer_obs.placeholders.linter import WrongTemplatesError
from composer_obs.plugins import build


def codes(linter: PlaceholderLinter) -> list[str]:
    return sorted(finding.rule.code for finding in linter.findings)


def test_it_finds_the_wrong_templates_of_what_a_trainer_holds(train: Callable[..., Any]) -> None:
    linter = PlaceholderLinter()
    train(
        [FileLogger(filename="{rnk}/log-rank{rank}.txt"), InMemoryLogger()],
        auditor=None,
        callbacks=[linter, CheckpointSaver(folder="ckpt", filename="model.pt", num_checkpoints_to_keep=1)],
    )
    assert codes(linter) == ["PH101", "PH303"]
    assert {str(finding.where) for finding in linter.findings} == {
        "FileLogger.filename",
        "CheckpointSaver.filename",
    }


def test_a_trainer_with_right_templates_gives_no_finding(train: Callable[..., Any]) -> None:
    linter = PlaceholderLinter()
    profiler = Profiler(
        schedule=cyclic_schedule(wait=1, warmup=1, active=1, repeat=1),
        trace_handlers=[JSONTraceHandler()],
        sys_prof_cpu=False,
    )
    train(
        [FileLogger()],
        auditor=None,
        callbacks=[linter],
        profiler=profiler,
        save_folder="{run_name}/ckpt",
        run_name="exp",
    )
    assert codes(linter) == []


def test_a_local_checkpoint_needs_no_name_in_a_bucket(train: Callable[..., Any]) -> None:
    linter = PlaceholderLinter()
    train([FileLogger()], auditor=None, callbacks=[linter], save_folder="ckpt", save_overwrite=True)
    assert "PH304" not in codes(linter)


def test_a_callback_that_cannot_be_looked_at_hides_no_other(train: Callable[..., Any]) -> None:
    class Closed(Callback):
        def __getattribute__(self, name: str) -> Any:
            if name in {"__code__", "__qualname__", "folder", "filename"}:
                raise RuntimeError(name)
            return super().__getattribute__(name)

    with pytest.raises(WrongTemplatesError, match="PH101"):
        train(
            [InMemoryLogger()],
            auditor=None,
            callbacks=[Closed(), CheckpointSaver(folder="{foo}"), PlaceholderLinter("raise")],
        )


def test_findings_are_logged_once_and_kept_in_the_run_folder(
    train: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "composer_obs"):
        train([FileLogger(filename="{rnk}-{rank}.txt")], auditor=None, callbacks=[PlaceholderLinter()])
    assert sum("PH101" in record.getMessage() for record in caplog.records) == 1
    [line] = (tmp_path / "run/composer_obs/findings-rank0.jsonl").read_text().splitlines()
    assert json.loads(line)["code"] == "PH101"


def test_raise_stops_the_trainer_before_it_is_made(train: Callable[..., Any]) -> None:
    with pytest.raises(WrongTemplatesError, match=r"PH101 .*\{rnk\}"):
        train([FileLogger(filename="{rnk}-{rank}.txt")], auditor=None, callbacks=[PlaceholderLinter("raise")])


def test_raise_lets_warnings_pass(train: Callable[..., Any]) -> None:
    linter = PlaceholderLinter("raise")
    trained = train([], auditor=None, callbacks=[linter, CheckpointSaver("ckpt", "model.pt")])
    assert codes(linter) == ["PH303"]
    assert trained.error is None


def test_ignored_rules_do_not_count(train: Callable[..., Any]) -> None:
    linter = PlaceholderLinter("raise", ignore=["PH1"])
    assert train([FileLogger(filename="{rnk}-{rank}.txt")], auditor=None, callbacks=[linter]).error is None
    assert codes(linter) == []


def test_a_schedule_is_judged_as_soon_as_the_length_of_an_epoch_is_known(train: Callable[..., Any]) -> None:
    linter = PlaceholderLinter("raise")
    # Five batches are needed; an epoch has four, and the run one epoch.
    profiler = Profiler(cyclic_schedule(wait=3, warmup=1, active=4), [], sys_prof_cpu=False, torch_prof_profile_memory=False,
                        torch_prof_with_flops=False)  # fmt: skip
    with pytest.raises(WrongTemplatesError, match="in the 4 batches of the run"):
        train([], auditor=None, callbacks=[linter], profiler=profiler, max_duration="1ep")
    assert codes(linter) == ["PH802"]


def test_losses_are_bit_equal_with_and_without_it_and_with_one_that_fails(
    train: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from composer_obs.placeholders import linter as module

    plain = train([], auditor=None, run_name="a").losses
    watched = train([], auditor=None, callbacks=[PlaceholderLinter()], run_name="b").losses

    def fail(*_: Any) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setattr(module, "lint_calls", fail)
    broken = PlaceholderLinter("raise")
    with_fault = train([], auditor=None, callbacks=[broken], run_name="c").losses
    assert plain == watched == with_fault
    assert all(map(math.isfinite, plain))
    assert broken._guard.faults == 3  # at INIT, after loading, and when fit starts


def test_a_run_folder_that_cannot_be_written_does_not_stop_training(
    train: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    linter = PlaceholderLinter(folder="file/below")
    assert train([FileLogger(filename="{rnk}-{rank}.txt")], auditor=None, callbacks=[linter]).error is None
    assert codes(linter) == ["PH101"]


def test_it_is_registered_under_its_name() -> None:
    assert isinstance(build("placeholder_linter", on_finding="raise"), PlaceholderLinter)


@pytest.mark.parametrize("arguments", [{"on_finding": "stop"}, {"ignore": ["XX1"]}])
def test_wrong_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"on_finding|no rule"):
        PlaceholderLinter(**arguments)


def test_a_memory_snapshot_keeps_its_defaults_out_of_the_findings() -> None:
    from composer_obs.placeholders.sources.live import call_of

    call = call_of(MemorySnapshot(remote_file_name="x/{batch}"))
    assert call is not None
    assert set(call.arguments) == {"remote_file_name"}
