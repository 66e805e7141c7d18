"""Faults planted under a real run: each gets the right verdict, and everything else is proven."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import Finished, codes_of, verdicts_of

# A run with checkpoints, a log, and some files of its own, through processes as Composer does it.
RUN = """
from composer_obs import UploadAuditor
class Files(Callback):
    def epoch_end(self, state, logger):
        for number in range(6):
            path = pathlib.Path(f"files/{{int(state.timestamp.epoch)}}-{{number}}.bin")
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(os.urandom(50_000 + number))
            logger.upload_file(f"files/{{path.name}}", path, overwrite=True)
        large = pathlib.Path("files/large.bin")
        large.write_bytes(os.urandom(20_000_000))
        logger.upload_file("files/large.bin", large, overwrite=True)
make_trainer(
    save_folder="{{run_name}}/checkpoints",
    loggers=[FileLogger(), UploadAuditor(), RemoteUploaderDownloader("s3://{bucket}")],
    callbacks=[Files()],
).fit()
"""
FILES = {f"files/{epoch}-{number}.bin" for epoch in (1, 2) for number in range(6)}
ALL = FILES | {
    "files/large.bin",
    "run/logs-rank0.txt",
    "run/checkpoints/ep1-ba8-rank0.pt",
    "run/checkpoints/ep2-ba16-rank0.pt",
    "run/checkpoints/latest-rank0.pt.symlink",
}


def body_of(client: Any, bucket: str, key: str) -> bytes:
    return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())


def test_each_kind_of_damage_gets_its_verdict_and_the_rest_is_proven(run_script, s3_server, bucket):
    ended: Finished = run_script(RUN.format(bucket=bucket))
    assert ended.code == 0, ended.output
    assert ended.recorded.live_verdicts() == dict.fromkeys(ALL, "proven")
    client = s3_server.client()

    client.delete_object(Bucket=bucket, Key="files/1-0.bin")
    whole = body_of(client, bucket, "files/1-1.bin")
    client.put_object(Bucket=bucket, Key="files/1-1.bin", Body=whole[:-1])
    other = bytearray(body_of(client, bucket, "files/1-2.bin"))
    other[25_000] ^= 1
    client.put_object(Bucket=bucket, Key="files/1-2.bin", Body=bytes(other))
    client.put_object(Bucket=bucket, Key="files/1-3.bin", Body=whole + whole)

    # One bit of the multipart object, sent again in the same parts, so that only its content differs.
    from boto3.s3.transfer import TransferConfig

    large = bytearray(body_of(client, bucket, "files/large.bin"))
    large[12_345_678] ^= 0x10
    damaged = ended.folder / "damaged.bin"
    damaged.write_bytes(large)
    client.upload_file(str(damaged), bucket, "files/large.bin", Config=TransferConfig(use_threads=False))

    result = ended.recorded.audit()
    planted = {
        "files/1-0.bin": "missing",
        "files/1-1.bin": "truncated",
        "files/1-2.bin": "corrupt",
        "files/1-3.bin": "clobbered",
        "files/large.bin": "corrupt",
    }
    assert verdicts_of(result) == {**dict.fromkeys(ALL, "proven"), **planted}
    assert codes_of(result) == {"UP001", "UP002", "UP003", "UP004"}
    large_evidence = next(a.evidence for a in result.artifacts if a.attempt.key == "files/large.bin")
    assert "HeadObject" in large_evidence["how"]
    assert "download" not in large_evidence["how"]


def test_an_upload_worker_that_is_killed_loses_what_it_held_and_nothing_else(run_script, s3_server, bucket):
    ended = run_script(
        f"""
        import signal
        from composer_obs import UploadAuditor
        class Files(Callback):
            def fit_start(self, state, logger):
                self.send(logger, "before.bin")
                while not pathlib.Path("before.done").exists():
                    time.sleep(0.2)
                    if uploader._all_workers_alive and not uploader._enqueued_objects and not uploader._logged_objects:
                        pathlib.Path("before.done").touch()
            def fit_end(self, state, logger):
                os.kill(uploader._workers[0].pid, signal.SIGKILL)
                uploader._workers[0].join()
                for name in ("first.bin", "second.bin"):
                    self.send(logger, name)
            def send(self, logger, name):
                pathlib.Path(name).write_bytes(os.urandom(1000))
                logger.upload_file(name, name)
        uploader = RemoteUploaderDownloader("s3://{bucket}")
        # Composer waits for ever for the files of a dead worker, so the wait is not made.
        uploader.wait_for_workers = lambda device: None
        make_trainer(max_duration="1ba", loggers=[UploadAuditor(), uploader], callbacks=[Files()]).fit()
        """
    )
    result = ended.recorded.audit()
    assert verdicts_of(result) == {"before.bin": "proven", "first.bin": "failed", "second.bin": "failed"}, (
        ended.output
    )
    for artifact in result.artifacts[1:]:
        assert "killed by SIGKILL" in artifact.reason
    assert ended.recorded.live_verdicts() == verdicts_of(result)


def test_a_store_that_denies_one_key_fails_that_key_alone(run_script, s3_server, bucket):
    policy = (
        '{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:PutObject",'
        f'"Resource":"arn:aws:s3:::{bucket}/ck/ep1-ba8-rank0.pt"}}]}}'
    )
    s3_server.client().put_bucket_policy(Bucket=bucket, Policy=policy)
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        make_trainer(save_folder="s3://{bucket}/ck", save_latest_filename=None, loggers=[UploadAuditor()]).fit()
        """
    )
    assert ended.code != 0  # Composer raises at the end of fit.
    result = ended.recorded.audit()
    assert verdicts_of(result) == {"ck/ep1-ba8-rank0.pt": "failed", "ck/ep2-ba16-rank0.pt": "proven"}
    assert "AccessDenied" in result.artifacts[0].reason


