"""Troubles that users of Composer had, each as it happens, and what the auditor must say.

The name of each test begins with the trouble's number in `tests/cases/uploads.md`.
"""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.system.conftest import codes_of, keys_in, verdicts_of
from tests.system.test_routes import uploader


def file_logger(**arguments: Any) -> Any:
    from composer.loggers import FileLogger

    return FileLogger(capture_stdout=False, capture_stderr=False, **arguments)


def refuse(monkeypatch: pytest.MonkeyPatch, *, after: float = 0.0, only: str = "") -> None:
    """Composer's S3 backend refuses to write, as a store does whose permissions were taken away.

    Only the refusal is ours: the worker, its queue and its death are Composer's. (Workers are threads
    here, so they see the change.)
    """
    from composer.utils import S3ObjectStore

    original = S3ObjectStore.upload_object

    def upload_object(self, object_name, filename, callback=None, **kwargs):
        if only in object_name and not object_name.startswith(".credentials"):
            time.sleep(after)
            raise PermissionError("not allowed to write here")
        return original(self, object_name, filename, callback, **kwargs)

    monkeypatch.setattr(S3ObjectStore, "upload_object", upload_object)


def uploads(*steps: tuple[str, str, str], overwrite: bool = False) -> Any:
    """A callback that writes and uploads files: (event, name, content)."""
    from composer.core import Callback, Event

    class Uploads(Callback):
        is_closed = False  # Composer closes twice; the second time there is nothing new to upload.

        def run_event(self, event: Event, state: Any, logger: Any) -> None:
            for at, name, content in steps:
                if at == event.value:
                    Path("out").mkdir(exist_ok=True)
                    path = Path("out", name.replace("/", "_"))
                    path.write_text(content)
                    logger.upload_file(name, path, overwrite=overwrite)

        def close(self, state: Any, logger: Any) -> None:
            for at, name, content in steps:
                if at == "close" and not self.is_closed:
                    Path(name).write_text(content)
                    logger.upload_file(name, name, overwrite=overwrite)
            self.is_closed = True

    return Uploads()


def test_u3_the_last_upload_fails_after_fit_has_ended(train, bucket, monkeypatch):
    refuse(monkeypatch, after=1.5)
    trained = train([uploader(bucket)], callbacks=[uploads(("fit_end", "late.txt", "x"))])
    assert trained.recorded.live_verdicts() == {"late.txt": "failed"}
    (verdict,) = trained.recorded.lines("verdict")[-1:]
    assert verdict["evidence"]["error"] == "PermissionError: not allowed to write here"
    assert "UP006" in codes_of(trained.recorded.audit())


def test_u3_with_raise_fit_itself_fails(train, bucket, monkeypatch):
    from composer_obs import UploadAuditor
    from composer_obs.uploads.auditor import UploadsNotProvenError

    refuse(monkeypatch, after=0.5)
    watched = UploadAuditor(on_failure="raise", timeout=60)
    atexit.unregister(watched._exit)  # It would end the test run itself with its exit code.
    trained = train([uploader(bucket)], auditor=watched, callbacks=[uploads(("fit_end", "a.txt", "x"))])
    assert isinstance(trained.error, UploadsNotProvenError)
    assert "a.txt is failed" in str(trained.error)
    assert "PermissionError: not allowed to write here" in str(trained.error)


def test_u3_with_raise_a_loss_after_fit_ends_the_process_with_a_code(run_script, bucket):
    ended = run_script(
        f"""
        from composer.utils import S3ObjectStore
        from composer_obs import UploadAuditor
        real = S3ObjectStore.upload_object
        def refuse(self, object_name, filename, callback=None, **kwargs):
            if object_name == "late.txt":
                time.sleep(1.5)
                raise PermissionError("not allowed to write here")
            return real(self, object_name, filename, callback, **kwargs)
        S3ObjectStore.upload_object = refuse
        class Late(Callback):
            def close(self, state, logger):
                pathlib.Path("late.txt").write_text("x")
                logger.upload_file("late.txt", "late.txt")
        uploader = RemoteUploaderDownloader("s3://{bucket}", use_procs=False)
        make_trainer(loggers=[UploadAuditor(on_failure="raise"), uploader], callbacks=[Late()]).fit()
        print("fit came back")
        """
    )
    assert "fit came back" in ended.output
    assert ended.code == 1, ended.output
    assert ended.recorded.live_verdicts() == {"late.txt": "failed"}


