"""Every verdict and every rule of an audit, over ledgers made by hand and a store in memory."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.findings import ArtifactLocation, Severity
from composer_obs.uploads import reports
from composer_obs.uploads.audit import AuditOptions, audit
from composer_obs.uploads.judging import Judge
from composer_obs.uploads.ledger import Destination, LedgerProblem, Outcome, replay
from composer_obs.uploads.places import superseded_attempts
from composer_obs.uploads.rules import RULES
from composer_obs.uploads.stores.base import (
    StoreDeniedError,
    StoredObject,
    StoreError,
    StoreUnreachableError,
    UnfinishedUpload,
)
from composer_obs.uploads.verdicts import RULE_OF, Verdict
from tests.uploads.memory import Uploads, codes, content_in_parts, content_of


@pytest.fixture
def uploads() -> Uploads:
    return Uploads()


def only(result: Any) -> Any:
    (artifact,) = result.artifacts
    return artifact


class TestProven:
    def test_an_object_with_the_checksum_of_the_file_is_proven_and_breaks_no_rule(
        self, uploads: Uploads
    ) -> None:
        uploads.attempt("a.pt", b"weights")
        result = uploads.audit()
        assert only(result).verdict is Verdict.PROVEN
        assert only(result).evidence["expected"]["crc32"] == only(result).evidence["stored"]["crc32"]
        assert result.findings == []
        assert result.all_proven

    def test_a_listing_proves_many_objects_without_a_question_about_each(self, uploads: Uploads) -> None:
        for number in range(5000):
            uploads.attempt(f"run/{number:05}.pt", b"%d" % number)
        assert uploads.audit().counts() == {"proven": 5000}
        assert uploads.store.asked == {"page": 5}

    def test_an_object_in_parts_is_proven_by_its_composite_checksum(self, uploads: Uploads) -> None:
        data = bytes(range(100))
        kept = {"parts": (40, 40, 20)}
        uploads.attempt("a.pt", data, content=content_in_parts(data, 40), kept=kept)
        assert only(uploads.audit()).verdict is Verdict.PROVEN
        assert uploads.store.asked["parts"] == 0

    def test_parts_of_another_size_than_was_configured_are_asked_for(self, uploads: Uploads) -> None:
        data = bytes(range(100))
        uploads.attempt("a.pt", data, content=content_in_parts(data, 10), kept={"parts": (30, 70)})
        assert only(uploads.audit()).verdict is Verdict.PROVEN
        assert uploads.store.asked["parts"] == 1

    def test_an_upload_that_was_reported_as_failed_but_is_there_is_proven(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", outcome="failed", error="the answer was lost")
        artifact = only(uploads.audit())
        assert artifact.verdict is Verdict.PROVEN
        assert artifact.evidence["uploader"] == "failed"

    def test_the_local_file_gives_the_checksum_that_a_killed_run_never_took(
        self, uploads: Uploads, tmp_path: Path
    ) -> None:
        source = tmp_path / "a.pt"
        source.write_bytes(b"weights")
        mtime = source.stat().st_mtime_ns
        uploads.run(ended=False)
        uploads.attempt("a.pt", b"weights", content=None, outcome=None, source=str(source), mtime_ns=mtime)
        assert only(uploads.audit()).verdict is Verdict.PROVEN

    def test_a_local_file_that_is_not_the_same_any_more_proves_nothing(
        self, uploads: Uploads, tmp_path: Path
    ) -> None:
        source = tmp_path / "a.pt"
        source.write_bytes(b"weights")
        before = source.stat().st_mtime_ns
        os.utime(source, ns=(before + 10**9, before + 10**9))
        uploads.attempt("a.pt", b"weights", content=None, source=str(source), mtime_ns=before)
        assert only(uploads.audit()).verdict is Verdict.PRESENT

    def test_a_download_proves_where_the_store_keeps_no_checksum(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", kept={"keeps": ()})
        artifact = only(uploads.audit(download=True))
        assert artifact.verdict is Verdict.PROVEN
        assert artifact.evidence["how"] == "head, then downloaded"
        assert uploads.store.asked["read"] == 1

    def test_nothing_is_downloaded_that_is_proven_without(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights")
        uploads.audit(download=True)
        assert uploads.store.asked["read"] == 0


class TestPresent:
    def test_size_alone_is_present_and_says_why(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", kept={"keeps": ()})
        result = uploads.audit()
        assert only(result).verdict is Verdict.PRESENT
        assert only(result).reason == "size agrees; the store keeps no checksum"
        assert codes(result) == ["UP016"]
        assert not result.all_proven

    def test_a_file_that_was_never_read_is_present_and_says_so(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", content=None)
        assert only(uploads.audit()).reason == "size agrees; no checksum was taken of the file"

    def test_other_bytes_do_not_condemn_a_file_that_changed_while_it_was_read(self, uploads: Uploads) -> None:
        content = content_of(b"WEIGHTS", note="the file was written to while its content was read")
        uploads.attempt("a.pt", b"weights", content=content)
        result = uploads.audit()
        assert only(result).verdict is Verdict.PRESENT
        assert sorted(codes(result)) == ["UP015", "UP016"]

    def test_a_download_that_the_store_refuses_is_unprovable(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", kept={"keeps": ()})
        uploads.store.faults["read"] = StoreDeniedError("no permission to read")
        assert only(uploads.audit(download=True)).verdict is Verdict.UNPROVABLE


class TestLost:
    def test_an_object_that_is_not_there_is_missing(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", arrives=False, source="/data/a.pt")
        result = uploads.audit()
        assert only(result).verdict is Verdict.MISSING
        (finding,) = result.findings
        assert finding.rule.code == "UP001"
        assert finding.where == ArtifactLocation("s3://bucket/a.pt", 0)
        assert finding.fix == "upload it again from /data/a.pt"

    def test_a_shorter_object_is_truncated(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights")
        uploads.store.add("a.pt", b"weigh")
        result = uploads.audit()
        assert only(result).verdict is Verdict.TRUNCATED
        assert only(result).reason == "the store has 5 of 7 bytes"
        assert codes(result) == ["UP002"]

    def test_a_shorter_object_is_truncated_also_where_only_the_local_file_tells(
        self, uploads: Uploads, tmp_path: Path
    ) -> None:
        source = tmp_path / "a.pt"
        source.write_bytes(b"weights")
        mtime = source.stat().st_mtime_ns
        uploads.attempt("a.pt", b"weights", content=None, source=str(source), mtime_ns=mtime)
        uploads.store.add("a.pt", b"weigh")
        assert only(uploads.audit()).verdict is Verdict.TRUNCATED

    def test_as_many_other_bytes_are_corrupt_without_a_download(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights")
        uploads.store.add("a.pt", b"weighty")
        result = uploads.audit()
        assert only(result).verdict is Verdict.CORRUPT
        assert codes(result) == ["UP003"]
        assert uploads.store.asked["read"] == 0

    def test_other_bytes_in_parts_are_corrupt_once_the_store_tells_their_sizes(
        self, uploads: Uploads
    ) -> None:
        data = bytes(range(100))
        uploads.attempt("a.pt", data, content=content_in_parts(data, 40), arrives=False)
        uploads.store.add("a.pt", bytes(100), parts=(40, 40, 20))
        assert only(uploads.audit()).verdict is Verdict.CORRUPT

    def test_other_bytes_in_parts_of_unknown_sizes_condemn_nobody(self, uploads: Uploads) -> None:
        data = bytes(range(100))
        uploads.attempt("a.pt", data, content=content_in_parts(data, 40), arrives=False)
        uploads.store.add("a.pt", bytes(100), parts=(40, 40, 20), tells_part_sizes=False)
        artifact = only(uploads.audit())
        assert artifact.verdict is Verdict.PRESENT
        assert "the sizes of its parts are not known" in artifact.reason

    def test_a_longer_object_is_somebody_elses(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights")
        uploads.store.add("a.pt", b"other weights")
        result = uploads.audit()
        assert only(result).verdict is Verdict.CLOBBERED
        assert codes(result) == ["UP004"]

    def test_an_error_of_the_uploader_is_failed_with_that_error(self, uploads: Uploads) -> None:
        uploads.attempt(
            "a.pt", b"weights", arrives=False, outcome="failed", error="PermissionError: read-only"
        )
        result = uploads.audit()
        artifact = only(result)
        assert artifact.verdict is Verdict.FAILED
        assert artifact.reason.startswith("the upload failed: PermissionError: read-only; ")
        assert artifact.evidence["error"] == "PermissionError: read-only"
        assert codes(result) == ["UP006"]

    def test_a_file_that_died_with_its_worker_is_failed(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", arrives=False, outcome="lost", error="a.pt: PermissionError")
        artifact = only(uploads.audit())
        assert artifact.verdict is Verdict.FAILED
        assert artifact.reason.startswith("lost with its upload worker: a.pt: PermissionError; ")

    def test_a_failed_upload_is_failed_even_if_the_old_object_has_its_size(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", arrives=False, outcome="failed", error="refused")
        uploads.store.add("a.pt", b"1234567", keeps=())
        assert only(uploads.audit()).verdict is Verdict.FAILED

    def test_an_upload_of_a_killed_run_that_is_not_there_is_unfinished(self, uploads: Uploads) -> None:
        uploads.run(ended=False)
        uploads.attempt("a.pt", b"weights", arrives=False, outcome=None)
        result = uploads.audit()
        assert only(result).verdict is Verdict.UNFINISHED
        assert codes(result) == ["UP007"]

    def test_an_upload_without_an_outcome_of_a_run_that_ended_is_missing(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", arrives=False, outcome=None)
        assert only(uploads.audit()).verdict is Verdict.MISSING

    def test_a_file_that_was_not_there_is_no_file_and_nobody_is_asked(self, uploads: Uploads) -> None:
        uploads.attempt("a.json", None, source="out/a.json", outcome=None)
        result = uploads.audit()
        assert only(result).verdict is Verdict.NO_FILE
        assert codes(result) == ["UP009"]
        assert not uploads.store.asked

    def test_forty_flushes_that_no_destination_takes_are_one_unrouted_artifact(
        self, uploads: Uploads
    ) -> None:
        for flush in range(40):
            data = b"line" * flush
            uploads.attempt("", data, artifact="logs.txt", destination=None, arrives=False, overwrite=False)
        result = uploads.audit()
        assert only(result).verdict is Verdict.UNROUTED
        assert codes(result) == ["UP005"]
        assert (result.attempted, result.superseded) == (40, 39)


class TestUnprovable:
    @pytest.mark.parametrize(
        "error",
        [
            StoreDeniedError("no permission to read back"),
            StoreUnreachableError("timed out"),
            KeyError("a fault of another package's store"),
        ],
    )
    def test_a_store_that_does_not_answer_is_unprovable_never_missing(
        self, uploads: Uploads, error: Exception
    ) -> None:
        uploads.attempt("a.pt", b"weights")
        uploads.store.faults["head"] = error
        result = uploads.audit()
        assert only(result).verdict is Verdict.UNPROVABLE
        assert str(error) in only(result).reason
        assert codes(result) == ["UP008"]

    @pytest.mark.parametrize("error", [StoreError("no such store"), RuntimeError("a fault")])
    def test_a_store_that_cannot_be_opened_is_unprovable(self, uploads: Uploads, error: Exception) -> None:
        uploads.attempt("a.pt", b"weights")

        def refuse(destination: Destination) -> Any:
            raise error

        artifact = only(audit(uploads.ledger, refuse))
        assert artifact.verdict is Verdict.UNPROVABLE
        assert str(error) in artifact.reason

    def test_a_destination_that_the_ledger_lost_is_unprovable(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", destination="unheard of")
        assert only(uploads.audit()).reason == "the ledger does not say where this upload went"

    def test_answers_that_come_too_late_are_unprovable(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights")
        never = threading.Event()
        uploads.store.head = lambda key: never.wait(30)  # type: ignore[method-assign,assignment,return-value]
        artifact = only(uploads.audit(seconds=0.05))
        never.set()
        assert artifact.verdict is Verdict.UNPROVABLE
        assert artifact.reason == "the store gave no answer in the time that was allowed"

    def test_an_upload_of_a_killed_run_is_unprovable_where_the_store_does_not_answer(
        self, uploads: Uploads
    ) -> None:
        uploads.run(ended=False)
        uploads.attempt("a.pt", b"weights", outcome=None)
        uploads.store.faults["head"] = StoreDeniedError("no permission to read back")
        assert only(uploads.audit()).verdict is Verdict.UNPROVABLE

    def test_a_failed_upload_to_a_store_that_cannot_be_asked_is_failed(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights", outcome="failed", error="refused")
        uploads.store.faults["head"] = StoreDeniedError("no permission to read back")
        artifact = only(uploads.audit())
        assert artifact.verdict is Verdict.FAILED
        assert artifact.reason == "the upload failed: refused; no permission to read back"


class TestSuperseded:
    def test_forty_flushes_of_a_growing_log_are_one_artifact(self, uploads: Uploads) -> None:
        for flush in range(1, 41):
            uploads.attempt("logs.txt", b"line\n" * flush)
        result = uploads.audit()
        assert only(result).superseded == 39
        assert result.counts() == {"proven": 1, "superseded": 39}
        assert (result.attempted, result.superseded) == (40, 39)
        assert result.all_proven

    def test_an_upload_without_overwrite_supersedes_nothing(self, uploads: Uploads) -> None:
        first = uploads.attempt("a.pt", b"first")
        second = uploads.attempt(
            "a.pt", b"other", overwrite=False, outcome="failed", error="exists", arrives=False
        )
        result = uploads.audit()
        verdicts = {artifact.attempt.id: artifact for artifact in result.artifacts}
        assert verdicts[first.id].verdict is Verdict.PROVEN
        assert verdicts[second.id].verdict is Verdict.FAILED
        assert verdicts[second.id].holds == first.id
        assert first.id in verdicts[second.id].reason

    def test_a_file_that_was_not_there_supersedes_nothing(self, uploads: Uploads) -> None:
        first = uploads.attempt("a.pt", b"first")
        uploads.attempt("a.pt", None, outcome=None)
        assert uploads.verdicts()[first.id] is Verdict.PROVEN

    def test_a_stale_object_after_a_failed_overwrite_is_named(self, uploads: Uploads) -> None:
        first = uploads.attempt("a.pt", b"first", epoch=1, batch=10)
        uploads.attempt("a.pt", b"second", epoch=2, batch=20, arrives=False)
        artifact = only(uploads.audit())
        assert artifact.verdict is Verdict.MISSING
        assert artifact.reason == (
            f"it never replaced the earlier upload; the store holds the upload of epoch 1, batch 10 ({first.id})"
        )
        assert artifact.holds == first.id

    def test_a_restart_of_the_same_run_replaces_what_it_uploaded_before(self, uploads: Uploads) -> None:
        uploads.run("one", name="gpt", ended=False)
        uploads.run("two", name="gpt")
        uploads.attempt("a.pt", b"first", session="one")
        uploads.attempt("a.pt", b"second", session="two")
        assert uploads.audit().counts() == {"proven": 1, "superseded": 1}

    def test_another_run_does_not_supersede_it_clobbers(self, uploads: Uploads) -> None:
        uploads.run("one", name="gpt-a")
        uploads.run("two", name="gpt-b")
        first = uploads.attempt("latest.pt", b"first", session="one")
        second = uploads.attempt("latest.pt", b"2nd..", session="two")
        result = uploads.audit()
        assert [(a.attempt.id, a.verdict) for a in result.artifacts] == [
            (first.id, Verdict.CLOBBERED),
            (second.id, Verdict.PROVEN),
        ]
        assert "rank 0 of run gpt-b" in result.artifacts[0].reason

    def test_an_upload_that_was_replaced_in_the_queue_is_superseded(self, uploads: Uploads) -> None:
        first = uploads.attempt("a.pt", b"first", arrives=False, outcome="replaced", overwrite=False)
        second = uploads.attempt("a.pt", b"second", overwrite=False)
        assert set(superseded_attempts(uploads.ledger)) == {first.id}
        assert uploads.verdicts() == {second.id: Verdict.PROVEN}


class TestClobbered:
    def test_of_two_ranks_that_upload_one_name_the_loser_is_told_who_won(self, uploads: Uploads) -> None:
        for rank in range(2):
            uploads.run(f"s{rank}", rank=rank, world_size=2)
        lost = uploads.attempt("shared.txt", b"rank 0", session="s0", epoch=1, batch=4)
        won = uploads.attempt("shared.txt", b"rank 1", session="s1", epoch=1, batch=4)
        result = uploads.audit()
        by_id = {artifact.attempt.id: artifact for artifact in result.artifacts}
        assert by_id[won.id].verdict is Verdict.PROVEN
        assert by_id[lost.id].verdict is Verdict.CLOBBERED
        assert by_id[lost.id].reason == "the store holds what rank 1 uploaded (epoch 1, batch 4)"
        (finding,) = result.findings
        assert (finding.rule.code, finding.where) == ("UP004", ArtifactLocation("s3://bucket/shared.txt", 0))
        assert finding.fix == "put {rank} or {run_name} into the file name"

    def test_two_ranks_that_upload_the_same_bytes_are_both_proven(self, uploads: Uploads) -> None:
        for rank in range(2):
            uploads.run(f"s{rank}", rank=rank, world_size=2)
            uploads.attempt("config.yaml", b"same", session=f"s{rank}")
        assert uploads.audit().counts() == {"proven": 2}

    def test_the_work_for_a_key_that_all_ranks_share_grows_with_its_uploads_alone(
        self, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ranks, flushes = 60, 20
        for rank in range(ranks):
            uploads.run(f"s{rank}", rank=rank, world_size=ranks)
        for flush in range(flushes):
            for rank in range(ranks):
                uploads.attempt("log.txt", b"%03d %03d" % (flush, rank), session=f"s{rank}")
        uploads.store.add("log.txt", b"foreign")  # so that each rank's uploads are all looked through
        compared = 0
        compare = Judge.compare

        def counted(judge: Judge, attempt: Any, stored: Any) -> Any:
            nonlocal compared
            compared += 1
            return compare(judge, attempt, stored)

        monkeypatch.setattr(Judge, "compare", counted)
        result = uploads.audit()
        assert result.counts() == {"corrupt": ranks, "superseded": ranks * (flushes - 1)}
        assert compared < 10 * ranks * flushes


class TestOtherFindings:
    def test_a_sharded_checkpoint_without_one_shard_names_its_rank(self, uploads: Uploads) -> None:
        shards = tuple(f"__{rank}_0.distcp" for rank in range(4))
        for rank in range(4):
            uploads.run(f"s{rank}", rank=rank, world_size=4)
            uploads.attempt(f"ep1/__{rank}_0.distcp", b"%d" % rank, session=f"s{rank}", role="shard")
        metadata = content_of(b"meta", shards=shards)
        uploads.attempt("ep1/.metadata", b"meta", session="s0", role="metadata", content=metadata)
        assert uploads.audit().findings == []
        del uploads.store.objects["ep1/__1_0.distcp"]
        assert sorted(codes(uploads.audit())) == ["UP001", "UP010"]

    def test_a_pointer_that_did_not_arrive_names_the_checkpoint_to_load(self, uploads: Uploads) -> None:
        uploads.attempt("ck/ep1.pt", b"weights", role="checkpoint", batch=8)
        uploads.attempt("ck/latest.symlink", b"ck/ep1.pt", role="pointer", arrives=False)
        result = uploads.audit()
        pointer = next(f for f in result.findings if f.rule.code == "UP011")
        assert pointer.fix == "resume with load_path='s3://bucket/ck/ep1.pt' (batch 8)"

    def test_names_that_become_one_in_the_destination_collide(self, uploads: Uploads) -> None:
        uploads.attempt("run.a.x.pt", b"one", artifact="run/a/x.pt", overwrite=False)
        uploads.attempt("run.a.x.pt", b"one", artifact="run.a/x.pt", overwrite=False)
        result = uploads.audit()
        (finding,) = result.findings
        assert finding.rule.code == "UP012"
        assert "'run/a/x.pt', 'run.a/x.pt'" in finding.message

    def test_a_multipart_upload_that_never_ended_is_found_for_our_keys_alone(self, uploads: Uploads) -> None:
        uploads.attempt("run/a.pt", b"weights", arrives=False)
        uploads.store.begun = [
            UnfinishedUpload("run/a.pt", "2025-01-01T00:00:00Z"),
            UnfinishedUpload("run/a.pt.of.somebody", "2025-01-01T00:00:00Z"),
        ]
        result = uploads.audit()
        assert codes(result) == ["UP001", "UP013"]
        assert str(result.findings[1].where) == "s3://bucket/run/a.pt (rank 0)"

    def test_a_store_that_cannot_tell_of_multipart_uploads_is_not_at_fault(self, uploads: Uploads) -> None:
        uploads.attempt("a.pt", b"weights")
        uploads.store.unfinished_uploads = lambda prefix: 1 / 0  # type: ignore[method-assign,assignment,return-value]
        assert uploads.audit().all_proven

    def test_lines_that_cannot_be_used_are_found_and_a_torn_one_is_no_fault(self, uploads: Uploads) -> None:
        uploads.ledger.problems += [
            LedgerProblem("ledger-rank0.jsonl", 9, "torn: the writer was stopped in the middle of this line"),
            LedgerProblem("ledger-rank1.jsonl", 2, "not a JSON object"),
        ]
        result = uploads.audit()
        assert codes(result) == ["UP014", "UP014"]
        assert [(f.level, str(f.where)) for f in result.findings] == [
            (Severity.WARNING, "ledger-rank1.jsonl:2:1"),
            (Severity.INFO, "ledger-rank0.jsonl:9:1"),
        ]
        assert result.all_proven

    def test_a_ledger_of_a_newer_version_is_said_to_be_half_understood(self, uploads: Uploads) -> None:
        uploads.ledger.newest_version = 7
        (finding,) = uploads.audit().findings
        assert finding.rule.code == "UP014"
        assert "schema version 7" in finding.message

    def test_findings_come_worst_first(self, uploads: Uploads) -> None:
        uploads.attempt("present", b"1", kept={"keeps": ()})
        uploads.attempt("missing", b"1", arrives=False)
        levels = [finding.level for finding in uploads.audit().findings]
        assert levels == sorted(levels, reverse=True)
        assert len(set(levels)) == 2


def test_every_verdict_that_is_not_fine_has_a_rule_and_a_way_to_fix_it() -> None:
    for verdict in Verdict:
        assert (verdict in RULE_OF) is not verdict.is_fine
    assert set(RULE_OF.values()) <= set(RULES)


def test_stores_are_closed_whatever_happens(uploads: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    uploads.attempt("a.pt", b"weights")
    monkeypatch.setattr(reports, "findings_of", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        uploads.audit()
    assert uploads.store.closed == 1


def test_progress_ends_at_the_number_of_objects(uploads: Uploads) -> None:
    for number in range(10):
        uploads.attempt(f"{number}.pt", b"%d" % number, kept={"keeps": ("crc32",), "parts": (1,)})
    told: list[tuple[int, int]] = []
    uploads.audit(progress=lambda *counts: told.append(counts))
    assert told[-1] == (10, 10)
    assert [answered for answered, _ in told] == sorted(answered for answered, _ in told)


def test_nothing_announced_is_nothing_lost(uploads: Uploads) -> None:
    result = uploads.audit()
    assert (result.artifacts, result.findings, result.counts()) == ([], [], {})
    assert result.all_proven


# ---- whatever happens to the bytes ----------------------------------------------------------------


@given(
    sent=st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=6), st.integers(0, 2)), max_size=12),
    stored=st.dictionaries(st.sampled_from("abc"), st.binary(max_size=6)),
    ended=st.booleans(),
)
def test_proven_means_that_the_very_bytes_are_there_and_is_said_of_all_that_are(
    sent: list[tuple[str, bytes, int]], stored: dict[str, bytes], ended: bool
) -> None:
    uploads = Uploads()
    for rank in range(3):
        uploads.run(f"s{rank}", rank=rank, world_size=3, ended=ended)
    data_of = {}
    for key, data, rank in sent:
        attempt = uploads.attempt(key, data, session=f"s{rank}", arrives=False, outcome=None)
        data_of[attempt.id] = key, data
    for key, data in stored.items():
        uploads.store.add(key, data)
    result = uploads.audit()
    for artifact in result.artifacts:
        key, data = data_of[artifact.attempt.id]
        assert (artifact.verdict is Verdict.PROVEN) == (stored.get(key) == data)
    last = {(key, rank): data for key, data, rank in sent}
    assert len(result.artifacts) == len(last)
    assert result.attempted == len(sent) == len(result.artifacts) + result.superseded


ODD = st.sampled_from(
    [None, True, -1, 0, 10**30, 1.5, float("inf"), float("nan"), "", "x", "\ud800", "/", "crc32"]
    + [
        [],
        [[]],
        ["x", None],
        {},
        {"crc32": []},
        {"crc32": {"full": "00"}},
        {"md5": {"full": "zz"}},
        {"x": {}},
    ]
)
FIELDS = (
    "id session rank destination artifact key uri source size role batch kind attempt digests "
    "shards text note result error store options folder pointer run_name world_size v overwrite mtime_ns"
).split()


@st.composite
def strange_records(draw: st.DrawFn) -> dict[str, Any]:
    """Records that are nearly right: proper ones with some fields replaced by anything."""
    kind = draw(st.sampled_from("run destination saver attempt checksum outcome verdict end other".split()))
    proper: dict[str, Any] = {
        "kind": kind, "v": 1, "t": "2025-01-01T00:00:00.000Z",
        "id": "s:0" if kind == "destination" else "s/1", "session": "s", "run_name": "run", "rank": 0,
        "world_size": 1, "destination": "s:0", "store": "memory", "uri": "s3://b/a", "options": {},
        "folder": "", "pointer": True, "artifact": "a", "key": "a", "source": "/nowhere", "size": 1,
        "attempt": "s/1", "digests": {}, "text": "a", "result": "uploaded",
        "role": draw(st.sampled_from(["file", "checkpoint", "pointer", "shard", "metadata"])),
    }  # fmt: skip
    return {**proper, **draw(st.dictionaries(st.sampled_from(FIELDS), ODD, max_size=3))}


@given(st.lists(strange_records(), max_size=12))
def test_an_audit_of_whatever_a_ledger_holds_never_raises(records: list[dict[str, Any]]) -> None:
    import json

    uploads = Uploads()
    uploads.store.add("a", b"1")
    ledger = replay({"ledger-rank0.jsonl": "\n".join(map(json.dumps, records)).encode()})
    result = audit(ledger, lambda destination: uploads.store, AuditOptions(download=True))
    assert result.attempted == len(ledger.attempts)
    for finding in result.findings:
        json.dumps(finding.to_json())
    for artifact in result.artifacts:
        json.dumps(artifact.to_json())


def test_an_outcome_for_an_attempt_that_is_not_in_the_ledger_changes_nothing(uploads: Uploads) -> None:
    uploads.ledger.outcomes["gone/1"] = Outcome("replaced")
    assert uploads.audit().attempted == 0


def test_a_foreign_answer_type_is_not_taken_for_an_object(uploads: Uploads) -> None:
    uploads.attempt("a.pt", b"weights", arrives=False)
    uploads.store.add("a.pt", b"weights")
    uploads.store.head = lambda key: StoredObject(key, 7, "head")  # type: ignore[method-assign]
    assert only(uploads.audit()).verdict is Verdict.PRESENT
