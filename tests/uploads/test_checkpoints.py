"""Checkpoints need all of their shards, and a pointer that finds the newest of them."""

from __future__ import annotations

from typing import Any

import pytest

from composer_obs.uploads.checkpoints import role_of, shards_in_metadata
from composer_obs.uploads.ledger import Saver
from composer_obs.uploads.stores.base import StoreDeniedError
from tests.uploads.memory import Uploads, content_of


@pytest.fixture
def uploads() -> Uploads:
    made = Uploads()
    made.ledger.savers.append(Saver("ck", pointer=True))
    return made


def checkpoint(uploads: Uploads, key: str, batch: int, **more: Any) -> None:
    uploads.attempt(key, key.encode(), role="checkpoint", batch=batch, **more)


def pointer(uploads: Uploads, target: str, *, key: str = "ck/latest-rank0.pt.symlink", **more: Any) -> Any:
    content = content_of(target.encode(), text=target)
    return uploads.attempt(key, target.encode(), role="pointer", **{"content": content, **more})


def pointer_findings(uploads: Uploads) -> list[tuple[str, str | None]]:
    return [(f.message, f.fix) for f in uploads.audit().findings if f.rule.code == "UP011"]


class TestPointer:
    def test_a_pointer_to_the_newest_checkpoint_is_as_it_should_be(self, uploads: Uploads) -> None:
        checkpoint(uploads, "ck/ep1.pt", 8)
        checkpoint(uploads, "ck/ep2.pt", 16)
        pointer(uploads, "ck/ep1.pt")
        pointer(uploads, "ck/ep2.pt")
        assert uploads.audit().findings == []

    def test_a_crash_between_checkpoint_and_pointer_is_found(self, uploads: Uploads) -> None:
        uploads.run(ended=False)
        checkpoint(uploads, "ck/ep1.pt", 8)
        assert pointer_findings(uploads) == [
            (
                "the newest checkpoint arrived, but no latest pointer was uploaded",
                "resume with load_path='s3://bucket/ck/ep1.pt' (batch 8)",
            )
        ]

    def test_a_saver_that_keeps_no_pointer_needs_none(self, uploads: Uploads) -> None:
        uploads.ledger.savers[:] = [Saver("ck", pointer=False), Saver("elsewhere", pointer=True)]
        checkpoint(uploads, "ck/ep1.pt", 8)
        assert pointer_findings(uploads) == []

    def test_a_checkpoint_that_did_not_arrive_needs_no_pointer(self, uploads: Uploads) -> None:
        checkpoint(uploads, "ck/ep1.pt", 8, arrives=False)
        assert pointer_findings(uploads) == []

    def test_a_pointer_that_did_not_arrive_is_found(self, uploads: Uploads) -> None:
        checkpoint(uploads, "ck/ep1.pt", 8)
        pointer(uploads, "ck/ep1.pt", arrives=False)
        assert pointer_findings(uploads) == [
            ("the latest pointer did not arrive", "resume with load_path='s3://bucket/ck/ep1.pt' (batch 8)")
        ]

    def test_an_old_pointer_that_was_never_replaced_is_found(self, uploads: Uploads) -> None:
        checkpoint(uploads, "ck/ep1.pt", 8)
        pointer(uploads, "ck/ep1.pt")
        checkpoint(uploads, "ck/ep2.pt", 16)
        pointer(uploads, "ck/ep2.pt", arrives=False)
        assert pointer_findings(uploads) == [
            (
                "the latest pointer names ck/ep1.pt, an older checkpoint",
                "resume with load_path='s3://bucket/ck/ep2.pt' (batch 16)",
            )
        ]

    def test_a_pointer_to_a_checkpoint_that_did_not_arrive_is_found(self, uploads: Uploads) -> None:
        checkpoint(uploads, "ck/ep1.pt", 8)
        checkpoint(uploads, "ck/ep2.pt", 16, arrives=False)
        pointer(uploads, "ck/ep2.pt")
        assert pointer_findings(uploads) == [
            (
                "the latest pointer names ck/ep2.pt, which did not arrive",
                "resume with load_path='s3://bucket/ck/ep1.pt' (batch 8)",
            )
        ]

    def test_a_pointer_to_a_checkpoint_of_an_earlier_run_is_looked_up_in_the_store(
        self, uploads: Uploads
    ) -> None:
        pointer(uploads, "ck/before.pt")
        assert pointer_findings(uploads) == [
            (
                "the latest pointer names ck/before.pt, which is not in the store",
                "no checkpoint in this folder is proven; look for an older one",
            )
        ]
        uploads.store.add("ck/before.pt", b"weights")
        assert pointer_findings(uploads) == []

    def test_a_target_that_cannot_be_looked_up_is_not_said_to_be_absent(self, uploads: Uploads) -> None:
        pointer(uploads, "ck/before.pt")
        uploads.store.faults["ck/before.pt"] = StoreDeniedError("no permission")
        assert pointer_findings(uploads) == []

    def test_the_prefix_of_an_uploader_stands_before_the_name_in_the_pointer(self, uploads: Uploads) -> None:
        uploads.attempt("team/ck/ep1.pt", b"1", artifact="ck/ep1.pt", role="checkpoint", batch=8)
        pointer(uploads, "ck/ep1.pt", key="team/ck/latest.symlink", artifact="/ck/latest.symlink")
        assert pointer_findings(uploads) == []

    def test_a_proven_pointer_whose_text_was_never_read_is_not_said_to_be_missing(
        self, uploads: Uploads, tmp_path: Any
    ) -> None:
        source = tmp_path / "latest.symlink"
        source.write_bytes(b"ck/ep1.pt")
        uploads.run(ended=False)
        checkpoint(uploads, "ck/ep1.pt", 8)
        mtime = source.stat().st_mtime_ns
        pointer(uploads, "ck/ep1.pt", content=None, outcome=None, source=str(source), mtime_ns=mtime)
        assert uploads.audit().findings == []

    def test_a_pointer_that_nobody_may_read_is_not_said_to_be_missing(self, uploads: Uploads) -> None:
        checkpoint(uploads, "ck/ep1.pt", 8)
        pointer(uploads, "ck/ep1.pt")
        uploads.store.faults["ck/latest-rank0.pt.symlink"] = StoreDeniedError("no permission")
        assert pointer_findings(uploads) == []

    def test_pointers_of_the_same_name_in_two_stores_are_kept_apart(self, uploads: Uploads) -> None:
        import dataclasses

        other = Uploads()
        for where, batch in ((uploads, 8), (other, 800)):
            checkpoint(where, "ck/ep1.pt", batch)
            pointer(where, "ck/ep1.pt")
        checkpoint(other, "ck/ep2.pt", 1600)
        pointer(other, "ck/ep2.pt")
        for attempt in other.ledger.attempts.values():
            moved = dataclasses.replace(
                attempt, id=f"other{attempt.id}", destination="e", uri=attempt.uri.replace("bucket", "other")
            )
            uploads.ledger.attempts[moved.id] = moved
            uploads.ledger.contents[moved.id] = other.ledger.contents[attempt.id]
        uploads.ledger.destinations["e"] = dataclasses.replace(
            uploads.ledger.destinations["d"], id="e", uri="s3://other", options={"bucket": "other"}
        )
        uploads.stores["e"] = other.store
        assert uploads.audit().findings == []


