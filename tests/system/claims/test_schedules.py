"""What a profiler's schedule really does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.system.claims._claims import (
    claims,
    files,
    fit,
    json_handler,
    profiler,
)


@claims("PH801")
def test_ph801_a_window_longer_than_the_epoch_kills_the_process_in_the_second_epoch(run_script):
    import signal

    ended = run_script(
        """
        from composer.profiler import Profiler, cyclic_schedule

        def run(folder, active, epochs):
            profiler = Profiler(
                cyclic_schedule(warmup=2, active=active), [], sys_prof_cpu=False,
                torch_prof_folder=folder, torch_prof_remote_file_name=None,
            )
            trainer = make_trainer(profiler=profiler, max_duration=epochs, train_subset_num_batches=5)
            trainer.fit()
            trainer.close()
            print("survived:", folder, flush=True)

        run("good", 3, "2ep")
        run("one-epoch", 8, "1ep")
        run("bad", 8, "2ep")
        """
    )
    assert re.findall("survived: (.*)", ended.output) == ["good", "one-epoch"]
    assert ended.code == -signal.SIGSEGV


@claims("PH802")
@pytest.mark.parametrize("bad", [{"active": 0}, {"skip_first": 10}])
def test_ph802_a_schedule_that_never_fires_leaves_no_trace_and_no_error(bad, here):
    from composer.profiler import cyclic_schedule

    fit(profiler=profiler(cyclic_schedule(**bad), [json_handler(folder="traces")], torch_prof_folder="torch"))
    assert files(here) == set()
    fit(profiler=profiler(cyclic_schedule(), [json_handler(folder="traces")], torch_prof_folder="torch"))
    assert files(here) == {"traces/ep0-ba5-rank0.json", "torch/rank0.5.pt.trace.json"}


def steps(path: Path) -> int:
    """How many batches a trace holds, by the steps of the optimizer in it."""
    trace = json.loads(path.read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return sum(event["ph"] == "X" and event["name"].startswith("Optimizer.step#") for event in events)


def profile(batches: int = 8, max_duration: str = "1ep", **schedule: int) -> None:
    from composer.profiler import cyclic_schedule

    handler = json_handler(folder="traces")
    made = profiler(cyclic_schedule(**schedule), [handler], torch_prof_folder="torch")
    fit(profiler=made, batches=batches, max_duration=max_duration)


@claims("PH802")
def test_ph802_a_window_cut_short_by_the_end_of_an_epoch_is_saved_all_the_same(here):
    profile(batches=4, max_duration="2ep", warmup=1, active=4)
    assert steps(Path("traces/ep0-ba4-rank0.json")) == 3
    assert steps(Path("torch/rank0.4.pt.trace.json")) == 3


@claims("PH802")
@pytest.mark.parametrize("schedule", [{"warmup": 3, "active": 4}, {"wait": 1, "warmup": 2, "active": 2}])
def test_ph802_an_epoch_that_ends_before_its_first_active_batch_leaves_an_empty_trace_at_most(schedule, here):
    profile(batches=3, **schedule)
    assert files(here) == {"torch/rank0.3.pt.trace.json"}
    assert steps(Path("torch/rank0.3.pt.trace.json")) == 0
    Path("torch/rank0.3.pt.trace.json").unlink()
    profile(batches=4, **schedule)
    assert steps(Path("traces/ep0-ba4-rank0.json")) == 1


@claims("PH803")
def test_ph803_a_window_that_is_open_at_the_end_replaces_the_last_good_trace_of_torch(here):
    profile(wait=0, warmup=1, active=2, repeat=0)
    assert {name for name in files(here) if name.startswith("torch/")} == {
        "torch/rank0.3.pt.trace.json",
        "torch/rank0.6.pt.trace.json",
        "torch/rank0.8.pt.trace.json",
    }
    assert steps(Path("traces/ep0-ba8-rank0.json")) == 1  # It read torch's trace while that was good.
    assert steps(Path("torch/rank0.8.pt.trace.json")) == 0


@claims("PH803")
def test_ph803_a_run_that_ends_within_a_window_leaves_the_trace_of_torch_alone(here):
    profile(max_duration="3ba", warmup=1, active=4)
    assert files(here) == {"torch/rank0.3.pt.trace.json"}
    assert steps(Path("torch/rank0.3.pt.trace.json")) == 2


@claims("PH805")
@pytest.mark.parametrize(
    ("schedule", "resumed_at", "saved_at"),
    [
        # Batch 0 waits, 1 warms up, 2 and 3 are active; so in each epoch of ten.
        ({"wait": 1, "warmup": 1, "active": 2}, 0, [4, 14, 24]),
        # Cut short by the end of the epoch.
        ({"wait": 1, "warmup": 1, "active": 2}, 7, [10, 20, 30]),
        ({"wait": 0, "warmup": 1, "active": 4}, 8, [10, 20, 30]),
        # 8 waits, 9 warms up, and no batch is left.
        ({"wait": 1, "warmup": 1, "active": 2}, 8, []),
        ({"wait": 0, "warmup": 1, "active": 4}, 9, []),
    ],
)
def test_ph805_the_batch_of_a_resumption_is_skipped_in_every_later_epoch_too(
    schedule, resumed_at, saved_at, here
):
    from composer.core import Callback
    from composer.profiler import cyclic_schedule

    made = profiler(cyclic_schedule(**schedule), [json_handler(folder="traces")])

    class Resumed(Callback):
        def fit_start(self, state, logger):
            made.resumption_batch_idx = resumed_at

    fit(batches=10, max_duration="3ep", profiler=made, callbacks=[Resumed()])
    assert sorted(int(name.split("-")[1][2:]) for name in files(here / "traces")) == saved_at


@claims("PH805")
@pytest.mark.parametrize(
    ("spin_dataloaders", "message"),
    [
        (True, "Attempted to start profiler event event/dataloader; however, this marker is already started"),
        (
            False,
            "Attempted to finish profiler event event/epoch; however, this profiler event is not yet started",
        ),
    ],
)
def test_ph805_a_profiled_run_that_resumes_within_an_epoch_dies_before_the_epoch_ends(
    spin_dataloaders, message, here
):
    fit(save_folder="batches", save_interval="4ba")
    fit(save_folder="epochs")

    def resume(checkpoint: str) -> None:
        fit(
            load_path=checkpoint,
            max_duration="2ep",
            profiler=profiler(torch_prof_folder="traces", torch_prof_overwrite=True),
            spin_dataloaders=spin_dataloaders,
        )

    # The second was saved at the last of eight batches, where the epoch has not ended yet.
    for within in ("batches/ep0-ba4-rank0.pt", "batches/ep0-ba8-rank0.pt"):
        with pytest.raises(RuntimeError, match=message):
            resume(within)
    resume("epochs/ep1-ba8-rank0.pt")
