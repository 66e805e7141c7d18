"""One template in its context: the call that it belongs to, and what is known about the run."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from composer_obs.placeholders.calls import Call, Constant, Items, Text, Value, walk
from composer_obs.placeholders.grammar import Field, Template, parse
from composer_obs.placeholders.parameter import MLFLOW, URI_SCHEMES, Kind, Parameter
from composer_obs.placeholders.table import TARGETS

__all__ = ["UNKNOWN", "Facts", "Run", "TemplateUse", "value_of"]


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        return False


#: What only the running program knows; counts as false.
UNKNOWN: Final = _Unknown()

# Destinations that never upload a file, and those that do if an argument says so.
_NEVER_UPLOAD = {
    "FileLogger", "MLFlowLogger", "TensorboardLogger", "InMemoryLogger", "ConsoleLogger", "ProgressBarLogger",
    "SlackLogger", "MosaicMLLogger", "UploadAuditor", "upload_auditor",
}  # fmt: skip
_REMOTE = {"remote_file_name", "merged_trace_remote_file_name", "torch_prof_remote_file_name"}
_PROFILING = {"JSONTraceHandler", "Profiler", "TorchProfiler"}
_UPLOAD_IF = {"WandBLogger": "log_artifacts"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about the run besides its configuration.

    Args:
        world_size (int, optional): The number of ranks. Default: ``None``, not known.
        schemes (frozenset[str]): URI schemes that are legal besides Composer's own.
        batches_per_epoch (int, optional): Default: ``None``, not known.
        resumed_at (int): The batch in its epoch at which the run was resumed. Default: ``0``.
    """

    world_size: int | None = None
    schemes: frozenset[str] = frozenset()
    batches_per_epoch: int | None = None
    resumed_at: int = 0


@dataclass(frozen=True)
class TemplateUse:
    """A template that somebody wrote, and what it is an argument of."""

    parameter: Parameter
    text: Text
    call: Call
    run: Run

    @property
    def template(self) -> str:
        return self.text.value

    @functools.cached_property
    def parsed(self) -> Template:
        return parse(self.text.value)

    @functools.cached_property
    def legal(self) -> frozenset[str]:
        """The placeholders that will be filled in; without MLflow's if no MLFlowLogger is there."""
        legal = self.parameter.legal
        return legal - MLFLOW if self.run.has_mlflow is False else legal

    @property
    def is_formatted(self) -> bool:
        """Whether Composer formats it with the ordinary partial formatter."""
        return self.parameter.kind not in {Kind.PLAIN, Kind.BUCKET, Kind.LOAD, Kind.LAUNCHER}

    @property
    def keyword(self) -> str:
        """The argument as its call writes it."""
        return self.parameter.name

    def setting(self, name: str | None) -> Any:
        """The value of another argument of the same call; `UNKNOWN` if it cannot be told."""
        return UNKNOWN if name is None else setting(self.call, name)

    def sibling(self, name: str) -> Text | None:
        """Another template of the same call: what was written, or its default."""
        return text_of(self.call, name)

    def fields(self) -> Iterator[Field]:
        """The placeholders whose text is known."""
        return (found for found in self.parsed.fields if not found.has_hole)