def test_u3b_an_upload_made_in_close_that_fails_is_not_silent(train, bucket, monkeypatch):
    refuse(monkeypatch, only="closing")
    trained = train([uploader(bucket)], callbacks=[uploads(("close", "closing.txt", "x"))])
    assert trained.recorded.live_verdicts() == {"closing.txt": "failed"}


def test_u5_the_files_queued_behind_the_first_failure_are_named_with_it(train, bucket, monkeypatch):
    refuse(monkeypatch, after=0.8, only="first")
    steps = [("batch_end", f"{name}.txt", name) for name in ("first", "second", "third")]
    trained = train([uploader(bucket)], callbacks=[uploads(*steps)], max_duration="1ba")
    assert trained.recorded.live_verdicts() == {
        "first.txt": "failed",
        "second.txt": "failed",
        "third.txt": "failed",
    }
    outcomes = [line["result"] for line in trained.recorded.lines("outcome")]
    assert sorted(outcomes) == ["failed", "lost", "lost"]
    errors = {line["error"] for line in trained.recorded.lines("outcome")}
    assert all("PermissionError: not allowed to write here" in error for error in errors)


def test_u7_credentials_that_may_write_but_not_read_give_unprovable(train, bucket, s3_server, monkeypatch):
    for name, value in s3_server.environment("writer").items():
        monkeypatch.setenv(name, value)
    trained = train([file_logger(), uploader(bucket)])
    assert trained.recorded.live_verdicts() == {"run/logs-rank0.txt": "unprovable"}
    (artifact,) = trained.recorded.audit().artifacts
    assert "no permission to read back" in artifact.reason
    # It did arrive: who may read says so.
    for name, value in s3_server.environment("reader").items():
        monkeypatch.setenv(name, value)
    assert verdicts_of(trained.recorded.audit()) == {"run/logs-rank0.txt": "proven"}


def test_u13_a_constant_name_without_overwrite_keeps_the_first_epoch(run_script, bucket):
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        make_trainer(
            max_duration="3ep",
            save_folder="s3://{bucket}/ck",
            save_filename="model.pt",
            save_latest_filename=None,
            loggers=[UploadAuditor()],
        ).fit()
        """
    )
    assert ended.code != 0  # Composer raises the FileExistsError at the end of fit.
    result = ended.recorded.audit()
    by_epoch = {artifact.attempt.epoch: artifact for artifact in result.artifacts}
    assert {epoch: artifact.verdict.value for epoch, artifact in by_epoch.items()} == {
        1: "proven",
        2: "failed",
        3: "failed",
    }
    for epoch in (2, 3):
        assert "FileExistsError" in by_epoch[epoch].reason
        assert "epoch 1" in by_epoch[epoch].reason


def test_u14_a_crash_after_a_checkpoint_names_the_load_path(run_script, bucket):
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        class Crash(Callback):
            def batch_end(self, state, logger):
                if state.timestamp.batch == 9:
                    raise RuntimeError("one batch after the checkpoint")
        make_trainer(save_folder="s3://{bucket}/ck", loggers=[UploadAuditor()], callbacks=[Crash()]).fit()
        """
    )
    assert ended.code != 0
    result = ended.recorded.audit()
    assert verdicts_of(result) == {"ck/ep1-ba8-rank0.pt": "proven"}
    (finding,) = [f for f in result.findings if f.rule.code == "UP011"]
    assert f"load_path='s3://{bucket}/ck/ep1-ba8-rank0.pt'" in str(finding.fix)
    assert not result.all_proven


