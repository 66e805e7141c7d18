"""What a parameter that names files is: its placeholders, its writers, its place."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "DIST",
    "INTEGER_TIME",
    "MLFLOW",
    "PLACEHOLDERS",
    "TIME",
    "URI_SCHEMES",
    "WALL_CLOCK",
    "Kind",
    "Parameter",
    "Target",
    "Writer",
]

#: Of the process; `composer.utils.format_name_with_dist`.
DIST = frozenset({"run_name", "rank", "local_rank", "node_rank", "world_size", "local_world_size"})
INTEGER_TIME = frozenset(
    {"epoch", "batch", "batch_in_epoch", "sample", "sample_in_epoch", "token", "token_in_epoch"}
)
#: Seconds, as floating-point numbers.
WALL_CLOCK = frozenset({"total_wct", "epoch_wct", "batch_wct"})
#: Of the moment of training; `composer.utils.format_name_with_dist_and_time`.
TIME = INTEGER_TIME | WALL_CLOCK
#: Filled in only if an MLFlowLogger is among the loggers.
MLFLOW = frozenset({"mlflow_experiment_id", "mlflow_run_id"})
#: Every name that means something somewhere.
PLACEHOLDERS = DIST | TIME | MLFLOW | {"remote_file_name"}
#: What `composer.utils.maybe_create_object_store_from_uri` knows; its registry can be extended.
URI_SCHEMES = frozenset({"s3", "gs", "oci", "azure", "dbfs"})


class Writer(enum.Enum):
    """Which processes write under the name."""

    NOBODY = enum.auto()
    RANK_ZERO = enum.auto()
    LOCAL_RANK_ZERO = enum.auto()
    EVERY_RANK = enum.auto()


class Kind(enum.Enum):
    """What the text names."""

    FOLDER = enum.auto()
    FILE = enum.auto()
    #: The name of an object in a bucket.
    KEY = enum.auto()
    #: What stands before the names of several objects.
    KEY_FOLDER = enum.auto()
    #: A checkpoint to read.
    LOAD = enum.auto()
    BUCKET = enum.auto()
    #: RemoteUploaderDownloader's own template over the names of others.
    UPLOADER = enum.auto()
    #: An argument of the `composer` command.
    LAUNCHER = enum.auto()
    #: Text that nobody formats.
    PLAIN = enum.auto()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument that is a template, or that people take for one.

    Args:
        owner (str): The class or function.
        name (str): The argument.
        kind (Kind): What it names.
        legal (frozenset[str]): The placeholders that are filled in.
        default (str, optional): Its default.
        writer (Writer): Who writes under the name. Default: nobody.
        uri (bool): Whether a URI may stand there. Default: ``False``.
        formatted_twice (bool): Whether the result is formatted once more on its way to the store.
        content (str): ``"checkpoint"``, ``"latest"``, ``"trace"``, ``"merged"``, ``"log"``, ``"snapshot"``
            (written once) or ``""``.
        folder (str, optional): The argument that it is relative to.
        overwrite, interval, keep (str, optional): The arguments that say whether it is overwritten,
            how often it is written and how many are kept.
        attribute (str, optional): Where a live object keeps it; its name by default.
    """

    owner: str
    name: str
    kind: Kind
    legal: frozenset[str]
    default: str | None = None
    writer: Writer = Writer.NOBODY
    uri: bool = False
    formatted_twice: bool = False
    content: str = ""
    folder: str | None = None
    overwrite: str | None = None
    interval: str | None = None
    keep: str | None = None
    attribute: str | None = None

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}"


@dataclass(frozen=True, slots=True)
class Target:
    """A class or function, with the order of the arguments that may be positional.

    Args:
        name (str): Its name.
        package (str): ``"composer"`` or ``"llmfoundry"``.
        positional (tuple[str, ...]): Arguments that can be given without a name, in order.
        parameters (Mapping[str, Parameter]): Its templates.
        arguments (Mapping[str, object]): Defaults of other arguments that rules read.
    """

    name: str
    package: str
    positional: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    arguments: Mapping[str, object]
