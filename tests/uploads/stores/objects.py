"""Objects in a real S3 server, written as Composer writes them."""

from __future__ import annotations

import functools
import io
import random
from typing import Any

from boto3.s3.transfer import TransferConfig

from composer_obs.demo import S3Server
from composer_obs.uploads.stores.s3 import S3Store

MIB = 1 << 20
#: Enough for three parts of boto3's default size.
BIG = random.Random(0).randbytes(20_000_000)


def store_of(server: S3Server, bucket: str, user: str = "admin", **more: Any) -> S3Store:
    key, secret = server.credentials(user)
    return S3Store(
        bucket,
        endpoint_url=server.endpoint_url,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        **more,
    )


@functools.cache
def client_of(server: S3Server) -> Any:
    return server.client()


def upload(
    server: S3Server, bucket: str, key: str, data: bytes, part_size: int = 8 * MIB, **extra: str
) -> None:
    """As Composer does it: boto3's managed transfer."""
    config = TransferConfig(multipart_chunksize=part_size)
    client_of(server).upload_fileobj(io.BytesIO(data), bucket, key, ExtraArgs=extra, Config=config)
