"""``composer-obs run``: real training scripts that know nothing of us, alone and under the launcher."""

from __future__ import annotations

import pytest

UPLOAD = """
uploader = RemoteUploaderDownloader("s3://{bucket}", use_procs=False)
trainer = make_trainer({more} loggers=uploader, save_folder="{{run_name}}/checkpoints", max_duration="1ep")
trainer.fit()
trainer.close()
"""


def test_an_unchanged_script_is_audited(run_script, s3_server, bucket, tmp_path):
    ended = run_script(
        UPLOAD.format(bucket=bucket, more=""),
        command=[
            "-m",
            "composer_obs",
            "run",
            "--with",
            "upload_auditor:interval=5",
            str(tmp_path / "train.py"),
        ],
    )
    assert ended.code == 0, ended.output
    assert ended.recorded.live_verdicts() == {
        "run/checkpoints/ep1-ba8-rank0.pt": "proven",
        "run/checkpoints/latest-rank0.pt.symlink": "proven",
    }
    assert "composer_obs: 2 uploads: 2 proven" in ended.output


def test_options_come_from_a_file_and_the_command_line(run_script, s3_server, bucket, tmp_path):
    (tmp_path / "obs.yaml").write_text("plugins: {upload_auditor: {folder: from-file, on_failure: raise}}\n")
    ended = run_script(
        """
        import sys
        from composer_obs import UploadAuditor
        trainer = make_trainer(max_duration="1ba")
        (auditor,) = [c for c in trainer.state.callbacks if isinstance(c, UploadAuditor)]
        print("GOT", auditor.folder, auditor.on_failure, sys.argv[1:])
        """,
        command=["-m", "composer_obs", "run", "--config", "obs.yaml", "--with", "upload_auditor:folder=mine",
                 str(tmp_path / "train.py"), "--lr", "0.1"],
    )  # fmt: skip
    assert ended.code == 0, ended.output
    assert "GOT mine raise ['--lr', '0.1']" in ended.output


def test_a_script_that_has_an_auditor_keeps_its_own_alone(run_script, s3_server, bucket, tmp_path):
    more = 'callbacks=__import__("composer_obs").UploadAuditor(folder="theirs"),'
    ended = run_script(
        UPLOAD.format(bucket=bucket, more=more),
        command=[
            "-m",
            "composer_obs",
            "run",
            "--with",
            "upload_auditor:folder=ours",
            str(tmp_path / "train.py"),
        ],
    )
    assert ended.code == 0, ended.output
    assert (tmp_path / "theirs" / "ledger-rank0.jsonl").exists()
    assert not (tmp_path / "ours").exists()


@pytest.mark.distributed
def test_every_rank_under_the_launcher_is_audited(run_script, s3_server, bucket, tmp_path):
    ended = run_script(
        f"""
        import sys
        assert sys.argv[1:] == ["--lr", "0.1"], sys.argv
        class Note(Callback):
            def fit_end(self, state, logger):
                path = pathlib.Path(f"note{{dist.get_global_rank()}}.txt")
                path.write_text("hello")
                logger.upload_file(f"run/note{{dist.get_global_rank()}}.txt", path)
        uploader = RemoteUploaderDownloader("s3://{bucket}", use_procs=False)
        trainer = make_trainer(loggers=uploader, callbacks=Note(), max_duration="1ep")
        assert dist.get_world_size() == 2
        trainer.fit()
        trainer.close()  # or threads that upload may find the interpreter shut down
        """,
        ranks=2,
        command=[
            "-m",
            "composer_obs",
            "run",
            "--with",
            "upload_auditor",
            str(tmp_path / "train.py"),
            "--lr",
            "0.1",
        ],
    )
    assert ended.code == 0, ended.output
    expected = {"run/note0.txt": "proven", "run/note1.txt": "proven"}
    assert ended.recorded.live_verdicts() == expected, ended.recorded.lines("outcome")
    assert {run["rank"] for run in ended.recorded.lines("run")} == {0, 1}


@pytest.mark.distributed
def test_a_rank_that_fails_ends_the_launcher_with_its_own_traceback(run_script, tmp_path):
    ended = run_script(
        """
        if dist.get_global_rank() == 1:
            raise ValueError("rank 1 had enough")
        time.sleep(60)
        """,
        ranks=2,
        command=["-m", "composer_obs", "run", "--with", "upload_auditor", str(tmp_path / "train.py")],
    )
    assert ended.code != 0
    assert "ValueError: rank 1 had enough" in ended.output
    assert "composer_obs/cli" not in ended.output
