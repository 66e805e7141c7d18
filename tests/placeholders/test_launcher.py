"""Commands of the launcher are found in strings, with the place of each option."""

from __future__ import annotations

import random
import string

import pytest

from composer_obs.placeholders.calls import Text
from composer_obs.placeholders.sources.launcher import launcher_calls
from composer_obs.placeholders.sources.yaml_source import read_yaml
from tests.placeholders.yaml_reading import plain


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("composer -n 8 --stdout out{rank}.txt train.py", {"stdout": "out{rank}.txt"}),
        ("composer --stdout='a b' --stderr=\"c d\" x.py", {"stdout": "a b", "stderr": "c d"}),
        ("cd x && srun composer \\\n  --stdout a \\\n  --stderr b train.py", {"stdout": "a", "stderr": "b"}),
        ("/opt/bin/composer --world_size 16 --stderr a/{run_name} t.py", {"stderr": "a/{run_name}"}),
        ("python -m composer.cli.launcher -v --stdout a t.py", {"stdout": "a"}),
        ("composer --stdout ${LOGS}/$(date)-$X.log t.py", {"stdout": "${LOGS}/$(date)-$X.log"}),
        ("composer --stdout '${LOGS}' t.py", {"stdout": "${LOGS}"}),
        ("composer --stdout a'b'\"c\"\\ d t.py", {"stdout": "abc d"}),
        ("composer -n 8 train.py --stdout x", None),
        ("composer -n 8\n--stdout x", None),
        ("# composer --stdout x\ntrue", None),
        ("echo --stdout x; composer t.py", None),
        ("my-composer --stdout x", None),
        ("composer --stdout", None),
    ],
)
def test_the_launchers_options_are_found_as_a_shell_splits_them(command, expected):
    calls = launcher_calls(Text(command, (0, len(command)), tuple((i, i + 1) for i in range(len(command)))))
    assert [plain(call) for call in calls] == ([] if expected is None else [expected])


def test_launcher_commands_are_found_in_block_scalars_with_their_places():
    source = """
command: |
  pip install x
  composer -n 8 --stdout logs/{rank}/{run_name} \\
    --stderr="err-$USER{rank}" train.py
parameters:
  save_folder: a
  script: composer --stdout b t.py
"""
    command, trainer, nested = read_yaml(source)
    assert [call.name for call in (command, trainer, nested)] == ["launcher", "Trainer", "launcher"]
    stdout, stderr = command.arguments["stdout"], command.arguments["stderr"]
    assert source[slice(*stdout.span)] == "logs/{rank}/{run_name}"
    assert [source[slice(*span)] for span in stdout.spans] == list("logs/{rank}/{run_name}")
    assert stderr.holes == {4: "$USER"}
    assert source[slice(*stderr.span_of(5, 11))] == "{rank}"
    assert source[slice(*command.keys["stderr"])] == "--stderr"


def test_large_and_random_text_is_searched_in_reasonable_time():
    generator = random.Random(0)
    text = "composer --stdout " + "".join(generator.choices(string.printable + "'\"\\$`", k=50_000))
    launcher_calls(Text(text))
