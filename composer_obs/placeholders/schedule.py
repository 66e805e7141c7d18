"""What a profiler's schedule really does: the sequence of actions that torch sees under Composer.

Composer asks `cyclic_schedule` with the batch's place in its epoch; torch asks at the *end* of each
batch what to do in the next. After the last batch of an epoch the place is the length of the epoch,
never 0, so the first batch of every later epoch gets the action of a batch that does not exist.

Source: `composer.profiler.cyclic_schedule` of mosaicml 0.32.1 and the action map of
`torch.profiler.profile` in torch 2.7.0; held to both by `tests/system/test_profiler_schedules.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Course", "Schedule", "Simulation", "simulate"]

# Epochs repeat themselves from the second on; what differs is how the last one ends.
_EPOCHS = 4


class _Action(enum.Enum):
    NONE = enum.auto()
    WARMUP = enum.auto()
    RECORD = enum.auto()
    SAVE = enum.auto()


@dataclass(frozen=True, slots=True)
class Schedule:
    """The arguments of `composer.profiler.cyclic_schedule`, in batches."""

    skip_first: int = 0
    wait: int = 0
    warmup: int = 1
    active: int = 4
    repeat: int = 1

    @property
    def cycle(self) -> int:
        return self.wait + self.warmup + self.active

    def action(self, batch: int, epoch_length: int | None, resumed_at: int) -> _Action:
        """What it answers for a place in an epoch."""
        first = self.skip_first + resumed_at
        if batch < first or not self.cycle or (self.repeat and batch >= self.cycle * self.repeat + first):
            return _Action.NONE
        place = (batch - first) % self.cycle
        if place < self.wait:
            return _Action.NONE
        if place < self.wait + self.warmup:
            return _Action.WARMUP
        is_last = epoch_length is not None and batch == epoch_length - 1
        return _Action.SAVE if place == self.cycle - 1 or is_last else _Action.RECORD


@dataclass(frozen=True, slots=True)
class Course:
    """A run, as far as it is known.

    Args:
        batches_per_epoch (int, optional): ``None`` if the data has no length.
        duration (int, optional): Batches in all, from the start of the run. ``None``: not known.
        resumed_at (int): The batch in its epoch at which the run was resumed. Default: ``0``.
    """

    batches_per_epoch: int | None
    duration: int | None
    resumed_at: int = 0


@dataclass(frozen=True, slots=True)
class Simulation:
    """What happens.

    Args:
        crash (int, optional): The batch, from 0, at whose end the process dies of a segmentation
            fault. ``None``: it does not.
        saved (tuple[int, ...]): Batches at whose end a whole trace is exported.
        lost (tuple[int, ...]): Batches at whose end a recorded window is dropped.
        open_at_close (bool): Whether a window is being recorded when the run ends.
        overwritten (bool): Whether what is exported at the end takes the name of a trace that was whole.
        recorded (int): Number of batches that are recorded.
    """

    crash: int | None
    saved: tuple[int, ...]
    lost: tuple[int, ...]
    open_at_close: bool
    overwritten: bool
    recorded: int


def simulate(schedule: Schedule, course: Course) -> Simulation:
    """Play a run through.

    Epochs repeat themselves from the second on, so of a long run the first four are played, the
    last of them ended as the run's last is; batches are then counted in that shorter run.

    Args:
        schedule (Schedule): The schedule.
        course (Course): The run; one whose duration is not known counts as endless, one epoch of
            unknown length as long as the run.

    Example:
        >>> simulate(Schedule(warmup=2, active=8), Course(5, 10)).crash
        9
        >>> simulate(Schedule(wait=1, warmup=1, active=2), Course(8, 16)).saved
        (3, 11)
    """
    length, batches = _shortened(course, schedule)
    crash = None
    saved: list[int] = []
    lost: list[int] = []
    recorded, prepared, broken = 0, False, False
    current = schedule.action(0, None, 0)  # Asked for at INIT, when neither is known.
    if current is not _Action.NONE:
        prepared = True
    for batch, following in enumerate(_following(schedule, length, batches, course.resumed_at)):
        if current in {_Action.RECORD, _Action.SAVE}:
            recorded += 1
        recording, records = (
            current in {_Action.RECORD, _Action.SAVE},
            following in {_Action.RECORD, _Action.SAVE},
        )
        stops = current is _Action.SAVE or (recording and not records)
        if (stops and broken) or (current is _Action.WARMUP and following is _Action.NONE and not prepared):
            crash = batch
            break
        if current is _Action.SAVE:
            saved.append(batch)
        elif stops:
            lost.append(batch)
        if current in {_Action.NONE, _Action.SAVE} and following is not _Action.NONE:
            prepared = True
        elif recording and following is _Action.WARMUP:
            prepared = False
        if records and (stops or not recording):
            broken = not prepared
        current = following
    is_open = crash is None and current in {_Action.RECORD, _Action.SAVE}
    overwritten = is_open and bool(saved) and saved[-1] == batches - 1
    return Simulation(crash, tuple(saved), tuple(lost), is_open, overwritten, recorded)


def _shortened(course: Course, schedule: Schedule) -> tuple[int | None, int]:
    length = course.batches_per_epoch
    if length is None or length < 1:
        longest = schedule.skip_first + course.resumed_at + schedule.cycle * max(schedule.repeat, 2) + 2
        return None, min(course.duration if course.duration is not None else longest, longest)
    if course.duration is None:
        return length, length * _EPOCHS
    epochs, rest = divmod(course.duration, length)
    # Even a single epoch may hold millions of batches: then only its ends matter little more.
    return length, min(epochs, _EPOCHS) * length + rest


def _following(schedule: Schedule, length: int | None, batches: int, resumed_at: int) -> Iterator[_Action]:
    """The action that torch is told at the end of each batch."""
    place = resumed_at
    for _ in range(batches):
        place += 1
        yield schedule.action(place, length, resumed_at)
        if place == length:
            place = 0
