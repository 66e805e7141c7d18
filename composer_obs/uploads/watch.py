"""Sees every upload of one Trainer, whatever way it leaves the process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from composer.callbacks import CheckpointSaver
from composer.core import Callback, State
from composer.loggers import LoggerDestination, RemoteUploaderDownloader
from composer.utils.file_helpers import format_name_with_dist
from composer.utils.remote_uploader import RemoteUploader

from composer_obs.containment import Guard
from composer_obs.uploads.checkpoints import role_of
from composer_obs.uploads.checksums import DigestPlan
from composer_obs.uploads.content import HeldFile
from composer_obs.uploads.destinations import Route, is_uploading, route_to
from composer_obs.uploads.ledger import Attempt, Destination, Outcome, Saver
from composer_obs.uploads.recorder import Recorder
from composer_obs.uploads.stores.base import Store, StoreError
from composer_obs.uploads.taps import tap, tap_class
from composer_obs.uploads.uploaders import StagedUploads, describe_error, outcome_of_future

__all__ = ["UploadWatch"]

# Set on an uploader: which watch records it, when a process has several Trainers open.
_OWNER = "_composer_obs_watch"


@dataclass(slots=True)
class _Way:
    """A way out that has been found."""

    route: Route
    destination: Destination
    plan: Callable[[int], DigestPlan]
    staged: StagedUploads | None = None


@dataclass(slots=True)
class _Ticket:
    """One upload between its announcement and its acceptance."""

    attempt: Attempt
    held: HeldFile | None
    way: _Way


class UploadWatch:
    """Announces every upload to a recorder before it begins, and learns how it ended.

    Args:
        recorder (Recorder): Where it is written.
        state (State): The Trainer's state.
        guard (Guard): Keeps faults of ours out of the uploads.
    """

    def __init__(self, recorder: Recorder, state: State, guard: Guard) -> None:
        self._recorder = recorder
        self._state = state
        self._guard = guard
        self._ways: dict[int, _Way] = {}
        self._opened: dict[str, Callable[[], Store]] = {}
        self._savers: list[CheckpointSaver] = []
        self._claimed: list[Any] = []
        self._dropped: set[str] = set()
        # A RemoteUploader can be made anywhere, and a private RemoteUploaderDownloader can upload
        # before we are told of it; only their classes see all of them.
        self._undo = [
            tap_class(RemoteUploader, "upload_file_async", self),
            tap_class(RemoteUploaderDownloader, "init", _Inits(self)),
        ]

    # ---- finding the ways out -----------------------------------------------------------------

    def scan(self) -> None:
        """Hook every uploader among the callbacks that is not hooked yet."""
        for callback in list(self._state.callbacks):
            with self._guard(f"scan of {type(callback).__name__}"):
                self.adopt(callback)

    def adopt(self, callback: Callback) -> None:
        """Listen to one callback, if it uploads."""
        if isinstance(callback, LoggerDestination) and is_uploading(callback):
            self._claim(callback)
        if isinstance(callback, CheckpointSaver) and callback not in self._savers:
            self._savers.append(callback)
            self._record_saver(callback)
        for attribute in list(vars(callback).values()):
            if isinstance(attribute, RemoteUploader):
                self._is_ours(attribute)

    def _is_ours(self, uploader: Any) -> bool:
        """Whether this watch records an uploader; the first watch that meets it does."""
        if _OWNER not in vars(uploader):
            setattr(uploader, _OWNER, self)
            self._claimed.append(uploader)
        return vars(uploader)[_OWNER] is self

    def _claim(self, destination: LoggerDestination) -> None:
        if self._is_ours(destination) and id(destination) not in self._ways:
            self._undo.append(tap(destination, "upload_file", self))
            self._way(destination)

    def _record_saver(self, saver: CheckpointSaver) -> None:
        if saver.remote_file_name is None:
            return
        name = format_name_with_dist(saver.remote_file_name.filename, self._state.run_name)
        # The time fields are still open, so the folder is known up to the first of them.
        folder = f"{os.path.dirname(name.lstrip('/'))}/".lstrip("/").partition("{")[0]
        self._recorder.add_saver(Saver(folder, saver.latest_remote_file_name is not None))

    def _way(self, uploader: LoggerDestination | RemoteUploader) -> _Way:
        way = self._ways.get(id(uploader))
        if way is None:
            route = route_to(uploader)
            destination = self._recorder.add_destination(route.destination)
            self._opened[destination.id] = route.open
            way = _Way(route, destination, _planner(route))
            if isinstance(uploader, RemoteUploaderDownloader):
                way.staged = StagedUploads(uploader, self._ended)
            self._ways[id(uploader)] = way
        return way

    def stop(self) -> None:
        """Take every hook away again."""
        while self._undo:
            self._undo.pop()()
        for uploader in self._claimed:
            vars(uploader).pop(_OWNER, None)

    # ---- what the auditor asks ----------------------------------------------------------------

    def dropped(self, destinations: Sequence[Callback], name: str, path: str, *, overwrite: bool) -> None:
        """The Logger gave a file to its destinations; if none of them uploads, say so once per name."""
        if not self._uploads(destinations):
            self.scan()  # One may have learnt to upload since the last event.
        if not self._uploads(destinations) and name not in self._dropped:
            self._dropped.add(name)
            attempt, held = self._attempt(None, name, name, name, path, overwrite=overwrite)
            self._recorder.announce(attempt)
            if held is not None:
                held.close()

    def _uploads(self, destinations: Sequence[Callback]) -> bool:
        return any(vars(destination).get(_OWNER) is self for destination in destinations)

    def open(self, destination: Destination) -> Store:
        """The store of a destination of this process, with the credentials that it uploads with.

        Raises:
            StoreError: It is not a destination of this process, or cannot be opened.
        """
        try:
            opener = self._opened[destination.id]
        except KeyError:
            raise StoreError(f"{destination.uri} is not a destination of this process") from None
        return opener()

    def destinations(self) -> list[Destination]:
        """Where this process uploads to."""
        return [way.destination for way in self._ways.values()]

    def poll(self) -> None:
        """Look how uploads ended; called from a background thread."""
        for way in list(self._ways.values()):
            if way.staged is not None:
                way.staged.poll()

    # ---- the taps: one upload -----------------------------------------------------------------

    def before(self, instance: Any, arguments: Mapping[str, Any]) -> _Ticket | None:
        """Announce an upload that is about to begin."""
        with self._guard("announce"):
            if self._guard.off or not self._is_ours(instance):
                return None
            if "remote_file_name" not in arguments or "file_path" not in arguments:
                return None  # A method of that name that is something else.
            way = self._way(instance)
            if way.staged is not None:
                way.staged.before()
            name = str(arguments["remote_file_name"])
            key = way.route.prefix + way.route.uploader_key_of(name)
            attempt, held = self._attempt(
                way.destination.id,
                name,
                key,
                way.route.uri_of(key),
                str(arguments["file_path"]),
                overwrite=bool(arguments.get("overwrite", False)),
            )
            self._recorder.announce(attempt)
            return _Ticket(attempt, held, way)
        return None

    def returned(self, ticket: _Ticket | None, result: Any) -> None:
        """The uploader took the file: read what it will send, and wait for its end."""
        with self._guard("accepted"):
            if ticket is None:
                return
            attempt, held, way = ticket.attempt, ticket.held, ticket.way
            staged = None
            if way.staged is not None:
                if (taken := way.staged.accepted(attempt.id)) is not None:
                    name, staged = taken
                    attempt = self._under_true_name(attempt, way, name)
            elif isinstance(result, Future):
                result.add_done_callback(lambda future: self._ended(attempt.id, outcome_of_future(future)))
            else:
                self._ended(attempt.id, Outcome("uploaded"))
            if held is None:
                return
            if staged is not None:
                held = _staged_copy(staged, held)
            self._recorder.read_later(attempt, held, way.plan(held.size))

    def raised(self, ticket: _Ticket | None, error: BaseException) -> None:
        """The uploader refused the file."""
        with self._guard("refused"):
            if ticket is not None:
                if ticket.held is not None:
                    ticket.held.close()
                self._ended(ticket.attempt.id, Outcome("failed", describe_error(error)))

    def _under_true_name(self, attempt: Attempt, way: _Way, name: str) -> Attempt:
        """A subclass of Composer's uploader may upload under another name than it was given."""
        key = way.route.prefix + name
        if key != attempt.key:
            attempt = replace(attempt, key=key, uri=way.route.uri_of(key))
            self._recorder.announce(attempt)
        return attempt

    def _ended(self, attempt: str, outcome: Outcome) -> None:
        with self._guard("ended"):
            self._recorder.add_outcome(attempt, outcome)

    def _attempt(
        self, destination: str | None, name: str, key: str, uri: str, path: str, *, overwrite: bool
    ) -> tuple[Attempt, HeldFile | None]:
        held: HeldFile | None = None
        with contextlib.suppress(OSError):  # Not there: that is what the attempt will say.
            held = HeldFile.open(path)
        attempt = Attempt(
            id=self._recorder.new_id(),
            rank=self._recorder.run.rank,
            destination=destination,
            artifact=name,
            key=key,
            uri=uri,
            source=os.path.abspath(path),
            size=None if held is None else held.size,
            mtime_ns=0 if held is None else held.mtime_ns,
            inode=0 if held is None else held.inode,
            overwrite=overwrite,
            role=role_of(key, from_saver=self._is_from_saver(path)),
            batch=int(self._state.timestamp.batch),
            epoch=int(self._state.timestamp.epoch),
        )
        return attempt, held

    def _is_from_saver(self, path: str) -> bool:
        return any(
            path.startswith(format_name_with_dist(saver.folder, self._state.run_name).rstrip("/") + "/")
            for saver in self._savers
        )


class _Inits:
    """Hears of RemoteUploaderDownloaders the moment that they can upload."""

    def __init__(self, watch: UploadWatch) -> None:
        self._watch = watch

    def before(self, instance: Any, arguments: Mapping[str, Any]) -> Any:
        return instance if arguments.get("state") is self._watch._state else None

    def returned(self, ticket: Any, result: Any) -> None:
        del result
        with self._watch._guard("joined"):
            if ticket is not None:
                self._watch.adopt(ticket)

    def raised(self, ticket: Any, error: BaseException) -> None:
        """An uploader that does not start uploads nothing."""


def _planner(route: Route) -> Callable[[int], DigestPlan]:
    """Which checksums to take; a store that cannot be opened still deserves a CRC of what it was sent."""
    try:
        return route.open().plan
    except StoreError:
        return lambda _size: DigestPlan(("crc32",))


def _staged_copy(staged: str, source: HeldFile) -> HeldFile:
    """The uploader's own copy is exactly what will be sent; the source may still be written to."""
    try:
        copy = HeldFile.open(staged, is_ours=True)
    except OSError:
        return source  # Sent and removed already.
    source.close()
    return copy
