"""PH40x: what happens when the run is started again, and options that do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from composer_obs.findings import Severity
from composer_obs.placeholders.calls import Call, Constant, Items
from composer_obs.placeholders.checks import Problem, at_call, at_use, on_run
from composer_obs.placeholders.moments import collides
from composer_obs.placeholders.parameter import Kind
from composer_obs.placeholders.table import TARGETS
from composer_obs.placeholders.uri import parse_uri
from composer_obs.placeholders.uses import UNKNOWN, Run, setting, text_of

__all__ = ["CHECKS"]


@on_run(
    "PH401",
    "folder-not-resumable",
    Severity.WARNING,
    "Unless it may overwrite, this part of Composer wants its folder empty: when the run is started again "
    "under the same name, as autoresume does, it ends with FileExistsError before the first batch.",
    bad='Trainer(save_folder="ckpt", autoresume=True, callbacks=[MemorySnapshot()])',
    good='Trainer(save_folder="ckpt", autoresume=True, callbacks=[MemorySnapshot(overwrite=True)])',
)
def folder_not_resumable(run: Run) -> Iterator[Problem]:
    for call in run.calls:
        target = TARGETS.get(call.name)
        for name, parameter in (target.parameters if target else {}).items():
            if parameter.kind is not Kind.FOLDER or parameter.overwrite is None:
                continue
            if setting(call, parameter.overwrite) is not False:
                continue
            text = text_of(call, name)
            written = name in call.arguments
            constant = (
                written
                and text is not None
                and text.known
                and collides(text.value, parameter.legal, ({"run_name": "a"}, {"run_name": "b"}))
            )
            if run.autoresume is True:
                why = "autoresume starts the run again under the same name"
            elif constant:
                why = "every run uses the same folder"
            else:
                continue
            yield at_call(
                call,
                f"{parameter} must be empty when the run starts, and {why}: FileExistsError",
                name if written else None,
                fix=f"pass {parameter.overwrite}=True",
            )


@on_run(
    "PH402",
    "filelogger-always-truncates",
    Severity.WARNING,
    "FileLogger's overwrite=False has no effect in Composer 0.32: an existing log is truncated whenever the "
    "run starts, so a resumed run loses the log of what came before.",
    bad='FileLogger(filename="{run_name}/log-rank{rank}.txt", overwrite=False)',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt", overwrite=True)',
)
def filelogger_always_truncates(run: Run) -> Iterator[Problem]:
    for call in run.calls:
        if call.name != "FileLogger":
            continue
        if "overwrite" in call.arguments and setting(call, "overwrite") is False:
            yield at_call(
                call,
                "overwrite=False has no effect: FileLogger truncates an existing log",
                "overwrite",
                fix="use a name of its own for each start, and drop the argument",
            )
        elif run.autoresume is True and setting(call, "overwrite") is False:
            yield at_call(
                call,
                "FileLogger truncates the log when autoresume starts the run again",
                "filename" if "filename" in call.arguments else None,
                fix="build the name in your own code, with the time of the start in it",
            )


_SAVING = (
    "save_filename",
    "save_latest_filename",
    "save_interval",
    "save_overwrite",
    "save_num_checkpoints_to_keep",
)


@on_run(
    "PH403",
    "option-has-no-effect",
    Severity.WARNING,
    "Composer accepts this option and does nothing with it.",
    bad='RemoteUploaderDownloader("s3://bucket/some/prefix")',
    good='RemoteUploaderDownloader("s3://bucket", backend_kwargs={"prefix": "some/prefix"})',
)
def option_has_no_effect(run: Run) -> Iterator[Problem]:
    for call in run.calls:
        for name in ("num_traces_to_keep", "torch_prof_num_traces_to_keep"):
            given = call.name in {"TorchProfiler", "Profiler"} and name in call.arguments
            if given and setting(call, name) not in {-1, UNKNOWN}:
                yield at_call(
                    call, f"{name} has no effect: all torch traces are kept", name, fix="leave it out"
                )
        if call is run.trainer and _never_saves(run):
            for name in _SAVING:
                if name in call.arguments and name not in call.implied and setting(call, name) is not None:
                    yield at_call(
                        call, f"{name} has no effect without save_folder", name, fix="pass save_folder"
                    )
                    break
    for use in run.uses:
        if use.parameter.kind is Kind.BUCKET:
            uri = parse_uri(use.template)
            if uri.scheme and uri.scheme != "dbfs" and uri.path.strip("/"):
                yield at_use(
                    use,
                    f"the uploader keeps the bucket only: the prefix {uri.path!r} is dropped",
                    fix=f"pass backend_kwargs={{'prefix': {uri.path.rstrip('/')!r}}}",
                )


def _never_saves(run: Run) -> bool:
    return (
        run.trainer is not None
        and run.trainer.complete
        and run.language == "python"
        and setting(run.trainer, "save_folder") is None
        and not run.checkpoint_savers
        and _callbacks_known(run)
    )


def _callbacks_known(run: Run) -> bool:
    assert run.trainer is not None
    value = run.trainer.arguments.get("callbacks")
    if value is None or isinstance(value, Constant | Call):
        return True
    return (
        isinstance(value, Items) and value.complete and all(isinstance(item, Call) for item in value.values)
    )


CHECKS = (folder_not_resumable, filelogger_always_truncates, option_has_no_effect)
