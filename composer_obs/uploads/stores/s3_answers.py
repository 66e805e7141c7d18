"""What S3's answers say about an object: pure functions from headers and XML to `StoredObject`.

boto3 checks every field of a listing against its model of the service and parses every time stamp,
which is most of what a listing costs on this side. `read_page` takes the place of that one step;
signing, retries, redirects, proxies and errors stay boto3's.

Sources: Amazon S3 API Reference (ListObjectsV2, HeadObject, "Object": what an ETag is) and User
Guide, "Checking object integrity for data uploads in Amazon S3".
"""

from __future__ import annotations

import base64
import binascii
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote_plus

from composer_obs.uploads.checksums import KINDS
from composer_obs.uploads.stores.base import StoredChecksum, StoredObject

__all__ = ["iso_time", "read_head", "read_page"]

_ETAG = re.compile(r"(?P<md5>[0-9a-f]{32})(?:-(?P<parts>\d+))?")
_CHECKSUM = re.compile(r"(?P<value>[A-Za-z0-9+/]+=*)(?:-(?P<parts>\d+))?")


def read_page(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Handler of botocore's event ``before-parse`` of ListObjectsV2: adds ``Objects`` and ``Token``.

    Raises:
        ResponseParserError: The answer is not a listing, but perhaps the page of a proxy.
    """
    if response_dict["status_code"] != 200:
        return
    try:
        root = ET.fromstring(response_dict["body"])  # noqa: S314 - botocore reads it with the same parser
    except ET.ParseError:
        root = ET.Element("Error")
    namespace, _separator, name = root.tag.rpartition("}")
    if name == "Error":
        # An error in disguise, or an answer that was cut off: botocore, too, makes these a server
        # error, which is asked about again.
        response_dict["status_code"] = 500
        return
    if name != "ListBucketResult":
        from botocore.parsers import ResponseParserError

        raise ResponseParserError(f"a listing was expected, but the answer is <{name}>")
    if namespace:
        namespace += "}"
    # boto3 asks for it, since XML has no way to write every character that a key may hold.
    is_encoded = root.findtext(namespace + "EncodingType") == "url"
    tags = ("Key", "Size", "ETag", "LastModified")
    key_tag, size_tag, etag_tag, time_tag = (namespace + tag for tag in tags)
    objects = []
    for entry in root.iterfind(namespace + "Contents"):
        key, etag = entry.findtext(key_tag, ""), entry.findtext(etag_tag, "").strip('"')
        objects.append(
            StoredObject(
                key=unquote_plus(key) if is_encoded else key,
                size=int(entry.findtext(size_tag, "")),
                how="ListObjectsV2",
                # A listing does not tell how an object is encrypted: see `read_head`.
                checksums=_of_etag(etag, certain=False),
                complete=False,
                etag=etag or None,
                modified=entry.findtext(time_tag),
            )
        )
    customized_response_dict["Objects"] = objects
    customized_response_dict["Token"] = root.findtext(namespace + "NextContinuationToken")
    response_dict["body"] = b"<ListBucketResult/>"


def read_head(key: str, answer: Mapping[str, Any], *, etag_may_be_md5: bool = True) -> StoredObject:
    """What boto3's answer to a HeadObject says; checksums in the order of their worth.

    Args:
        key (str): The object key.
        answer (Mapping[str, Any]): The answer to ``head_object(ChecksumMode="ENABLED")``.
        etag_may_be_md5 (bool): ``False`` for buckets whose ETags are random.
    """
    etag = answer.get("ETag", "").strip('"')
    by_customer = "SSE-C" if answer.get("SSECustomerAlgorithm") else None
    encryption = answer.get("ServerSideEncryption") or by_customer
    # With a key of KMS or of the customer's, an ETag only looks like an MD5.
    certain = etag_may_be_md5 and encryption in (None, "AES256")
    of_etag = _of_etag(etag, certain=certain)
    composed_of = of_etag[0].parts if of_etag else None
    return StoredObject(
        key=key,
        size=answer["ContentLength"],
        how="HeadObject",
        checksums=(*_of_headers(answer, composed_of), *of_etag),
        etag=etag or None,
        encryption=encryption,
        version=answer.get("VersionId"),
        modified=iso_time(answer.get("LastModified")),
    )


def iso_time(time: datetime | None) -> str | None:
    """In UTC, in the form that listings use."""
    return None if time is None else time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _of_headers(answer: Mapping[str, Any], composed_of: int | None) -> list[StoredChecksum]:
    found = []
    for kind, length in KINDS.items():
        match = _CHECKSUM.fullmatch(answer.get(f"Checksum{kind.upper()}", ""))
        if match is None:
            continue
        parts = int(match["parts"]) if match["parts"] else None
        if parts is None and answer.get("ChecksumType") == "COMPOSITE":
            # Without the number of parts beside it the value would be taken for one of the whole.
            if composed_of is None:
                continue
            parts = composed_of
        try:
            value = base64.b64decode(match["value"])
        except binascii.Error:
            continue
        if len(value) == length:
            found.append(StoredChecksum(kind, value, parts))
    return sorted(found, key=lambda checksum: checksum.parts is not None)


def _of_etag(etag: str, *, certain: bool) -> tuple[StoredChecksum, ...]:
    match = _ETAG.fullmatch(etag)
    if match is None:
        return ()
    parts = int(match["parts"]) if match["parts"] else None
    return (StoredChecksum("md5", bytes.fromhex(match["md5"]), parts, certain),)
