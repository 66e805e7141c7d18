"""What an upload costs the thread that trains: ``Logger.upload_file`` with and without an auditor."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Section, interleave, ratios, timed
from workload import Workload

__all__ = ["measure"]

_SECONDS = 120.0


def measure(work: Workload, section: Section) -> None:
    """A destination that does nothing shows what is added; Composer's own, what that is relative to."""
    sizes = {"1 kB": 1000, "10 MB": 10**7}
    if not work.quick:
        sizes["1 GB"] = 10**9
    _added(work, section, sizes)
    _relative(work, section, sizes)
    section.notes.append("each call waits until the background thread has summed the file of the one before")


def _added(work: Workload, section: Section, sizes: dict[str, int]) -> None:
    from composer.loggers import LoggerDestination

    class Nowhere(LoggerDestination):
        """Takes files and returns at once: what is left of a call is Composer's logger and the auditor."""

        def can_upload_files(self) -> bool:
            return True

        def upload_file(self, state: Any, remote_file_name: str, file_path: Path, *, overwrite: bool) -> None:
            pass

    with _pair(work, lambda _: Nowhere()) as pair:
        for name, size in sizes.items():
            calls = pair.calls(work.file(size))
            values = interleave(calls, work.repetitions(200 if size < 10**9 else 25))
            added = [(a - b) * 1e6 for a, b in zip(values["with"], values["without"], strict=True)]
            section.add(f"{name}: added by the auditor", added, "µs")
        name, size = list(sizes.items())[-1]
        large, small, before = work.file(size), work.file(1000), _bytes_written()
        while_summing = []
        for _ in range(work.repetitions(10)):
            pair.upload("with", large)
            while_summing.append(pair.upload("with", small) * 1e6)
            pair.settle()
        section.add(f"1 kB: the whole call, while {name} are summed", while_summing, "µs")
        written = (_bytes_written() - before) / len(while_summing) / size
        section.add(f"{name}: bytes written for each, of its size", [written], "x", at_most=0.001)


def _relative(work: Workload, section: Section, sizes: dict[str, int]) -> None:
    from composer.loggers import RemoteUploaderDownloader

    work.server.create_bucket("checkpoints")
    os.environ.update(work.environment)  # Where Composer and its upload workers look for the server.

    def uploader(staging: Path) -> RemoteUploaderDownloader:
        return RemoteUploaderDownloader("s3://checkpoints", upload_staging_folder=str(staging))

    with _pair(work, uploader) as pair:
        for name in ("without", "with"):
            pair.upload(name, work.file(1000))  # The workers take seconds to start.
            pair.settle()
        for name, size in sizes.items():
            pair.written.clear(), pair.copies.clear()
            values = interleave(pair.calls(work.file(size)), work.repetitions(15 if size < 10**9 else 4))
            section.add(f"{name}: RemoteUploaderDownloader", [s * 1e3 for s in values["without"]], "ms")
            section.add(f"{name}: … with the auditor", [s * 1e3 for s in values["with"]], "ms")
            section.add(f"{name}: … with / without", ratios(values["with"], values["without"]), "x")
        by_name = [[w / size for n, w in pair.written if n == which] for which in ("with", "without")]
        more = [a - b for a, b in zip(*by_name, strict=True)]
        section.add(f"{name}: more bytes written with it, of its size", more, "x", at_most=0.001)
        copies = [c / size for n, c in pair.copies if n == "with"]
        section.add(f"{name}: copies on disk after the call (one is Composer's)", copies, "x", at_most=1.001)


@dataclass
class _Pair:
    """Two Trainers that upload alike, one of them with an auditor.

    Attributes:
        written (list): Bytes that this process wrote in each call, and until its file was summed.
        copies (list): Bytes on disk after each call, of what the uploader staged and the auditor wrote.
    """

    trainers: dict[str, Any]
    staging: dict[str, Path]
    records: Path
    recorder: Any
    written: list[tuple[str, int]] = field(default_factory=list)
    copies: list[tuple[str, int]] = field(default_factory=list)

    def upload(self, name: str, path: Path) -> float:
        """Seconds of one call."""
        trainer = self.trainers[name]
        key = f"{name}/{path.name}"
        return timed(lambda: trainer.logger.upload_file(key, path, overwrite=True))

    def calls(self, path: Path) -> dict[str, Callable[[], float]]:
        """The two that are compared."""

        def call(name: str) -> float:
            before = _bytes_written()
            seconds = self.upload(name, path)
            self.copies.append((name, _disk_use(self.staging[name]) + _disk_use(self.records)))
            self.settle()
            self.written.append((name, _bytes_written() - before))
            return seconds

        return {name: lambda name=name: call(name) for name in self.trainers}  # type: ignore[misc]

    def settle(self) -> None:
        """Until the file is summed and sent."""
        deadline = time.monotonic() + _SECONDS
        self.recorder.wait_until_read(deadline)
        while any(any(folder.glob("*")) for folder in self.staging.values()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"an upload did not end within {_SECONDS:g} s")
            time.sleep(0.05)


@contextlib.contextmanager
def _pair(work: Workload, destination: Callable[[Path], Any]) -> Iterator[_Pair]:
    import torch
    from composer import Trainer
    from composer.models import ComposerClassifier

    from composer_obs import UploadAuditor

    staging = {name: work.folder / f"staging-{name}" for name in ("without", "with")}
    records = work.folder / "records"
    auditor = UploadAuditor(folder=str(records), interval=3600)
    model = ComposerClassifier(torch.nn.Linear(2, 2), num_classes=2)
    trainers = {
        name: Trainer(
            model=model,
            optimizers=torch.optim.SGD(model.parameters(), lr=0.1),
            loggers=[destination(folder), *([auditor] if name == "with" else [])],
            device="cpu",
            progress_bar=False,
            run_name=f"run-{name}",
        )
        for name, folder in staging.items()
    }
    session = auditor._session  # noqa: SLF001 - nobody but a benchmark waits for one file's checksums
    assert session is not None
    try:
        yield _Pair(trainers, staging, records, session.recorder)
    finally:
        for trainer in trainers.values():
            trainer.close()


def _bytes_written() -> int:
    """What this process has given to the kernel to write, by whatever call."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("wchar")).split()[1])


def _disk_use(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
