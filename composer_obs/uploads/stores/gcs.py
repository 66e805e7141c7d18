"""Google Cloud Storage, by its own API or, with HMAC keys, by the S3 protocol.

Google keeps a CRC32C of every object and an MD5 of those that were not composed of others, both of
the whole content, and gives both in a listing: one listing proves everything.

Sources: Google Cloud Storage JSON API, "Objects resource"; "Hashes and ETags"; XML API, ``x-goog-hash``.
"""

from __future__ import annotations

import base64
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from composer_obs.redaction import redact
from composer_obs.uploads.checksums import DigestPlan
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    Store,
    StoredChecksum,
    StoreDeniedError,
    StoredObject,
    StoreError,
    StoreUnreachableError,
    StoreUnsupportedError,
)
from composer_obs.uploads.stores.s3 import S3Store
from composer_obs.uploads.stores.s3_answers import iso_time, read_head

__all__ = ["GCSStore", "GoogleS3Store"]

_BLOCK = 8 << 20
_FIELDS = "name,size,crc32c,md5Hash,etag,generation,kmsKeyName,updated"
_HASH = re.compile(r"(crc32c|md5)=([A-Za-z0-9+/]+=*)")


class GCSStore(Store):
    """One bucket, asked through google-cloud-storage (which Composer's extra ``gcs`` installs).

    Credentials are Google's Application Default Credentials; ``STORAGE_EMULATOR_HOST`` is honoured.

    Args:
        bucket (str): Its name.
        connect_timeout, read_timeout (float): For each try, in seconds. Default: 5 and 10.
        patience (float): For all tries of one question, in seconds. Default: 20.

    Example:
        >>> GCSStore("checkpoints").plan(100 << 20)
        DigestPlan(kinds=('crc32c',), part_size=None)
    """

    kind: ClassVar[str] = "gs"
    can_list: ClassVar[bool] = True

    def __init__(
        self, bucket: str, *, connect_timeout: float = 5.0, read_timeout: float = 10.0, patience: float = 20.0
    ) -> None:
        self.bucket = bucket
        self._timeout = (connect_timeout, read_timeout)
        self._patience = patience
        self._made: Any = None
        self._lock = threading.Lock()

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Store:
        """A `GoogleS3Store` where ``GCS_KEY`` and ``GCS_SECRET`` are set, as Composer chooses too."""
        if not options.get("bucket"):
            raise StoreError("a Google destination without a bucket; the ledger's record of it is not whole")
        bucket = str(options["bucket"])
        if "GCS_KEY" in os.environ and "GCS_SECRET" in os.environ:
            return GoogleS3Store(bucket)
        return cls(bucket)

    @classmethod
    def from_uri(cls, uri: str, environ: Mapping[str, str]) -> tuple[Store, str]:
        """The store of ``gs://bucket/key``, and the key.

        Raises:
            StoreError: It is not such a URI.

        Example:
            >>> GCSStore.from_uri("gs://checkpoints/run 1/#2?", {})[1]
            'run 1/#2?'
        """
        del environ
        bucket, _, key = uri.removeprefix("gs://").partition("/")
        if not uri.startswith("gs://") or not bucket:
            raise StoreError(f"not a Google Cloud Storage URI: {uri!r}; write gs://bucket/prefix")
        return cls.from_options({"bucket": bucket}), key

    def plan(self, size: int) -> DigestPlan:
        del size
        return DigestPlan(("crc32c",))

    def list(self, prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        try:
            blobs = self._client().list_blobs(
                self.bucket,
                prefix=prefix,
                start_offset=start_after or None,
                fields=f"items({_FIELDS}),nextPageToken",
                **self._limits(),
            )
            for blob in blobs:
                # Google's start offset is part of the listing.
                if blob.name != start_after:
                    yield _read_blob(blob, "objects.list")
        except _foreign_errors() as error:
            raise self._explain(error, prefix) from error

    def head(self, key: str) -> StoredObject:
        blob = self._blob(key)
        try:
            blob.reload(**self._limits())
        except _foreign_errors() as error:
            raise self._explain(error, key) from error
        return _read_blob(blob, "objects.get")

    def read(self, key: str) -> Iterator[bytes]:
        blob = self._blob(key)
        try:
            # Raw: the bytes that were sent, not what a Content-Encoding would make of them.
            with blob.open("rb", chunk_size=_BLOCK, raw_download=True, **self._limits()) as reader:
                while block := reader.read(_BLOCK):
                    yield block
        except _foreign_errors() as error:
            raise self._explain(error, key) from error

    def put(self, key: str, data: bytes) -> None:
        blob = self._blob(key)
        try:
            blob.upload_from_string(data, content_type="application/octet-stream", **self._limits())
        except _foreign_errors() as error:
            raise self._explain(error, key) from error

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def _blob(self, key: str) -> Any:
        try:
            return self._client().bucket(self.bucket).blob(key)
        except _foreign_errors() as error:
            raise self._explain(error, key) from error

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                try:
                    from google.cloud.storage import Client
                except Exception as error:  # protobuf raises its own where versions do not fit
                    raise StoreUnsupportedError(
                        f"google-cloud-storage cannot be imported ({error}); pip install 'mosaicml[gcs]'"
                    ) from error
                # Composer needs no project either.
                self._made = Client(project=None)
            return self._made

    def _limits(self) -> dict[str, Any]:
        from google.cloud.storage.retry import DEFAULT_RETRY

        return {"timeout": self._timeout, "retry": DEFAULT_RETRY.with_timeout(self._patience)}

    def _explain(self, error: Exception, key: str) -> StoreError:
        from google.api_core.exceptions import GoogleAPICallError, ServerError, TooManyRequests
        from google.auth.exceptions import DefaultCredentialsError, RefreshError

        kind: type[StoreError] = StoreUnreachableError
        meaning = "no usable answer; check that Google is reachable from here, and ask again"
        code = getattr(error, "code", None)
        if code == 404:
            kind, meaning = ObjectNotFoundError, "there is no such object or no such bucket"
        elif code in (401, 403):
            meaning = "no permission to read back; grant storage.objects.get and storage.objects.list"
            kind = StoreDeniedError
        elif isinstance(error, (DefaultCredentialsError, RefreshError)):
            meaning = (
                "no usable credentials here; set GOOGLE_APPLICATION_CREDENTIALS, or GCS_KEY and GCS_SECRET"
            )
            kind = StoreDeniedError
        elif isinstance(error, GoogleAPICallError) and not isinstance(error, (ServerError, TooManyRequests)):
            kind, meaning = StoreError, "Google refused the question"
        answer = f"{type(error).__name__}: " + " ".join(str(error).split())
        return kind(redact(f"gs://{self.bucket}/{key}: {meaning}. Google answered: {answer}"))


class GoogleS3Store(S3Store):
    """One bucket of Google's, asked by the S3 protocol with the keys in ``GCS_KEY`` and ``GCS_SECRET``.

    Google answers with its own header of checksums, which are those of the whole object.
    """

    kind: ClassVar[str] = "gs"

    def __init__(
        self, bucket: str, *, endpoint_url: str = "https://storage.googleapis.com", **more: Any
    ) -> None:
        # The region and the endpoint are those that Composer uses with these keys.
        super().__init__(
            bucket,
            endpoint_url=endpoint_url,
            region_name="auto",
            checksum="when_required",  # Google does not take boto3's default ones
            aws_access_key_id=os.environ["GCS_KEY"],
            aws_secret_access_key=os.environ["GCS_SECRET"],
            **more,
        )

    def plan(self, size: int) -> DigestPlan:
        # A listing by this protocol tells the ETag alone: the MD5 of what was sent in one PUT.
        return DigestPlan(("md5", "crc32c") if size < self._multipart_threshold else ("crc32c",))

    def head(self, key: str) -> StoredObject:
        answer = self._ask("HeadObject", key, Key=key)
        stored = read_head(key, answer, etag_may_be_md5=False)
        hashes = _HASH.findall(answer["ResponseMetadata"]["HTTPHeaders"].get("x-goog-hash", ""))
        checksums = (StoredChecksum(kind, base64.b64decode(value)) for kind, value in hashes)
        return replace(stored, checksums=(*checksums, *stored.checksums))


def _read_blob(blob: Any, how: str) -> StoredObject:
    hashes = {"crc32c": blob.crc32c, "md5": blob.md5_hash}
    return StoredObject(
        key=blob.name,
        size=blob.size,
        how=how,
        checksums=tuple(
            StoredChecksum(kind, base64.b64decode(value)) for kind, value in hashes.items() if value
        ),
        etag=blob.etag,
        encryption=blob.kms_key_name,
        version=None if blob.generation is None else str(blob.generation),
        modified=iso_time(blob.updated),
    )


def _foreign_errors() -> tuple[type[Exception], ...]:
    """Empty where the package cannot be imported: then nothing of its own is raised."""
    try:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException
    except Exception:  # said by `GCSStore._client`
        return ()
    return (GoogleAPIError, GoogleAuthError, RequestException, OSError)
