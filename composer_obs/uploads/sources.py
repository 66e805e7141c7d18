"""Where an audit reads its ledgers: run folders, single files, and stores that keep a copy."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from composer_obs import plugins
from composer_obs.run_folder import RunFolderError
from composer_obs.uploads.ledger import Ledger, replay
from composer_obs.uploads.stores.base import Store, StoreError, StoreUnsupportedError

__all__ = ["open_uri", "read_ledgers"]

_LEDGER = re.compile(r"ledger-rank(\d+)\.jsonl")
_ADVICE = "pass the folder that holds ledger-rank0.jsonl, usually {run_name}/composer_obs"


def read_ledgers(places: Iterable[str], environ: Mapping[str, str] | None = None) -> Ledger:
    """One ledger of everything that these places hold, in the order in which it was begun.

    Args:
        places (Iterable[str]): Each a run folder, the ``{run_name}`` folder above it, a ledger
            file, or a URI such as ``s3://bucket/run`` below which ledgers were put.
        environ (Mapping[str, str], optional): Holds the stores' endpoints. Default: ``os.environ``.

    Raises:
        RunFolderError: A place does not exist, holds no ledger, or cannot be read.
    """
    environ = os.environ if environ is None else environ
    files: dict[str, bytes] = {}
    paths: dict[str, Path] = {}
    for place in places:
        if "://" in place:
            files |= _read_uri(place, environ)
        else:
            # By their real paths, so that a folder that was named twice is read once.
            paths |= {os.path.realpath(path): path for path in _find_local(Path(place))}
    try:
        files |= {str(path): path.read_bytes() for path in paths.values()}
    except OSError as error:
        raise RunFolderError(f"cannot read the ledger {error.filename}: {error.strerror}") from error
    return replay({name: files[name] for name in sorted(files, key=lambda name: _begun(files[name]))})


def open_uri(uri: str, environ: Mapping[str, str]) -> tuple[Store, str]:
    """The store of a URI, and the key in it; the scheme is the name of the store's entry point.

    Raises:
        StoreError: No installed package knows the scheme, or the URI lacks something.
    """
    scheme = uri.partition("://")[0]
    try:
        store_class = plugins.find(scheme, plugins.STORES).load()
    except plugins.PluginError as error:
        raise StoreUnsupportedError(f"cannot read {uri}: {error}") from error
    opened: tuple[Store, str] = store_class.from_uri(uri, environ)
    return opened


def _read_uri(uri: str, environ: Mapping[str, str]) -> dict[str, bytes]:
    try:
        store, key = open_uri(uri, environ)
        try:
            if _LEDGER.fullmatch(key.rpartition("/")[2]):
                keys = [key]
            else:
                prefix = key.rstrip("/") + "/" if key.strip("/") else ""
                listed = (stored.key for stored in store.list(prefix))
                keys = [key for key in listed if _LEDGER.fullmatch(key.rpartition("/")[2])]
            root = uri.removesuffix(key)
            files = {f"{root.rstrip('/')}/{key}": b"".join(store.read(key)) for key in keys}
        finally:
            store.close()
    except StoreError as error:
        raise RunFolderError(f"cannot read ledgers from {uri}: {error}") from error
    if not files:
        raise RunFolderError(
            f"no ledger lies below {uri}; pass s3://BUCKET/RUN_NAME, where a run puts its ledger when "
            "it ends, or the run folder itself"
        )
    return files


def _find_local(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise RunFolderError(f"there is no run folder {str(place)!r}; {_ADVICE}")
    for candidate in (place, place / "composer_obs"):
        if found := [path for path in candidate.glob("ledger-rank*.jsonl") if _LEDGER.fullmatch(path.name)]:
            return sorted(found)
    below = {path.parent for pattern in ("*", "*/*") for path in place.glob(f"{pattern}/ledger-rank*.jsonl")}
    nearby = ", ".join(repr(str(path)) for path in sorted(below)[:5])
    advice = f"did you mean {nearby}?" if nearby else _ADVICE
    raise RunFolderError(f"the folder {str(place)!r} holds no ledger; {advice}")


def _begun(data: bytes) -> str:
    """The time on the first line that has one."""
    for line in data.split(b"\n", 8)[:8]:
        try:
            return str(json.loads(line)["t"])
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
    return ""
