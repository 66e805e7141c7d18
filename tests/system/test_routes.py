"""Every way out of a Trainer is seen, and the counts are the server's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.system.conftest import keys_in, verdicts_of


def uploader(bucket: str, **arguments: Any) -> Any:
    """Composer's uploader with a thread as its worker: a process needs seconds to start."""
    from composer.loggers import RemoteUploaderDownloader

    return RemoteUploaderDownloader(f"s3://{bucket}", use_procs=False, **arguments)


def test_u1_checkpoints_of_a_uri_save_folder_are_all_seen_and_proven(run_script, s3_server, bucket):
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        trainer = make_trainer(save_folder="s3://{bucket}/ck/{{run_name}}", loggers=[UploadAuditor()])
        trainer._checkpoint_saver._symlink_upload_wait_before_next_try_in_seconds = 0.5
        trainer.fit()
        """
    )
    assert ended.code == 0, ended.output
    listed = keys_in(s3_server.client(), bucket)
    # Two epochs of eight batches: two checkpoints and the pointer to the last.
    assert listed == {
        "ck/run/ep1-ba8-rank0.pt",
        "ck/run/ep2-ba16-rank0.pt",
        "ck/run/latest-rank0.pt.symlink",
    }
    assert {line["key"] for line in ended.recorded.lines("attempt")} == listed
    assert ended.recorded.live_verdicts() == dict.fromkeys(listed, "proven")
    again = ended.recorded.audit()
    assert again.all_proven
    assert verdicts_of(again) == dict.fromkeys(listed, "proven")


def test_a_checkpoint_saver_callback_with_a_folder_of_its_own_is_seen(run_script, s3_server, bucket):
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        saver = CheckpointSaver(
            folder="s3://{bucket}/mine",
            remote_file_name="mine/{{run_name}}/ba{{batch}}-rank{{rank}}.pt",
            latest_remote_file_name=None,
            save_interval="4ba",
        )
        make_trainer(max_duration="1ep", callbacks=[saver], loggers=[UploadAuditor()]).fit()
        """
    )
    assert ended.code == 0, ended.output
    listed = keys_in(s3_server.client(), bucket)
    assert listed == {"mine/run/ba4-rank0.pt", "mine/run/ba8-rank0.pt"}
    assert ended.recorded.live_verdicts() == dict.fromkeys(listed, "proven")


def test_uploads_through_the_logger_are_seen_wherever_the_auditor_stands(train, s3_server, bucket):
    from composer.loggers import FileLogger

    trained = train(
        [FileLogger(capture_stdout=False, capture_stderr=False), uploader(bucket)],
        save_folder="{run_name}/checkpoints",
    )
    listed = keys_in(s3_server.client(), bucket)
    assert listed == {
        "run/logs-rank0.txt",
        "run/checkpoints/ep1-ba4-rank0.pt",
        "run/checkpoints/ep2-ba8-rank0.pt",
        "run/checkpoints/latest-rank0.pt.symlink",
    }
    assert trained.recorded.live_verdicts() == dict.fromkeys(listed, "proven")


def test_u2_a_private_uploader_that_joined_late_and_drops_the_state_argument_is_seen(
    train, s3_server, bucket
):
    from composer.core import Callback
    from composer.loggers import RemoteUploaderDownloader

    class WithoutState(RemoteUploaderDownloader):
        def upload_file(self, remote_file_name, file_path, overwrite):  # type: ignore[override]
            super().upload_file(None, remote_file_name, file_path, overwrite=overwrite)

    class Exporter(Callback):
        def init(self, state, logger):
            self.uploader = WithoutState(f"s3://{bucket}", use_procs=False, num_concurrent_uploads=4)
            self.uploader.init(state, logger)
            state.callbacks.append(self.uploader)

        def fit_start(self, state, logger):
            self.send("start.txt")

        def epoch_end(self, state, logger):
            self.send(f"epoch{int(state.timestamp.epoch)}.txt")

        def send(self, name):
            with open(name, "w") as file:
                file.write(name * 100)
            self.uploader.upload_file(f"exported/{name}", name, overwrite=True)

    trained = train([], callbacks=[Exporter()])
    listed = keys_in(s3_server.client(), bucket)
    assert listed == {"exported/start.txt", "exported/epoch1.txt", "exported/epoch2.txt"}
    assert trained.recorded.live_verdicts() == dict.fromkeys(listed, "proven")


def test_an_uploader_that_never_joins_the_callbacks_is_seen_too(train, s3_server, bucket):
    from composer.core import Callback
    from composer.loggers import RemoteUploaderDownloader

    class Hermit(Callback):
        def init(self, state, logger):
            self.uploader = RemoteUploaderDownloader(f"s3://{bucket}", use_procs=False)
            self.uploader.init(state, logger)

        def epoch_end(self, state, logger):
            with open("a.txt", "w") as file:
                file.write("a")
            self.uploader.upload_file(state, "hermit/a.txt", "a.txt", overwrite=True)

        def close(self, state, logger):
            self.uploader.post_close()

    trained = train([], callbacks=[Hermit()])
    assert keys_in(s3_server.client(), bucket) == {"hermit/a.txt"}
    assert trained.recorded.live_verdicts() == {"hermit/a.txt": "proven"}


def test_a_prefix_of_the_uploader_is_part_of_the_key(train, s3_server, bucket):
    from composer.loggers import FileLogger

    prefixed = uploader(bucket, backend_kwargs={"prefix": "team/a"})
    trained = train([FileLogger(capture_stdout=False, capture_stderr=False), prefixed])
    assert keys_in(s3_server.client(), bucket) == {"team/a/run/logs-rank0.txt"}
    assert trained.recorded.live_verdicts() == {"team/a/run/logs-rank0.txt": "proven"}


