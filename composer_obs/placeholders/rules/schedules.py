"""PH80x: will the profiler's schedule give a trace, and will training survive it?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from composer_obs.findings import Severity
from composer_obs.placeholders.calls import Call
from composer_obs.placeholders.checks import Problem, at_call, on_run
from composer_obs.placeholders.moments import interval_of
from composer_obs.placeholders.schedule import Course, Schedule, simulate
from composer_obs.placeholders.uses import Run, setting

__all__ = ["CHECKS"]

_ARGUMENTS = ("skip_first", "wait", "warmup", "active", "repeat")


@dataclass(frozen=True, slots=True)
class _Plan:
    call: Call
    schedule: Schedule
    course: Course


def _plans(run: Run) -> Iterator[_Plan]:
    """Every schedule whose numbers are known, with what is known about the run."""
    for call in run.calls:
        if call.name != "cyclic_schedule":
            continue
        numbers = [setting(call, name) for name in _ARGUMENTS]
        if all(isinstance(number, int) and number >= 0 for number in numbers):
            yield _Plan(call, Schedule(*numbers), _course(run))


def _course(run: Run) -> Course:
    per_epoch = run.facts.batches_per_epoch
    subset = run.trainer_setting("train_subset_num_batches")
    if per_epoch is None and isinstance(subset, int) and subset > 0:
        per_epoch = subset
    interval = interval_of(run.trainer_setting("max_duration") or None)
    duration = None
    if interval is not None and interval[1] == "ba":
        duration = interval[0]
    elif interval is not None and interval[1] == "ep" and per_epoch is not None:
        duration = interval[0] * per_epoch
    return Course(per_epoch, duration, run.facts.resumed_at)


def _numbers(plan: _Plan) -> str:
    return ", ".join(f"{name}={getattr(plan.schedule, name)}" for name in _ARGUMENTS)


@on_run(
    "PH801",
    "schedule-crashes-torch",
    Severity.ERROR,
    "When an epoch ends in the middle of a window, torch's profiler is told to go from recording to warming "
    "up, and the process dies with a segmentation fault: no traceback, no checkpoint. It happens at the "
    "first batch of the second epoch.",
    bad='Trainer(max_duration="2ep", train_subset_num_batches=5, profiler=Profiler('
    "schedule=cyclic_schedule(warmup=2, active=8), trace_handlers=[]))",
    good='Trainer(max_duration="2ep", train_subset_num_batches=20, profiler=Profiler('
    "schedule=cyclic_schedule(wait=1, warmup=2, active=8), trace_handlers=[]))",
)
def schedule_crashes_torch(run: Run) -> Iterator[Problem]:
    for plan in _plans(run):
        crash = simulate(plan.schedule, plan.course).crash
        if crash is not None:
            yield at_call(
                plan.call,
                f"torch's profiler crashes the process at batch {crash} ({_numbers(plan)}, "
                f"{plan.course.batches_per_epoch} batches an epoch)",
                fix="let the window end before the epoch does, and begin the epoch with wait=1",
            )


@on_run(
    "PH802",
    "schedule-never-saves",
    Severity.ERROR,
    "The schedule never reaches the batch at which a trace is saved: active is 0, or an epoch ends before "
    "the first active batch, or the run ends within the first window. Nothing says so while the run goes on; "
    "torch may leave a partial or empty file when it closes.",
    bad="cyclic_schedule(skip_first=0, wait=1, warmup=1, active=0)",
    good="cyclic_schedule(skip_first=0, wait=1, warmup=1, active=2)",
)
def schedule_never_saves(run: Run) -> Iterator[Problem]:
    for plan in _plans(run):
        if plan.course.resumed_at:
            continue
        if plan.schedule.active == 0:
            yield at_call(
                plan.call, "active=0 records nothing", fix="active=2 is the least that tools can use"
            )
            continue
        if plan.course.duration is None:
            continue
        simulation = simulate(plan.schedule, plan.course)
        if not simulation.saved and simulation.crash is None:
            yield at_call(
                plan.call,
                f"no whole trace is saved in the {plan.course.duration} batches of the run "
                f"({_numbers(plan)})",
                fix="make skip_first + wait + warmup + active fit into an epoch and into the run",
            )


@on_run(
    "PH803",
    "window-open-at-close",
    Severity.WARNING,
    "The run ends while a window is open. torch then writes a partial trace, under the name of a good one if "
    "that was saved at the same batch, and JSONTraceHandler writes nothing.",
    bad='Trainer(max_duration="8ba", train_subset_num_batches=8, profiler=Profiler('
    "schedule=cyclic_schedule(wait=0, warmup=1, active=2, repeat=0), trace_handlers=[]))",
    good='Trainer(max_duration="8ba", train_subset_num_batches=8, profiler=Profiler('
    "schedule=cyclic_schedule(wait=1, warmup=1, active=2, repeat=1), trace_handlers=[]))",
)
def window_open_at_close(run: Run) -> Iterator[Problem]:
    for plan in _plans(run):
        if plan.course.duration is None or plan.schedule.active == 0:
            continue
        simulation = simulate(plan.schedule, plan.course)
        if simulation.open_at_close and simulation.crash is None and simulation.saved:
            more = "; it overwrites a trace that was good" if simulation.overwritten else ""
            yield at_call(
                plan.call,
                f"a window is open when the run ends after {plan.course.duration} batches: a partial "
                f"trace{more}",
                fix="choose repeat so that the last window ends before the run does",
            )


@on_run(
    "PH804",
    "no-warm-up",
    Severity.WARNING,
    "Without a warm-up batch the first recorded batch holds the start-up of the profiler itself, which takes "
    "longer than what is to be measured.",
    bad="cyclic_schedule(wait=1, warmup=0, active=2)",
    good="cyclic_schedule(wait=1, warmup=1, active=2)",
)
def no_warm_up(run: Run) -> Iterator[Problem]:
    for plan in _plans(run):
        if plan.schedule.warmup == 0 and plan.schedule.active > 0:
            what = "warmup=0: the first recorded batch holds the profiler's own start"
            yield at_call(plan.call, what, "warmup", fix="pass warmup=1")


@on_run(
    "PH805",
    "never-fires-after-resume",
    Severity.ERROR,
    "A run with a Profiler that is resumed within an epoch ends with RuntimeError in Composer 0.32, at the "
    "first batch or at the end of the epoch, because the profiler's markers do not know where they are. "
    "Where it does not end, the schedule skips as many batches more in *every* later epoch, and may never "
    "fire again. Resuming at the end of an epoch is fine. A warning where the configuration makes it "
    "possible, an error where it has happened.",
    bad='Trainer(autoresume=True, save_folder="ckpt", save_interval="100ba", profiler=Profiler('
    "schedule=cyclic_schedule(wait=1, warmup=1, active=2), trace_handlers=[]))",
    good='Trainer(autoresume=True, save_folder="ckpt", save_interval="1ep", profiler=Profiler('
    "schedule=cyclic_schedule(wait=1, warmup=1, active=2), trace_handlers=[]))",
)
def never_fires_after_resume(run: Run) -> Iterator[Problem]:
    profiler = next((call for call in run.calls if call.name == "Profiler"), None)
    if profiler is None:
        return
    fix = "resume at the end of an epoch, or without the profiler"
    if run.facts.resumed_at:
        never = any(_never_again(plan) for plan in _plans(run))
        more = ", and its schedule would never fire again" if never else ""
        where = f"{run.facts.resumed_at} of {run.facts.batches_per_epoch or 'an unknown number'}"
        yield at_call(
            profiler,
            f"a profiled run that is resumed within an epoch (batch {where}) ends with RuntimeError{more}",
            fix=fix,
        )
        return
    interval = interval_of(run.trainer_setting("save_interval") or None)
    if run.autoresume is True and interval is not None and interval[1] != "ep":
        yield at_call(
            profiler,
            "autoresume within an epoch, which save_interval makes possible, ends with RuntimeError as long "
            "as there is a Profiler",
            fix=f"save_interval='1ep', or {fix}",
            severity=Severity.WARNING,
        )


def _never_again(plan: _Plan) -> bool:
    course = plan.course
    return course.duration is not None and not simulate(plan.schedule, course).saved


CHECKS = (
    schedule_crashes_torch,
    schedule_never_saves,
    window_open_at_close,
    no_warm_up,
    never_fires_after_resume,
)
