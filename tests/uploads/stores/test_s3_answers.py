"""Answers that SeaweedFS never gives: KMS keys, directory buckets, checksums of other uploaders.

A small real HTTP server gives them as the Amazon S3 API Reference says; boto3 asks and reads them.
"""

from __future__ import annotations

import hashlib

import pytest

from composer_obs.uploads.stores.base import StoredChecksum, StoredObject, StoreError
from composer_obs.uploads.stores.s3 import S3Store
from composer_obs.uploads.stores.s3_answers import read_head
from tests.uploads.stores.answering import AnsweringServer, entry, error_body, page

MD5 = hashlib.md5(b"data").hexdigest()


@pytest.mark.parametrize(
    ("headers", "encryption", "certain"),
    [
        ({}, None, True),
        ({"x-amz-server-side-encryption": "AES256"}, "AES256", True),
        ({"x-amz-server-side-encryption": "aws:kms"}, "aws:kms", False),
        ({"x-amz-server-side-encryption": "aws:kms:dsse"}, "aws:kms:dsse", False),
        ({"x-amz-server-side-encryption-customer-algorithm": "AES256"}, "SSE-C", False),
    ],
)
def test_an_etag_is_an_md5_only_without_a_key_of_kms_or_of_the_customer(
    answering: AnsweringServer,
    documented: S3Store,
    headers: dict[str, str],
    encryption: str | None,
    certain: bool,
) -> None:
    answering.always(
        200,
        {
            "ETag": f'"{MD5}"',
            "Content-Length": "4",
            "Last-Modified": "Mon, 01 Dec 2025 10:11:12 GMT",
            "x-amz-version-id": "v7",
            **headers,
        },
    )
    assert documented.head("k") == StoredObject(
        "k",
        4,
        "HeadObject",
        checksums=(StoredChecksum("md5", bytes.fromhex(MD5), None, certain),),
        etag=MD5,
        encryption=encryption,
        version="v7",
        modified="2025-12-01T10:11:12Z",
    )


def test_the_etag_of_a_directory_bucket_proves_nothing() -> None:
    """boto3 opens a session of its own with such a bucket, so only the reading of the answer is tested."""
    answer = {"ETag": f'"{MD5}"', "ContentLength": 4}
    assert read_head("k", answer).checksums[0].certain
    assert not read_head("k", answer, etag_may_be_md5=False).checksums[0].certain


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        # Of the whole object although it was sent in parts; before the ETag of the parts.
        (
            {"x-amz-checksum-crc32": "y/Q5Jg==", "x-amz-checksum-type": "FULL_OBJECT", "ETag": f'"{MD5}-3"'},
            [("crc32", "cbf43926", None), ("md5", MD5, 3)],
        ),
        # Of the parts, as boto3's own uploads have it.
        (
            {"x-amz-checksum-crc32": "y/Q5Jg==-3", "x-amz-checksum-type": "COMPOSITE", "ETag": f'"{MD5}-3"'},
            [("crc32", "cbf43926", 3), ("md5", MD5, 3)],
        ),
        # Two kinds: that of the whole is the better evidence.
        (
            {"x-amz-checksum-crc32": "y/Q5Jg==-3", "x-amz-checksum-crc64nvme": "rosUhgp5mIg="},
            [("crc64nvme", "ae8b14860a799888", None), ("crc32", "cbf43926", 3)],
        ),
        # Composite without its number of parts, as some servers say it: the ETag has the number ...
        (
            {"x-amz-checksum-crc32": "y/Q5Jg==", "x-amz-checksum-type": "COMPOSITE", "ETag": f'"{MD5}-3"'},
            [("crc32", "cbf43926", 3), ("md5", MD5, 3)],
        ),
        # ... or nothing has, and the value must not be taken for one of the whole.
        ({"x-amz-checksum-crc32": "y/Q5Jg==", "x-amz-checksum-type": "COMPOSITE", "ETag": '"opaque"'}, []),
        # Neither an algorithm from the future nor a mangled value is believed.
        ({"x-amz-checksum-xxhash3": "AAAAAAAAAAA=", "ETag": f'"{MD5}"'}, [("md5", MD5, None)]),
        (
            {"x-amz-checksum-crc32": "AAAA", "x-amz-checksum-sha1": "A", "ETag": f'"{MD5}"'},
            [("md5", MD5, None)],
        ),
        ({"ETag": '"0123456789ABCDEF"'}, []),
        ({}, []),
    ],
)
def test_checksums_are_read_with_their_type_and_best_evidence_first(
    answering: AnsweringServer,
    documented: S3Store,
    headers: dict[str, str],
    expected: list[tuple[str, str, int | None]],
) -> None:
    answering.always(200, {"Content-Length": "9", **headers})
    found = [(c.kind, c.value.hex(), c.parts) for c in documented.head("k").checksums]
    assert found == expected


@pytest.mark.parametrize("namespace", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'])
def test_keys_are_decoded_only_if_the_server_encoded_them(
    answering: AnsweringServer, documented: S3Store, namespace: str
) -> None:
    answering.always(200, {}, page(entry("a%20b+c"), "<EncodingType>url</EncodingType>", namespace))
    assert [found.key for found in documented.list("")] == ["a b c"]
    answering.always(200, {}, page(entry("a%20b+c"), "", namespace))
    assert list(documented.list("")) == [
        StoredObject("a%20b+c", 3, "ListObjectsV2", complete=False),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>Please log in</body></html>",  # the page of a proxy or a portal
        page("<Contents><Key>k</Key></Contents>"),
        "not XML",
        "",
        page(entry("k"))[:-30],  # cut off
    ],
)
def test_an_answer_that_is_no_listing_is_not_taken_for_an_empty_one(
    answering: AnsweringServer, documented: S3Store, body: str
) -> None:
    answering.always(200, {}, body)
    with pytest.raises(StoreError):
        list(documented.list(""))


@pytest.mark.parametrize("first", [page(entry("k"))[:-30], error_body("InternalError")])
def test_a_page_that_was_cut_off_or_is_an_error_in_disguise_is_asked_for_again(
    answering: AnsweringServer, first: str
) -> None:
    answers = iter([(200, {}, first), (200, {}, page(entry("k")))])
    answering.answer = lambda _method, _path: next(answers)
    store = S3Store("b", endpoint_url=answering.url, aws_access_key_id="k", aws_secret_access_key="s")
    assert [found.key for found in store.list("")] == ["k"]
    assert len(answering.requests) == 2


def test_botocore_does_not_read_a_page_a_second_time(
    answering: AnsweringServer, documented: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own handlers run after ours only as long as it calls wildcards first."""
    from botocore import handlers

    sizes: list[int] = []
    looks_for_error = handlers._looks_like_special_case_error

    def spy(status: int, body: bytes) -> bool:
        sizes.append(len(body))
        return bool(looks_for_error(status, body))

    monkeypatch.setattr(handlers, "_looks_like_special_case_error", spy)
    answering.always(200, {}, page("".join(entry(f"k{number}") for number in range(100))))
    assert len(list(documented.list(""))) == 100
    assert max(sizes) < 100