def test_u15_a_sharded_checkpoint_without_one_shard_names_its_rank(run_script, s3_server, bucket):
    ended = run_script(
        f"""
        import torch.distributed.checkpoint as dcp
        from composer_obs import UploadAuditor
        class Sharded(Callback):
            def fit_end(self, state, logger):
                # One tensor a rank, so that every rank writes a shard.
                rank = dist.get_global_rank()
                dcp.save({{f"w{{rank}}": torch.full((4,), float(rank))}}, checkpoint_id="ep1-ba2")
                dist.barrier()
                mine = [f"__{{rank}}_0.distcp"] + ([".metadata"] if rank == 0 else [])
                for name in mine:
                    logger.upload_file(f"run/ck/ep1-ba2/{{name}}", f"ep1-ba2/{{name}}")
        uploader = RemoteUploaderDownloader("s3://{bucket}", use_procs=False)
        make_trainer(max_duration="1ba", loggers=[UploadAuditor(), uploader], callbacks=[Sharded()]).fit()
        """,
        ranks=4,
    )
    assert ended.code == 0, ended.output
    shards = {f"run/ck/ep1-ba2/__{rank}_0.distcp" for rank in range(4)}
    assert keys_in(s3_server.client(), bucket) == shards | {"run/ck/ep1-ba2/.metadata"}
    assert ended.recorded.audit().all_proven
    s3_server.client().delete_object(Bucket=bucket, Key="run/ck/ep1-ba2/__1_0.distcp")
    result = ended.recorded.audit()
    (finding,) = [f for f in result.findings if f.rule.code == "UP010"]
    assert "__1_0.distcp (rank 1)" in finding.message
    assert "1 of 5 files" in finding.message


def test_u22_a_log_that_nothing_uploads_is_unrouted_once(train):
    from composer.loggers import MLFlowLogger

    pytest.importorskip("mlflow")
    trained = train(
        [
            file_logger(flush_interval=1),
            MLFlowLogger(tracking_uri=f"file:{os.getcwd()}/mlruns", log_system_metrics=False),
        ]
    )
    result = trained.recorded.audit()
    assert verdicts_of(result) == {"run/logs-rank0.txt": "unrouted"}
    assert [f.rule.code for f in result.findings] == ["UP005"]
    assert len(trained.recorded.lines("attempt")) == 1


def test_u22_a_log_is_unrouted_when_the_only_destination_drops_files(train):
    from composer.loggers import InMemoryLogger

    trained = train([file_logger(flush_interval=1), InMemoryLogger()])
    assert verdicts_of(trained.recorded.audit()) == {"run/logs-rank0.txt": "unrouted"}
    assert len(trained.recorded.lines("attempt")) == 1


def test_u22_a_private_uploader_of_a_callback_does_not_make_the_log_routed(train, bucket):
    """The Logger gives files to its own destinations only."""
    from composer.core import Callback

    class Private(Callback):
        def init(self, state, logger):
            self.uploader = uploader(bucket)
            self.uploader.init(state, logger)
            state.callbacks.append(self.uploader)

    trained = train([file_logger(flush_interval=1)], callbacks=[Private()])
    assert verdicts_of(trained.recorded.audit()) == {"run/logs-rank0.txt": "unrouted"}


def test_u22b_names_that_weights_and_biases_makes_one_collide(train, monkeypatch):
    pytest.importorskip("wandb")
    from composer.loggers import WandBLogger

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    steps = [("epoch_end", name, name) for name in ("run/a/x.pt", "run.a/x.pt")]
    trained = train(
        [WandBLogger(project="p", log_artifacts=True)], callbacks=[uploads(*steps)], max_duration="1ep"
    )
    result = trained.recorded.audit()
    assert set(verdicts_of(result)) == {"run.a.x.pt"}
    (finding,) = [f for f in result.findings if f.rule.code == "UP012"]
    assert "'run/a/x.pt'" in finding.message
    assert "'run.a/x.pt'" in finding.message
    assert {a.verdict.value for a in result.artifacts} == {"unprovable"}


def test_u24_forty_flushes_of_one_log_are_one_artifact(train, bucket):
    trained = train(
        [file_logger(flush_interval=1), uploader(bucket)],
        max_duration="9ep",  # 36 batches, and FIT_START's, EPOCH_END's and close's flushes
    )
    flushes = len(trained.recorded.lines("attempt"))
    assert flushes >= 40
    result = trained.recorded.audit()
    (artifact,) = result.artifacts
    assert artifact.verdict.value == "proven"
    assert (result.attempted, result.superseded, artifact.superseded) == (flushes, flushes - 1, flushes - 1)


