"""PH30x: does every writer and every moment have a name of its own?"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace

from composer_obs.findings import Severity
from composer_obs.placeholders.calls import HOLE, Call, Text
from composer_obs.placeholders.checks import Problem, at_use, edit, on_run, on_template
from composer_obs.placeholders.fixes import Edit
from composer_obs.placeholders.moments import NODES, RANKS, collides, interval_of, saves
from composer_obs.placeholders.parameter import TIME, Kind, Parameter, Writer
from composer_obs.placeholders.table import TARGETS
from composer_obs.placeholders.uses import UNKNOWN, Run, TemplateUse, setting, text_of

__all__ = ["CHECKS"]

_NAMES_A_RANK = re.compile(r"rank|RANK")


def _full(use: TemplateUse) -> Text | None:
    """The template with the folder that it is relative to; ``None`` if the folder cannot be told."""
    if use.parameter.folder is None:
        return use.text
    folder = use.sibling(use.parameter.folder)
    return folder and _join(folder, use.text)


def _join(folder: Text, name: Text) -> Text:
    start = len(folder.value) + 1
    holes = {**folder.holes, **{start + index: source for index, source in name.holes.items()}}
    return Text(f"{folder.value}/{name.value.lstrip('/')}", holes=holes)


def _tells_ranks_apart(text: Text) -> bool:
    return any(_NAMES_A_RANK.search(source) for source in text.holes.values())


def _may_write_elsewhere(text: Text) -> bool:
    """Whether a part is unknown that could make the name another one in each process."""
    return bool(text.holes)


@on_template(
    "PH301",
    "missing-rank",
    Severity.WARNING,
    "Every rank writes this file. Without {rank} in its name they write one and the same: lines of a log are "
    "lost, uploads replace one another, and traces vanish or end training, when one rank moves the file that "
    "another still writes. An error if more than one rank is known to run (--world-size).",
    bad='FileLogger(filename="{run_name}/log.txt")',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt")',
    fix="unsafe",
)
def missing_rank(use: TemplateUse) -> Iterator[Problem]:
    writes = use.parameter.writer is Writer.EVERY_RANK and use.parameter.kind in {
        Kind.FILE,
        Kind.KEY,
        Kind.LAUNCHER,
    }
    world_size = use.run.facts.world_size
    # The launcher sends rank 0 to the terminal.
    alone = world_size is not None and world_size < (3 if use.parameter.kind is Kind.LAUNCHER else 2)
    if not writes or alone or use.call.one_rank or use.parsed.fault is not None:
        return
    full = _full(use) or use.text
    if _tells_ranks_apart(full) or not collides(full.value, use.legal, RANKS):
        return
    known = world_size is not None and not _may_write_elsewhere(full)
    yield at_use(
        use,
        f"every rank writes {use.parameter}, and its name is the same for all of them",
        fix="add {rank}",
        severity=Severity.ERROR if known else Severity.WARNING,
        edits=(_with_rank(use),),
    )


def _with_rank(use: TemplateUse) -> Edit | None:
    base = use.template.rfind("/") + 1
    name = use.template[base:]
    # Before the suffix, but never inside a placeholder or before a name that begins with a dot.
    dots = [
        i
        for i, c in enumerate(name)
        if c == "." and i and not any(f.start <= base + i < f.end for f in use.parsed.fields)
    ]
    at = base + (dots[0] if dots else len(name))
    return edit(use.text, at, at, "-rank{rank}" if name else "rank{rank}")


@on_template(
    "PH302",
    "merged-without-node_rank",
    Severity.WARNING,
    "The first rank of every node merges the traces of its node under this name. On a file system that nodes "
    "share, or in a bucket, they overwrite one another.",
    bad='JSONTraceHandler(merged_trace_filename="merged.json", merged_trace_remote_file_name=None)',
    good='JSONTraceHandler(merged_trace_filename="merged-node{node_rank}.json", '
    "merged_trace_remote_file_name=None)",
)
def merged_without_node_rank(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.content != "merged" or use.run.facts.world_size == 1 or use.parsed.fault is not None:
        return
    full = _full(use) or use.text
    if not _tells_ranks_apart(full) and collides(full.value, use.legal, NODES):
        yield at_use(
            use, "every node writes it, and its name is the same on all of them", fix="add {node_rank}"
        )


@on_template(
    "PH303",
    "not-unique-in-time",
    Severity.WARNING,
    "The name is the same each time that the file is written, so a later one replaces the earlier one; in a "
    "bucket, without overwriting, the second upload ends training with FileExistsError. An error if old "
    "checkpoints are pruned: Composer then deletes the old file by its name, which is that of the newest, "
    "and the run ends without any checkpoint.",
    bad='Trainer(save_folder="ckpt", save_filename="model.pt", save_num_checkpoints_to_keep=1)',
    good='Trainer(save_folder="ckpt", save_filename="ba{batch}.pt", save_num_checkpoints_to_keep=1)',
)
def not_unique_in_time(use: TemplateUse) -> Iterator[Problem]:
    parameter = use.parameter
    repeated = parameter.content in {"checkpoint", "trace"} and not _is_outer_folder(parameter)
    if not repeated or use.parsed.fault is not None or (use.run.is_sharded and parameter.kind is Kind.FILE):
        return
    interval = _interval(use)
    if _written_once(use, interval):
        return
    full = use.text
    if parameter.folder is not None and TARGETS[use.call.name].parameters[parameter.folder].legal >= TIME:
        full = _full(use) or use.text
    unit = "ba" if parameter.content == "trace" else interval and interval[1]
    if unit is None and any(name in TIME for name, _ in use.parsed.names()):
        return
    if not collides(full.value, use.legal | TIME & parameter.legal, saves(unit)):
        return
    kept = use.setting(parameter.keep)
    pruned = isinstance(kept, int) and kept >= 0
    consequence = (
        "old checkpoints are pruned by this name, and the newest goes with them"
        if pruned
        else "each replaces the last"
    )
    yield at_use(
        use,
        f"the name is the same at different times: {consequence}",
        fix="add {batch}",
        severity=Severity.ERROR if pruned else None,
    )


def _is_outer_folder(parameter: Parameter) -> bool:
    return parameter.kind is Kind.FOLDER and parameter.folder is None and parameter.interval is None


def _interval(use: TemplateUse) -> tuple[int, str] | None:
    if use.parameter.interval is None:
        return (1, "ba") if use.parameter.owner == "MonolithicCheckpointSaver" else None
    given = use.setting(use.parameter.interval)
    return None if given is UNKNOWN else interval_of(given)


def _written_once(use: TemplateUse, interval: tuple[int, str] | None) -> bool:
    duration = interval_of(use.run.trainer_setting("max_duration") or None)
    return bool(interval and duration and interval[1] == duration[1] and interval[0] >= duration[0])


@on_template(
    "PH304",
    "remote-without-run_name",
    Severity.WARNING,
    "All runs share the bucket. Without {run_name} the next run writes the same object keys: it replaces "
    "this run's files, or ends with FileExistsError.",
    bad='CheckpointSaver(remote_file_name="checkpoints/ep{epoch}-ba{batch}-rank{rank}.pt")',
    good='CheckpointSaver(remote_file_name="{run_name}/checkpoints/ep{epoch}-ba{batch}-rank{rank}.pt")',
)
def remote_without_run_name(use: TemplateUse) -> Iterator[Problem]:
    parameter = use.parameter
    key = parameter.kind in {Kind.KEY, Kind.KEY_FOLDER} and use.call.name != "Logger.upload_file"
    # What is known not to be uploaded needs no name of its own.
    remote = "://" in use.template or (key and use.run.uploads is not False)
    if (
        not remote
        or parameter.kind in {Kind.LOAD, Kind.BUCKET, Kind.UPLOADER, Kind.PLAIN}
        or use.parsed.fault is not None
    ):
        return
    if use.text.holes or not collides(use.template, parameter.legal, ({"run_name": "a"}, {"run_name": "b"})):
        return
    run_name = use.run.trainer_setting("run_name")
    if any(name.startswith("mlflow_") for name, _ in use.parsed.names()):
        return
    if isinstance(run_name, str) and run_name and run_name in use.template:
        return
    yield at_use(use, "the name is the same for every run that writes to this bucket", fix="add {run_name}")


@on_run(
    "PH305",
    "two-writers-one-path",
    Severity.ERROR,
    "Two parts of one run write the same file, each from its beginning: what they write is lost or mixed.",
    bad='Trainer(loggers=[FileLogger("log-{rank}.txt"), FileLogger("log-{rank}.txt")])',
    good='Trainer(loggers=[FileLogger("log-{rank}.txt"), FileLogger("errors-{rank}.txt")])',
)
def two_writers_one_path(run: Run) -> Iterator[Problem]:
    first: dict[str, tuple[Call, Parameter]] = {}
    for call, parameter, text in _files(run):
        path = posixpath.normpath(_distinct(text))
        if path not in first:
            first[path] = (call, parameter)
            continue
        other_call, other = first[path]
        if other_call is call and other is parameter:
            continue
        together = _interval_text(call, parameter) == _interval_text(other_call, other)
        use = next((use for use in run.uses if use.call is call and use.parameter is parameter), None)
        spot = use or TemplateUse(parameter, replace(text, span=call.span), call, run)
        yield at_use(
            spot,
            f"{parameter} and {other} write the same file",
            fix="give each a name of its own",
            severity=None if together else Severity.WARNING,
        )


def _files(run: Run) -> Iterator[tuple[Call, Parameter, Text]]:
    """Every local file that the run writes, with its folder."""
    for call in run.calls:
        target = TARGETS.get(call.name)
        if target is None or call.name in {"Logger.upload_file", "launcher", "Trainer.save_checkpoint"}:
            continue
        if call is run.trainer and (run.checkpoint_savers or setting(call, "save_folder") is None):
            continue
        for name, parameter in target.parameters.items():
            if parameter.kind is not Kind.FILE or parameter.writer is Writer.NOBODY:
                continue
            text = text_of(call, name)
            if parameter.folder is not None and text is not None:
                folder = text_of(call, parameter.folder)
                text = folder and _join(folder, text)
            if text is not None and len(text.value.strip(HOLE + "/")) > 0:
                yield call, parameter, text


def _interval_text(call: Call, parameter: Parameter) -> str:
    return repr(setting(call, parameter.interval)) if parameter.interval else ""


@on_template(
    "PH306",
    "sharded-basename-ignored",
    Severity.WARNING,
    "Sharded checkpoints are folders: Composer takes the folder part of this name and puts its own name for "
    "shards behind it, so the last part of it has no effect.",
    bad='Trainer(save_folder="ckpt", save_filename="model-{batch}.pt", '
    'parallelism_config={"fsdp": {"state_dict_type": "sharded"}})',
    good='Trainer(save_folder="ckpt", parallelism_config={"fsdp": {"state_dict_type": "sharded"}})',
)
def sharded_basename_ignored(use: TemplateUse) -> Iterator[Problem]:
    parameter = use.parameter
    saver = (
        parameter.kind is Kind.FILE
        and parameter.content == "checkpoint"
        and use.call.name in {"Trainer", "CheckpointSaver"}
    )
    if saver and use.run.is_sharded and use.template != parameter.default:
        yield at_use(
            use,
            "with sharded checkpoints the last part of this name has no effect",
            fix="use sharded_ckpt_prefix_dir of the fsdp configuration",
        )


@on_template(
    "PH307",
    "duplicated-prefix",
    Severity.WARNING,
    "A part of the path stands in it twice. Names of files are relative to their folder, so a folder that is "
    "written again in the name makes 'runs/x/runs/x/…'.",
    bad='CheckpointSaver(folder="runs/{run_name}/runs/{run_name}/checkpoints")',
    good='CheckpointSaver(folder="runs/{run_name}/checkpoints")',
)
def duplicated_prefix(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind in {Kind.PLAIN, Kind.LOAD}:
        return
    folder = use.sibling(use.parameter.folder) if use.parameter.folder else None
    repeated = _repeated(_distinct(use.text))
    if repeated:
        yield at_use(use, f"{_shown(repeated)!r} stands twice in the path", fix="leave one of them out")
    elif folder is not None and folder.value.strip("/") and _is_inside(use.text, folder):
        yield at_use(
            use,
            f"the name is relative to {use.parameter.folder}, which it repeats",
            fix=f"leave {_shown(folder.value)!r} out",
        )
    elif folder is not None and (prefix := _common(folder.value, use.template)):
        yield at_use(
            use,
            f"the name is relative to {use.parameter.folder}, whose {_shown(prefix)!r} it repeats",
            fix=f"leave {_shown(prefix)!r} out",
        )


def _repeated(template: str) -> str | None:
    parts = template.partition("://")[2].split("/") if "://" in template else template.split("/")
    for length in range(len(parts) // 2, 0, -1):
        for start in range(len(parts) - 2 * length + 1):
            one, two = parts[start : start + length], parts[start + length : start + 2 * length]
            if one == two and any("{" in part for part in one):
                return "/".join(one)
    return None


def _is_inside(text: Text, folder: Text) -> bool:
    return _distinct(text).startswith(_distinct(folder).rstrip("/") + "/")


def _distinct(text: Text) -> str:
    """The template with the source of each hole in its place, so that different holes differ."""
    value = text.value
    for index in sorted(text.holes, reverse=True):
        source = text.holes[index].replace("/", "\0").replace("{", "(").replace("}", ")")
        value = f"{value[:index]}\0{source}\0{value[index + 1 :]}"
    return value


def _common(folder: str, name: str) -> str:
    """The first parts that both share, if there is a placeholder among them."""
    shared = []
    for one, two in zip(folder.strip("/").split("/"), name.split("/")[:-1], strict=False):
        if one != two:
            break
        shared.append(one)
    return "/".join(shared) if any("{" in part for part in shared) else ""


def _shown(text: str) -> str:
    return re.sub(f"{HOLE}|\0[^\0]*\0", "…", text)


CHECKS = (
    missing_rank,
    merged_without_node_rank,
    not_unique_in_time,
    remote_without_run_name,
    two_writers_one_path,
    sharded_basename_ignored,
    duplicated_prefix,
)
