"""Any object store that Composer can build, asked through Composer's own class.

It tells sizes only, and importing Composer takes seconds; stores with a module of their own here
are asked directly.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from composer.utils import ObjectStore
from composer.utils.object_store.utils import build_remote_backend

from composer_obs.redaction import redact
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    Store,
    StoreDeniedError,
    StoredObject,
    StoreError,
    StoreUnreachableError,
)

__all__ = ["ComposerStore"]


class ComposerStore(Store):
    """A Composer `ObjectStore`: sftp, oci, libcloud, dbfs.

    Args:
        backend (str): Composer's name of the backend, e.g. ``"sftp"``.
        arguments (Mapping[str, Any]): What Composer builds it with.
    """

    kind = "composer"

    def __init__(self, backend: str, arguments: Mapping[str, Any]) -> None:
        self._backend = backend
        self._arguments = dict(arguments)
        self._built: ObjectStore | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> ComposerStore:
        return cls(str(options["backend"]), options.get("kwargs", {}))

    def head(self, key: str) -> StoredObject:
        try:
            size = self._store().get_object_size(key)
        except Exception as error:
            raise self._translate(key, error) from error
        return StoredObject(key, size, f"{self._backend}: get_object_size")

    def read(self, key: str) -> Iterator[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "object")
            try:
                self._store().download_object(key, path)
            except Exception as error:
                raise self._translate(key, error) from error
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    yield block

    def put(self, key: str, data: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            try:
                self._store().upload_object(key, file.name)
            except Exception as error:
                raise self._translate(key, error) from error

    def close(self) -> None:
        if self._built is not None:
            self._built.close()  # type: ignore[no-untyped-call]  # Composer's signature

    def _store(self) -> ObjectStore:
        if self._built is None:
            self._built = build_remote_backend(self._backend, dict(self._arguments))
        return self._built

    def _translate(self, key: str, error: Exception) -> StoreError:
        """Composer's stores raise what their libraries raise; only two kinds are the same everywhere."""
        what = redact(f"{self._backend} store, {key}: {type(error).__name__}: {error}")
        if isinstance(error, FileNotFoundError):
            return ObjectNotFoundError(f"the {self._backend} store has no object {key}")
        if isinstance(error, PermissionError):
            return StoreDeniedError(what)
        if isinstance(error, (ConnectionError, TimeoutError)):
            return StoreUnreachableError(what)
        return StoreError(what)
