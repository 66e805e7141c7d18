"""What LLM Foundry makes of its train YAML before Composer sees it: defaults, FSDP and the profiler."""

from __future__ import annotations

from composer_obs.placeholders.calls import Call, Constant, Items, Text, Value

__all__ = ["FOUNDRY_KEYS", "adapt_parallelism", "adapt_profiler", "add_defaults"]

#: Keys that LLM Foundry's configurations have and Composer's Trainer does not.
FOUNDRY_KEYS = frozenset(
    "device_eval_batch_size device_train_batch_size eval_gauntlet eval_loader fsdp_config "
    "global_train_batch_size icl_tasks max_seq_len optimizer scheduler tokenizer tp_config train_loader "
    "variables".split()
)
# LLM Foundry's defaults where Composer has others. Source: llmfoundry/utils/config_utils.py, TrainConfig.
_DEFAULTS: dict[str, Value] = {
    "save_interval": Text("1000ba"),
    "progress_bar": Constant(False),
    "log_to_console": Constant(True),
    "python_log_level": Text("debug"),
    "accumulate_train_batch_on_tokens": Constant(True),
    "device_train_microbatch_size": Text("auto"),
    "dist_timeout": Constant(600.0),
    "precision": Text("amp_bf16"),
    "seed": Constant(17),
}


def adapt_parallelism(trainer: Call) -> None:
    """Put ``fsdp_config`` and ``tp_config`` where Composer has them."""
    parts = {"fsdp": "fsdp_config", "tp": "tp_config"}
    given = {part: trainer.arguments[key] for part, key in parts.items() if key in trainer.arguments}
    if given and "parallelism_config" not in trainer.arguments:
        keys = {part: trainer.keys[parts[part]] for part in given}
        trainer.arguments["parallelism_config"] = Call("dict", given, next(iter(keys.values())), keys)
    config = trainer.arguments.get("parallelism_config")
    _rename(config.arguments.get("fsdp") if isinstance(config, Call) else None, "FSDPConfig")


def adapt_profiler(profiler: Call) -> None:
    """Give a profiler its schedule and, as a list, its one trace handler."""
    arguments, keys = profiler.arguments, profiler.keys
    _rename(arguments.get("schedule"), "cyclic_schedule")
    if "json_trace_handler" in arguments:
        handler = arguments.pop("json_trace_handler")
        keys["trace_handlers"] = keys.pop("json_trace_handler")
        if isinstance(handler, Call):
            handler.name = "JSONTraceHandler"
        absent = isinstance(handler, Constant) or (isinstance(handler, Call) and not handler.arguments)
        arguments["trace_handlers"] = Items(() if absent else (handler,), span=handler.span)
    elif "trace_handlers" not in arguments:
        arguments["trace_handlers"] = Items(())
        profiler.implied = frozenset({"trace_handlers"})


def add_defaults(trainer: Call) -> None:
    """Add the arguments that LLM Foundry gives where nothing is written."""
    defaults = dict(_DEFAULTS)
    fsdp = trainer.arguments.get("fsdp_config")
    state = fsdp.arguments.get("state_dict_type") if isinstance(fsdp, Call) else None
    if isinstance(state, Text) and state.value == "sharded":
        defaults["save_latest_filename"] = Text("latest-sharded-rank{rank}")
    for name in ("save_filename", "save_latest_filename"):
        # LLM Foundry takes null and "" for "not given".
        value = trainer.arguments.get(name)
        if isinstance(value, Constant | Text) and not value.value:
            del trainer.arguments[name], trainer.keys[name]
    if trainer.complete:
        missing = {name: value for name, value in defaults.items() if name not in trainer.arguments}
        trainer.arguments |= missing
        trainer.implied = frozenset(missing)


def _rename(value: Value | None, name: str) -> None:
    """A plain mapping is the arguments of this class."""
    if isinstance(value, Call) and value.name == "dict":
        value.name = name
