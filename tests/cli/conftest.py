"""Runs as a killed or finished Trainer leaves them: ledgers on disk, objects on a real S3 server."""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from composer_obs.cli import cli
from composer_obs.demo import S3Server
from composer_obs.run_folder import JsonLinesWriter
from composer_obs.uploads.checksums import Digest
from composer_obs.uploads.ledger import Attempt, Content, Destination, Outcome, Run, to_record

#: The command, as a process of its own.
COMMAND = [sys.executable, "-m", "composer_obs"]


def invoke(*arguments: object) -> Result:
    """The command line in this process; a fault of ours is shown with its traceback."""
    return CliRunner().invoke(
        cli, [str(argument) for argument in arguments], env={"COMPOSER_OBS_TRACEBACK": "1"}
    )


def invoke_json(*arguments: object) -> Any:
    return json.loads(invoke(*arguments, "--format", "json").stdout)


@dataclass
class WrittenRun:
    """One rank of a run, written by hand."""

    folder: Path
    data: Path
    bucket: str
    client: Any
    endpoint: str
    name: str = "gpt"
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        self.session = f"{self.name}-{self.rank}"
        self.count = 0
        self.writer = JsonLinesWriter(self.folder / f"ledger-rank{self.rank}.jsonl")
        self.writer.append(to_record("run", Run(self.session, self.name, self.rank, self.world_size)))
        options = {"bucket": self.bucket, "endpoint_url": self.endpoint}
        destination = Destination(f"{self.session}:0", "s3", f"s3://{self.bucket}", options)
        self.writer.append(to_record("destination", destination))

    def upload(
        self,
        key: str,
        data: bytes | None,
        *,
        stored: bytes | str | None = "as sent",
        outcome: str | None = "uploaded",
        local: bool = True,
        **more: Any,
    ) -> Path:
        """An upload with everything that belongs to it; ``stored`` is what the bucket holds of it."""
        self.count += 1
        source = self.data / f"{self.session}-{self.count}"
        mtime = 0
        if data is not None and local:
            source.write_bytes(data)
            mtime = source.stat().st_mtime_ns
        attempt = Attempt(
            f"{self.session}/{self.count}", self.rank, f"{self.session}:0", key, key,
            f"s3://{self.bucket}/{key}", str(source), None if data is None else len(data), mtime,
            overwrite=True, **more,
        )  # fmt: skip
        self.writer.append(to_record("attempt", attempt))
        if data is not None:
            sums = {"md5": hashlib.md5(data).digest(), "crc32": zlib.crc32(data).to_bytes(4, "big")}
            digests = {kind: Digest(kind, value, len(data)) for kind, value in sums.items()}
            self.writer.append(to_record("checksum", Content(len(data), digests), attempt=attempt.id))
        if outcome is not None:
            self.writer.append(to_record("outcome", Outcome(outcome), attempt=attempt.id))  # type: ignore[arg-type]
        if stored == "as sent":
            stored = data
        if isinstance(stored, bytes):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=stored)
        return source

    def end(self) -> None:
        self.writer.append({"kind": "end", "session": self.session})
        self.writer.close()


@pytest.fixture
def written_run(
    tmp_path: Path, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., WrittenRun]:
    """Makes runs in the working directory, each in ``{name}/composer_obs``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COMPOSER_OBS_TRACEBACK", raising=False)
    data = tmp_path / "data"
    data.mkdir()

    def make(**arguments: Any) -> WrittenRun:
        folder = Path(arguments.get("name", "gpt")) / "composer_obs"
        return WrittenRun(folder, data, bucket, s3_server.client(), s3_server.endpoint_url, **arguments)

    return make
