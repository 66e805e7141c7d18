"""Where a run's records live: a folder of append-only JSON Lines, one writer a file.

A record must outlive what happens to runs: ``kill -9``, a full disk, a folder that somebody
removes. So a line goes out in one ``write`` (a kill leaves at most one torn line, and readers
survive it), a line that the disk refuses is kept and tried again, and a file that was unlinked is
put back from the descriptor that still holds it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from composer_obs.errors import InvalidInputError
from composer_obs.redaction import redact_values

__all__ = [
    "SCHEMA_VERSION",
    "JsonLinesWriter",
    "Line",
    "RunFolderError",
    "parse_lines",
    "resolve_run_folder",
    "utc_now",
]

#: Version of the lines' schema. A reader refuses no line of a higher version; it says so.
SCHEMA_VERSION = 1

_ENVIRONMENT_VARIABLE = "COMPOSER_OBS_FOLDER"


class RunFolderError(InvalidInputError):
    """A run folder cannot be found or read."""


def utc_now() -> str:
    """The time as every record carries it: ISO 8601, UTC, milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def resolve_run_folder(
    run_name: str, folder: str | None = None, environ: Mapping[str, str] | None = None
) -> Path:
    """Where the records of a run belong.

    Args:
        run_name (str): The run's name, which fills ``{run_name}`` in either setting.
        folder (str, optional): The user's choice. Default: ``$COMPOSER_OBS_FOLDER``, else
            ``{run_name}/composer_obs`` below the working directory.
        environ (Mapping[str, str], optional): Default: ``os.environ``.

    Example:
        >>> str(resolve_run_folder("gpt", environ={}))
        'gpt/composer_obs'
        >>> str(resolve_run_folder("gpt", environ={"COMPOSER_OBS_FOLDER": "/logs/{run_name}"}))
        '/logs/gpt'
    """
    environ = os.environ if environ is None else environ
    template = folder or environ.get(_ENVIRONMENT_VARIABLE) or "{run_name}/composer_obs"
    return Path(template.replace("{run_name}", run_name))


class JsonLinesWriter:
    """Appends records to one file; never raises, never loses a line while the process lives.

    Args:
        path (Path): The file. Its folder is made when the first line is written.

    Attributes:
        error (OSError | None): Why lines are waiting, or ``None`` when all are on disk.
        lines_waiting (int): Lines that the disk has refused so far.

    Example:
        >>> import tempfile
        >>> writer = JsonLinesWriter(Path(tempfile.mkdtemp()) / "ledger-rank0.jsonl")
        >>> writer.append({"kind": "attempt", "key": "a.pt"})
        >>> writer.close()
        >>> [line.record["key"] for line in parse_lines(writer.path.read_bytes())]
        ['a.pt']
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: OSError | None = None
        self._waiting = b""
        self._descriptor: int | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def lines_waiting(self) -> int:
        return self._waiting.count(b"\n")

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as one line, redacted, with the schema's version and the time in front."""
        if self._is_forked:
            return
        redacted = redact_values(record)
        line = json.dumps({"v": SCHEMA_VERSION, "t": utc_now(), **redacted}, separators=(",", ":"))
        with self._lock:
            self._waiting += line.encode() + b"\n"
            self._write_waiting()

    def flush(self, *, durable: bool = False) -> None:
        """Try the waiting lines again; with ``durable`` also ask the disk to keep them."""
        if self._is_forked:
            return
        with self._lock:
            self._write_waiting()
            if durable and self._descriptor is not None:
                with contextlib.suppress(OSError):
                    os.fsync(self._descriptor)

    def read(self) -> bytes:
        """Everything that was appended: what is on disk, and what the disk has not taken yet."""
        with self._lock:
            parts = []
            if self._descriptor is not None:
                offset = 0
                while block := os.pread(self._descriptor, 1 << 20, offset):
                    parts.append(block)
                    offset += len(block)
            return b"".join(parts) + self._waiting

    def close(self) -> Path | None:
        """Write what waits and close the file. Returns where lines went that the disk refused.

        Lines that the file's own disk still refuses are put into a file in the system's temporary
        folder, which is often another disk; its path is returned so that it can be told.
        """
        if self._is_forked:
            return None
        self.flush(durable=True)
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
            if not self._waiting:
                return None
            try:
                descriptor, name = tempfile.mkstemp(prefix=f"{self.path.stem}-", suffix=".jsonl")
                with os.fdopen(descriptor, "wb") as file:
                    file.write(self._waiting)
            except OSError as error:
                self.error = error
                return None
            self._waiting = b""
            return Path(name)

    @property
    def _is_forked(self) -> bool:
        """A forked DataLoader worker is not a second writer of this file.

        It must not wait for the lock either: a thread that held it at the fork does not exist here.
        """
        return os.getpid() != self._process

    def _write_waiting(self) -> None:
        try:
            descriptor = self._open()
            if not self._waiting:
                return
            size = os.fstat(descriptor).st_size
            written = os.write(descriptor, self._waiting)
            whole = self._waiting.rfind(b"\n", 0, written) + 1
            self._waiting = self._waiting[whole:]
            self.error = None
            if self._waiting:
                # The disk took a part of a line: take that back, so that no line is ever halved.
                os.ftruncate(descriptor, size + whole)
                self.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError as error:
            self.error = error

    def _open(self) -> int:
        if self._descriptor is not None:
            if os.fstat(self._descriptor).st_nlink:
                return self._descriptor
            self._restore(self._descriptor)
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            _end_torn_line(self._descriptor)
        return self._descriptor

    def _restore(self, unlinked: int) -> None:
        """Somebody removed the file or its folder; the open descriptor still has all lines."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            if os.fstat(fresh).st_size == 0:
                offset = 0
                while block := os.pread(unlinked, 1 << 20, offset):
                    offset += len(block)
                    while block:
                        block = block[os.write(fresh, block) :]
        except OSError:
            os.ftruncate(fresh, 0)
            os.close(fresh)
            raise
        self._descriptor = fresh
        os.close(unlinked)


def _end_torn_line(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


class Line(NamedTuple):
    """One line of a JSON Lines file.

    Args:
        number (int): Counted from 1.
        record (dict): What the line holds; empty when ``problem`` is set.
        problem (str, optional): Why the line cannot be used, e.g. ``"torn"``.
    """

    number: int
    record: dict[str, Any]
    problem: str | None = None


def parse_lines(data: bytes | Iterable[bytes]) -> Iterator[Line]:
    """Every non-empty line of a JSON Lines file, the broken ones marked instead of raised.

    Args:
        data (bytes | Iterable[bytes]): The file's content, or its lines (an open binary file).

    Example:
        >>> [(line.number, line.problem) for line in parse_lines(b'{"a":1}\\n{"b"')]
        [(1, None), (2, 'torn: the writer was stopped in the middle of this line')]
    """
    lines = data.split(b"\n") if isinstance(data, bytes) else data
    for number, raw in enumerate(lines, start=1):
        if not raw.strip(b" \t\r\n\0"):
            continue
        try:
            record = _loads(raw)
        except (ValueError, RecursionError):
            torn = raw.lstrip().startswith(b"{")
            reason = (
                "torn: the writer was stopped in the middle of this line" if torn else "not a JSON object"
            )
            yield Line(number, {}, reason)
            continue
        if isinstance(record, dict):
            yield Line(number, record)
        else:
            yield Line(number, {}, "not a JSON object")


def _loads(raw: bytes) -> Any:
    """orjson is several times as fast; json also reads what a file name's undecodable bytes become."""
    try:
        return orjson.loads(raw)
    except ValueError:
        return json.loads(raw)
