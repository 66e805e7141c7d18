"""Real Trainers on CPU, real ranks, real uploads to the real S3 server of the session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from composer_obs.run_folder import parse_lines
from composer_obs.uploads.audit import Audit, AuditOptions, audit
from composer_obs.uploads.ledger import Ledger, replay
from composer_obs.uploads.stores import open_store


@dataclass
class Recorded:
    """What a run left in its run folder."""

    folder: Path

    @property
    def ledger(self) -> Ledger:
        return replay({p.name: p.read_bytes() for p in sorted(self.folder.glob("ledger-rank*.jsonl"))})

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """Lines of one kind, of all ranks."""
        return [
            line.record
            for path in sorted(self.folder.glob("ledger-rank*.jsonl"))
            for line in parse_lines(path.read_bytes())
            if line.record.get("kind") == kind
        ]

    def live_verdicts(self) -> dict[str, str]:
        """The last verdict that the run itself reached, by key (and rank, where two ranks share it)."""
        attempts = {line["id"]: line for line in self.lines("attempt")}
        shared = [line["key"] for line in attempts.values()]
        ranks = {key: {a["rank"] for a in attempts.values() if a["key"] == key} for key in shared}
        verdicts: dict[str, str] = {}
        for line in self.lines("verdict"):
            attempt = attempts[line["attempt"]]
            key = attempt["key"]
            verdicts[key if len(ranks[key]) == 1 else f"{key}@{attempt['rank']}"] = line["verdict"]
        return verdicts

    def findings(self) -> list[dict[str, Any]]:
        return [
            line.record
            for path in sorted(self.folder.glob("findings-rank*.jsonl"))
            for line in parse_lines(path.read_bytes())
        ]

    def audit(self, **options: Any) -> Audit:
        """The audit that ``composer-obs audit`` would make now."""
        return audit(self.ledger, open_store, AuditOptions(**options))


def verdicts_of(result: Audit) -> dict[str, str]:
    """Verdict by key; of the last upload where several stand."""
    return {artifact.attempt.key: artifact.verdict.value for artifact in result.artifacts}


def codes_of(result: Audit) -> set[str]:
    return {finding.rule.code for finding in result.findings}


# ---- in this process ------------------------------------------------------------------------------


@dataclass
class Trained:
    losses: list[float]
    recorded: Recorded
    error: BaseException | None = None


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Trained]]:
    """Trains a small model in this process, with an `UploadAuditor`, and closes the Trainer."""
    monkeypatch.chdir(tmp_path)

    def run(
        loggers: list[Any],
        *,
        auditor: Any = "default",
        run_name: str = "run",
        callbacks: list[Any] | None = None,
        **trainer_arguments: Any,
    ) -> Trained:
        import torch
        from composer import Callback, Trainer
        from composer.models import ComposerClassifier
        from torch.utils.data import DataLoader, TensorDataset

        from composer_obs import UploadAuditor

        class Losses(Callback):
            def __init__(self) -> None:
                self.values: list[float] = []

            def batch_end(self, state: Any, logger: Any) -> None:
                self.values.append(float(state.loss))

        torch.manual_seed(1)
        data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
        losses = Losses()
        watched = UploadAuditor(timeout=60) if auditor == "default" else auditor
        trainer = Trainer(
            model=ComposerClassifier(torch.nn.Linear(4, 2), num_classes=2),
            train_dataloader=DataLoader(data, batch_size=8),
            loggers=[*([watched] if watched is not None else []), *loggers],
            callbacks=[*(callbacks or []), losses],
            **{"max_duration": "2ep", "seed": 7, "device": "cpu", "progress_bar": False, **trainer_arguments},
            run_name=run_name,
        )
        error: BaseException | None = None
        try:
            trainer.fit()
        except Exception as raised:
            error = raised
        finally:
            trainer.close()
        return Trained(losses.values, Recorded(tmp_path / run_name / "composer_obs"), error)

    yield run


# ---- in processes of their own ----------------------------------------------------------------------

#: What every script below begins with.
PREAMBLE = """
import os, sys, pathlib, time, logging, warnings
warnings.filterwarnings("ignore")
import torch
from torch.utils.data import DataLoader, TensorDataset
from composer import Callback, Trainer
from composer.callbacks import CheckpointSaver
from composer.loggers import FileLogger, RemoteUploaderDownloader
from composer.models import ComposerClassifier
from composer.utils import dist

def make_trainer(**arguments):
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
    arguments = {"max_duration": "2ep", "seed": 7, "device": "cpu", "progress_bar": False, "run_name": "run", **arguments}
    return Trainer(
        model=ComposerClassifier(torch.nn.Linear(4, 2), num_classes=2),
        train_dataloader=DataLoader(data, batch_size=4, sampler=dist.get_sampler(data)),
        **arguments,
    )
"""


@dataclass
class Finished:
    code: int
    output: str
    recorded: Recorded
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)


def write_script(folder: Path, body: str) -> Path:
    """A training script; its body is guarded, because upload workers import it again."""
    path = folder / "train.py"
    path.write_text(
        PREAMBLE + '\nif __name__ == "__main__":\n' + textwrap.indent(textwrap.dedent(body), "    ")
    )
    return path


@pytest.fixture
def run_script(tmp_path: Path) -> Callable[..., Finished]:
    """Runs a training script to its end in a process of its own, or on several ranks."""

    def run(
        body: str,
        *,
        ranks: int = 1,
        environment: dict[str, str] | None = None,
        command: list[str] | None = None,
        timeout: float = 180,
    ) -> Finished:
        script = write_script(tmp_path, body)
        base = command or [str(script)]
        if ranks == 1:
            full = [sys.executable, *base]
        else:
            output = [f"--{stream}={tmp_path}/rank{{rank}}.{stream}" for stream in ("stdout", "stderr")]
            launcher = str(Path(sys.executable).with_name("composer"))
            full = [launcher, "-n", str(ranks), *output, *base]
        ended = subprocess.run(
            full,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        texts = [ended.stdout, *(p.read_text() for p in sorted(tmp_path.glob("rank*.std*")))]
        return Finished(
            ended.returncode, "\n".join(texts), Recorded(tmp_path / "run" / "composer_obs"), tmp_path
        )

    return run


def keys_in(client: Any, bucket: str) -> set[str]:
    """The server's own listing, without what Composer and we put there for themselves."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    keys = {entry["Key"] for page in pages for entry in page.get("Contents", ())}
    return {
        k for k in keys if not k.endswith(".credentials_validated_successfully") and "/composer_obs/" not in k
    }


def json_of(text: str) -> Any:
    return json.loads(text[text.index("{") :])
