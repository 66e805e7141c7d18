"""PH20x and PH60x: names of checkpoints, and finding them again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from composer_obs.findings import Severity
from composer_obs.placeholders.calls import HOLE, Call
from composer_obs.placeholders.checks import Effect, Problem, at_call, at_use, edit, on_run, on_template
from composer_obs.placeholders.fixes import Edit
from composer_obs.placeholders.formatter import conflicting_pattern, render
from composer_obs.placeholders.grammar import Field, parse
from composer_obs.placeholders.moments import values
from composer_obs.placeholders.parameter import DIST, INTEGER_TIME, PLACEHOLDERS, TIME, WALL_CLOCK, Kind
from composer_obs.placeholders.rules.syntax import keeps_braces
from composer_obs.placeholders.uses import Run, TemplateUse, setting

__all__ = ["CHECKS", "refuses_all_but_plain_names"]

_LATEST = "latest-rank{rank}.pt"


def refuses_all_but_plain_names(use: TemplateUse) -> bool:
    """Whether Composer makes a regular expression of it, as of names that must not be overwritten."""
    checked = use.parameter.name in {"save_filename", "filename"} and use.call.name in {
        "Trainer",
        "CheckpointSaver",
    }
    return checked and use.setting(use.parameter.overwrite) is False


def _pattern_error(template: str) -> Exception | None:
    return conflicting_pattern(template, values(DIST - {"run_name"})).error


@on_template(
    "PH201",
    "save-filename-crashes-without-overwrite",
    Severity.ERROR,
    "With overwriting off, which is the default, Composer turns the checkpoint's name into a regular "
    "expression at fit_start and fills in only bare {epoch}, {batch} and their kin, and the ranks. "
    "{run_name}, a format such as {batch:06d}, or a wall-clock time raises KeyError there, after the model "
    "was built on every node.",
    bad='Trainer(save_folder="ckpt", save_filename="{run_name}-ep{epoch}.pt")',
    good='Trainer(save_folder="{run_name}/ckpt", save_filename="ep{epoch}.pt")',
    fix="unsafe",
)
def save_filename_crashes_without_overwrite(use: TemplateUse) -> Iterator[Problem]:
    if not refuses_all_but_plain_names(use) or use.parsed.fault is not None:
        return
    overwrite = f"{use.parameter.overwrite}=True"
    if use.call.name == "CheckpointSaver" and use.text.span is None:
        overwrite += " (save_overwrite=True of a Trainer)"
    blamed = False
    for field in use.fields():
        error = _pattern_error(_source(use, field))
        plain = not (field.path or field.positional)
        if plain and field.name not in PLACEHOLDERS:
            blamed = True  # PH101 says so.
        elif error is not None and render(_source(use, field), values(use.legal)).error is None:
            blamed = True
            yield at_use(
                use,
                f"training stops at fit_start with {type(error).__name__}: without overwriting, a "
                f"checkpoint's name takes bare integer times and ranks only, not {_source(use, field)}",
                field,
                fix=f"{_remedy(field)}, or pass {overwrite}",
                edits=_plain(use, field),
                effect=Effect.RAISES,
            )
    whole = _pattern_error(use.template.replace(HOLE, "x"))
    formats = render(use.template.replace(HOLE, "x"), values(use.legal)).error is None
    if not blamed and formats and whole is not None and not isinstance(whole, re.error):
        yield at_use(
            use,
            f"training stops at fit_start with {type(whole).__name__}: without overwriting, the name is made "
            f"a regular expression, in which doubled braces are no longer what they were",
            fix=f"leave doubled braces out, or pass {overwrite}",
            effect=Effect.RAISES,
        )


def _source(use: TemplateUse, field: Field) -> str:
    return use.template[field.start : field.end]


def _remedy(field: Field) -> str:
    if field.name == "run_name":
        return "move {run_name} to the folder"
    return f"write {{{field.name}}}" if field.name in INTEGER_TIME | DIST else f"leave {{{field.name}}} out"


def _plain(use: TemplateUse, field: Field) -> tuple[Edit | None, ...]:
    """The edits after which Composer takes the field: a bare name, or one in the folder."""
    if field.name in INTEGER_TIME or (field.name in DIST and field.name != "run_name"):
        return (edit(use.text, field.start, field.end, f"{{{field.name}}}"),)
    if field.name != "run_name":
        return (None,)
    start, end = field.start, field.end
    if use.template[end : end + 1] in {"-", "_", "/"}:
        end += 1
    elif start and use.template[start - 1] in "-_/":
        start -= 1
    if end - start == len(use.template):
        return (None,)
    return edit(use.text, start, end, ""), *_run_name_in_folder(use)


def _run_name_in_folder(use: TemplateUse) -> tuple[Edit | None, ...]:
    folder = use.sibling("save_folder" if use.call.name == "Trainer" else "folder")
    if folder is None:
        return (None,)
    end = len(folder.value.rstrip("/"))
    return () if "{run_name}" in folder.value else (edit(folder, end, end, "/{run_name}"),)


@on_template(
    "PH202",
    "save-filename-not-a-regex",
    Severity.ERROR,
    "With overwriting off, Composer compiles the checkpoint's name as a regular expression at fit_start: a "
    "name with an unbalanced bracket, or with one time placeholder twice, raises re.error there.",
    bad='Trainer(save_folder="ckpt", save_filename="ep{epoch}-[draft.pt")',
    good='Trainer(save_folder="ckpt", save_filename="ep{epoch}-draft.pt")',
)
def save_filename_not_a_regex(use: TemplateUse) -> Iterator[Problem]:
    if not refuses_all_but_plain_names(use) or use.parsed.fault is not None:
        return
    error = _pattern_error(use.template.replace(HOLE, "x"))
    if isinstance(error, re.error):
        yield at_use(
            use,
            f"training stops at fit_start: without overwriting, the name must be a regular expression "
            f"({error.msg})",
            fix=f"each time placeholder once, no brackets or '*'; or pass {use.parameter.overwrite}=True",
            effect=Effect.RAISES,
        )


@on_template(
    "PH203",
    "float-in-name",
    Severity.WARNING,
    "Wall-clock times are floating-point seconds: the name becomes 'wct5025.318843', differs between ranks "
    "and between runs, and cannot be predicted by whoever wants to load it.",
    bad='CheckpointSaver(filename="ep{epoch}-wct{total_wct}.pt", overwrite=True)',
    good='CheckpointSaver(filename="ep{epoch}-ba{batch}.pt", overwrite=True)',
)
def float_in_name(use: TemplateUse) -> Iterator[Problem]:
    for field in use.fields():
        if field.name in WALL_CLOCK & use.legal and not field.spec:
            yield at_use(
                use,
                f"{{{field.name}}} is a floating-point number of seconds, which is never the same twice",
                field,
                fix=f"use {{batch}}, or round it: {{{field.name}:.0f}}",
            )


@on_run(
    "PH601",
    "latest-with-time",
    Severity.ERROR,
    "Autoresume looks for the `latest` link before training, when no epoch or batch is known: it finds "
    "nothing and starts the run anew from batch 0. With overwriting that goes on without a word; without, "
    "it ends with FileExistsError, in a bucket only after the first checkpoint. The same happens if no "
    "checkpoint is kept.",
    bad='Trainer(save_folder="ckpt", autoresume=True, save_latest_filename="latest-ep{epoch}.pt")',
    good='Trainer(save_folder="ckpt", autoresume=True, save_latest_filename="latest-rank{rank}.pt")',
    fix="safe",
)
def latest_with_time(run: Run) -> Iterator[Problem]:
    if run.autoresume is not True:
        return
    for use in run.uses:
        if use.parameter.content != "latest" or use.parsed.fault is not None:
            continue
        field = next((field for name, field in use.parsed.names() if name in TIME), None)
        if field is not None:
            whole = use.template if use.text.known and "/" not in use.template else ""
            yield at_use(
                use,
                f"autoresume cannot fill in {{{field.name}}}: it finds no checkpoint and restarts at batch 0",
                field,
                fix=f"use {_LATEST!r}",
                edits=(edit(use.text, 0, len(whole), _LATEST) if whole else None,),
            )
    for call in run.calls:
        keep = {"Trainer": "save_num_checkpoints_to_keep", "CheckpointSaver": "num_checkpoints_to_keep"}
        name = keep.get(call.name, "")
        if name in call.arguments and _keeps_none(run, call, name):
            yield at_call(
                call,
                f"with {name}=0 no `latest` link is written: autoresume restarts at batch 0",
                name,
                fix="keep at least one checkpoint",
            )


def _keeps_none(run: Run, call: Call, name: str) -> bool:
    folder = run.trainer_setting("save_folder")
    # With a URI the pointer is an object of its own, and written all the same.
    return setting(call, name) == 0 and isinstance(folder, str) and "://" not in folder


@on_template(
    "PH602",
    "load-path-strict",
    Severity.ERROR,
    "A load_path is formatted strictly, with run_name and the ranks alone: any other placeholder raises "
    "KeyError, and a number format such as {rank:02d} raises ValueError.",
    bad='Trainer(load_path="ckpt/ep{epoch}-rank{rank}.pt")',
    good='Trainer(load_path="ckpt/latest-rank{rank}.pt")',
)
def load_path_strict(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind is not Kind.LOAD or use.parsed.fault is not None:
        return
    for field in use.fields():
        once = render(_source(use, field), values(["run_name"]))
        again = (
            render(once.text, values(use.legal - {"run_name"}), strict=True)
            if once.text is not None
            else once
        )
        if (error := again.error) is None:
            continue
        if use.run.is_sharded and once.error is None:
            what, effect = (
                f"only {{run_name}} is filled in for sharded checkpoints, not {_source(use, field)}",
                None,
            )
        else:
            what, effect = f"loading raises {type(error).__name__} for {_source(use, field)}", Effect.RAISES
        yield at_use(
            use,
            what,
            field,
            fix="name the checkpoint, or use {run_name} and bare {rank}",
            effect=effect,
        )


@on_template(
    "PH603",
    "save-folder-with-time",
    Severity.ERROR,
    "The folder is made when no training time is known. A time placeholder in it is filled in later, for the "
    "checkpoint alone, so checkpoint and `latest` link end up in different folders, one of which is "
    "literally called '{batch}'.",
    bad='Trainer(save_folder="ckpt/ba{batch}")',
    good='Trainer(save_folder="ckpt", save_filename="ba{batch}/rank{rank}.pt")',
)
def save_folder_with_time(use: TemplateUse) -> Iterator[Problem]:
    folder = use.parameter.kind is Kind.FOLDER and use.parameter.content == "checkpoint" and use.parameter.uri
    if not folder or use.parameter.legal >= TIME or use.parsed.fault is not None:
        return
    for field in use.fields():
        if field.name in TIME and render(_source(use, field), values(use.legal)).error is None:
            yield at_use(
                use,
                f"{{{field.name}}} splits the run: checkpoints go to one folder, the `latest` link to "
                f"another that is literally called {_source(use, field)}",
                field,
                fix="move it to the file's name",
                effect=keeps_braces(use, field),
            )


@on_template(
    "PH604",
    "braces-in-run_name",
    Severity.ERROR,
    "The run's name is filled into names that are formatted a second time on their way to the store: a "
    "placeholder in it is filled in then, so uploads look for files that do not exist, and a single brace "
    "raises ValueError.",
    bad='Trainer(run_name="exp-{rank}")',
    good='Trainer(run_name="exp-7")',
)
def braces_in_run_name(use: TemplateUse) -> Iterator[Problem]:
    if use.call.name != "Trainer" or use.parameter.name != "run_name":
        return
    found = next((i for i, char in enumerate(use.template) if char in "{}"), None)
    if found is not None:
        breaks = parse(use.template).fault is not None
        yield at_use(
            use,
            "a run's name is no template; its braces "
            + (
                "make every upload raise ValueError"
                if breaks
                else "are formatted in the upload's name, not in the file's"
            ),
            (found, found + 1),
            fix="leave the braces out",
            effect=Effect.RAISES if breaks else None,
        )


CHECKS = (
    save_filename_crashes_without_overwrite,
    save_filename_not_a_regex,
    float_in_name,
    latest_with_time,
    load_path_strict,
    save_folder_with_time,
    braces_in_run_name,
)
