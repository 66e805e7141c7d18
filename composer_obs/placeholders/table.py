"""Which argument of which class is a file-name template, and what may stand in it.

Composer says this nowhere in one place: it follows from which of its formatters each argument goes
through. The table is written down here, so that a linter needs neither torch nor composer, and a
test derives names, defaults and signatures anew from the installed Composer and LLM Foundry.

Source: mosaicml 0.32.1 and llm-foundry 0.22.0, measured; see `tests/placeholders/test_table.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from composer_obs.placeholders.parameter import DIST, MLFLOW, TIME, Kind, Parameter, Target, Writer

__all__ = ["TARGETS", "parameters"]

_NONE: frozenset[str] = frozenset()
_DIST_TIME = DIST | TIME
_CHECKPOINT = "ep{epoch}-ba{batch}-rank{rank}.pt"
_LATEST = "latest-rank{rank}.pt"
_TORCH_TRACE = "rank{rank}.{batch}.pt.trace.json"
TARGETS: dict[str, Target] = {}


def _target(
    name: str,
    positional: str,
    *parameters: tuple[str, Kind, frozenset[str], str | None, dict[str, Any]],
    package: str = "composer",
    **arguments: object,
) -> None:
    made = {
        argument: Parameter(name, argument, kind, legal, default, **more)
        for argument, kind, legal, default, more in parameters
    }
    TARGETS[name] = Target(name, package, tuple(positional.split()), made, arguments)


def _row(
    name: str, kind: Kind, legal: frozenset[str], default: str | None = None, **more: Any
) -> tuple[str, Kind, frozenset[str], str | None, dict[str, Any]]:
    return name, kind, legal, default, more


_SAVER: dict[str, Any] = {
    "writer": Writer.RANK_ZERO,
    "folder": "save_folder",
    "overwrite": "save_overwrite",
    "interval": "save_interval",
    "keep": "save_num_checkpoints_to_keep",
    "formatted_twice": True,
}
_target(
    "Trainer",
    "",
    _row("save_folder", Kind.FOLDER, DIST | MLFLOW, uri=True, writer=Writer.RANK_ZERO, content="checkpoint"),
    _row("save_filename", Kind.FILE, _DIST_TIME, _CHECKPOINT, content="checkpoint", **_SAVER),
    _row("save_latest_filename", Kind.FILE, _DIST_TIME, _LATEST, content="latest", **_SAVER),
    _row("load_path", Kind.LOAD, frozenset({"run_name", "rank", "local_rank", "node_rank"}), uri=True),
    _row("run_name", Kind.PLAIN, _NONE),
    save_overwrite=False,
    save_interval="1ep",
    save_num_checkpoints_to_keep=-1,
    autoresume=False,
    max_duration=None,
    loggers=None,
    callbacks=None,
    profiler=None,
    parallelism_config=None,
    train_subset_num_batches=-1,
)
_target(
    "Trainer.save_checkpoint", "name", _row("name", Kind.FILE, _DIST_TIME, "ep{epoch}-ba{batch}-rank{rank}")
)

_CALLBACK_SAVER: dict[str, Any] = {
    "writer": Writer.RANK_ZERO,
    "overwrite": "overwrite",
    "interval": "save_interval",
    "keep": "num_checkpoints_to_keep",
    "formatted_twice": True,
}
_target(
    "CheckpointSaver",
    "folder filename remote_file_name latest_filename latest_remote_file_name save_interval",
    _row("folder", Kind.FOLDER, DIST | MLFLOW, "{run_name}/checkpoints", uri=True, writer=Writer.RANK_ZERO,
         content="checkpoint"),
    _row("filename", Kind.FILE, _DIST_TIME, _CHECKPOINT, content="checkpoint", folder="folder",
         attribute="filename.filename", **_CALLBACK_SAVER),
    _row("remote_file_name", Kind.KEY, _DIST_TIME | MLFLOW, f"{{run_name}}/checkpoints/{_CHECKPOINT}",
         content="checkpoint", attribute="remote_file_name.filename", **_CALLBACK_SAVER),
    _row("latest_filename", Kind.FILE, _DIST_TIME, _LATEST, content="latest", folder="folder",
         attribute="latest_filename.filename", **_CALLBACK_SAVER),
    _row("latest_remote_file_name", Kind.KEY, _DIST_TIME | MLFLOW, f"{{run_name}}/checkpoints/{_LATEST}",
         content="latest", attribute="latest_remote_file_name.filename", **_CALLBACK_SAVER),
    overwrite=False,
    save_interval="1ep",
    num_checkpoints_to_keep=-1,
)  # fmt: skip
_target(
    "LoadCheckpoint",
    "load_path load_weights_only strict_model_weights ignore_keys event",
    _row("load_path", Kind.LOAD, frozenset({"run_name", "rank", "local_rank", "node_rank"}), uri=True),
)

_target(
    "FileLogger",
    "filename remote_file_name",
    _row("filename", Kind.FILE, DIST, "{run_name}/logs-rank{rank}.txt", writer=Writer.EVERY_RANK,
         formatted_twice=True, content="log", attribute="filename_format"),
    _row("remote_file_name", Kind.KEY, DIST, writer=Writer.EVERY_RANK, formatted_twice=True, content="log",
         attribute="remote_file_name_format"),
    overwrite=False,
)  # fmt: skip
_target(
    "RemoteUploaderDownloader",
    "bucket_uri backend_kwargs file_path_format_string num_concurrent_uploads upload_staging_folder "
    "use_procs num_attempts",
    _row("bucket_uri", Kind.BUCKET, _NONE, uri=True, attribute=""),
    _row("file_path_format_string", Kind.UPLOADER, DIST | {"remote_file_name"}, "{remote_file_name}",
         writer=Writer.EVERY_RANK),
    _row("upload_staging_folder", Kind.PLAIN, _NONE, attribute=""),
    num_concurrent_uploads=1,
)  # fmt: skip

_EVERY: dict[str, Any] = {"writer": Writer.EVERY_RANK, "formatted_twice": True, "content": "trace"}
_target(
    "TorchProfiler",
    "folder filename remote_file_name memory_filename memory_remote_file_name overwrite use_gzip "
    "record_shapes profile_memory with_stack with_flops num_traces_to_keep",
    _row("folder", Kind.FOLDER, DIST, "{run_name}/torch_traces", overwrite="overwrite", **_EVERY),
    _row("filename", Kind.FILE, _DIST_TIME, _TORCH_TRACE, folder="folder", **_EVERY),
    _row("remote_file_name", Kind.KEY, _DIST_TIME, f"{{run_name}}/torch_traces/{_TORCH_TRACE}", **_EVERY),
    _row("memory_filename", Kind.FILE, _DIST_TIME, folder="folder", **_EVERY),
    _row("memory_remote_file_name", Kind.KEY, _DIST_TIME,
         "{run_name}/torch_memory_traces/rank{rank}.{batch}.pt.trace.memory.html", **_EVERY),
    overwrite=False,
    num_traces_to_keep=-1,
)  # fmt: skip
_target(
    "Profiler",
    "schedule trace_handlers sys_prof_cpu sys_prof_memory sys_prof_disk sys_prof_net "
    "sys_prof_stats_thread_interval_seconds torch_prof_folder torch_prof_filename "
    "torch_prof_remote_file_name torch_prof_memory_filename torch_prof_memory_remote_file_name "
    "torch_prof_overwrite torch_prof_use_gzip "
    "torch_prof_record_shapes torch_prof_profile_memory torch_prof_with_stack torch_prof_with_flops "
    "torch_prof_num_traces_to_keep",
    _row("torch_prof_folder", Kind.FOLDER, DIST, "{run_name}/torch_traces", overwrite="torch_prof_overwrite",
         attribute="", **_EVERY),
    _row("torch_prof_filename", Kind.FILE, _DIST_TIME, _TORCH_TRACE, folder="torch_prof_folder", attribute="",
         **_EVERY),
    _row("torch_prof_remote_file_name", Kind.KEY, _DIST_TIME, f"{{run_name}}/torch_traces/{_TORCH_TRACE}",
         uri=True, attribute="", **_EVERY),
    _row("torch_prof_memory_filename", Kind.FILE, _DIST_TIME, folder="torch_prof_folder", attribute="",
         **_EVERY),
    _row("torch_prof_memory_remote_file_name", Kind.KEY, _DIST_TIME,
         "{run_name}/torch_memory_traces/rank{rank}.{batch}.pt.memory_trace.html", uri=True, attribute="",
         **_EVERY),
    torch_prof_overwrite=False,
    torch_prof_num_traces_to_keep=-1,
)  # fmt: skip
_MERGED: dict[str, Any] = {"writer": Writer.LOCAL_RANK_ZERO, "formatted_twice": True, "content": "merged"}
_target(
    "JSONTraceHandler",
    "folder filename remote_file_name merged_trace_filename merged_trace_remote_file_name",
    _row("folder", Kind.FOLDER, DIST, "{run_name}/traces", overwrite="overwrite", **_EVERY),
    _row("filename", Kind.FILE, _DIST_TIME, "ep{epoch}-ba{batch}-rank{rank}.json", folder="folder", **_EVERY),
    _row("remote_file_name", Kind.KEY, _DIST_TIME, "{run_name}/traces/ep{epoch}-ba{batch}-rank{rank}.json",
         uri=True, **_EVERY),
    _row("merged_trace_filename", Kind.FILE, DIST, "merged_trace.json", folder="folder", **_MERGED),
    _row("merged_trace_remote_file_name", Kind.KEY, DIST, "{run_name}/traces/merged_trace.json", uri=True,
         **_MERGED),
    overwrite=False,
    num_traces_to_keep=-1,
)  # fmt: skip
_target(
    "cyclic_schedule",
    "skip_first wait warmup active repeat",
    skip_first=0,
    wait=0,
    warmup=1,
    active=4,
    repeat=1,
)

_ONCE: dict[str, Any] = {**_EVERY, "content": "snapshot"}
_target(
    "MemorySnapshot",
    "skip_batches interval max_entries folder filename remote_file_name overwrite",
    _row("folder", Kind.FOLDER, DIST, "{run_name}/torch_traces", overwrite="overwrite", **_ONCE),
    _row("filename", Kind.FILE, _DIST_TIME, "rank{rank}.{batch}.memory_snapshot", folder="folder", **_ONCE),
    _row("remote_file_name", Kind.KEY_FOLDER, DIST, "{run_name}/torch_memory_traces", uri=True, **_ONCE),
    overwrite=False,
)  # fmt: skip
_target(
    "OOMObserver",
    "max_entries folder filename remote_file_name overwrite",
    _row("folder", Kind.FOLDER, DIST, "{run_name}/torch_traces", overwrite="overwrite", **_ONCE),
    _row("filename", Kind.FILE, _DIST_TIME, "rank{rank}_oom", folder="folder", **_ONCE),
    _row("remote_file_name", Kind.KEY_FOLDER, DIST, "{run_name}/oom_traces/rank{rank}_oom", uri=True,
         **_ONCE),
    overwrite=False,
)  # fmt: skip
_target(
    "ExportForInferenceCallback",
    "save_format save_path save_object_store sample_input transforms input_names output_names",
    _row("save_path", Kind.KEY, DIST, uri=True, writer=Writer.RANK_ZERO),
)
_target("CheckpointSaveOptions", "save_frequency dir_prefix",
        _row("dir_prefix", Kind.FOLDER, _DIST_TIME, "ep{epoch}-ba{batch}", writer=Writer.EVERY_RANK,
             content="checkpoint", interval="save_frequency", keep="num_checkpoints_to_keep"),
        save_frequency="1ep", num_checkpoints_to_keep=-1)  # fmt: skip
_target("FSDPConfig", "",
        _row("sharded_ckpt_prefix_dir", Kind.FOLDER, _DIST_TIME, "ep{epoch}-ba{batch}",
             writer=Writer.EVERY_RANK, content="checkpoint"),
        state_dict_type="full")  # fmt: skip
_target("Logger.upload_file", "remote_file_name file_path",
        _row("remote_file_name", Kind.KEY, DIST), _row("file_path", Kind.FILE, DIST))  # fmt: skip

_LAUNCHER = frozenset({"rank", "local_rank", "world_size", "node_rank", "local_world_size"})
_target("launcher", "",
        _row("stdout", Kind.LAUNCHER, _LAUNCHER, writer=Writer.EVERY_RANK, content="log"),
        _row("stderr", Kind.LAUNCHER, _LAUNCHER, writer=Writer.EVERY_RANK, content="log"),
        package="")  # fmt: skip

_target("TensorboardLogger", "log_dir flush_interval rank_zero_only",
        _row("log_dir", Kind.PLAIN, _NONE, attribute="log_dir"))  # fmt: skip
_target("WandBLogger", "project group name entity tags log_artifacts rank_zero_only init_kwargs",
        _row("project", Kind.PLAIN, _NONE, attribute=""), _row("group", Kind.PLAIN, _NONE, attribute=""),
        _row("name", Kind.PLAIN, _NONE, attribute=""), log_artifacts=False)  # fmt: skip
_target("MLFlowLogger", "experiment_name run_name tags tracking_uri",
        _row("experiment_name", Kind.PLAIN, _NONE), _row("run_name", Kind.PLAIN, _NONE))  # fmt: skip
_target("CometMLLogger", "workspace project_name log_code log_graph name",
        _row("project_name", Kind.PLAIN, _NONE, attribute=""),
        _row("name", Kind.PLAIN, _NONE, attribute=""))  # fmt: skip
_target("NeptuneLogger", "", _row("base_namespace", Kind.PLAIN, _NONE, "training", attribute=""))
_target("MLPerfCallback", "root_folder index", _row("root_folder", Kind.PLAIN, _NONE))
for _name in ("InMemoryLogger", "MosaicMLLogger", "SlackLogger", "ConsoleLogger", "ProgressBarLogger"):
    _target(_name, "")

_FOUNDRY_SAVER: dict[str, Any] = {"writer": Writer.RANK_ZERO, "content": "checkpoint"}
_target("HuggingFaceCheckpointer", "save_folder save_interval huggingface_folder_name",
        _row("save_folder", Kind.FOLDER, _DIST_TIME, uri=True, attribute="", **_FOUNDRY_SAVER),
        _row("huggingface_folder_name", Kind.FOLDER, _DIST_TIME, "ba{batch}", folder="save_folder",
             interval="save_interval", attribute="", **_FOUNDRY_SAVER),
        package="llmfoundry")  # fmt: skip
_target("MonolithicCheckpointSaver", "save_folder batch_interval filename",
        _row("save_folder", Kind.FOLDER, _DIST_TIME, uri=True, attribute="", **_FOUNDRY_SAVER),
        _row("filename", Kind.FILE, _DIST_TIME, "ep{epoch}-ba{batch}.pt", folder="save_folder",
             attribute="", **_FOUNDRY_SAVER),
        package="llmfoundry")  # fmt: skip


def parameters() -> Iterator[Parameter]:
    """Every template of every class.

    Example:
        >>> sorted(str(parameter) for parameter in parameters())[:2]
        ['CheckpointSaveOptions.dir_prefix', 'CheckpointSaver.filename']
    """
    for target in TARGETS.values():
        yield from target.parameters.values()
