"""Amazon S3 and everything that speaks its protocol, asked through boto3.

A listing answers for a thousand objects at once, with size and ETag: enough to prove an object that
was sent by a single PUT. `S3Store.head` adds the checksums that S3 keeps beside an object, and
`S3Store.with_part_sizes` how a multipart object was cut, which its composite checksums depend on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from urllib.parse import urlsplit

from composer_obs.uploads.checksums import DigestPlan
from composer_obs.uploads.stores.base import (
    Store,
    StoredObject,
    StoreError,
    StoreUnreachableError,
    UnfinishedUpload,
)
from composer_obs.uploads.stores.s3_answers import iso_time, read_head, read_page
from composer_obs.uploads.stores.s3_errors import explain

__all__ = ["S3Store", "upload_part_size"]

MIB = 1 << 20
# boto3's TransferConfig: multipart_chunksize and multipart_threshold.
DEFAULT_PART_SIZE = DEFAULT_MULTIPART_THRESHOLD = 8 * MIB
# Limits on multipart uploads (Amazon S3 User Guide, "Amazon S3 multipart upload limits").
_SMALLEST_PART, _LARGEST_PART, _MOST_PARTS = 5 * MIB, 5 * 1024 * MIB, 10_000

# Where Composer looks for an endpoint, then boto3.
_ENDPOINT_VARIABLES = ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_SECRETS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_OPTIONS = (
    *("endpoint_url", "region_name", "addressing_style"),
    *("part_size", "multipart_threshold", "checksum"),
)


def upload_part_size(part_size: int, size: int) -> int:
    """The part size that boto3 really uses for a file: S3 limits both size and number of parts.

    Args:
        part_size (int): As configured, in bytes.
        size (int): Of the file, in bytes.

    Example:
        >>> upload_part_size(8 << 20, 100 << 30) >> 20  # 100 GiB would be 12,800 parts of 8 MiB
        16
    """
    while -(-size // part_size) > _MOST_PARTS:
        part_size *= 2
    return min(max(part_size, _SMALLEST_PART), _LARGEST_PART)


class S3Store(Store):
    """One bucket.

    Args:
        bucket (str): Its name.
        endpoint_url (str, optional): Of a server other than Amazon's. Default: boto3's own look-up.
        region_name (str, optional): Default: boto3's own look-up.
        addressing_style (str, optional): ``"path"``, ``"virtual"`` or ``"auto"``. Default: boto3's.
        part_size (int): Of the parts that the uploader was configured with, in bytes. Default: 8 MiB.
        multipart_threshold (int): From this size on it sends parts, in bytes. Default: 8 MiB.
        checksum (str): ``"when_supported"`` if it sends a CRC32 with every upload, as boto3 does
            unless it is told ``"when_required"``.
        connect_timeout, read_timeout (float): For each try, in seconds. Default: 5 and 10.
        attempts (int): Tries for each question. Default: 2.
        connections (int): How many threads may ask at a time. Default: 16.
        **credentials (str): ``aws_access_key_id``, ``aws_secret_access_key`` and
            ``aws_session_token``, of an uploader that was given them. Default: boto3's own look-up.

    Example:
        >>> S3Store("checkpoints", endpoint_url="http://127.0.0.1:9000").plan(100 << 20)
        DigestPlan(kinds=('crc32',), part_size=8388608)
    """

    kind: ClassVar[str] = "s3"
    can_list: ClassVar[bool] = True

    def __init__(
        self,
        bucket: str,
        *,
        endpoint_url: str | None = None,
        region_name: str | None = None,
        addressing_style: str | None = None,
        part_size: int = DEFAULT_PART_SIZE,
        multipart_threshold: int = DEFAULT_MULTIPART_THRESHOLD,
        checksum: str = "when_supported",
        connect_timeout: float = 5.0,
        read_timeout: float = 10.0,
        attempts: int = 2,
        connections: int = 16,
        **credentials: str,
    ) -> None:
        self.bucket = bucket
        self._part_size = part_size
        self._multipart_threshold = multipart_threshold
        self._sends_crc = checksum != "when_required"
        self._endpoint_url = endpoint_url
        self._arguments: dict[str, Any] = {
            "endpoint_url": endpoint_url,
            "region_name": region_name,
            **credentials,
        }
        self._config: dict[str, Any] = {
            "connect_timeout": connect_timeout,
            "read_timeout": read_timeout,
            "retries": {"mode": "standard", "total_max_attempts": attempts},
            "max_pool_connections": connections,
            "request_checksum_calculation": checksum,
            # A damaged object is to be reported, not an exception in the middle of reading it.
            "response_checksum_validation": "when_required",
            "s3": {"addressing_style": addressing_style} if addressing_style else None,
        }
        self._made: Any = None
        self._lock = threading.Lock()

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> S3Store:
        if not options.get("bucket"):
            raise StoreError("an S3 destination without a bucket; the ledger's record of it is not whole")
        names = (*_OPTIONS, *_SECRETS)
        given = {name: options[name] for name in names if options.get(name) is not None}
        return cls(str(options["bucket"]), **given)

    @classmethod
    def from_uri(cls, uri: str, environ: Mapping[str, str]) -> tuple[S3Store, str]:
        """The store of ``s3://bucket/key``, and the key.

        Args:
            uri (str): The URI, as Composer writes it: not percent-encoded.
            environ (Mapping[str, str]): Holds the endpoint in the variables that Composer or boto3
                read.

        Raises:
            StoreError: It is not such a URI.

        Example:
            >>> S3Store.from_uri("s3://checkpoints/run 1/#2?", {})[1]
            'run 1/#2?'
        """
        scheme, _, rest = uri.partition("://")
        bucket, _, key = rest.partition("/")
        if scheme != "s3" or not bucket:
            raise StoreError(f"not an S3 URI: {uri!r}; write s3://bucket/prefix")
        return cls.from_options(cls.options_from_uploader({"bucket": bucket}, environ)), key

    @staticmethod
    def options_from_uploader(
        backend_kwargs: Mapping[str, Any], environ: Mapping[str, str]
    ) -> dict[str, Any]:
        """What the ledger keeps of the arguments of Composer's ``S3ObjectStore``: never a secret.

        Args:
            backend_kwargs (Mapping[str, Any]): Its keyword arguments. ``prefix`` is left out, since
                the ledger holds whole keys.
            environ (Mapping[str, str]): The environment of the uploader.

        Example:
            >>> options = S3Store.options_from_uploader({"bucket": "b", "aws_secret_access_key": "x"}, {})
            >>> sorted(options)
            ['bucket', 'checksum', 'multipart_threshold', 'part_size']
        """
        client = backend_kwargs.get("client_config") or {}
        transfer = backend_kwargs.get("transfer_config") or {}
        endpoints = (backend_kwargs.get("endpoint_url"), *map(environ.get, _ENDPOINT_VARIABLES))
        regions = (
            backend_kwargs.get("region_name"),
            client.get("region_name"),
            environ.get("AWS_DEFAULT_REGION"),
        )
        checksums = (
            client.get("request_checksum_calculation"),
            environ.get("AWS_REQUEST_CHECKSUM_CALCULATION"),
            "when_supported",
        )
        options = {
            "bucket": str(backend_kwargs["bucket"]).strip("/"),
            "endpoint_url": next((_without_user(url) for url in endpoints if url), None),
            "region_name": next(filter(None, regions), None),
            "addressing_style": (client.get("s3") or {}).get("addressing_style"),
            "part_size": transfer.get("multipart_chunksize", DEFAULT_PART_SIZE),
            "multipart_threshold": transfer.get("multipart_threshold", DEFAULT_MULTIPART_THRESHOLD),
            "checksum": next(filter(None, checksums)).lower(),
        }
        return {name: value for name, value in options.items() if value is not None}

    def plan(self, size: int) -> DigestPlan:
        single = size < self._multipart_threshold
        # With an MD5, a listing alone proves a single PUT. For parts it is worth its price (it takes
        # several times as long as a CRC32) only where the ETag is all that is kept.
        kinds = ("crc32",) if self._sends_crc and not single else ("md5", "crc32")
        return DigestPlan(kinds, None if single else upload_part_size(self._part_size, size))

    def list(self, prefix: str, start_after: str = "") -> Iterator[StoredObject]:
        arguments = {"Prefix": prefix}
        if start_after:
            arguments["StartAfter"] = start_after
        while True:
            answer = self._ask("ListObjectsV2", prefix, **arguments)
            yield from answer["Objects"]
            token = answer["Token"]
            if not token:
                return
            if token == arguments.get("ContinuationToken"):
                raise StoreUnreachableError(f"{self._where(prefix)}: the listing repeats itself without end")
            arguments["ContinuationToken"] = token

    def head(self, key: str) -> StoredObject:
        answer = self._ask("HeadObject", key, Key=key, ChecksumMode="ENABLED")
        # The ETags of directory buckets are random.
        return read_head(key, answer, etag_may_be_md5=not self.bucket.endswith("--x-s3"))

    def with_part_sizes(self, stored: StoredObject) -> StoredObject:
        counts = [checksum.parts for checksum in stored.checksums if checksum.parts is not None]
        if stored.part_sizes is not None or not counts:
            return stored
        for ask in (self._listed_parts, self._equal_parts):
            try:
                sizes = ask(stored.key, counts[0])
            except StoreUnreachableError:
                raise
            except StoreError:
                continue  # Not offered here, or not permitted: it takes a permission of its own.
            if len(sizes) == counts[0] and sum(sizes) == stored.size:
                return replace(stored, part_sizes=tuple(sizes))
        return stored

    def _listed_parts(self, key: str, count: int) -> Sequence[int]:
        """The size of every part; Amazon tells it only of uploads that were sent with checksums."""
        sizes: dict[int, int] = {}
        while len(sizes) < count:
            answer = self._ask(
                "GetObjectAttributes",
                key,
                Key=key,
                ObjectAttributes=["ObjectParts"],
                PartNumberMarker=max(sizes, default=0),
            )
            parts = answer.get("ObjectParts", {}).get("Parts", ())
            told = {part["PartNumber"]: part["Size"] for part in parts}
            if told.keys() <= sizes.keys():  # none, or the same again
                break
            sizes |= told
        return [sizes[number] for number in sorted(sizes)]

    def _equal_parts(self, key: str, count: int) -> Sequence[int]:
        """All as large as the first one but the last, whose own size confirms it."""
        first, last = (
            self._ask("HeadObject", key, Key=key, PartNumber=number)["ContentLength"] for number in (1, count)
        )
        return [*[first] * (count - 1), last]

    def read(self, key: str) -> Iterator[bytes]:
        body = self._ask("GetObject", key, Key=key)["Body"]
        try:
            yield from body.iter_chunks(MIB)
        except _foreign_errors() as error:
            raise explain(error, question="GetObject", where=self._where(key)) from error
        finally:
            body.close()

    def put(self, key: str, data: bytes) -> None:
        self._ask("PutObject", key, Key=key, Body=data)

    def unfinished_uploads(self, prefix: str) -> Sequence[UnfinishedUpload]:
        try:
            pages = self._client().get_paginator("list_multipart_uploads")
            return [
                UnfinishedUpload(upload["Key"], iso_time(upload.get("Initiated")) or "")
                for page in pages.paginate(Bucket=self.bucket, Prefix=prefix)
                for upload in page.get("Uploads", ())
            ]
        except _foreign_errors() as error:
            raise explain(error, question="ListMultipartUploads", where=self._where(prefix)) from error

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def _where(self, key: str) -> str:
        return f"s3://{self.bucket}/{key}" + (f" at {self._endpoint_url}" if self._endpoint_url else "")

    def _ask(self, operation: str, key: str, **arguments: Any) -> Any:
        from botocore import xform_name

        try:
            return getattr(self._client(), xform_name(operation))(Bucket=self.bucket, **arguments)
        except _foreign_errors() as error:
            raise explain(error, question=operation, where=self._where(key)) from error

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                # boto3's own client is this one with file transfers added, which take as long to
                # import as all the rest. A session of our own: the default one is shared by threads.
                from botocore.config import Config
                from botocore.session import get_session

                config = Config(**self._config)
                session: Any = get_session()
                self._made = session.create_client("s3", config=config, **self._arguments)
                # A name with a wildcard is called first. Botocore's own handler, which looks for
                # errors in disguise, would otherwise read the whole page once more.
                self._made.meta.events.register("before-parse.*.ListObjectsV2", read_page)
            return self._made


def _foreign_errors() -> tuple[type[Exception], ...]:
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    # OSError: a certificate file that is not there. ValueError: an endpoint that is no URL.
    # RecursionError: botocore follows some redirects in circles.
    return (BotoCoreError, ClientError, ResponseParserError, OSError, ValueError, RecursionError)


def _without_user(url: str) -> str:
    """An endpoint without the user, password or token that its URL may carry."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
