"""``kill -9`` at any moment: the ledger replays, and the audit accounts for every announced file."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from composer_obs.uploads.audit import audit
from composer_obs.uploads.ledger import replay
from composer_obs.uploads.stores import open_store
from tests.system.conftest import PREAMBLE, Recorded, verdicts_of

MOMENTS = 50

# Trainings without end, one forked for each moment: Composer is imported once, and each child is killed
# as a whole. The file "announced" is an independent witness: it is written just before each upload.
BODY = '''
import ctypes, signal
from composer_obs import UploadAuditor

class Files(Callback):
    """Announces, in a file of its own, what it is about to upload."""
    def batch_end(self, state, logger):
        number = int(state.timestamp.batch)
        path = pathlib.Path(f"file{number % 7}.bin")
        path.write_bytes(os.urandom(2000 + number))
        name = f"files/{number}.bin"
        logger.upload_file(name, path)
        witness.write(name + "\\n")
        witness.flush()

def train(number):
    global witness
    os.chdir(sys.argv[1])
    os.makedirs(str(number))
    os.chdir(str(number))
    witness = open("announced", "w")
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # not to outlive the parent
    trainer = make_trainer(
        max_duration="100000ba",
        callbacks=[Files()],
        loggers=[FileLogger(flush_interval=3, capture_stdout=False, capture_stderr=False), UploadAuditor(interval=0.2),
                 RemoteUploaderDownloader("s3://BUCKET/", backend_kwargs={"prefix": f"kill{number}"}, use_procs=False)],
    )
    open("started", "w").close()
    trainer.fit()

if __name__ == "__main__":
    for number in range(int(sys.argv[2])):
        child = os.fork()
        if child == 0:
            try:
                train(number)
            finally:
                os._exit(9)
        print(child, flush=True)
        os.waitpid(child, 0)
        sys.stdin.readline()
'''


def test_every_announced_file_is_accounted_for_whenever_the_run_is_killed(tmp_path, s3_server, bucket):
    script = tmp_path / "train.py"
    script.write_text(PREAMBLE + BODY.replace("BUCKET", bucket))
    chance = random.Random(5)
    states: set[str] = set()
    client = s3_server.client()
    trainer = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path), str(MOMENTS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "errors").open("w"),
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert trainer.stdout is not None
    assert trainer.stdin is not None
    try:
        for number in range(MOMENTS):
            child = int(trainer.stdout.readline())
            folder = tmp_path / str(number)
            deadline = time.monotonic() + 60
            while not (folder / "started").exists() and time.monotonic() < deadline:
                time.sleep(0.005)
            # Soon after the start, and later, when uploads have arrived, however slow the machine is.
            if chance.random() < 0.5:
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline and not _listing(client, bucket, f"kill{number}"):
                    time.sleep(0.05)
            time.sleep(chance.uniform(0.0, 0.6))
            os.kill(child, signal.SIGKILL)
            states |= set(_check(folder, client, bucket, f"kill{number}").values())
            trainer.stdin.write("next\n")
            trainer.stdin.flush()
    finally:
        trainer.kill()
        trainer.wait()
    # The moments were not all of one kind: some files had arrived, and some had not.
    assert {"proven", "unfinished"} <= states


def _check(folder: Path, client: Any, bucket: str, prefix: str) -> dict[str, str]:
    recorded = Recorded(folder / "run" / "composer_obs")
    # The server finishes what it had received when its sender died.
    there: set[str] | None = None
    while (now := _listing(client, bucket, prefix)) != there:
        there = now
        time.sleep(0.3)
    announced = set((folder / "announced").read_text().split())
    ledger = recorded.ledger
    assert all(problem.reason.startswith("torn") for problem in ledger.problems), ledger.problems
    assert len(ledger.problems) <= 1
    assert announced <= {attempt.artifact for attempt in ledger.attempts.values()}
    verdicts = {key.removeprefix(f"{prefix}/"): v for key, v in verdicts_of(recorded.audit()).items()}
    assert announced <= set(verdicts)
    # The server's own answer is the truth: what is there is not called unfinished, and the reverse.
    for name in announced:
        if name in there:
            # Killed before its checksum was taken, a file that was written over since cannot be proven.
            assert verdicts[name] in ("proven", "present"), (name, verdicts[name])
        else:
            assert verdicts[name] == "unfinished", (name, verdicts[name])
    return verdicts


def _listing(client: Any, bucket: str, prefix: str) -> set[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/files/")
    return {o["Key"].removeprefix(f"{prefix}/") for page in pages for o in page.get("Contents", ())}


@pytest.mark.distributed
def test_the_ledger_of_a_killed_rank_is_audited_with_the_others(run_script, s3_server, bucket):
    ended = run_script(
        f"""
        import signal
        from composer_obs import UploadAuditor
        class Death(Callback):
            def batch_end(self, state, logger):
                rank = dist.get_global_rank()
                name = f"rank{{rank}}-{{int(state.timestamp.batch)}}.bin"
                pathlib.Path(name).write_bytes(os.urandom(1000))
                logger.upload_file(name, name)
                if state.timestamp.batch == 3 and rank == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
        uploader = RemoteUploaderDownloader("s3://{bucket}", use_procs=False)
        make_trainer(loggers=[UploadAuditor(timeout=20), uploader], callbacks=[Death()]).fit()
        """,
        ranks=2,
    )
    assert ended.code != 0
    result = audit(ended.recorded.ledger, open_store)
    found = verdicts_of(result)
    assert {f"rank1-{batch}.bin" for batch in (1, 2, 3)} <= set(found)
    listed = {o["Key"] for o in s3_server.client().list_objects_v2(Bucket=bucket).get("Contents", ())}
    for name, verdict in found.items():
        assert (verdict in ("proven", "present")) == (name in listed), (name, verdict)


def test_replay_survives_every_prefix_of_a_ledger(train, bucket):
    """A kill can cut the file anywhere."""
    from tests.system.test_routes import uploader
    from tests.system.test_troubles import file_logger

    trained = train([file_logger(), uploader(bucket)], max_duration="1ep")
    (path,) = trained.recorded.folder.glob("ledger-rank*.jsonl")
    data = path.read_bytes()
    starts = [i + 1 for i, byte in enumerate(data) if byte == 10]
    for cut in range(0, len(data), 7):
        ledger = replay({"ledger": data[:cut]})
        whole = sum(start <= cut for start in starts)
        torn = 0 if cut in (0, *starts) or cut + 1 in starts else 1
        assert len(ledger.problems) == torn, cut
        assert (
            len(ledger.attempts) == data[: starts[whole - 1] if whole else 0].count(b'"kind":"attempt"')
            or torn == 0
        )
