"""How long it takes to verify many small objects, and how much memory, beside ``rclone check``."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import Command, Section, in_own_process, interleave, memory_of_this_process, ratios, run_command
from uploads_hash import sum_file
from workload import Workload

from composer_obs.uploads.stores.s3 import S3Store

__all__ = ["measure", "measure_memory"]

_OURS, _HEADS = "composer-obs audit", "HEADs, boto3, 16 threads"
_RCLONE, _RCLONE_FAST = "rclone check", "rclone check --fast-list"

# The plainest loop that asks about each object. It compares nothing: a floor for whatever does.
_HEAD_LOOP = """
import sys, boto3
from concurrent.futures import ThreadPoolExecutor
from botocore.config import Config
bucket, keys = sys.argv[1], open(sys.argv[2]).read().split()
client = boto3.client("s3", config=Config(max_pool_connections=16))
with ThreadPoolExecutor(16) as threads:
    list(threads.map(lambda key: client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED"), keys))
"""


def measure(work: Workload, section: Section) -> None:
    """Whole commands, from their start to their end, in turns."""
    commands: dict[str, Callable[[], Command]] = {
        _OURS: lambda: _audit(work),
        _HEADS: lambda: run_command(
            [sys.executable, "-c", _HEAD_LOOP, work.bucket, str(_keys(work))], work.environment
        ),
    }
    if shutil.which("rclone"):
        commands |= {
            _RCLONE: lambda: _rclone(work),
            _RCLONE_FAST: lambda: _rclone(work, "--fast-list"),
        }
        version = subprocess.run(["rclone", "version"], capture_output=True, text=True, check=True).stdout
        section.notes.append(f"{version.splitlines()[0]}; it reads the local files, the audit the ledger")
    else:
        section.notes.append("rclone is not installed: not compared with it")
    ended: dict[str, list[Command]] = {name: [] for name in commands}

    def once(name: str) -> float:
        ended[name].append(commands[name]())
        return ended[name][-1].seconds

    for name in commands:
        commands[name]()  # The first of each finds the server's and the system's caches cold.
    values: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(work.repetitions(9)):
        # The HEADs take many times as long as all the others, and vary little.
        names = [name for name in commands if name != _HEADS or turn < 3]
        for name, series in interleave({name: functools.partial(once, name) for name in names}, 1).items():
            values[name] += series
    for name, series in values.items():
        section.add(name, series, "s")
        section.add(f"{name}: processor time", [command.cpu_seconds for command in ended[name]], "s")
    if _RCLONE in values:
        best = min((_RCLONE, _RCLONE_FAST), key=lambda name: sorted(values[name])[len(values[name]) // 2])
        section.add(f"{best} / ours", ratios(values[best], values[_OURS]), "x", at_least=1.0)
    section.add("HEADs / ours", ratios(values[_HEADS], values[_OURS]), "x", at_least=5.0)


def measure_memory(work: Workload, section: Section) -> None:
    """The most memory that summing takes, whatever the size, and that an audit takes."""
    sizes = {"nothing": 0, "1 MB": 10**6, "100 MB": 10**8}
    if not work.quick:
        sizes["4 GB"] = 4 * 10**9
    turns, peaks = work.repetitions(3), {}
    for name, size in sizes.items():
        path = work.folder / f"sparse-{size}"
        path.touch()
        os.truncate(path, size)  # Reads like any other file, and takes no room on the disk.
        peaks[name] = [in_own_process(_peak_of_summing, str(path), size) / 1e6 for _ in range(turns)]
        section.add(f"summing {name}", peaks[name], "MB")
    largest = list(sizes)[-1]
    section.add(f"{largest} / 1 MB", ratios(peaks[largest], peaks["1 MB"]), "x", at_most=1.05)
    imports = [sys.executable, "-c", "import composer_obs.cli.audit, botocore.session"]
    section.add("imports of an audit", [run_command(imports).peak_bytes / 1e6 for _ in range(turns)], "MB")
    for name, command in ((_OURS, _audit), (_RCLONE, _rclone)):
        if name == _OURS or shutil.which("rclone"):
            peak = [command(work).peak_bytes / 1e6 for _ in range(turns)]
            section.add(f"{name} of {work.objects:,} objects", peak, "MB")


def _peak_of_summing(path: str, size: int) -> float:
    if size:
        sum_file(Path(path), S3Store("bucket").plan(size))
    return memory_of_this_process("VmHWM")


def _keys(work: Workload) -> Path:
    path = work.folder / "keys"
    if not path.exists():
        keys = (str(file.relative_to(work.source)) for file in work.source.rglob("*.bin"))
        path.write_text("\n".join(keys))
    return path


def _audit(work: Workload) -> Command:
    command = [sys.executable, "-m", "composer_obs", "audit", str(work.run_folder)]
    ended = run_command(command, work.environment)
    return _checked(ended, f"{work.objects:,} uploads: {work.objects:,} proven")


def _rclone(work: Workload, *options: str) -> Command:
    settings = work.folder / "rclone.conf"
    server = work.server
    settings.write_text(
        "[s3]\ntype = s3\nprovider = SeaweedFS\nforce_path_style = true\nregion = us-east-1\n"
        f"endpoint = {server.endpoint_url}\naccess_key_id = {server.access_key}\n"
        f"secret_access_key = {server.secret_key}\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = ["rclone", "--config", str(settings), "check", "--checkers", "16", *options]
    ended = run_command([*command, str(work.source), f"s3:{work.bucket}"], environment)
    return _checked(ended, f"{work.objects} matching files")


def _checked(command: Command, expected: str) -> Command:
    if expected not in command.output:
        raise RuntimeError(f"{expected!r} was expected, not:\n{command.output[-2000:]}")
    return command
