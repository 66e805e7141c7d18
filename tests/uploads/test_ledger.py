"""The ledger: what is written is what is read, whatever stands beside it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.uploads.checksums import KINDS, Digest
from composer_obs.uploads.ledger import (
    Attempt,
    Content,
    Destination,
    Ledger,
    Outcome,
    Run,
    Saver,
    replay,
    to_record,
)

TEXT = st.text(max_size=20)
SIZES = st.integers(0, 2**45)
ATTEMPTS = st.builds(
    Attempt,
    id=TEXT, rank=st.integers(0, 9999), destination=st.none() | TEXT, artifact=TEXT, key=TEXT, uri=TEXT,
    source=TEXT, size=st.none() | SIZES, mtime_ns=SIZES, inode=SIZES, overwrite=st.booleans(),
    role=st.sampled_from(["file", "checkpoint", "pointer", "shard", "metadata"]), batch=SIZES, epoch=SIZES,
    time=st.just("2025-01-01T00:00:00.000Z"),
)  # fmt: skip
OUTCOMES = st.builds(
    Outcome, result=st.sampled_from(["uploaded", "failed", "lost", "replaced"]), error=st.none() | TEXT
)
RUNS = st.builds(
    Run, session=TEXT, run_name=TEXT, rank=SIZES, world_size=SIZES, process=TEXT, ended=st.booleans()
)
DESTINATIONS = st.builds(
    Destination, id=TEXT, store=TEXT, uri=TEXT,
    options=st.dictionaries(TEXT, st.none() | st.booleans() | SIZES | TEXT, max_size=4),
)  # fmt: skip
SAVERS = st.builds(Saver, folder=TEXT, pointer=st.booleans())


@st.composite
def contents(draw: st.DrawFn) -> Content:
    size = draw(st.integers(0, 100))
    digests = {}
    for kind in draw(st.sets(st.sampled_from(sorted(KINDS)))):
        part_size = draw(st.none() | st.integers(1, 120))
        count = 0 if part_size is None else max(1, -(-size // part_size))
        one = st.binary(min_size=KINDS[kind], max_size=KINDS[kind])
        digests[kind] = Digest(kind, draw(one), size, part_size, tuple(draw(one) for _ in range(count)))
    shards = tuple(draw(st.lists(TEXT, max_size=3)))
    return Content(size, digests, draw(st.none() | TEXT), draw(st.none() | TEXT), shards)


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(
        json.dumps({"v": 1, "t": "2025-01-01T00:00:00.000Z", **record}).encode() + b"\n" for record in records
    )


def read(*records: dict[str, Any]) -> Ledger:
    return replay({"ledger-rank0.jsonl": lines(*records)})


@given(ATTEMPTS, OUTCOMES, contents(), RUNS, DESTINATIONS, SAVERS)
def test_what_is_written_is_what_is_read(
    attempt: Attempt, outcome: Outcome, content: Content, run: Run, destination: Destination, saver: Saver
) -> None:
    ledger = read(
        to_record("run", run),
        to_record("destination", destination),
        to_record("saver", saver),
        to_record("attempt", attempt),
        to_record("checksum", content, attempt=attempt.id),
        to_record("outcome", outcome, attempt=attempt.id),
    )
    assert ledger.problems == []
    assert ledger.runs == {run.session: run}
    assert ledger.destinations == {destination.id: destination}
    assert ledger.savers == [saver]
    assert ledger.attempts == {attempt.id: attempt}
    assert ledger.contents == {attempt.id: content}
    assert ledger.outcomes == {attempt.id: outcome}


@given(st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    ledger = replay({"ledger-rank0.jsonl": data})
    assert not ledger.attempts
    assert len(ledger.problems) <= data.count(b"\n") + 1


@given(st.lists(ATTEMPTS, min_size=1, max_size=4, unique_by=lambda attempt: attempt.id), st.data())
def test_a_torn_ledger_holds_every_line_before_the_tear(attempts: list[Attempt], data: st.DataObject) -> None:
    whole = lines(*(to_record("attempt", attempt) for attempt in attempts))
    cut = data.draw(st.integers(0, len(whole)))
    ledger = replay({"ledger-rank0.jsonl": whole[:cut]})
    complete = whole[:cut].count(b"\n")
    # The last line without its line feed is as good as with it.
    unended = whole[cut : cut + 1] == b"\n"
    assert list(ledger.attempts.values()) == attempts[: complete + unended]
    assert len(ledger.problems) == int(not unended and not whole[:cut].endswith(b"\n") and cut > 0)
    assert all(problem.reason.startswith("torn") for problem in ledger.problems)


@given(
    st.dictionaries(
        TEXT.filter(
            lambda name: name not in {f.name for f in dataclasses.fields(Attempt)} | {"v", "t", "kind"}
        ),
        TEXT,
    ),
    ATTEMPTS,
)
def test_fields_that_only_a_later_version_knows_are_passed_over(
    more: dict[str, str], attempt: Attempt
) -> None:
    assert read({**to_record("attempt", attempt), **more}).attempts == {attempt.id: attempt}


def test_a_newer_version_is_read_as_far_as_it_is_understood_and_told(attempt: Attempt) -> None:
    ledger = read(
        {"v": 9, "kind": "hologram", "anything": []},
        {**to_record("attempt", attempt), "v": 9, "role": "hologram"},
        {"kind": "checksum", "attempt": attempt.id, "size": 3, "digests": {"blake9": {"full": "00"}}, "v": 9},
    )
    assert ledger.problems == []
    assert ledger.newest_version == 9
    assert ledger.attempts[attempt.id].role == "hologram"
    assert ledger.contents[attempt.id].digests == {}


@pytest.fixture
def attempt() -> Attempt:
    return Attempt(
        "s/1", 0, "s:0", "a.pt", "a.pt", "s3://b/a.pt", "/data/a.pt", 3, time="2025-01-01T00:00:00.000Z"
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", None),
        ("   ", None),
        ("not json", "not a JSON object"),
        ("[1, 2]", "not a JSON object"),
        ("17", "not a JSON object"),
        ('{"kind": "atte', "torn: the writer was stopped in the middle of this line"),
        ('{"no": "kind"}', "not a ledger line: KeyError: 'kind'"),
        ('{"kind": "attempt", "id": 7}', "not a ledger line: TypeError: id is 7"),
        ('{"kind": "end"}', "not a ledger line: KeyError: 'session'"),
        ('{"kind": "checksum", "attempt": "s/1", "size": null}', "not a ledger line: TypeError: "),
        (
            '{"kind": "checksum", "attempt": "s/1", "size": 1, "digests": []}',
            "not a ledger line: AttributeError: ",
        ),
        ('{"kind": "end", "session": "s", "v": Infinity}', "not a ledger line: OverflowError: "),
        ("[" * 100_000, "not a JSON object"),
    ],
)
def test_a_line_that_cannot_be_used_is_kept_with_its_number_and_the_others_are_read(
    line: str, reason: str | None, attempt: Attempt
) -> None:
    good = lines(to_record("attempt", attempt))
    ledger = replay({"ledger-rank3.jsonl": line.encode() + b"\n" + good})
    assert list(ledger.attempts) == [attempt.id]
    if reason is None:
        assert ledger.problems == []
        return
    (problem,) = ledger.problems
    assert (problem.file, problem.line) == ("ledger-rank3.jsonl", 1)
    assert problem.reason.startswith(reason)


def test_a_run_ended_only_if_its_ledger_says_so() -> None:
    run = to_record("run", Run("s", "gpt", 0, 1))
    assert read(run).runs["s"].ended is False
    assert read(run, {"kind": "end", "session": "s"}).runs["s"].ended is True
    assert read(run, {"kind": "end", "session": "another"}).runs["s"].ended is False


def test_ledgers_of_many_ranks_are_one(attempt: Attempt) -> None:
    other = dataclasses.replace(attempt, id="t/1", rank=1)
    ledger = replay({
        "ledger-rank0.jsonl": lines(to_record("run", Run("s", "gpt", 0, 2)), to_record("attempt", attempt)),
        "ledger-rank1.jsonl": iter([lines(to_record("run", Run("t", "gpt", 1, 2))), lines(to_record("attempt", other))]),
    })  # fmt: skip
    assert list(ledger.attempts) == ["s/1", "t/1"]
    run = ledger.session_of(other)
    assert run is not None
    assert run.rank == 1


def test_a_selection_keeps_what_belongs_to_its_attempts_alone(attempt: Attempt) -> None:
    other = dataclasses.replace(attempt, id="s/2")
    ledger = read(
        to_record("run", Run("s", "gpt", 0, 1)),
        *(record for one in (attempt, other) for record in (
            to_record("attempt", one),
            to_record("checksum", Content(3), attempt=one.id),
            to_record("outcome", Outcome("uploaded"), attempt=one.id),
        )),
    )  # fmt: skip
    chosen = ledger.select(["s/2"])
    assert list(chosen.attempts) == list(chosen.contents) == list(chosen.outcomes) == ["s/2"]
    assert chosen.runs == ledger.runs


def test_a_line_that_comes_twice_counts_once(attempt: Attempt) -> None:
    record = to_record("attempt", attempt)
    saver = to_record("saver", Saver("ck", pointer=True))
    ledger = read(record, record, saver, saver)
    assert list(ledger.attempts) == ["s/1"]
    assert ledger.savers == [Saver("ck", pointer=True)]
