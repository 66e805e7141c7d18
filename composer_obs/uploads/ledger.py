"""The ledger of a run's uploads: what was announced, and what became of it.

One file a rank, append-only, one JSON object a line. It is the contract between the run and the
audit: an attempt is written *before* its upload begins, so a run that is killed at any moment
leaves behind the name of every file that it had announced. Every line carries ``v`` (schema
version), ``t`` (UTC time) and ``kind``:

``run``
    A process began to record: run name, rank, world size, versions, session.
``destination``
    Somewhere that uploads go: which store, and what is needed to ask it again (no secret).
``saver``
    A CheckpointSaver that will upload: whether it also keeps a ``latest`` pointer.
``attempt``
    An upload is about to begin: artifact, key, local source, size, identity of the file.
``checksum``
    The content's checksums, taken in the background.
``outcome``
    How the uploader said it ended: ``uploaded``, ``failed``, ``lost`` or ``replaced``.
``verdict``
    What the store said when it was asked.
``end``
    The process closed its ledger.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from composer_obs.run_folder import SCHEMA_VERSION, parse_lines
from composer_obs.uploads.checksums import KINDS, Digest

__all__ = [
    "Attempt",
    "Content",
    "Destination",
    "Ledger",
    "LedgerProblem",
    "Outcome",
    "Role",
    "Run",
    "Saver",
    "replay",
]

#: What an artifact is to the run; checkpoints and pointers are checked against one another.
Role = Literal["file", "checkpoint", "pointer", "shard", "metadata"]


@dataclass(frozen=True, slots=True)
class Run:
    """One process that recorded.

    Args:
        session (str): Tells this process from an earlier one with the same run name and rank.
        run_name (str): Composer's run name.
        rank (int): Global rank.
        world_size (int): Number of ranks.
        process (str): Machine (hashed) and process id, ``"1f2e3d4c:4711"``.
        ended (bool): Whether it came to its end in an orderly way; ``False`` after a kill, or while
            it runs.
    """

    session: str
    run_name: str
    rank: int
    world_size: int
    process: str = ""
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Destination:
    """Somewhere that uploads go.

    Args:
        id (str): Name within the ledger.
        store (str): Entry point in ``composer_obs.stores``, e.g. ``"s3"``.
        uri (str): For a person, e.g. ``"s3://bucket"``.
        options (Mapping): What the store needs to be asked again; never a secret.
    """

    id: str
    store: str
    uri: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Saver:
    """A CheckpointSaver that uploads.

    Args:
        folder (str): Prefix of its checkpoints' keys.
        pointer (bool): Whether it uploads a ``latest`` pointer too.
    """

    folder: str
    pointer: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One upload, as it was announced.

    Args:
        id (str): Unique over all ranks and sessions.
        rank (int): Who uploads.
        destination (str, optional): Id of the destination; ``None`` if nothing uploads.
        artifact (str): The name that the caller gave.
        key (str): The key in the store.
        uri (str): For a person.
        source (str): The local file.
        size (int, optional): In bytes; ``None`` if the file was not there.
        mtime_ns, inode (int): Identity of the file, to know it again later.
        overwrite (bool): Whether an object of this key may be replaced.
        role (Role): What it is to the run.
        batch, epoch (int): Where training stood.
        time (str): When, in UTC.
    """

    id: str
    rank: int
    destination: str | None
    artifact: str
    key: str
    uri: str
    source: str
    size: int | None
    mtime_ns: int = 0
    inode: int = 0
    overwrite: bool = False
    role: Role = "file"
    batch: int = 0
    epoch: int = 0
    time: str = ""