@dataclass(frozen=True)
class Run:
    """A Trainer or configuration with all that belongs to it, or a call that stands alone."""

    root: Call
    facts: Facts = field(default_factory=Facts)
    language: str = "python"

    @functools.cached_property
    def calls(self) -> tuple[Call, ...]:
        return tuple(walk(self.root))

    @property
    def trainer(self) -> Call | None:
        return self.root if self.root.name == "Trainer" else None

    @functools.cached_property
    def uses(self) -> tuple[TemplateUse, ...]:
        """Every template that is written out."""
        return tuple(
            TemplateUse(parameter, value, call, self)
            for call in self.calls
            for name, value in call.arguments.items()
            if isinstance(value, Text)
            and name not in call.implied
            and (parameter := parameter_of(call, name)) is not None
        )

    def trainer_setting(self, name: str) -> Any:
        """An argument of the Trainer; `UNKNOWN` if there is no Trainer in view."""
        return setting(self.trainer, name) if self.trainer else UNKNOWN

    @functools.cached_property
    def destinations(self) -> tuple[Sequence[Call], bool]:
        """The loggers, and whether there are certainly no others."""
        if self.trainer is None:
            return (), False
        value = self.trainer.arguments.get("loggers")
        if value is None or (isinstance(value, Constant) and value.value is None):
            return (), self.trainer.complete
        listed: Sequence[Value] = value.values if isinstance(value, Items) else (value,)
        calls = [item for item in listed if isinstance(item, Call)]
        complete = not isinstance(value, Items) or value.complete
        return calls, complete and len(calls) == len(listed)

    @functools.cached_property
    def has_mlflow(self) -> bool | None:
        """Whether there is an MLFlowLogger; ``None`` if that cannot be told."""
        calls, complete = self.destinations
        if any(call.name == "MLFlowLogger" for call in calls):
            return True
        return (
            False
            if complete and all(call.name in TARGETS or call.name in _NEVER_UPLOAD for call in calls)
            else None
        )

    @functools.cached_property
    def uploads(self) -> bool | None:
        """Whether any destination uploads files; ``None`` if that cannot be told."""
        calls, complete = self.destinations
        answers = [_uploads(call) for call in calls]
        # The Trainer adds an uploader for the profiler if one of its remote names is a URI.
        answers += [
            "://" in use.template or None
            for use in self.uses
            if use.parameter.name in _REMOTE and ("://" in use.template or use.call.name in _PROFILING)
        ]
        if True in answers:
            return True
        return False if complete and None not in answers else None

    @functools.cached_property
    def autoresume(self) -> Any:
        return self.trainer_setting("autoresume")

    @functools.cached_property
    def is_sharded(self) -> bool:
        """Whether checkpoints are certainly written in shards."""
        config = self.trainer.arguments.get("parallelism_config") if self.trainer else None
        fsdp = config.arguments.get("fsdp") if isinstance(config, Call) else None
        return isinstance(fsdp, Call) and setting(fsdp, "state_dict_type") == "sharded"

    @functools.cached_property
    def checkpoint_savers(self) -> tuple[Call, ...]:
        """The CheckpointSavers among the callbacks, which replace the Trainer's own."""
        return tuple(call for call in self.calls if call.name == "CheckpointSaver")

    def schemes(self, kind: Kind) -> frozenset[str]:
        """The URI schemes that are legal for this kind of parameter."""
        known = URI_SCHEMES | self.facts.schemes
        return known | {"libcloud", "sftp"} if kind is Kind.BUCKET else known


def _uploads(call: Call) -> bool | None:
    if call.name == "RemoteUploaderDownloader":
        return True
    if (name := _UPLOAD_IF.get(call.name)) is not None:
        answer = setting(call, name)
        return None if answer is UNKNOWN else bool(answer)
    return False if call.name in _NEVER_UPLOAD else None


def parameter_of(call: Call, name: str) -> Parameter | None:
    """The template that this argument of this call is, if it is one."""
    target = TARGETS.get(call.name)
    return target.parameters.get(name) if target else None


def value_of(value: Value | None) -> Any:
    """The Python value of a constant or a text without holes; else `UNKNOWN`."""
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Text) and value.known:
        return value.value
    return UNKNOWN


def setting(call: Call, name: str) -> Any:
    """The value of an argument, its default if it is not given; `UNKNOWN` if it cannot be told."""
    if name in call.arguments:
        return value_of(call.arguments[name])
    target = TARGETS.get(call.name)
    if target is None or not call.complete:
        return UNKNOWN
    if name in target.parameters:
        return target.parameters[name].default
    return target.arguments.get(name, UNKNOWN)


def text_of(call: Call, name: str) -> Text | None:
    """A template of the call: what was written, or its default; ``None`` if it cannot be told."""
    value = call.arguments.get(name)
    if isinstance(value, Text):
        return value
    if value is not None or not call.complete:
        return None
    parameter = parameter_of(call, name)
    return Text(parameter.default) if parameter is not None and parameter.default is not None else None
