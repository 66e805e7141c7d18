"""How Composer takes a URI apart: `composer.utils.parse_uri`, without Composer."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlparse

__all__ = ["URI", "parse_uri"]


class URI(NamedTuple):
    """The parts of a URI; ``scheme`` is empty for a local path.

    ``dropped`` is what Composer forgets: a query, a fragment, parameters, or what follows ``@`` in
    the name of the bucket.
    """

    scheme: str
    bucket: str
    path: str
    dropped: str


def parse_uri(text: str) -> URI:
    """Take a URI apart as Composer does.

    Raises:
        ValueError: It looks like a URI and is none, e.g. ``s3://[b``.

    Example:
        >>> parse_uri("s3://bucket/run#3/{run_name}")
        URI(scheme='s3', bucket='bucket', path='run', dropped='#3/{run_name}')
    """
    parsed = urlparse(text.replace("AZURE_BLOBS", "azure"))
    bucket, at, behind = parsed.netloc.partition("@")
    dropped = "".join(
        mark + part
        for mark, part in ((at, behind), (";", parsed.params), ("?", parsed.query), ("#", parsed.fragment))
        if part
    )
    path = parsed.path.lstrip("/") if parsed.scheme else parsed.path
    return URI(parsed.scheme, bucket, path, dropped)
