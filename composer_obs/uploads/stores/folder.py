"""A local or mounted folder, such as libcloud's ``local`` provider writes to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    Store,
    StoreDeniedError,
    StoredObject,
    StoreError,
)

__all__ = ["FolderStore"]


class FolderStore(Store):
    """Objects are files below a folder; it tells sizes, and bytes to who reads them.

    Args:
        root (str): The folder; an object key is a path below it.

    Example:
        >>> import pathlib, tempfile
        >>> root = tempfile.mkdtemp()
        >>> _ = pathlib.Path(root, "a.txt").write_bytes(b"1234")
        >>> FolderStore(root).head("a.txt").size
        4
    """

    kind = "folder"

    def __init__(self, root: str) -> None:
        self._root = root

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> FolderStore:
        return cls(str(options["root"]))

    def head(self, key: str) -> StoredObject:
        path = os.path.join(self._root, key.lstrip("/"))
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ObjectNotFoundError(f"there is no file {path}") from error
        except PermissionError as error:
            raise StoreDeniedError(f"no permission to look at {path}") from error
        except OSError as error:
            raise StoreError(f"cannot look at {path}: {error}") from error
        modified = datetime.fromtimestamp(status.st_mtime, timezone.utc).isoformat(timespec="seconds")
        return StoredObject(key, status.st_size, "stat", modified=modified)

    def read(self, key: str) -> Iterator[bytes]:
        path = os.path.join(self._root, key.lstrip("/"))
        try:
            with open(path, "rb") as file:
                while block := file.read(1 << 20):
                    yield block
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error}") from error

    def put(self, key: str, data: bytes) -> None:
        path = os.path.join(self._root, key.lstrip("/"))
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error}") from error
