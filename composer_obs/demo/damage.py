"""The damage of the demonstration: three objects of the bucket, each in its own way."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Damage", "plant_damage"]


@dataclass(frozen=True, slots=True)
class Damage:
    """One object that is not what was uploaded any more.

    Args:
        key (str): The object.
        what (str): What was done to it, for a person.
        verdict (str): What an audit must say.
    """

    key: str
    what: str
    verdict: str


def plant_damage(client: Any, bucket: str, keys: Sequence[str]) -> list[Damage]:
    """Delete the first object, truncate the second, and put as many other bytes into the third.

    Args:
        client (Any): A boto3 S3 client that may write.
        bucket (str): The bucket.
        keys (Sequence[str]): Three keys.
    """

    def content(key: str) -> bytes:
        return bytes(client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def delete(key: str) -> str:
        client.delete_object(Bucket=bucket, Key=key)
        return "deleted"

    def truncate(key: str) -> str:
        data = content(key)
        half = len(data) // 2
        client.put_object(Bucket=bucket, Key=key, Body=data[:half])
        return f"cut from {len(data):,} to {half:,} bytes"

    def swap(key: str) -> str:
        size = len(content(key))
        client.put_object(Bucket=bucket, Key=key, Body=secrets.token_bytes(size))
        return f"replaced by {size:,} other bytes"

    ways: tuple[tuple[Callable[[str], str], str], ...] = (
        (delete, "missing"),
        (truncate, "truncated"),
        (swap, "corrupt"),
    )
    return [Damage(key, way(key), verdict) for key, (way, verdict) in zip(keys, ways, strict=True)]