@pytest.mark.distributed
def test_u25_of_two_ranks_that_upload_one_name_the_loser_is_clobbered(run_script, s3_server, bucket):
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        class Shared(Callback):
            def epoch_end(self, state, logger):
                rank = dist.get_global_rank()
                if rank == 1:
                    time.sleep(1)
                pathlib.Path(f"mine{{rank}}.txt").write_text(f"rank {{rank}}")
                logger.upload_file("shared.txt", f"mine{{rank}}.txt", overwrite=True)
        uploader = RemoteUploaderDownloader("s3://{bucket}", use_procs=False)
        make_trainer(max_duration="1ep", loggers=[UploadAuditor(), uploader], callbacks=[Shared()]).fit()
        """,
        ranks=2,
    )
    assert ended.code == 0, ended.output
    body = s3_server.client().get_object(Bucket=bucket, Key="shared.txt")["Body"].read().decode()
    winner = int(body.removeprefix("rank "))
    loser = 1 - winner
    result = ended.recorded.audit()
    assert {a.attempt.rank: a.verdict.value for a in result.artifacts} == {
        winner: "proven",
        loser: "clobbered",
    }
    (finding,) = [f for f in result.findings if f.rule.code == "UP004"]
    assert f"rank {winner}" in finding.message
    assert ended.recorded.live_verdicts() == {
        f"shared.txt@{winner}": "proven",
        f"shared.txt@{loser}": "clobbered",
    }


def test_u26_a_file_that_is_deleted_right_after_its_upload_was_asked_for_is_proven(train, bucket):
    from composer.core import Callback

    class Fleeting(Callback):
        def epoch_end(self, state, logger):
            Path("fleeting.bin").write_bytes(os.urandom(100_000))
            logger.upload_file("fleeting.bin", "fleeting.bin", overwrite=True)
            os.remove("fleeting.bin")

    trained = train([uploader(bucket)], callbacks=[Fleeting()])
    assert trained.recorded.live_verdicts() == {"fleeting.bin": "proven"}


def test_u27_a_path_that_does_not_exist_ends_training_as_it_would_without_us(train, bucket):
    from composer.core import Callback

    class Absent(Callback):
        def epoch_end(self, state, logger):
            logger.upload_file("absent.txt", "nowhere/absent.txt")

    with_us = train([uploader(bucket)], callbacks=[Absent()])
    without_us = train([uploader(bucket)], auditor=None, callbacks=[Absent()])
    assert type(with_us.error) is type(without_us.error) is FileNotFoundError
    assert str(with_us.error) == str(without_us.error)
    assert with_us.losses == without_us.losses
    assert verdicts_of(with_us.recorded.audit()) == {"absent.txt": "no_file"}


def test_u28_an_object_replaced_by_as_many_other_bytes_is_corrupt_without_a_download(
    train, s3_server, bucket
):
    trained = train([file_logger(), uploader(bucket)])
    assert trained.recorded.audit().all_proven
    client = s3_server.client()
    key = "run/logs-rank0.txt"
    size = client.head_object(Bucket=bucket, Key=key)["ContentLength"]
    client.put_object(Bucket=bucket, Key=key, Body=os.urandom(size))
    result = trained.recorded.audit()
    assert verdicts_of(result) == {key: "corrupt"}
    assert [f.rule.code for f in result.findings] == ["UP003"]
    assert "download" not in result.artifacts[0].evidence["how"]


def test_the_cases_file_lists_exactly_the_cases_that_are_tested_here():
    rows = Path(__file__).parents[1].joinpath("cases/uploads.md").read_text().splitlines()
    cases = {row.split("|")[1].strip().lower() for row in rows if row.startswith("| U")}
    tested = {name.split("_")[1] for name in globals() if name.startswith("test_u") and name[6].isdigit()}
    from tests.system import test_routes

    tested |= {
        name.split("_")[1] for name in vars(test_routes) if name.startswith("test_u") and name[6].isdigit()
    }
    assert cases == tested
