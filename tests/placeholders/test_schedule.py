"""The simulator against the real schedule of Composer, driven through the real action map of torch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from composer_obs.placeholders.schedule import Course, Schedule, Simulation, simulate


class Played:
    """What torch does, operation by operation, when Composer's TorchProfiler steps it through a run.

    Only the four operations of Kineto are replaced, by a note of when they were asked for.
    """

    def __init__(self, schedule: Schedule, course: Course) -> None:
        from composer.profiler import ProfilerAction, cyclic_schedule
        from torch.profiler import ProfilerAction as TorchAction
        from torch.profiler import profile

        ask = cyclic_schedule(
            schedule.skip_first, schedule.wait, schedule.warmup, schedule.active, schedule.repeat
        )
        # At INIT neither the length of an epoch nor the place of a resumption is known.
        self.state = SimpleNamespace(
            timestamp=SimpleNamespace(batch_in_epoch=0),
            dataloader_len=None,
            profiler=SimpleNamespace(resumption_batch_idx=0),
        )
        actions = {
            ProfilerAction.SKIP: TorchAction.NONE, ProfilerAction.WARMUP: TorchAction.WARMUP,
            ProfilerAction.ACTIVE: TorchAction.RECORD, ProfilerAction.ACTIVE_AND_SAVE: TorchAction.RECORD_AND_SAVE,
        }  # fmt: skip
        self.batch = -1
        self.done: list[tuple[int, str]] = []
        player = self

        class Noted(profile):
            def prepare_trace(self) -> None:
                player.note("prepare")

            def start_trace(self) -> None:
                player.note("start")

            def stop_trace(self) -> None:
                player.note("stop")

            def _trace_ready(self) -> None:
                player.note("save")

        prof = Noted(schedule=lambda _: actions[ask(self.state)], activities=[])
        prof.start()
        self.state.dataloader_len = course.batches_per_epoch
        self.state.profiler.resumption_batch_idx = course.resumed_at
        place = course.resumed_at
        recording = (TorchAction.RECORD, TorchAction.RECORD_AND_SAVE)
        assert course.duration is not None
        self.recorded = 0
        for batch in range(course.duration):
            self.batch = batch
            self.recorded += prof.current_action in recording
            place += 1
            self.state.timestamp.batch_in_epoch = place
            prof.step()
            if self.crash is not None:
                break
            if place == course.batches_per_epoch:
                place = 0
        self.open = self.crash is None and prof.current_action in recording
        prof.step_rec_fn = None  # Nothing of Kineto's was started.

    def note(self, operation: str) -> None:
        self.done.append((self.batch, operation))

    @property
    def crash(self) -> int | None:
        """A trace that was started without being prepared kills the process when it is stopped."""
        prepared = broken = False
        for batch, operation in self.done:
            if operation == "prepare":
                prepared = True
            elif operation == "start":
                broken = not prepared
            elif operation == "stop":
                if broken:
                    return batch
                prepared = False
        return None

    @property
    def saved(self) -> tuple[int, ...]:
        return tuple(batch for batch, operation in self.done if operation == "save" and batch != self.crash)

    @property
    def lost(self) -> tuple[int, ...]:
        stops = [batch for batch, operation in self.done if operation == "stop"]
        starts = [batch for batch, operation in self.done if operation == "start"]
        # A start and a stop at once is a warm-up that led to nothing; there is no window to lose.
        real = [batch for batch in stops if any(start < batch for start in starts)]
        return tuple(
            batch
            for batch in real
            if batch not in self.saved and batch != self.crash and not self._empty(batch)
        )

    def _empty(self, batch: int) -> bool:
        at = [operation for when, operation in self.done if when == batch]
        return at[:2] == ["start", "stop"]


SCHEDULES = st.builds(
    Schedule,
    skip_first=st.integers(0, 4),
    wait=st.integers(0, 3),
    warmup=st.integers(0, 3),
    active=st.integers(1, 5),
    repeat=st.integers(0, 3),
)


@settings(max_examples=600)
@given(SCHEDULES, st.integers(1, 10), st.integers(1, 40), st.integers(0, 9))
@example(Schedule(warmup=2, active=8), 5, 10, 0)
@example(Schedule(wait=1, warmup=1, active=4), 4, 8, 0)
@example(Schedule(warmup=2, active=8, repeat=0), 15, 30, 0)
@example(Schedule(warmup=1, active=4), 10, 30, 8)
@example(Schedule(warmup=2, active=1), 2, 9, 0)
def test_it_does_what_torch_does(schedule: Schedule, length: int, duration: int, resumed_at: int) -> None:
    course = Course(length, min(duration, 4 * length), min(resumed_at, length - 1))
    played, simulated = Played(schedule, course), simulate(schedule, course)
    assert simulated.crash == played.crash
    assert simulated.saved == played.saved
    assert simulated.lost == played.lost
    assert simulated.open_at_close == played.open
    if played.crash is None:
        assert simulated.recorded == played.recorded


# What was seen on real runs with Composer 0.32.1 and torch 2.7.0: (schedule, batches an epoch, epochs).
CRASHES = [
    (Schedule(warmup=2, active=8), 5, 2),
    (Schedule(wait=1, warmup=1, active=4), 4, 2),
    (Schedule(warmup=2, active=8, repeat=0), 15, 2),
]


@pytest.mark.parametrize(("schedule", "length", "epochs"), CRASHES)
def test_schedules_that_killed_a_process_are_said_to(schedule: Schedule, length: int, epochs: int) -> None:
    assert simulate(schedule, Course(length, length * epochs)).crash is not None
    assert simulate(schedule, Course(length, length)).crash is None


@pytest.mark.parametrize(
    ("schedule", "course"),
    [
        (Schedule(active=0), Course(8, 16)),
        (Schedule(skip_first=10), Course(8, 16)),
        (Schedule(warmup=1, active=4), Course(8, 3)),
        (Schedule(warmup=1, active=4), Course(10, 30, resumed_at=9)),
        (Schedule(wait=0, warmup=0, active=0), Course(8, 16)),
    ],
)
def test_schedules_that_gave_no_trace_are_said_to(schedule: Schedule, course: Course) -> None:
    assert simulate(schedule, course).saved == ()


def test_a_window_cut_short_by_the_end_of_an_epoch_is_saved() -> None:
    assert simulate(Schedule(warmup=1, active=4), Course(4, 4)).saved == (3,)


def test_the_close_of_an_open_window_takes_the_name_of_the_trace_before_it() -> None:
    # Seen: rank0.5 with 757,990 bytes, then the same name with 14,375.
    simulated = simulate(Schedule(warmup=1, active=8), Course(5, 5))
    assert simulated == Simulation(None, (4,), (), open_at_close=True, overwritten=True, recorded=4)


@given(SCHEDULES, st.integers(2, 10), st.integers(5, 9))
def test_a_run_of_many_epochs_crashes_and_saves_as_its_first_epochs_do(
    schedule: Schedule, length: int, epochs: int
) -> None:
    long, short = (simulate(schedule, Course(length, length * count)) for count in (epochs, 4))
    assert (long.crash is None) == (short.crash is None)
    assert bool(long.saved) == bool(short.saved)
    assert long.open_at_close == short.open_at_close


def test_a_run_of_ten_million_batches_is_played_in_short() -> None:
    simulated = simulate(Schedule(wait=1, warmup=1, active=2), Course(100, 10_000_000))
    assert simulated.saved == (3, 103, 203, 303)


def test_an_epoch_of_unknown_length_is_played_until_the_schedule_has_shown_itself() -> None:
    assert simulate(Schedule(wait=1, warmup=1, active=2), Course(None, None)).saved == (3,)
    assert simulate(Schedule(skip_first=3), Course(None, 5)).saved == ()
