"""Buckets, keys and folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.system.claims._claims import (
    claims,
    file_logger,
    files,
    fit,
    objects,
    profiler,
    trainer,
    uploader,
)
from tests.system.conftest import keys_in


@claims("PH501")
@pytest.mark.parametrize(
    "uri", ["hf://me/models", "CLOUD://bucket/{run_name}", "exp:1/{run_name}", r"C:\ckpts\run"]
)
def test_ph501_a_scheme_that_composer_does_not_know_raises(uri):
    with pytest.raises(NotImplementedError):
        trainer(save_folder=uri)


@claims("PH502")
def test_ph502_a_local_name_that_looks_like_an_address_becomes_a_folder(here, tmp_path):
    fit(loggers=[file_logger("s3://b/x.txt"), uploader(tmp_path / "store")], max_duration="1ba")
    assert files(here) == {"s3:/b/x.txt"}
    # The key too; as the store is a folder here, it makes one slash of two.
    assert objects(tmp_path / "store") == {"s3:/b/x.txt"}


@claims("PH502")
def test_ph502_a_key_that_looks_like_an_address_keeps_it(here, tmp_path):
    from composer.callbacks import CheckpointSaver

    def keys(remote: str, store: Path) -> set[str]:
        saver = CheckpointSaver(
            folder="ck-{rank}", remote_file_name=remote, latest_remote_file_name=None, overwrite=True
        )
        fit(loggers=[uploader(store)], callbacks=[saver])
        return objects(store)

    assert keys("s3://b/ba{batch}.pt", tmp_path / "bad") == {"s3:/b/ba8.pt"}
    assert keys("b/ba{batch}.pt", tmp_path / "good") == {"b/ba8.pt"}


@claims("PH503")
def test_ph503_a_placeholder_in_the_bucket_is_asked_for_as_it_stands(s3_server, bucket):
    from botocore.exceptions import ParamValidationError
    from composer.loggers import RemoteUploaderDownloader

    asked = re.escape('Invalid bucket name "b-{run_name}"')
    with pytest.raises(ParamValidationError, match=asked):
        trainer(save_folder="s3://b-{run_name}/x")
    with pytest.raises(ParamValidationError, match=asked):
        trainer(loggers=[RemoteUploaderDownloader("s3://b-{run_name}", use_procs=False)])
    good = RemoteUploaderDownloader(f"s3://{bucket}", use_procs=False)
    fit(loggers=[file_logger("{run_name}/log.txt"), good], max_duration="1ba")
    assert keys_in(s3_server.client(), bucket) == {"run/log.txt"}


@claims("PH504")
@pytest.mark.parametrize("tail", ["#3/{run_name}", "?3/{run_name}", ";x"])
def test_ph504_a_path_ends_where_an_address_would(tail, here):
    fit(save_folder=f"{here}/bad/run{tail}")
    fit(save_folder=f"{here}/good/run-3/{{run_name}}")
    folders = {Path(name).parent.as_posix() for name in files(here)}
    assert folders == {"bad/run", "good/run-3/run"}


@claims("PH504")
def test_ph504_an_address_with_one_slash_has_no_bucket(bucket):
    from botocore.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError, match='Invalid bucket name ""'):
        trainer(save_folder=f"s3:/{bucket}/run")


@claims("PH505")
def test_ph505_the_merged_trace_is_looked_for_at_its_remote_name(here, tmp_path):
    def run(folder: str, **arguments: Any) -> None:
        from composer.profiler import JSONTraceHandler

        fit(
            profiler=profiler(handlers=[JSONTraceHandler(folder=folder, **arguments)]),
            loggers=[uploader(tmp_path / "store")],
            run_name=folder,
        )

    with pytest.raises(FileNotFoundError, match=r"bad/traces/merged_trace\.json"):
        run("bad")
    assert "bad/merged_trace.json" in files(here)
    run("good", merged_trace_remote_file_name="good/merged_trace.json")
    assert "good/merged_trace.json" in objects(tmp_path / "store")


@claims("PH506")
def test_ph506_the_folder_of_a_checkpoint_saver_is_no_part_of_its_keys(s3_server, bucket):
    from composer.callbacks import CheckpointSaver

    bad = CheckpointSaver(folder=f"s3://{bucket}/bad/{{run_name}}", latest_remote_file_name=None)
    good = CheckpointSaver(
        folder=f"s3://{bucket}/good/{{run_name}}",
        remote_file_name="good/{run_name}/ba{batch}-rank{rank}.pt",
        latest_remote_file_name=None,
    )
    fit(callbacks=[bad, good])
    keys = keys_in(s3_server.client(), bucket)
    assert keys == {"run/checkpoints/ep1-ba8-rank0.pt", "good/run/ba8-rank0.pt"}


#: What the allocator of a GPU would tell: one event. Names and uploads are what is shown here.
SNAPSHOT = {
    "segments": [],
    "device_traces": [[{"action": "alloc", "addr": 1, "size": 512, "stream": 0, "frames": []}]],
}


@claims("PH507")
def test_ph507_the_remote_file_name_of_a_memory_snapshot_is_a_folder_without_time(tmp_path, monkeypatch):
    import torch
    from composer.callbacks import MemorySnapshot

    # Only the reading of a GPU's allocator is replaced; Composer does the rest.
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: SNAPSHOT)

    def keys(remote: str, store: Path) -> set[str]:
        snapshot = MemorySnapshot(remote_file_name=remote)
        made = trainer(callbacks=[snapshot], loggers=[uploader(store)], max_duration="1ba")
        made.fit()
        snapshot.folder_name = "."  # Set where the model is on a GPU alone.
        snapshot.export_memory_snapshot(made.state, made.logger)
        made.close()
        return objects(store)

    assert keys("{run_name}/rank{rank}.{batch}.pickle", tmp_path / "bad") == {
        "run/rank0.{batch}.pickle/rank0.1.memory_snapshot.pickle",
        "run/rank0.{batch}.pickle/rank0.1.memory_snapshot.html",
    }
    assert keys("{run_name}/memory", tmp_path / "good") == {
        "run/memory/rank0.1.memory_snapshot.pickle",
        "run/memory/rank0.1.memory_snapshot.html",
    }


@claims("PH507")
def test_ph507_the_remote_file_name_of_an_oom_observer_is_a_folder_without_time(tmp_path, monkeypatch):
    import torch
    from composer.callbacks import OOMObserver

    observers: list[Any] = []
    # Only a GPU's allocator is replaced; Composer does the rest.
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", lambda: SNAPSHOT)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda *_, **__: None)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", observers.append, raising=False)
    # torch draws these with a script that it takes from the internet; without, Composer uploads nothing.
    for drawing in ("segments", "memory"):
        monkeypatch.setattr(torch.cuda._memory_viz, drawing, lambda _: "<svg/>")

    def keys(remote: str, store: Path) -> set[str]:
        observer = OOMObserver(remote_file_name=remote, overwrite=True)
        made = trainer(callbacks=[observer], loggers=[uploader(store)], max_duration="1ba")
        made.fit()
        model, made.state.model = made.state.model, torch.nn.Linear(4, 2, device="meta")
        observer._enabled = True  # Composer had put it off for a model on the CPU.
        observer.init(made.state, made.logger)
        made.state.model = model
        observers.pop()(0, 0, 0, 0)
        made.close()
        return {str(Path(key).parent) for key in objects(store)}

    assert keys("{run_name}/ba{batch}.pickle", tmp_path / "bad") == {"run/ba{batch}.pickle"}
    assert keys("{run_name}/oom", tmp_path / "good") == {"run/oom"}
