"""What holds for every command: help, exit codes, faults, pipes, and how it is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import composer_obs
from composer_obs import cli as cli_module
from composer_obs.errors import ComposerObsError, InvalidInputError
from tests.cli.conftest import COMMAND, invoke


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> object:
    """Puts a command of the test's own in the place of `rule`."""

    def install(raises: BaseException) -> None:
        def fail() -> None:
            raise raises

        monkeypatch.setattr("composer_obs.cli.rule.command", click.Command("rule", callback=fail))

    return install


def invoke_without_traceback(*arguments: str) -> object:
    from click.testing import CliRunner

    return CliRunner().invoke(cli_module.cli, arguments, env={"COMPOSER_OBS_TRACEBACK": None})


def test_help_lists_every_command_with_a_line_about_it() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    for command in ("audit", "run", "rule", "plugins"):
        (line,) = [line for line in result.stdout.split("\n") if line.startswith(f"  {command} ")]
        assert len(line.split()) > 3
        assert invoke(command, "--help").exit_code == 0
        assert invoke(command, "-h").exit_code == 0


def test_a_command_that_is_not_part_of_this_installation_is_not_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli_module, "_COMMANDS", ("audit", "not_written_yet"))
    assert "not_written_yet" not in invoke("--help").stdout
    assert invoke("not_written_yet").exit_code == 2


def test_the_version_is_the_packages() -> None:
    assert invoke("--version").stdout == f"composer-obs, version {composer_obs.__version__}\n"


@pytest.mark.parametrize(
    "arguments", [["bogus"], ["rule", "--bogus"], ["rule", "UP001", "UP002"], ["--bogus"]]
)
def test_wrong_usage_ends_with_2_and_says_how_to_get_help(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--help" in result.stderr or "-h" in result.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [(InvalidInputError("there is no x; use y"), 2), (ComposerObsError("there is no x; use y"), 3)],
)
def test_an_error_of_ours_is_its_message_alone(command_that: object, error: Exception, code: int) -> None:
    command_that(error)  # type: ignore[operator]
    result = invoke("rule")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "there is no x; use y\n")


def test_a_fault_is_one_line_and_ends_with_3(command_that: object) -> None:
    command_that(KeyError("first line\nsecond line"))  # type: ignore[operator]
    result = invoke_without_traceback("rule")
    assert (result.exit_code, result.stdout) == (3, "")  # type: ignore[attr-defined]
    assert result.stderr == (  # type: ignore[attr-defined]
        "composer-obs failed: KeyError: 'first line\\nsecond line' (COMPOSER_OBS_TRACEBACK=1 shows where)\n"
    )


@pytest.mark.parametrize("how", [["--traceback"], []])
def test_the_traceback_of_a_fault_is_shown_to_who_asks(command_that: object, how: list[str]) -> None:
    command_that(KeyError("x"))  # type: ignore[operator]
    result = invoke_without_traceback(*how, "rule") if how else invoke("rule")
    assert result.exit_code == 3  # type: ignore[attr-defined]
    assert "Traceback (most recent call last)" in result.stderr  # type: ignore[attr-defined]
    assert ", in fail" in result.stderr  # type: ignore[attr-defined]


def test_no_secret_is_in_an_error_or_a_traceback(
    command_that: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-value")
    for error in (ComposerObsError("very-secret-value"), KeyError("very-secret-value")):
        command_that(error)  # type: ignore[operator]
        for result in (invoke("rule"), invoke_without_traceback("rule")):
            assert "very-secret-value" not in result.stderr  # type: ignore[attr-defined]
            assert "***" in result.stderr  # type: ignore[attr-defined]


def test_ctrl_c_ends_quietly_with_130(command_that: object) -> None:
    command_that(KeyboardInterrupt())  # type: ignore[operator]
    result = invoke("rule")
    assert (result.exit_code, result.output) == (130, "")


def test_a_reader_that_goes_away_is_no_fault() -> None:
    command = f"( sleep 0.5; {sys.executable} -m composer_obs rule ) | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    # As for any program that SIGPIPE ends.
    assert (ended.stdout, ended.stderr) == ("141\n", "")


def test_the_console_script_and_the_module_are_the_same_command() -> None:
    script = Path(sys.executable).with_name("composer-obs")
    outputs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for command in ([str(script), "--help"], [*COMMAND, "--help"])
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("Usage: composer-obs ")


def test_it_works_from_any_folder_even_one_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); os.execv({COMMAND[0]!r}, {[*COMMAND, 'rule', 'UP001']!r})"
    environment = {**os.environ, "PYTHONPATH": str(Path(composer_obs.__file__).parent.parent)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
