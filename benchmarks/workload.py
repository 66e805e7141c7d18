"""What the benchmarks of uploads work on: files, a real S3 server, a bucket and the ledger of its uploads."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from composer_obs.demo import S3Server
from composer_obs.uploads.content import HeldFile
from composer_obs.uploads.ledger import Attempt, Destination, Outcome, Run
from composer_obs.uploads.recorder import Recorder
from composer_obs.uploads.stores.s3 import S3Store

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MIB", "Workload"]

MIB = 1 << 20
_RANKS = 16


class Workload:
    """Made when it is asked for, removed at the end.

    Args:
        quick (bool): Small: enough to see that everything runs.

    Attributes:
        folder (Path): For whatever a benchmark writes.
        bucket (str): The bucket of many small objects.
        objects (int): How many these are.
    """

    bucket = "many-objects"

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.objects = 500 if quick else 10_000
        self._exit = contextlib.ExitStack()
        self.folder = Path(
            self._exit.enter_context(tempfile.TemporaryDirectory(prefix="composer-obs-bench-"))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def repetitions(self, number: int) -> int:
        """So many, or two for a quick look."""
        return 2 if self.quick else number

    def file(self, size: int) -> Path:
        """A file of so many random bytes, in the page cache."""
        path = self.folder / f"{size}.bin"
        if not path.exists():
            block = os.urandom(min(size, 64 * MIB))
            with path.open("wb") as file:
                for at in range(0, size, len(block)):
                    file.write(block[: size - at])
        return path

    @functools.cached_property
    def server(self) -> S3Server:
        return self._exit.enter_context(S3Server())

    @functools.cached_property
    def environment(self) -> dict[str, str]:
        """Ours with the server's settings in place of the developer's own for AWS."""
        dropped = ("AWS_", "PYTHONDONTWRITEBYTECODE")
        own = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        files = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
        # What pip installs is compiled; a checkout may not be.
        compiled = {"PYTHONPYCACHEPREFIX": str(self.folder / "bytecode")}
        return {**own, **self.server.environment(), **files, **compiled}

    @functools.cached_property
    def source(self) -> Path:
        """Many files of 2,000 random bytes, a folder for each rank; all of them are also in the bucket."""
        folder = self.folder / "source"
        self.server.create_bucket(self.bucket)
        client = self.server.client()

        def upload(number: int) -> None:
            key = f"run/rank{number % _RANKS}/{number // _RANKS:05}.bin"
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom(2000))
            client.put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes())

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(upload, range(self.objects)))
        return folder

    @functools.cached_property
    def run_folder(self) -> Path:
        """What an auditor would have recorded of these uploads, by its own recorder."""
        folder = self.folder / "run"
        options = S3Store.options_from_uploader({"bucket": self.bucket}, self.environment)
        plan = S3Store.from_options(options).plan
        recorder = Recorder(folder / "ledger-rank0.jsonl", Run("0123456789ab", "run", 0, 1))
        to = recorder.add_destination(Destination("", "s3", f"s3://{self.bucket}", options))
        for path in sorted(self.source.rglob("*.bin")):
            key = str(path.relative_to(self.source))
            file = HeldFile.open(str(path))
            attempt = Attempt(
                id=recorder.new_id(),
                rank=0,
                destination=to.id,
                artifact=key,
                key=key,
                uri=f"{to.uri}/{key}",
                source=file.path,
                size=file.size,
                mtime_ns=file.mtime_ns,
                inode=file.inode,
            )
            recorder.announce(attempt)
            recorder.read_later(attempt, file, plan(file.size))
            recorder.add_outcome(attempt.id, Outcome("uploaded"))
        recorder.wait_until_read(time.monotonic() + 300)
        recorder.end()
        recorder.close()
        return folder
