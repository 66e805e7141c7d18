"""Values to try a template with: which processes write, and at which moments of training.

Whether a name tells ranks or moments apart is found by filling it in for several of them and
looking whether two results are the same; so ``{rank:.0s}`` counts as no rank, as it should.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from composer_obs.placeholders.formatter import render
from composer_obs.placeholders.parameter import DIST, INTEGER_TIME, MLFLOW, WALL_CLOCK

__all__ = ["NODES", "RANKS", "collides", "interval_of", "saves", "values"]

#: Two ranks of one node.
RANKS = ({"rank": 0, "local_rank": 0, "node_rank": 0}, {"rank": 1, "local_rank": 1, "node_rank": 0})
#: The first rank of each of two nodes.
NODES = ({"rank": 0, "local_rank": 0, "node_rank": 0}, {"rank": 2, "local_rank": 0, "node_rank": 1})

_TYPICAL: dict[str, object] = {
    "run_name": "run",
    "rank": 0,
    "local_rank": 0,
    "node_rank": 0,
    "world_size": 4,
    "local_world_size": 2,
    "remote_file_name": "folder/file.txt",
    **dict.fromkeys(sorted(MLFLOW), "1a2b3c"),
    **dict.fromkeys(sorted(INTEGER_TIME), 1),
    **dict.fromkeys(sorted(WALL_CLOCK), 12.5),
}
#: A small run: batches in an epoch, samples in a batch, tokens in a sample.
_BATCHES, _SAMPLES, _TOKENS = 8, 4, 16
_INTERVAL = re.compile(r"\s*(\d[\d_]*)(ep|ba|sp|tok|iter|sec)\s*")


def values(legal: Iterable[str], **override: object) -> dict[str, object]:
    """A value of the right type for each legal placeholder.

    Example:
        >>> values(["rank", "run_name"], rank=3)
        {'rank': 3, 'run_name': 'run'}
    """
    chosen = {**_TYPICAL, **override}
    return {name: chosen[name] for name in sorted(legal) if name in chosen}


def collides(template: str, legal: Iterable[str], cases: Iterable[Mapping[str, object]]) -> bool:
    """Whether two of the cases give the same name; ``False`` if the template cannot be filled in.

    Example:
        >>> collides("log.txt", DIST, RANKS), collides("log-{rank}.txt", DIST, RANKS)
        (True, False)
    """
    legal = frozenset(legal)
    names = [render(template, values(legal, **case)).text for case in cases]
    return None not in names and len(set(names)) < len(names)


def interval_of(text: str | int | None) -> tuple[int, str] | None:
    """The number and the unit of an interval; a bare number counts epochs, as in Composer.

    Example:
        >>> interval_of("1_000ba"), interval_of(2), interval_of("soon")
        ((1000, 'ba'), (2, 'ep'), None)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return text, "ep"
    found = _INTERVAL.fullmatch(text) if isinstance(text, str) else None
    return (int(found[1]), found[2]) if found else None


def saves(unit: str | None) -> list[dict[str, object]]:
    """Moments at which a file is written: at the ends of epochs, or within epochs too.

    Args:
        unit (str, optional): Of the interval; ``None`` if it is not known.
    """
    every_epoch = [_moment(epoch, 0) for epoch in (1, 2, 3)]
    within = [_moment(epoch, batch) for epoch in (0, 1) for batch in (2, 4)]
    # What is unique within epochs and at their ends is unique whatever the interval is.
    return every_epoch if unit in {"ep", None} else within


@dataclass(frozen=True, slots=True)
class _Count:
    name: str
    per_batch: int


_COUNTS = (_Count("batch", 1), _Count("sample", _SAMPLES), _Count("token", _SAMPLES * _TOKENS))


def _moment(epoch: int, batch: int) -> dict[str, object]:
    total = epoch * _BATCHES + batch
    return dict(_fields(epoch, batch, total))


def _fields(epoch: int, batch: int, total: int) -> Iterator[tuple[str, object]]:
    yield "epoch", epoch
    for count in _COUNTS:
        yield count.name, total * count.per_batch
        yield f"{count.name}_in_epoch", batch * count.per_batch
    # No two moments take the same time to the microsecond.
    yield "total_wct", total * 1.37
    yield "epoch_wct", 1.37 * batch + 0.11 * epoch
    yield "batch_wct", 0.5 + total / 1000


assert set(DIST) | set(_moment(1, 1)) <= set(_TYPICAL)
