"""What the auditor asks of an object store.

A store answers questions; the one thing it is ever given is the ledger itself. Another package can
add one: a subclass of `Store`, registered under the entry-point group ``composer_obs.stores`` with
its ``kind`` as the name.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from composer_obs.errors import ComposerObsError
from composer_obs.uploads.checksums import DigestPlan

__all__ = [
    "ObjectNotFoundError",
    "Store",
    "StoreDeniedError",
    "StoreError",
    "StoreUnreachableError",
    "StoreUnsupportedError",
    "StoredChecksum",
    "StoredObject",
    "UnfinishedUpload",
]


class StoreError(ComposerObsError):
    """A store could not answer."""


class ObjectNotFoundError(StoreError):
    """The store answered that it has no such object (or no such bucket)."""


class StoreDeniedError(StoreError):
    """The store refused to tell: these credentials may not read here."""


class StoreUnreachableError(StoreError):
    """No usable answer in time: refused, timed out, or a server error."""


class StoreUnsupportedError(StoreError):
    """This store has no way to answer that question."""


@dataclass(frozen=True, slots=True)
class StoredChecksum:
    """A checksum that the store keeps of an object.

    Args:
        kind (str): A name from `composer_obs.uploads.checksums.KINDS`.
        value (bytes): The checksum.
        parts (int, optional): How many parts it is composed of; ``None`` if it is of the whole.
        certain (bool): Whether another value proves another content. An ETag looks like an MD5
            also where encryption made it something else; then only equality means anything.
    """

    kind: str
    value: bytes
    parts: int | None = None
    certain: bool = True


@dataclass(frozen=True, slots=True)
class StoredObject:
    """What a store says about one object.

    Args:
        key (str): The object key.
        size (int): In bytes.
        how (str): The question that was asked, e.g. ``"ListObjectsV2"``; part of the evidence.
        checksums (tuple[StoredChecksum, ...]): What it keeps, best evidence first.
        part_sizes (tuple[int, ...], optional): Size of each part as the store tells it, in bytes.
        complete (bool): Whether asking again (`Store.head`) can add nothing.
        etag, encryption, version, modified (str, optional): As the store tells them.
    """

    key: str
    size: int
    how: str
    checksums: tuple[StoredChecksum, ...] = ()
    part_sizes: tuple[int, ...] | None = None
    complete: bool = True
    etag: str | None = None
    encryption: str | None = None
    version: str | None = None
    modified: str | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedUpload:
    """A multipart upload that was begun and neither completed nor aborted; its parts cost money."""

    key: str
    started: str


class Store(abc.ABC):
    """One bucket, container or folder, asked from one place.

    Subclasses are made by ``from_options`` with what the ledger keeps of a destination (never a
    secret: credentials come from the environment of whoever asks) and open no connection before
    the first question.
    """

    #: Name under which the ledger and the entry points know this store.
    kind: ClassVar[str]
    #: Whether `list` works; then thousands of objects cost a few requests.
    can_list: ClassVar[bool] = False

    @classmethod
    @abc.abstractmethod
    def from_options(cls, options: Mapping[str, Any]) -> Store:
        """The store that the ledger's ``destination`` record describes.

        Raises:
            StoreError: The options lack something.
        """

    @classmethod
    def from_uri(cls, uri: str, environ: Mapping[str, str]) -> tuple[Store, str]:
        """The store that a URI names, and the key in it; the scheme is the store's `kind`.

        Args:
            uri (str): As Composer writes it: not percent-encoded.
            environ (Mapping[str, str]): Holds what the URI does not say, e.g. an endpoint.

        Raises:
            StoreError: The URI lacks something, or no URI can name such a store.
        """
        del environ
        raise StoreUnsupportedError(f"{cls.kind} stores cannot be named by a URI: {uri}")

    def plan(self, size: int) -> DigestPlan:
        """Which checksums of a file of ``size`` bytes this store will be able to confirm."""
        del size
        return DigestPlan(("crc32",))

    def list(self, prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        """All objects whose key begins with ``prefix`` and sorts after ``start_after``.

        In key order, as Amazon S3 sorts; other servers may sort, and begin, somewhat differently, and
        may list a key under another spelling. So a key that is absent here is not yet missing: `head`
        decides.

        Raises:
            StoreError: Denied, unreachable or unsupported.
        """
        raise StoreUnsupportedError(f"{self.kind} stores cannot list")

    @abc.abstractmethod
    def head(self, key: str) -> StoredObject:
        """Everything that the store tells about one object without sending its content.

        Raises:
            ObjectNotFoundError: There is no such object.
            StoreError: Denied, unreachable or unsupported.
        """

    def with_part_sizes(self, stored: StoredObject) -> StoredObject:
        """The same object with the size of each of its parts, where the store can tell them.

        Asked only when a checksum is composed of parts and the configured part size did not
        explain it. Default: the object as it is.

        Raises:
            StoreError: As `head`.
        """
        return stored

    def put(self, key: str, data: bytes) -> None:
        """Store a small object; the run's own ledger is put beside its artifacts with it.

        Raises:
            StoreError: Denied, unreachable or unsupported.
        """
        raise StoreUnsupportedError(f"{self.kind} stores take no objects from here")

    def read(self, key: str) -> Iterator[bytes]:
        """The object's content in blocks, for a proof by download.

        Raises:
            StoreError: As `head`.
        """
        raise StoreUnsupportedError(f"{self.kind} stores cannot be read back here")

    def unfinished_uploads(self, prefix: str) -> Sequence[UnfinishedUpload]:
        """Multipart uploads under ``prefix`` that never ended. Default: none known."""
        del prefix
        return []

    def close(self) -> None:  # noqa: B027 - most stores hold nothing
        """Release connections."""
