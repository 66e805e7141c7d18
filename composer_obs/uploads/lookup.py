"""Ask a store about many objects with few requests.

A listing tells size and ETag of a thousand objects a request, and for everything that was sent
in one PUT the ETag is the MD5 that the ledger has. So: list first, then ask object by object only
about what a listing leaves open (multipart objects, encryption with a KMS key, absent keys).
A page of a listing begins where the one before ended, so the keys are cut into ranges, and these
are listed side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from composer_obs.redaction import redact
from composer_obs.uploads.parallel import run_parallel
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    Store,
    StoredObject,
    StoreError,
    StoreUnreachableError,
)

__all__ = ["Answer", "look_up"]

#: What a store answered about a key: the object, or why not.
Answer = StoredObject | StoreError

# From here on a listing is cheaper than one request per key.
_LISTING_PAYS = 3
# A page of most stores; a shorter range would cost a request all the same.
_SMALLEST_RANGE = 1000
# So many foreign objects in a row mean that it is worth to begin a new listing further on.
_SKIP_AFTER = 1500


@dataclass(slots=True, eq=False)
class _Wanted:
    """A range of keys still looked for, in order, so that a listing can jump to the next."""

    keys: list[str]
    after: str
    found: dict[str, StoredObject] = field(default_factory=dict)
    is_late: bool = False
    _next: int = 0

    def next_key(self) -> str | None:
        while self._next < len(self.keys) and self.keys[self._next] in self.found:
            self._next += 1
        return self.keys[self._next] if self._next < len(self.keys) else None

    def pass_over(self, key: str) -> None:
        while self._next < len(self.keys) and self.keys[self._next] <= key:
            self._next += 1


def look_up(
    store: Store,
    keys: Collection[str],
    settled: Callable[[str, StoredObject], bool],
    *,
    jobs: int = 16,
    deadline: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Answer]:
    """What the store says about each key, asked as cheaply as the store allows.

    Args:
        store (Store): The store.
        keys (Collection[str]): Object keys.
        settled (Callable[[str, StoredObject], bool]): Whether what a listing said of a key is
            enough; if not, the store is asked about the object itself.
        jobs (int): Requests at a time.
        deadline (float, optional): On `time.monotonic`'s clock. Keys without an answer by then
            get a `StoreUnreachableError`.
        progress (Callable[[int], None], optional): Told how many more keys are answered.
    """
    answers: dict[str, Answer] = {}
    if store.can_list and len(keys) >= _LISTING_PAYS:
        ranges = _ranges(sorted(keys), jobs)
        try:
            # In threads, also because a listing that hangs must not outlast the deadline.
            run_parallel(lambda wanted: _list(store, wanted), ranges, jobs=jobs, deadline=deadline)
        except ObjectNotFoundError as no_bucket:
            if progress is not None:
                progress(len(keys))
            return dict.fromkeys(keys, no_bucket)
        for wanted in ranges:
            wanted.is_late = True
            found = dict(wanted.found)
            answers.update((key, listed) for key, listed in found.items() if settled(key, listed))
        if progress is not None:
            progress(len(answers))

    def ask(key: str) -> Answer:
        try:
            return store.head(key)
        except StoreError as error:
            return error
        except Exception as error:  # a fault in another package's store is an answer too
            return StoreError(redact(f"{key}: {type(error).__name__}: {error}"))

    def told(key: str, answer: Answer) -> None:
        del key, answer
        if progress is not None:
            progress(1)

    rest = [key for key in keys if key not in answers]
    answers.update(run_parallel(ask, rest, jobs=jobs, deadline=deadline, on_result=told))
    late = StoreUnreachableError("the store gave no answer in the time that was allowed")
    return {key: answers.get(key, late) for key in keys}


def _ranges(keys: list[str], jobs: int) -> list[_Wanted]:
    length = max(_SMALLEST_RANGE, -(-len(keys) // jobs))
    starts = range(0, len(keys), length)
    return [_Wanted(keys[at : at + length], keys[at - 1] if at else "") for at in starts]


def _list(store: Store, wanted: _Wanted) -> None:
    names = set(wanted.keys)
    prefix = os.path.commonprefix(wanted.keys)
    try:
        start_after = wanted.after
        while (key := wanted.next_key()) is not None:
            strangers = 0
            for listed in store.list(prefix, start_after):
                if wanted.is_late:
                    return
                if listed.key in names:
                    wanted.found[listed.key] = listed
                    strangers = 0
                    if len(wanted.found) == len(names):
                        return
                    continue
                strangers += 1
                if strangers > _SKIP_AFTER:
                    break
            else:
                return
            wanted.pass_over(listed.key)
            key = wanted.next_key()
            if key is None:
                return
            start_after = max(listed.key, key[:-1])
    except ObjectNotFoundError:
        raise  # There is no such bucket, so there is no such object either.
    except Exception:  # noqa: S110 - the requests per object that follow say why, each for its key
        pass