@dataclass(frozen=True, slots=True)
class Content:
    """What a file held, read in the background.

    Args:
        size (int): Bytes that were read.
        digests (Mapping[str, Digest]): By kind; empty if ``note`` says why.
        note (str, optional): Why there is no checksum, or how sure it is.
        text (str, optional): Content of a pointer: the key that it names.
        shards (tuple[str, ...]): File names that a sharded checkpoint's ``.metadata`` lists.
    """

    size: int
    digests: Mapping[str, Digest] = field(default_factory=dict)
    note: str | None = None
    text: str | None = None
    shards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the uploader said that an upload ended.

    Args:
        result: ``uploaded``; ``failed`` (with its error); ``lost`` (its worker died before it was
            sent); ``replaced`` (a later file of the same name took its place in the queue).
        error (str, optional): The error, redacted.
    """

    result: Literal["uploaded", "failed", "lost", "replaced"]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerProblem:
    """A line that cannot be used."""

    file: str
    line: int
    reason: str


@dataclass(slots=True)
class Ledger:
    """Everything that one or many ledger files say, in order."""

    runs: dict[str, Run] = field(default_factory=dict)
    destinations: dict[str, Destination] = field(default_factory=dict)
    savers: list[Saver] = field(default_factory=list)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    contents: dict[str, Content] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    problems: list[LedgerProblem] = field(default_factory=list)
    newest_version: int = SCHEMA_VERSION

    def select(self, attempts: Iterable[str]) -> Ledger:
        """The same ledger with these attempts alone."""
        chosen = {id_: self.attempts[id_] for id_ in attempts}
        return Ledger(
            self.runs,
            self.destinations,
            self.savers,
            chosen,
            {id_: self.contents[id_] for id_ in chosen if id_ in self.contents},
            {id_: self.outcomes[id_] for id_ in chosen if id_ in self.outcomes},
        )

    def session_of(self, attempt: Attempt) -> Run | None:
        """The process that made the attempt."""
        return self.runs.get(attempt.id.partition("/")[0])


def to_record(kind: str, value: Any, **more: Any) -> dict[str, Any]:
    """The line that keeps ``value``; `replay` is the inverse."""
    if isinstance(value, Content):
        body: dict[str, Any] = {
            "size": value.size,
            "digests": {k: d.to_json() for k, d in value.digests.items()},
        }
        body |= {name: v for name in ("note", "text") if (v := getattr(value, name)) is not None}
        if value.shards:
            body["shards"] = list(value.shards)
    else:
        body = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        body.pop("time", None)
    return {"kind": kind, **more, **body}


def replay(files: Mapping[str, Iterable[bytes] | bytes]) -> Ledger:
    """Read ledger files, of one rank or of many.

    Broken and foreign lines are kept as `LedgerProblem` s; unknown kinds and fields of a newer
    version are passed over, so that an old audit reads as much of a new ledger as it understands.

    Args:
        files (Mapping[str, Iterable[bytes] | bytes]): Name of each file, and its content or its
            lines.

    Example:
        >>> ledger = replay({"ledger-rank0.jsonl": b'{"v":1,"kind":"end","session":"x"}\\n{"v":1,"kin'})
        >>> [(problem.line, problem.reason.partition(":")[0]) for problem in ledger.problems]
        [(2, 'torn')]
    """
    ledger = Ledger()
    for name, data in files.items():
        for line in parse_lines(data):
            if line.problem is not None:
                ledger.problems.append(LedgerProblem(name, line.number, line.problem))
                continue
            try:
                _apply(ledger, line.record)
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                reason = f"not a ledger line: {type(error).__name__}: {error}"
                ledger.problems.append(LedgerProblem(name, line.number, reason))
    return ledger


def _apply(ledger: Ledger, record: dict[str, Any]) -> None:
    version = int(record.get("v", SCHEMA_VERSION))
    ledger.newest_version = max(ledger.newest_version, version)
    match record["kind"]:
        case "attempt":
            record["time"] = record.get("t", "")
            attempt = _build(Attempt, record)
            ledger.attempts[attempt.id] = attempt
        case "checksum":
            ledger.contents[record["attempt"]] = _content(record)
        case "outcome":
            ledger.outcomes[record["attempt"]] = _build(Outcome, record)
        case "destination":
            destination = _build(Destination, record)
            ledger.destinations[destination.id] = destination
        case "saver":
            saver = _build(Saver, record)
            if saver not in ledger.savers:
                ledger.savers.append(saver)
        case "run":
            run = _build(Run, record)
            ledger.runs[run.session] = run
        case "end":
            session = record["session"]
            if session in ledger.runs:
                ledger.runs[session] = dataclasses.replace(ledger.runs[session], ended=True)
        case _:
            pass


def _build(cls: type[Any], record: Mapping[str, Any]) -> Any:
    """An instance from the fields that this version knows.

    Raises:
        TypeError: A field is missing, or not of its type.
    """
    fields = {}
    for name, types in _FIELD_TYPES[cls].items():
        if name in record:
            value = record[name]
            if not isinstance(value, types):
                raise TypeError(f"{name} is {value!r:.40}")
            fields[name] = value
    return cls(**fields)


def _types(hint: Any) -> tuple[type, ...]:
    if isinstance(hint, UnionType):
        return tuple(member for option in get_args(hint) for member in _types(option))
    if get_origin(hint) is Literal:
        return (str,)  # A later version may know more of them.
    return (get_origin(hint) or hint,)


_FIELD_TYPES: dict[type, dict[str, tuple[type, ...]]] = {
    cls: {name: _types(hint) for name, hint in get_type_hints(cls).items()}
    for cls in (Run, Destination, Saver, Attempt, Content, Outcome)
}


def _content(record: dict[str, Any]) -> Content:
    size = int(record["size"])
    # Kinds that only a later version knows are passed over.
    known = {kind: digest for kind, digest in record.get("digests", {}).items() if kind in KINDS}
    digests = {kind: Digest.from_json(kind, size, digest) for kind, digest in known.items()}
    shards = tuple(map(str, record.get("shards", ())))
    record |= {"size": size, "digests": digests, "shards": shards}
    content: Content = _build(Content, record)
    return content
