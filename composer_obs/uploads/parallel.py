"""Bounded concurrency that still works while the interpreter shuts down.

Composer closes callbacks from ``atexit``, when ``concurrent.futures`` refuses new work; plain
daemon threads do not, and a hung request never keeps the process alive.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["run_bounded", "run_parallel"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def run_parallel(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    *,
    jobs: int,
    deadline: float | None = None,
    on_result: Callable[[_Item, _Result], None] | None = None,
) -> dict[_Item, _Result]:
    """Call ``function`` on every item with at most ``jobs`` threads.

    Args:
        function (Callable): Must not raise; a result that it cannot give is a result too.
        items (Iterable): Hashable arguments.
        jobs (int): Number of threads.
        deadline (float, optional): On `time.monotonic`'s clock; items that have no result by then
            are absent from the answer. Default: ``None``, wait for all.
        on_result (Callable, optional): Called in this thread for each result as it comes.

    Example:
        >>> sorted(run_parallel(abs, [-2, -1, 3], jobs=2).items())
        [(-2, 2), (-1, 1), (3, 3)]
    """
    waiting: queue.SimpleQueue[_Item] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[_Item, _Result | None, BaseException | None]] = queue.SimpleQueue()
    count = 0
    for item in items:
        waiting.put(item)
        count += 1
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                item = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((item, function(item), None))
            except BaseException as error:  # handed to the caller's thread
                done.put((item, None, error))

    for _ in range(min(jobs, count)):
        threading.Thread(target=work, name="composer_obs-request", daemon=True).start()
    results: dict[_Item, _Result] = {}
    try:
        for _ in range(count):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                item, result, error = done.get(timeout=left)
            except queue.Empty:
                break
            if error is not None:
                raise error
            results[item] = result  # type: ignore[assignment]  # no error: there is a result
            if on_result is not None:
                on_result(item, results[item])
    finally:
        stop.set()
    return results


def run_bounded(function: Callable[[], None], *, seconds: float, name: str) -> bool:
    """Run ``function`` in a thread and wait at most ``seconds``. Returns whether it ended."""
    thread = threading.Thread(target=function, name=name, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
