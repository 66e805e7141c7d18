"""Ledgers are found in run folders, as files, and below URIs of a real S3 server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from composer_obs.run_folder import RunFolderError
from composer_obs.uploads.ledger import Attempt, Run, to_record
from composer_obs.uploads.sources import read_ledgers


def ledger(
    session: str, *, rank: int = 0, key: str = "a.pt", begun: str = "2025-01-01T00:00:00.000Z"
) -> bytes:
    attempt = Attempt(f"{session}/1", rank, "d", key, key, f"s3://b/{key}", f"/data/{key}", 1)
    records = [to_record("run", Run(session, "gpt", rank, 2)), to_record("attempt", attempt)]
    return b"".join(json.dumps({"v": 1, "t": begun, **record}).encode() + b"\n" for record in records)


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "gpt" / "composer_obs"
    folder.mkdir(parents=True)
    for rank in range(2):
        (folder / f"ledger-rank{rank}.jsonl").write_bytes(ledger(f"s{rank}", rank=rank))
    (folder / "findings-rank0.jsonl").write_bytes(b"{}\n")
    return folder


@pytest.mark.parametrize("place", ["gpt/composer_obs", "gpt", "gpt/"])
def test_a_run_folder_and_the_folder_above_it_give_all_ranks(run_folder: Path, place: str) -> None:
    assert list(read_ledgers([place]).attempts) == ["s0/1", "s1/1"]


def test_one_file_gives_its_own_rank_whatever_it_is_called(run_folder: Path) -> None:
    rescued = Path("ledger-rank0-x7f2.jsonl")
    rescued.write_bytes(ledger("s9"))
    assert list(read_ledgers([str(rescued)]).attempts) == ["s9/1"]
    assert list(read_ledgers(["gpt/composer_obs/ledger-rank1.jsonl"]).attempts) == ["s1/1"]


def test_a_folder_that_is_named_twice_is_read_once(run_folder: Path) -> None:
    with (run_folder / "ledger-rank0.jsonl").open("ab") as file:
        file.write(b'{"torn')
    os.symlink("gpt", "link")
    assert len(read_ledgers(["gpt", "gpt/composer_obs", "link"]).problems) == 1


def test_ledgers_are_read_in_the_order_in_which_they_were_begun(run_folder: Path) -> None:
    Path("later").mkdir()
    Path("later/ledger-rank0.jsonl").write_bytes(b"{torn\n" + ledger("s2", begun="2025-03-01T00:00:00.000Z"))
    Path("earlier").mkdir()
    Path("earlier/ledger-rank0.jsonl").write_bytes(ledger("s3", begun="2024-03-01T00:00:00.000Z"))
    assert list(read_ledgers(["later", "gpt", "earlier"]).attempts) == ["s3/1", "s0/1", "s1/1", "s2/1"]


def test_problems_name_the_file_as_it_was_given(run_folder: Path) -> None:
    with (run_folder / "ledger-rank1.jsonl").open("ab") as file:
        file.write(b"junk\n")
    (problem,) = read_ledgers(["gpt"]).problems
    assert (problem.file, problem.line) == ("gpt/composer_obs/ledger-rank1.jsonl", 3)


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("nowhere", "there is no run folder 'nowhere'; pass the folder that holds ledger-rank0.jsonl"),
        ("empty", "the folder 'empty' holds no ledger; pass the folder that holds ledger-rank0.jsonl"),
        (".", "the folder '.' holds no ledger; did you mean 'gpt/composer_obs'?"),
        ("azure://container/run", "no plug-in is named 'azure'"),
        ("unprovable://x", "unprovable stores cannot be named by a URI"),
        ("s3://", "not an S3 URI"),
        ("gs:///run", "not a Google Cloud Storage URI"),
    ],
)
def test_a_place_without_ledgers_is_refused_with_advice(run_folder: Path, place: str, advice: str) -> None:
    Path("empty").mkdir()
    with pytest.raises(RunFolderError) as refused:
        read_ledgers([place])
    assert advice in str(refused.value)


def test_a_ledger_that_cannot_be_read_is_named(run_folder: Path) -> None:
    (run_folder / "ledger-rank2.jsonl").mkdir()
    with pytest.raises(RunFolderError, match=r"ledger-rank2\.jsonl: Is a directory"):
        read_ledgers(["gpt"])


class TestS3:
    @pytest.fixture
    def put(self, s3_server: Any, bucket: str) -> Any:
        client = s3_server.client()
        return lambda key, data: client.put_object(Bucket=bucket, Key=key, Body=data)

    def test_ledgers_below_a_uri_are_read_and_nothing_else_is(self, put: Any, bucket: str) -> None:
        put("gpt/composer_obs/ledger-rank0.jsonl", ledger("s0"))
        put("gpt/composer_obs/ledger-rank1.jsonl", ledger("s1", rank=1))
        put("gpt/composer_obs/findings-rank0.jsonl", b"{}")
        put("gpt-2/composer_obs/ledger-rank0.jsonl", ledger("s2"))
        put("gpt/ep1.pt", b"weights")
        for uri in (f"s3://{bucket}/gpt", f"s3://{bucket}/gpt/", f"s3://{bucket}/gpt/composer_obs"):
            assert sorted(read_ledgers([uri]).attempts) == ["s0/1", "s1/1"]
        assert sorted(read_ledgers([f"s3://{bucket}"]).attempts) == ["s0/1", "s1/1", "s2/1"]

    def test_one_ledger_can_be_named_itself(self, put: Any, bucket: str) -> None:
        put("gpt/composer_obs/ledger-rank1.jsonl", ledger("s1", rank=1) + b"junk")
        uri = f"s3://{bucket}/gpt/composer_obs/ledger-rank1.jsonl"
        (problem,) = read_ledgers([uri]).problems
        assert problem.file == uri

    def test_the_same_ledger_in_the_bucket_and_in_the_folder_is_one(
        self, put: Any, bucket: str, run_folder: Path
    ) -> None:
        put("gpt/composer_obs/ledger-rank0.jsonl", ledger("s0"))
        assert sorted(read_ledgers(["gpt", f"s3://{bucket}/gpt"]).attempts) == ["s0/1", "s1/1"]

    def test_a_prefix_without_ledgers_and_a_bucket_that_does_not_exist_are_refused(
        self, put: Any, bucket: str
    ) -> None:
        with pytest.raises(RunFolderError, match="no ledger lies below"):
            read_ledgers([f"s3://{bucket}/nothing"])
        with pytest.raises(RunFolderError, match="no such bucket"):
            read_ledgers(["s3://no-such-bucket-here/gpt"])
