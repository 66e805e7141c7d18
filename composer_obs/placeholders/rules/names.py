"""PH10x: is every placeholder one that is filled in here?"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from composer_obs.findings import Severity
from composer_obs.placeholders.checks import Effect, Problem, at_use, edit, on_run, on_template
from composer_obs.placeholders.formatter import render
from composer_obs.placeholders.grammar import Field
from composer_obs.placeholders.moments import values
from composer_obs.placeholders.parameter import MLFLOW, PLACEHOLDERS, TIME, Kind
from composer_obs.placeholders.rules.checkpoints import refuses_all_but_plain_names
from composer_obs.placeholders.rules.syntax import keeps_braces, outcome
from composer_obs.placeholders.uses import UNKNOWN, Run, TemplateUse

__all__ = ["CHECKS", "suggestion", "unfilled"]

_SYNONYMS = {
    "global_rank": "rank",
    "local_rank_id": "local_rank",
    "node": "node_rank",
    "step": "batch",
    "iteration": "batch",
    "global_step": "batch",
    "batches": "batch",
    "epochs": "epoch",
    "name": "run_name",
    "run": "run_name",
    "run_id": "mlflow_run_id",
    "experiment_id": "mlflow_experiment_id",
    "nranks": "world_size",
    "num_ranks": "world_size",
}


def suggestion(name: str, legal: frozenset[str]) -> str | None:
    """The legal placeholder that was probably meant.

    Example:
        >>> from composer_obs.placeholders.parameter import DIST
        >>> suggestion(" Run_Name", DIST), suggestion("global_rank", DIST), suggestion("rnk", DIST)
        ('run_name', 'rank', 'rank')
    """
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    if plain in legal:
        return plain
    if _SYNONYMS.get(plain) in legal:
        return _SYNONYMS[plain]
    return next(iter(difflib.get_close_matches(plain, sorted(legal), n=1, cutoff=0.7)), None)


def unfilled(use: TemplateUse) -> Iterator[tuple[str, Field]]:
    """Names that stay in the result as they are; what raises is left to other rules."""
    if not use.is_formatted or use.parsed.fault is not None:
        return
    for name, field in use.parsed.names():
        if (
            not name
            or name.isdecimal()
            or field.has_hole
            or name in use.legal
            or field.path
            or field.positional
        ):
            continue
        if outcome(use, field)[1] is None:
            yield name, field


@on_template(
    "PH101",
    "unknown-placeholder",
    Severity.ERROR,
    "Composer leaves a placeholder that it does not know in the name, braces and all, without a word: a typo "
    "becomes part of the file name, and all that it was to tell apart becomes one file.",
    bad='FileLogger(filename="{run_nam}/log-rank{rank}.txt")',
    good='FileLogger(filename="{run_name}/log-rank{rank}.txt")',
    fix="unsafe",
)
def unknown_placeholder(use: TemplateUse) -> Iterator[Problem]:
    for name, field in unfilled(use):
        if name in TIME | MLFLOW:
            continue
        better = suggestion(name, use.legal)
        stops = refuses_all_but_plain_names(use)
        what = (
            "training stops at fit_start with KeyError, because without overwriting only bare placeholders "
            "are taken"
            if stops
            else "it stays in the name with its braces"
        )
        fix = f"did you mean {{{better}}}?" if better else f"legal here: {_listed(use.legal)}"
        if use.run.language == "yaml" and better is None:
            fix = f"write ${{{name}}} if a variable of the configuration is meant; {fix}"
        start = use.template.index(name, field.start) if name else field.start
        yield at_use(
            use,
            f"{use.parameter} knows no {{{name}}}: {what}",
            field,
            fix=fix,
            edits=(edit(use.text, start, start + len(name), better) if better else None,),
            effect=Effect.RAISES if stops else keeps_braces(use, field),
        )


@on_template(
    "PH102",
    "time-placeholder-where-only-dist",
    Severity.ERROR,
    "This name is formatted when no training time is known, so {epoch}, {batch} and the like stay in it "
    "literally: one folder called 'ba{batch}' instead of one per batch.",
    bad='TorchProfiler(folder="traces/{run_name}/ba{batch}")',
    good='TorchProfiler(folder="traces/{run_name}", filename="ba{batch}/rank{rank}.json")',
)
def time_placeholder_where_only_dist(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind is Kind.KEY_FOLDER or _is_checkpoint_folder(use):
        return  # PH507 and PH603 know more about those.
    for name, field in unfilled(use):
        if name in TIME:
            yield at_use(
                use,
                f"{{{name}}} stays in the name: {use.parameter} is formatted without training time",
                field,
                fix=f"legal here: {_listed(use.legal)}",
                effect=keeps_braces(use, field),
            )


def _is_checkpoint_folder(use: TemplateUse) -> bool:
    return use.parameter.kind is Kind.FOLDER and use.parameter.content == "checkpoint" and use.parameter.uri


@on_template(
    "PH103",
    "parameter-not-formatted",
    Severity.WARNING,
    "Nobody formats this argument, so a placeholder in it stays as it is: all runs share one folder, project "
    "or run that is called '{run_name}'.",
    bad='TensorboardLogger(log_dir="tb/{run_name}")',
    good='TensorboardLogger(log_dir="tb")',
)
def parameter_not_formatted(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind is not Kind.PLAIN or (
        use.parameter.name == "run_name" and use.call.name == "Trainer"
    ):
        return
    for name, field in use.parsed.names():
        if name in PLACEHOLDERS:
            yield at_use(
                use,
                f"{use.parameter} is not a template: {{{name}}} stays as it is",
                field,
                fix="fill it in yourself before you pass it",
                effect=Effect.STAYS,
            )


@on_template(
    "PH104",
    "uploader-without-remote_file_name",
    Severity.ERROR,
    "file_path_format_string is applied to the name of every upload. Without {remote_file_name} all of them "
    "get one and the same object key, and each replaces the one before.",
    bad='RemoteUploaderDownloader("s3://bucket", file_path_format_string="prefix/{run_name}")',
    good='RemoteUploaderDownloader("s3://bucket", file_path_format_string="prefix/{remote_file_name}")',
    fix="safe",
)
def uploader_without_remote_file_name(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind is not Kind.UPLOADER or use.parsed.fault is not None or use.text.holes:
        return
    if any(name == "remote_file_name" for name, _ in use.parsed.names()):
        return
    template = use.template.rstrip("/")
    addition = "/{remote_file_name}" if template else "{remote_file_name}"
    yield at_use(
        use,
        "without {remote_file_name} every upload goes to the same object key",
        fix=f"end it with {addition}",
        edits=(edit(use.text, len(template), len(use.template), addition),),
    )


@on_run(
    "PH105",
    "uploader-format-with-latest",
    Severity.ERROR,
    "The Trainer refuses any other file_path_format_string than '{remote_file_name}' as long as "
    "save_latest_filename is set, which it is by default, even if no checkpoint is saved.",
    bad='Trainer(loggers=[RemoteUploaderDownloader("s3://bucket", '
    'file_path_format_string="prefix/{remote_file_name}")])',
    good='Trainer(save_latest_filename=None, loggers=[RemoteUploaderDownloader("s3://bucket", '
    'file_path_format_string="prefix/{remote_file_name}")])',
)
def uploader_format_with_latest(run: Run) -> Iterator[Problem]:
    latest = run.trainer_setting("save_latest_filename")
    if latest is None or (
        latest is UNKNOWN and (run.trainer is None or "save_latest_filename" not in run.trainer.arguments)
    ):
        return
    for use in run.uses:
        if use.parameter.kind is Kind.UPLOADER and use.text.known and use.template != "{remote_file_name}":
            yield at_use(
                use,
                "the Trainer raises ValueError for it as long as save_latest_filename is set",
                fix="put a prefix into backend_kwargs={'prefix': …}, or pass save_latest_filename=None",
            )


@on_template(
    "PH106",
    "mlflow-id-without-logger",
    Severity.ERROR,
    "{mlflow_experiment_id} and {mlflow_run_id} are filled in only by an MLFlowLogger among the loggers, and "
    "only in names of checkpoints.",
    bad='Trainer(save_folder="dbfs:/databricks/mlflow-tracking/{mlflow_experiment_id}/{mlflow_run_id}", '
    "loggers=[WandBLogger()])",
    good='Trainer(save_folder="dbfs:/databricks/mlflow-tracking/{mlflow_experiment_id}/{mlflow_run_id}", '
    "loggers=[MLFlowLogger()])",
)
def mlflow_id_without_logger(use: TemplateUse) -> Iterator[Problem]:
    for name, field in unfilled(use):
        if name in MLFLOW:
            takes = use.parameter.legal >= MLFLOW
            why = "no MLFlowLogger is among the loggers" if takes else f"{use.parameter} does not take it"
            yield at_use(
                use,
                f"{{{name}}} stays in the name: {why}",
                field,
                fix="add MLFlowLogger to the loggers" if takes else f"legal here: {_listed(use.legal)}",
                effect=keeps_braces(use, field),
            )


@on_template(
    "PH107",
    "launcher-placeholder",
    Severity.ERROR,
    "The composer launcher formats --stdout and --stderr strictly, before any run exists: it knows rank, "
    "local_rank, node_rank, world_size and local_world_size, and ends with KeyError for anything else.",
    bad="command: composer -n 2 --stdout 'logs/{run_name}-{rank}.txt' train.py",
    good="command: composer -n 2 --stdout 'logs/{rank}.txt' train.py",
    language="yaml",
)
def launcher_placeholder(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind is not Kind.LAUNCHER or use.parsed.fault is not None:
        return
    for field in use.fields():
        error = render(use.template[field.start : field.end], values(use.legal), strict=True).error
        if error is not None:
            yield at_use(
                use,
                f"the launcher raises {type(error).__name__} for {use.template[field.start : field.end]}",
                field,
                fix=f"legal here: {_listed(use.legal)}",
                effect=Effect.RAISES,
            )


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))


CHECKS = (
    unknown_placeholder,
    time_placeholder_where_only_dist,
    parameter_not_formatted,
    uploader_without_remote_file_name,
    uploader_format_with_latest,
    mlflow_id_without_logger,
    launcher_placeholder,
)
