"""Asking cheaply is still asking: answers are the store's own, and few questions are needed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.uploads.lookup import Answer, look_up
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    StoreDeniedError,
    StoredObject,
    StoreError,
    StoreUnreachableError,
    StoreUnsupportedError,
)
from tests.uploads.memory import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def always(key: str, stored: StoredObject) -> bool:
    return True


def never(key: str, stored: StoredObject) -> bool:
    return False


def test_one_or_two_keys_are_asked_about_directly(store: MemoryStore) -> None:
    store.add("a", b"1")
    answers = look_up(store, ["a", "b"], always)
    assert store.asked == {"head": 2}
    assert isinstance(answers["a"], StoredObject)
    assert isinstance(answers["b"], ObjectNotFoundError)


def test_many_keys_cost_a_page_a_thousand_and_a_question_for_each_that_is_absent(store: MemoryStore) -> None:
    keys = [f"{number:05}" for number in range(2500)]
    for key in keys[:-3]:
        store.add(key, b"1")
    answers = look_up(store, keys, always)
    assert store.asked == {"page": 3, "head": 3}
    assert sum(isinstance(answer, ObjectNotFoundError) for answer in answers.values()) == 3


def test_pages_are_listed_side_by_side(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{number:05}" for number in range(500, 3500)]
    for key in keys:
        store.add(key, b"1")
    all_began = threading.Barrier(3, timeout=30)
    listing = store.list

    def begins_with_the_others(prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        all_began.wait()
        yield from listing(prefix, start_after)

    monkeypatch.setattr(store, "list", begins_with_the_others)
    answers = look_up(store, keys, always)
    assert {getattr(answer, "how", None) for answer in answers.values()} == {"list"}
    assert store.asked == {"page": 3}


def test_what_a_listing_leaves_open_is_asked_about(store: MemoryStore) -> None:
    for key in "abcd":
        store.add(key, key.encode())
    answers = look_up(store, "abcd", lambda key, stored: key != "c")
    assert store.asked == {"page": 1, "head": 1}
    assert {key: getattr(answer, "how", None) for key, answer in answers.items()} == {
        "a": "list", "b": "list", "c": "head", "d": "list",
    }  # fmt: skip


def test_objects_of_others_between_ours_are_jumped_over(store: MemoryStore) -> None:
    for number in range(100_000):
        store.add(f"m{number:06}", b"")
    ours = ["a1", "a2", "z1", "z2"]
    for key in ours:
        store.add(key, b"1")
    look_up(store, [*ours, "a3-is-absent"], always)
    # Two pages until it is clear that the rest of the listing is not ours, and one at the end.
    assert store.asked["page"] <= 4
    assert store.asked["head"] == 1


def test_a_store_that_cannot_list_is_asked_object_by_object(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "can_list", False)
    look_up(store, "abcd", always)
    assert store.asked == {"head": 4}


@pytest.mark.parametrize(
    "error",
    [StoreDeniedError("no"), StoreUnsupportedError("no"), StoreUnreachableError("no"), KeyError("fault")],
)
def test_where_listing_fails_every_object_is_asked_about(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    for key in "abcd":
        store.add(key, b"1")
    listing = store.list

    def fails_in_the_middle(prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        yield next(listing(prefix, start_after))
        raise error

    monkeypatch.setattr(store, "list", fails_in_the_middle)
    answers = look_up(store, "abcd", always)
    assert store.asked["head"] == 3
    assert all(isinstance(answer, StoredObject) for answer in answers.values())


def test_a_bucket_that_does_not_exist_is_asked_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_bucket(prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        raise ObjectNotFoundError("there is no such bucket")
        yield

    monkeypatch.setattr(store, "list", no_bucket)
    told: list[int] = []
    answers = look_up(store, "abcd", always, progress=told.append)
    assert {str(answer) for answer in answers.values()} == {"there is no such bucket"}
    assert not store.asked
    assert sum(told) == 4


def test_an_error_is_the_answer_for_its_own_key_alone(store: MemoryStore) -> None:
    for key in "abc":
        store.add(key, b"1")
    store.faults = {"b": StoreDeniedError("not yours"), "c": ZeroDivisionError("a fault of a store")}
    answers = look_up(store, "abc", never)
    assert isinstance(answers["a"], StoredObject)
    assert str(answers["b"]) == "not yours"
    assert isinstance(answers["c"], StoreError)
    assert "ZeroDivisionError: a fault of a store" in str(answers["c"])


def test_keys_without_an_answer_in_time_are_unreachable_and_the_others_are_not(store: MemoryStore) -> None:
    release = threading.Event()
    head = store.head

    def slow(key: str) -> StoredObject:
        if key == "slow":
            release.wait(30)
        return head(key)

    store.head = slow  # type: ignore[method-assign]
    store.add("quick", b"1")
    answers = look_up(store, ["quick", "slow"], always, deadline=time.monotonic() + 1)
    release.set()
    assert isinstance(answers["quick"], StoredObject)
    assert isinstance(answers["slow"], StoreUnreachableError)


def test_a_listing_without_end_is_left_at_the_deadline(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        number = 0
        while True:
            yield StoredObject("a" * (number := number + 1), 0, "list")

    monkeypatch.setattr(store, "list", endless)
    monkeypatch.setattr("composer_obs.uploads.lookup._SKIP_AFTER", 10**9)
    answers = look_up(store, ["a", "aa", "z"], always, deadline=time.monotonic() + 0.2)
    assert isinstance(answers["aa"], StoredObject)
    assert not isinstance(answers["z"], StoredObject)


def test_never_more_questions_at_a_time_than_jobs(store: MemoryStore) -> None:
    running = most = 0
    lock = threading.Lock()

    def head(key: str) -> StoredObject:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        return StoredObject(key, 0, "head")

    store.head = head  # type: ignore[method-assign]
    look_up(store, [str(number) for number in range(50)], never, jobs=3)
    assert most <= 3


def test_progress_counts_every_key_once(store: MemoryStore) -> None:
    for key in "abcdef":
        store.add(key, b"1")
    told: list[int] = []
    look_up(store, "abcdefxyz", lambda key, stored: key in "abc", progress=told.append)
    assert sum(told) == 9


class OddServer(MemoryStore):
    """A server whose listing may sort otherwise, leave keys out, repeat some, and begin elsewhere."""

    def __init__(self, listing: list[str]) -> None:
        super().__init__()
        self.listing = listing

    def list(self, prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        for key in self.listing:
            yield StoredObject(key, len(self.objects[key].data) if key in self.objects else 0, "list")


@given(data=st.data(), wanted=st.sets(st.text("ab/", min_size=1, max_size=4), max_size=8))
def test_whatever_a_listing_says_an_object_is_absent_only_if_the_store_says_so_itself(
    data: st.DataObject, wanted: set[str]
) -> None:
    names = st.sampled_from(sorted(wanted | {"stranger", "a0"}))
    present = data.draw(st.sets(names))
    store = OddServer(
        data.draw(st.lists(names.filter(lambda name: name in present), max_size=12)) if present else []
    )
    for key in present:
        store.add(key, key.encode())
    answers: dict[str, Answer] = look_up(store, sorted(wanted), lambda key, stored: data.draw(st.booleans()))
    assert set(answers) == wanted
    for key, answer in answers.items():
        assert isinstance(answer, StoredObject) == (key in present)


@given(
    st.sets(st.text("abc", min_size=1, max_size=3), max_size=12),
    st.sets(st.text("abc", min_size=1, max_size=3), max_size=12),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_a_listing_that_jumps_and_is_cut_into_ranges_finds_what_a_plain_one_finds(
    present: set[str], wanted: set[str], skip_after: int, smallest_range: int
) -> None:
    store = MemoryStore()
    for key in present:
        store.add(key, b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("composer_obs.uploads.lookup._SKIP_AFTER", skip_after)
        patch.setattr("composer_obs.uploads.lookup._SMALLEST_RANGE", smallest_range)
        answers = look_up(store, sorted(wanted), always)
    assert {key for key, answer in answers.items() if isinstance(answer, StoredObject)} == present & wanted
    if len(wanted) >= 3:
        assert store.asked["head"] == len(wanted - present)