class TestSharded:
    @pytest.fixture
    def sharded(self, uploads: Uploads) -> Uploads:
        shards = tuple(f"__{rank}_0.distcp" for rank in range(12))
        for rank in range(12):
            uploads.run(f"s{rank}", rank=rank, world_size=12)
            key = f"ck/ep1/__{rank}_0.distcp"
            uploads.attempt(key, b"%02d" % rank, session=f"s{rank}", role="shard", batch=8)
        metadata = content_of(b"meta", shards=shards)
        uploads.attempt("ck/ep1/.metadata", b"meta", session="s0", role="metadata", batch=8, content=metadata)
        pointer(uploads, "ck/ep1", session="s0")
        return uploads

    def findings(self, uploads: Uploads) -> list[str]:
        return [f.message for f in uploads.audit().findings if f.rule.code == "UP010"]

    def test_a_complete_one_with_a_pointer_to_its_folder_is_as_it_should_be(self, sharded: Uploads) -> None:
        assert sharded.audit().findings == []

    def test_one_shard_that_never_was_announced_is_named_with_its_rank(self, sharded: Uploads) -> None:
        gone = next(a.id for a in sharded.ledger.attempts.values() if a.key.endswith("__7_0.distcp"))
        del sharded.ledger.attempts[gone]
        assert self.findings(sharded) == [
            "the sharded checkpoint of 12 ranks lacks 1 of 13 files: __7_0.distcp (rank 7)"
        ]

    def test_without_its_metadata_it_is_incomplete(self, sharded: Uploads) -> None:
        del sharded.store.objects["ck/ep1/.metadata"]
        assert self.findings(sharded) == ["the sharded checkpoint of 12 ranks lacks 1 of 13 files: .metadata"]

    def test_more_files_than_a_person_reads_are_counted(self, sharded: Uploads) -> None:
        for rank in range(12):
            del sharded.store.objects[f"ck/ep1/__{rank}_0.distcp"]
        (message,) = self.findings(sharded)
        assert "lacks 12 of 13 files" in message
        assert message.count("distcp") == 8
        assert message.endswith(", …")

    def test_the_load_path_of_a_sharded_checkpoint_is_its_folder(self, sharded: Uploads) -> None:
        sharded.store.objects.pop("ck/latest-rank0.pt.symlink")
        assert pointer_findings(sharded) == [
            ("the latest pointer did not arrive", "resume with load_path='s3://bucket/ck/ep1' (batch 8)")
        ]


@pytest.mark.parametrize(
    ("key", "from_saver", "role"),
    [
        ("ck/ep1-ba8-rank0.pt", True, "checkpoint"),
        ("ck/ep1-ba8-rank0.pt", False, "file"),
        ("ck/latest-rank0.pt.symlink", False, "pointer"),
        ("ck/ep1/__12_3.distcp", False, "shard"),
        ("ck/ep1/.metadata", True, "metadata"),
        ("ck/ep1/x.metadata", True, "checkpoint"),
        ("logs.txt", False, "file"),
    ],
)
def test_a_name_tells_what_an_object_is_to_the_run(key: str, from_saver: bool, role: str) -> None:
    assert role_of(key, from_saver=from_saver) == role


def test_the_shards_of_a_real_checkpoint_are_read_from_its_metadata(tmp_path: Any) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    dcp.save({"w": torch.ones(3), "b": torch.zeros(2)}, checkpoint_id=str(tmp_path), no_dist=True)
    written = {path.name for path in tmp_path.glob("*.distcp")}
    assert written
    assert set(shards_in_metadata((tmp_path / ".metadata").read_bytes())) == written


def test_metadata_that_would_run_code_when_it_is_unpickled_does_not_run_it() -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return exec, ("raise SystemExit('executed')",)

    import pickle

    assert shards_in_metadata(pickle.dumps([Evil(), "__3_0.distcp"])) == ("__3_0.distcp",)