def test_an_upload_that_was_never_made_is_missing(train, bucket):
    """The uploader takes the file, reports no error, and does nothing."""
    from composer.core import Callback
    from composer.utils import S3ObjectStore

    original = S3ObjectStore.upload_object

    def skip_one(self, object_name, filename, callback=None, **kwargs):
        if object_name != "files/skipped.bin":
            original(self, object_name, filename, callback, **kwargs)

    class Files(Callback):
        def epoch_end(self, state, logger):
            for name in ("skipped", "sent"):
                Path(f"{name}.bin").write_bytes(os.urandom(5000))
                logger.upload_file(f"files/{name}.bin", f"{name}.bin", overwrite=True)

    from tests.system.test_routes import uploader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3ObjectStore, "upload_object", skip_one)
        trained = train([uploader(bucket)], callbacks=[Files()])
    expected = {"files/skipped.bin": "missing", "files/sent.bin": "proven"}
    assert trained.recorded.live_verdicts() == expected
    assert verdicts_of(trained.recorded.audit()) == expected


def test_twenty_clean_runs_give_no_alarm(run_script, s3_server, bucket):
    ended = run_script(_TWENTY.format(bucket=bucket))
    _check_twenty(ended, ranks=1)


@pytest.mark.distributed
def test_twenty_clean_runs_of_two_ranks_give_no_alarm(run_script, s3_server, bucket):
    ended = run_script(_TWENTY.format(bucket=bucket), ranks=2, timeout=280)
    _check_twenty(ended, ranks=2)


_TWENTY = """
from composer_obs import UploadAuditor
for number in range(20):
    trainer = make_trainer(
        run_name=f"run{{number}}",
        save_folder="{{run_name}}/checkpoints",
        save_interval="1ep",
        loggers=[
            FileLogger(flush_interval=1, capture_stdout=False, capture_stderr=False),
            UploadAuditor(interval=0.2),
            RemoteUploaderDownloader("s3://{bucket}", use_procs=False),
        ],
    )
    trainer.fit()
    trainer.close()
    print("closed", number, flush=True)
"""


def _check_twenty(ended: Finished, ranks: int) -> None:
    from tests.system.conftest import Recorded

    assert ended.code == 0, ended.output
    for number in range(20):
        recorded = Recorded(ended.folder / f"run{number}" / "composer_obs")
        # Two checkpoints, the pointer, and a log of each rank.
        live = recorded.live_verdicts()
        assert len(live) == 3 + ranks, (number, live)
        assert set(live.values()) == {"proven"}, (number, live)
        assert all(line["verdict"] == "proven" for line in recorded.lines("verdict")), number
        assert recorded.findings() == [], number
        result = recorded.audit()
        assert result.all_proven, (number, result.findings)
        assert not result.findings


