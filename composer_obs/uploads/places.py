"""Where uploads stand: which of them meet in one object, and which of those still counts."""

from __future__ import annotations

import functools
import json

from composer_obs.uploads.ledger import Attempt, Destination, Ledger

__all__ = ["Place", "Writer", "place_of", "replaces_earlier", "superseded_attempts", "writer_of"]

#: One object of one store, whatever each rank's ledger calls the destination.
Place = tuple[str, str]
#: Run name and rank: only the same rank of the same run may replace what it uploaded.
Writer = tuple[str, int]


def place_of(ledger: Ledger, attempt: Attempt) -> Place:
    """Where an upload goes; the same for every rank and run that uploads to the same object."""
    if attempt.destination is None:
        return "", attempt.artifact
    destination = ledger.destinations.get(attempt.destination)
    if destination is None:
        return f"unknown {attempt.destination}", attempt.key
    return _store_of(destination), attempt.key


@functools.lru_cache(maxsize=1024)  # asked for every upload; a ledger has few destinations
def _store_of(destination: Destination) -> str:
    options = json.dumps(destination.options, sort_keys=True, default=str)
    return f"{destination.store} {destination.uri} {options}"


def writer_of(ledger: Ledger, attempt: Attempt) -> Writer:
    """Who uploads."""
    run = ledger.session_of(attempt)
    return "" if run is None else run.run_name, attempt.rank


def replaces_earlier(attempt: Attempt) -> bool:
    """Whether an upload takes the place of earlier ones of the same rank and key, as asked."""
    return attempt.size is not None and (attempt.overwrite or attempt.destination is None)


def superseded_attempts(ledger: Ledger) -> dict[str, str]:
    """Uploads that a later one of the same rank replaced, as asked: their ids and its id."""
    last: dict[tuple[Place, Writer], str] = {}
    replaced_by: dict[str, str] = {}
    for attempt in reversed(ledger.attempts.values()):
        key = (place_of(ledger, attempt), writer_of(ledger, attempt))
        if key in last:
            replaced_by[attempt.id] = last[key]
        elif replaces_earlier(attempt):
            last[key] = attempt.id
    for attempt_id, outcome in ledger.outcomes.items():
        if outcome.result == "replaced" and attempt_id in ledger.attempts:
            replaced_by.setdefault(attempt_id, attempt_id)
    return replaced_by