def test_subclasses_of_the_uploader_that_rename_or_drop_files_are_judged_by_what_they_do(
    train, s3_server, bucket
):
    from composer.core import Callback
    from composer.loggers import RemoteUploaderDownloader

    class Own(RemoteUploaderDownloader):
        def upload_file(self, state, remote_file_name, file_path, *, overwrite):
            if "dropped" not in remote_file_name:
                super().upload_file(state, f"own/{remote_file_name}", file_path, overwrite=overwrite)

    class Files(Callback):
        def epoch_end(self, state, logger):
            for name in ("sent.txt", "dropped.txt"):
                with open(name, "w") as file:
                    file.write(f"{name} {state.timestamp.epoch}")
                logger.upload_file(name, name, overwrite=True)

    trained = train([Own(f"s3://{bucket}", use_procs=False)], callbacks=[Files()])
    assert keys_in(s3_server.client(), bucket) == {"own/sent.txt"}
    assert trained.recorded.live_verdicts() == {"own/sent.txt": "proven", "dropped.txt": "missing"}
    assert verdicts_of(trained.recorded.audit()) == {"own/sent.txt": "proven", "dropped.txt": "missing"}


def test_destinations_of_every_shape_are_listened_to_without_a_fault(train, s3_server, bucket, caplog):
    from composer.loggers import LoggerDestination

    class Collecting(LoggerDestination):
        def can_upload_files(self):
            return True

        def upload_file(self, **arguments):
            pass

    class Broken(LoggerDestination):
        def can_upload_files(self):
            raise NotImplementedError

    class Late(LoggerDestination):
        ready = False

        def init(self, state, logger):
            self.ready = True

        def can_upload_files(self):
            return self.ready

    from tests.system.test_troubles import file_logger

    loggers = [Collecting(), Broken(), Late(), uploader(bucket), file_logger()]
    trained = train(loggers)
    found = {line["uri"].partition("/run/logs")[0] for line in trained.recorded.lines("attempt")}
    assert found == {f"s3://{bucket}", "Collecting://run", "Late://run"}
    assert trained.recorded.live_verdicts()["run/logs-rank0.txt"] in ("proven", "unprovable")
    assert verdicts_of(trained.recorded.audit())
    faults = [r.getMessage() for r in caplog.records if "failed in" in r.getMessage()]
    assert len(faults) == 1
    assert "scan of Broken" in faults[0]


def test_a_second_auditor_leaves_the_trainer_to_the_first(train, s3_server, bucket, tmp_path):
    from composer_obs import UploadAuditor
    from tests.system.test_troubles import file_logger

    trained = train([file_logger(), UploadAuditor(folder="second"), uploader(bucket)])
    assert trained.error is None
    assert trained.recorded.live_verdicts() == {"run/logs-rank0.txt": "proven"}
    assert not (tmp_path / "second").exists()


def test_an_uploader_that_joins_while_the_last_event_runs_does_not_disturb_closing(train, s3_server, bucket):
    """Composer walks the callbacks while it closes them; none may be moved then."""
    from composer.core import Callback

    closed: list[str] = []

    class Late(Callback):
        def fit_end(self, state, logger):
            self.uploader = uploader(bucket)
            self.uploader.init(state, logger)

        def close(self, state, logger):
            closed.append("late")
            if self.uploader not in state.callbacks:
                state.callbacks.append(self.uploader)

    class Last(Callback):
        def close(self, state, logger):
            closed.append("last")

        def post_close(self):
            closed.append("post")

    trained = train([], callbacks=[Late(), Last()])
    assert trained.error is None
    assert closed == ["late", "last", "post"]


@pytest.mark.distributed
def test_two_ranks_and_every_upload_of_both_is_proven(run_script, s3_server, bucket):
    ended = run_script(
        f"""
        from composer_obs import UploadAuditor
        make_trainer(
            save_folder="{{run_name}}/checkpoints",
            loggers=[FileLogger(), UploadAuditor(), RemoteUploaderDownloader("s3://{bucket}")],
        ).fit()
        """,
        ranks=2,
    )
    assert ended.code == 0, ended.output
    listed = keys_in(s3_server.client(), bucket)
    # 32 samples over two ranks in batches of four: four batches an epoch.
    assert listed == {
        "run/logs-rank0.txt",
        "run/logs-rank1.txt",
        "run/checkpoints/ep1-ba4-rank0.pt",
        "run/checkpoints/ep2-ba8-rank0.pt",
        "run/checkpoints/latest-rank0.pt.symlink",
    }
    assert ended.recorded.live_verdicts() == dict.fromkeys(listed, "proven")
    assert ended.recorded.audit().all_proven


def test_the_ledger_itself_is_put_into_the_bucket_and_can_be_audited_from_there(train, s3_server, bucket):
    from composer.loggers import FileLogger

    from composer_obs.uploads.audit import audit
    from composer_obs.uploads.ledger import replay
    from composer_obs.uploads.stores import open_store

    train([FileLogger(capture_stdout=False, capture_stderr=False), uploader(bucket)])
    body = (
        s3_server.client().get_object(Bucket=bucket, Key="run/composer_obs/ledger-rank0.jsonl")["Body"].read()
    )
    assert verdicts_of(audit(replay({"ledger": body}), open_store)) == {"run/logs-rank0.txt": "proven"}
