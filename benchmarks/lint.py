"""What it costs to lint templates, beside what other linters cost over the same files.

``README.md`` says how to run it and how to read the result.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path

from harness import Command, Section, interleave, ratios, run_command, run_sections

from composer_obs.placeholders.files import find_files
from composer_obs.placeholders.reading import Prefilter
from composer_obs.placeholders.sources.candidates import PYTHON, YAML

# What a linter at least has to do: read the syntax of the files that hold something to look at.
_FLOOR = """
import ast, json, sys, time, warnings, yaml
warnings.simplefilter("ignore")
paths = json.load(open(sys.argv[1]))
texts = [(path, open(path, "rb").read().decode("utf-8", "replace")) for path in paths]
start = time.perf_counter()
for path, text in texts:
    try:
        if path.endswith((".yaml", ".yml")):
            list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
        else:
            ast.parse(text)
    except Exception:
        pass
print(time.perf_counter() - start)
"""
_OURS = [sys.executable, "-m", "composer_obs", "lint"]
_RUFF = ["ruff", "check", "--isolated", "--no-cache", "--exit-zero", "--quiet", "--select", "F5"]
_PYLINT = [
    sys.executable,
    "-m",
    "pylint",
    "--exit-zero",
    "--disable=all",
    "--enable=logging,string",
    "--jobs=0",
]


@dataclass(frozen=True, slots=True)
class Work:
    """What is linted.

    Args:
        folders (Sequence[str]): Trees of files.
        files (Sequence[str]): All files in them.
        candidates (Sequence[str]): Those in which there can be anything to find.
        scratch (Path): A folder for what is made on the way.
        repetitions (int): How often each figure is taken.
    """

    folders: Sequence[str]
    files: Sequence[str]
    candidates: Sequence[str]
    scratch: Path
    repetitions: int


def _ours(*arguments: str) -> Command:
    return run_command([*_OURS, "--output", "/dev/null", *arguments], codes=(0, 1))


def start(work: Work, section: Section) -> None:
    """How long one file takes, the start of the interpreter included."""
    file = work.scratch / "one.py"
    file.write_text(
        'from composer.loggers import FileLogger\n\nFileLogger(filename="{run_nam}/{rank}.txt")\n'
    )
    seconds = interleave(
        {
            "composer-obs lint, one file": lambda: _ours(str(file)).seconds,
            "floor: an interpreter that does nothing": lambda: (
                run_command([sys.executable, "-c", ""]).seconds
            ),
            "ruff check --select F5": lambda: run_command([_ruff(), *_RUFF[1:], str(file)]).seconds,
            "import composer": lambda: (
                run_command([sys.executable, "-W", "ignore", "-c", "import composer"]).seconds
            ),
        },
        work.repetitions,
    )
    ours = seconds["composer-obs lint, one file"]
    for name, values in seconds.items():
        section.add(name, values, "s", **({"at_most": 0.25} if values is ours else {}))
    section.add("import composer / ours", ratios(seconds["import composer"], ours), "x")


def tree(work: Work, section: Section) -> None:
    """How long whole trees take."""
    listed = work.scratch / "candidates.json"
    listed.write_text(json.dumps(list(work.candidates)))
    floor = [sys.executable, "-c", _FLOOR, str(listed)]
    cases = {
        "composer-obs lint": lambda: _ours(*work.folders).seconds,
        "floor: ast.parse and yaml.compose": lambda: float(run_command(floor).output),
        "ruff check --select F5": lambda: run_command([_ruff(), *_RUFF[1:], *work.folders]).seconds,
    }
    seconds = interleave(cases, work.repetitions)
    python = [file for file in work.files if file.endswith(".py")]
    if find_spec("pylint") is not None:
        # Minutes; once is enough for a factor of that size.
        seconds["pylint --enable=logging,string"] = [run_command([*_PYLINT, "--jobs=0", *python]).seconds]
    else:
        section.notes.append("pylint is not installed, so it was left out")
    ours, least = seconds["composer-obs lint"], seconds["floor: ast.parse and yaml.compose"]
    for name, values in seconds.items():
        section.add(name, values, "s")
    section.add("ours / floor", ratios(ours, least), "x", at_most=1.3)
    for name, values in list(seconds.items())[2:]:
        section.add(f"{name.partition(' ')[0]} / ours", ratios(values, ours), "x")
    section.notes.append(
        f"{len(work.files):,} files, {len(work.candidates):,} of them candidates, {len(python):,} Python"
    )


def growth(work: Work, section: Section) -> None:
    """How the time grows with the number of files."""
    sizes = (100, 1_000, 10_000) if section.judged else (20, 200)
    folders = {size: work.scratch / str(size) for size in sizes}
    for size, folder in folders.items():
        folder.mkdir()
        for number, file in enumerate(islice(cycle(work.files), size)):
            # Many in one folder would measure the file system.
            place = folder / str(number // 100)
            place.mkdir(exist_ok=True)
            shutil.copyfile(file, place / f"{number}{Path(file).suffix}")
    cases = {str(size): lambda folder=folder: _ours(str(folder)).seconds for size, folder in folders.items()}
    seconds = interleave(cases, max(3, work.repetitions // 3))
    for size, values in seconds.items():
        section.add(f"{int(size):,} files", [value / int(size) * 1000 for value in values], "ms a file")
    first, last = str(sizes[-2]), str(sizes[-1])
    steps = math.log(sizes[-1] / sizes[-2])
    exponents = [math.log(ratio) / steps for ratio in ratios(seconds[last], seconds[first])]
    section.add(f"exponent from {sizes[-2]:,} to {sizes[-1]:,} files", exponents, "", at_most=1.1)


def _ruff() -> str:
    beside = Path(sys.executable).with_name("ruff")
    return str(beside) if beside.exists() else "ruff"


SECTIONS = {
    "start": ("how long one file takes, start included", start),
    "tree": ("how long whole trees take", tree),
    "growth": ("how the time grows with the number of files", growth),
}


def main() -> int:
    """Run sections, print their tables, keep them as JSON; 1 if a promise is not met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="trees of source to lint")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--quick", action="store_true", help="see that it runs; its figures mean nothing")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the result as JSON")
    arguments = parser.parse_args()
    files = list(find_files(arguments.folders))
    python, yaml = Prefilter(PYTHON), Prefilter(YAML)
    candidates = [
        file
        for file in files
        if (yaml if file.endswith((".yaml", ".yml")) else python).might_hold_templates(
            Path(file).read_bytes()
        )
    ]
    chosen = {name: SECTIONS[name] for name in arguments.sections}
    with tempfile.TemporaryDirectory() as scratch:
        repetitions = 2 if arguments.quick else 15
        work = Work(arguments.folders, files, candidates, Path(scratch), repetitions)
        return run_sections(chosen, work, quick=arguments.quick, output=arguments.output)


if __name__ == "__main__":
    sys.exit(main())
