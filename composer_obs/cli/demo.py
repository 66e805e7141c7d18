"""``composer-obs demo``: the main job, start to end, on a server of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from composer_obs.demo.damage import Damage, plant_damage
from composer_obs.demo.server import S3Server
from composer_obs.errors import ComposerObsError

__all__ = ["DemoError", "command", "unexpected"]

_BUCKET = "demo"
_DAMAGED = ("demo/checkpoints/ep1-ba8-rank0.pt", "demo/checkpoints/ep3-ba24-rank0.pt", "demo/logs-rank0.txt")

_NEXT = """\
What to do next
  from composer_obs import UploadAuditor        # Composer: put it among the loggers
  Trainer(..., loggers=[..., UploadAuditor()])

  loggers: {upload_auditor: {}}                 # LLM Foundry: in the YAML

  composer -n 8 -m composer_obs run --with upload_auditor train.py   # or leave the script as it is
  composer-obs audit RUN_NAME                   # later, from any machine"""


class DemoError(ComposerObsError):
    """The demonstration could not be shown."""


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave the server and the files until Ctrl-C, to look around.")
def command(*, keep: bool) -> int:
    """Train on CPU with a real S3 server, audit, damage the bucket, and audit again.

    Everything is on this machine and is removed afterwards. Ends with 0 if the second audit names
    exactly the damage, else with 1.
    """
    with tempfile.TemporaryDirectory(prefix="composer-obs-demo-") as name:
        folder = Path(name)
        _say(1, "start a real S3 server on loopback")
        with S3Server() as server:
            server.create_bucket(_BUCKET)
            environment = {**os.environ, **server.environment()}
            _say(2, "train three epochs on CPU; checkpoints, log, TensorBoard, traces go to s3://demo")
            _train(folder, environment)
            _say(3, "audit: did everything arrive, whole?")
            _audit(folder, environment, expect=0)
            _say(4, "damage the bucket behind everybody's back")
            damage = plant_damage(server.client(), _BUCKET, _DAMAGED)
            for item in damage:
                print(f"  s3://{_BUCKET}/{item.key} {item.what}")
            _say(5, "audit again, without downloading a byte")
            _audit(folder, environment, expect=1)
            problems = unexpected(_verdicts(folder, environment), damage)
            for problem in problems:
                print(problem, file=sys.stderr)
            if not problems:
                print(f"\nThe audit named exactly the {len(damage)} damaged objects.\n\n{_NEXT}")
            if keep:
                _wait(folder, server)
    return 1 if problems else 0


def unexpected(verdicts: dict[str, str], damage: Sequence[Damage]) -> list[str]:
    """Where the audit does not say what was done to the bucket, and nothing else.

    Args:
        verdicts (dict[str, str]): What the audit said of each URI.
        damage (Sequence[Damage]): What was done.
    """
    truth = {f"s3://{_BUCKET}/{item.key}": item.verdict for item in damage}
    missed = [
        f"{uri} is {v}, which the audit does not tell" for uri, v in truth.items() if uri not in verdicts
    ]
    wrong = [
        f"{uri} is {truth.get(uri, 'proven')}, but the audit says {verdict}"
        for uri, verdict in verdicts.items()
        if verdict != truth.get(uri, "proven")
    ]
    return missed + wrong


def _say(number: int, what: str) -> None:
    print(f"\n[{number}/5] {what}", flush=True)


def _train(folder: Path, environment: dict[str, str]) -> None:
    started = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "composer_obs.demo.training", _BUCKET],
        cwd=folder,
        env={**environment, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise DemoError(
            "the training run failed; its last lines:\n" + "\n".join(ended.stdout.splitlines()[-15:])
        )
    # What the auditor itself prints at the end of a run; the rest is Composer's.
    lines = ended.stdout.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("composer_obs: ")), None)
    if first is None:
        raise DemoError("the run ended without a word of the auditor:\n" + "\n".join(lines[-15:]))
    print(f"  {lines[first]}  ({time.monotonic() - started:.0f} s, imports included)")


def _audit(folder: Path, environment: dict[str, str], *, expect: int) -> None:
    print("  $ composer-obs audit demo", flush=True)
    ended = subprocess.run(
        [sys.executable, "-m", "composer_obs", "audit", "demo"], cwd=folder, env=environment, check=False
    )
    if ended.returncode != expect:
        raise DemoError(f"the audit ended with code {ended.returncode}, and {expect} was to be expected")


def _verdicts(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    import json

    ended = subprocess.run(
        [sys.executable, "-m", "composer_obs", "audit", "demo", "--format", "json"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return {artifact["uri"]: artifact["verdict"] for artifact in json.loads(ended.stdout)["artifacts"]}


def _wait(folder: Path, server: S3Server) -> None:
    print(f"\nThe run is in {folder}; the server at {server.endpoint_url}, with these in the environment:")
    for name, value in server.environment().items():
        print(f"  export {name}={value}")
    print("Ctrl-C ends it.", flush=True)
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        print()