def test_losses_are_bit_equal_with_and_without_the_auditor_and_with_every_fault(
    train, bucket, s3_server, fresh_s3_server, monkeypatch, tmp_path
):
    from composer_obs import UploadAuditor
    from tests.system.test_routes import uploader
    from tests.system.test_troubles import file_logger

    def losses(name: str, auditor: Any = "default", loggers: Any = None) -> list[float]:
        logs = loggers if loggers is not None else [file_logger(flush_interval=1), uploader(bucket)]
        return list(train(logs, auditor=auditor, run_name=name, max_duration="3ep").losses)

    truth = losses("without", auditor=None)
    assert len(truth) == 12
    assert losses("with", UploadAuditor(interval=0.05)) == truth

    # The run folder cannot be made: a file stands where it should be.
    (tmp_path / "occupied").write_text("not a folder")
    assert losses("occupied-run", UploadAuditor(folder=str(tmp_path / "occupied" / "sub"))) == truth

    # The auditor itself is broken at every turn.
    with monkeypatch.context() as patch:
        from composer_obs.uploads.recorder import Recorder
        from composer_obs.uploads.watch import UploadWatch

        def broken(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("planted")

        patch.setattr(Recorder, "announce", broken)
        patch.setattr(UploadWatch, "scan", broken)
        assert losses("broken", UploadAuditor(interval=0.05)) == truth

    # Its store hangs, then is gone.
    server = fresh_s3_server()
    server.create_bucket("other")
    for setting, value in server.environment().items():
        monkeypatch.setenv(setting, value)
    hanging = [file_logger(flush_interval=1), uploader("other")]
    from composer.core import Callback

    class Pause(Callback):
        def epoch_start(self, state: Any, logger: Any) -> None:
            if state.timestamp.epoch == 1:
                server.kill()

    trained = train(
        hanging,
        auditor=UploadAuditor(interval=0.05, timeout=5),
        run_name="gone",
        callbacks=[Pause()],
        max_duration="3ep",
    )
    # Composer itself stops once its worker has died; until then every loss is the same.
    assert trained.losses == truth[: len(trained.losses)]
    assert len(trained.losses) >= 4


def test_the_auditor_does_not_wait_longer_than_its_timeout_for_a_store_that_hangs(
    train, fresh_s3_server, monkeypatch
):
    from composer.core import Callback

    from composer_obs import UploadAuditor
    from tests.system.test_routes import uploader

    server = fresh_s3_server()
    server.create_bucket("other")
    for setting, value in server.environment().items():
        monkeypatch.setenv(setting, value)

    class Files(Callback):
        def fit_start(self, state: Any, logger: Any) -> None:
            Path("a.txt").write_text("a")
            logger.upload_file("a.txt", "a.txt")

        def fit_end(self, state: Any, logger: Any) -> None:
            while list(Path(up._upload_staging_folder).iterdir()):
                time.sleep(0.1)
            server.pause()

    up = uploader("other")
    started = time.monotonic()
    try:
        trained = train([up], auditor=UploadAuditor(timeout=4), callbacks=[Files()], max_duration="1ba")
    finally:
        server.resume()
    assert time.monotonic() - started < 90
    assert trained.error is None
    assert trained.recorded.live_verdicts() == {"a.txt": "unprovable"}
    # Once the server answers again, the same ledger proves it.
    deadline = time.monotonic() + 30
    while (found := verdicts_of(trained.recorded.audit())) != {
        "a.txt": "proven"
    } and time.monotonic() < deadline:
        time.sleep(1)
    assert found == {"a.txt": "proven"}


def test_a_ledger_folder_that_is_removed_in_mid_run_is_put_back_whole(train, bucket):
    import shutil

    from composer.core import Callback

    from tests.system.test_routes import uploader
    from tests.system.test_troubles import file_logger

    class Vandal(Callback):
        def epoch_end(self, state: Any, logger: Any) -> None:
            if state.timestamp.epoch == 1:
                shutil.rmtree("run/composer_obs")

    trained = train(
        [file_logger(flush_interval=1), uploader(bucket)], callbacks=[Vandal()], max_duration="3ep"
    )
    assert trained.error is None
    ids = [int(line["id"].partition("/")[2]) for line in trained.recorded.lines("attempt")]
    assert ids == list(range(1, len(ids) + 1))  # every attempt of the run, from the first
    assert trained.recorded.audit().all_proven


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
@pytest.mark.parametrize("where", ["ledger", "staging"])
def test_a_full_disk_costs_no_evidence(train, bucket, tmp_path, where):
    from composer.core import Callback
    from composer.loggers import RemoteUploaderDownloader

    from composer_obs import UploadAuditor
    from tests.system.conftest import Recorded
    from tests.system.test_troubles import file_logger

    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no small disk could be mounted: {mounted.stderr.decode()}")
    try:

        class Filler(Callback):
            def epoch_start(self, state: Any, logger: Any) -> None:
                filler = disk / "filler"
                if state.timestamp.epoch == 1:
                    with filler.open("wb", buffering=0) as file:
                        try:
                            while file.write(b"x" * 4096):
                                pass
                        except OSError:
                            pass
                elif state.timestamp.epoch == 2:
                    filler.unlink()

        staging = {"upload_staging_folder": str(disk / "staging")} if where == "staging" else {}
        folder = str(disk / "obs") if where == "ledger" else None
        up = RemoteUploaderDownloader(f"s3://{bucket}", use_procs=False, **staging)
        trained = train(
            [file_logger(flush_interval=1), up],
            auditor=UploadAuditor(folder=folder),
            callbacks=[Filler()],
            max_duration="3ep",
        )
        recorded = Recorded(Path(folder)) if folder else trained.recorded
        ids = [int(line["id"].partition("/")[2]) for line in recorded.lines("attempt")]
        assert ids == list(range(1, len(ids) + 1))
        if where == "ledger":
            assert trained.error is None
            assert recorded.audit().all_proven
        else:
            # Composer cannot copy the file and training ends, as it would without us.
            assert isinstance(trained.error, OSError)
            assert any("No space left" in str(line.get("error")) for line in recorded.lines("outcome"))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_no_secret_reaches_ledger_log_or_output(run_script, s3_server, bucket):
    secret_key = s3_server.secret_key
    secrets = {"hunter2-in-uri", "t0ken-in-environment", "s3cret-in-exception", secret_key}
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        logging.basicConfig(level=logging.INFO)
        class Files(Callback):
            def batch_end(self, state, logger):
                pathlib.Path("a.txt").write_text("x")
                logger.upload_file("https://user:hunter2-in-uri@host/a.txt", "a.txt", overwrite=True)
                logger.upload_file("t0ken-in-environment/a.txt", "a.txt", overwrite=True)
        from composer.utils import S3ObjectStore
        real = S3ObjectStore.upload_object
        def refuse(self, object_name, filename, callback=None, **kwargs):
            if "user" in object_name:
                time.sleep(1)
                raise PermissionError("denied; password=s3cret-in-exception")
            return real(self, object_name, filename, callback, **kwargs)
        S3ObjectStore.upload_object = refuse
        uploader = RemoteUploaderDownloader("s3://{bucket}", use_procs=False)
        make_trainer(max_duration="1ba", loggers=[UploadAuditor(), uploader], callbacks=[Files()]).fit()
        """,
        environment={"MY_SERVICE_TOKEN": "t0ken-in-environment"},
    )
    folder = ended.recorded.folder
    written = "".join(path.read_text() for path in folder.iterdir())
    assert "attempt" in written
    ours = "\n".join(
        line
        for line in ended.output.splitlines()
        if "composer_obs" in line or "UP0" in line or "fix:" in line
    )
    assert "UP006" in ours
    for secret in secrets:
        assert secret not in written
        assert secret not in ours


def test_odd_names_arrive_and_are_proven(train, bucket, s3_server):
    from composer.core import Callback

    from tests.system.conftest import keys_in
    from tests.system.test_routes import uploader

    names = [
        "a b.txt",
        "a#b.txt",
        "a?b.txt",
        "a%20b.txt",
        "größe-漢字.txt",
        "/leading.txt",
        "dots..txt",
        "x+y=z&w.txt",
        "empty.txt",
    ]

    class Files(Callback):
        def epoch_end(self, state: Any, logger: Any) -> None:
            for number, name in enumerate(names):
                path = Path(f"file{number}")
                path.write_bytes(b"" if name == "empty.txt" else name.encode() * 10)
                logger.upload_file(name, path, overwrite=True)

    trained = train([uploader(bucket)], callbacks=[Files()], max_duration="1ep")
    expected = {name.lstrip("/") for name in names}
    assert keys_in(s3_server.client(), bucket) == expected
    assert trained.recorded.live_verdicts() == dict.fromkeys(expected, "proven")
    assert verdicts_of(trained.recorded.audit()) == dict.fromkeys(expected, "proven")
