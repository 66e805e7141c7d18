"""Against a real S3 server (SeaweedFS) wherever it can give the answer.

The last tests, and those of `s3_answers` and `s3_errors`, need answers that it cannot give; they come
from a small real HTTP server that answers as the Amazon S3 API Reference says.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import io
import subprocess
import sys
from itertools import islice

import pytest
from botocore.config import Config
from hypothesis import example, given
from hypothesis import strategies as st
from s3transfer.utils import ChunksizeAdjuster

from composer_obs.demo import S3Server
from composer_obs.uploads.checksums import DigestPlan, compute_digests
from composer_obs.uploads.stores.base import (
    StoredChecksum,
    StoredObject,
    StoreError,
    StoreUnreachableError,
)
from composer_obs.uploads.stores.s3 import S3Store, upload_part_size
from composer_obs.uploads.verdicts import Verdict, judge
from tests.uploads.reference import CHECKSUMS, composite, equal_sizes
from tests.uploads.stores.answering import AnsweringServer, entry, error_body, page
from tests.uploads.stores.objects import BIG, MIB, client_of, store_of, upload

ALGORITHMS = ("crc32", "crc32c", "crc64nvme", "sha1", "sha256")


@pytest.fixture(scope="module")
def shared_bucket(s3_server: S3Server) -> str:
    """For tests that need no more than a key of their own: a new bucket takes half a second."""
    s3_server.create_bucket("shared-by-test-s3")
    return "shared-by-test-s3"


def upload_parts(server: S3Server, bucket: str, key: str, parts: list[bytes]) -> None:
    """Parts of any sizes, which boto3's managed transfer never makes."""
    client = client_of(server)
    upload_id = client.create_multipart_upload(Bucket=bucket, Key=key, ChecksumAlgorithm="CRC32")["UploadId"]
    done = []
    for number, part in enumerate(parts, start=1):
        answer = client.upload_part(
            Bucket=bucket,
            Key=key,
            UploadId=upload_id,
            PartNumber=number,
            Body=part,
            ChecksumAlgorithm="CRC32",
        )
        done.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32": answer["ChecksumCRC32"]})
    client.complete_multipart_upload(
        Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": done}
    )


def checksum(stored: StoredObject, kind: str) -> StoredChecksum:
    return next(found for found in stored.checksums if found.kind == kind)


def requests_of(store: S3Store) -> list[str]:
    """The names of the operations that the store asks for from now on, as its client sends them."""
    asked: list[str] = []
    store._client().meta.events.register(
        "before-call.s3.*", lambda model, **_: asked.append(model.name), unique_id="test"
    )
    return asked


# What the store keeps, compared with other libraries and with our own digests


@pytest.mark.parametrize("part_size", [None, 5 * MIB, 6 * MIB, 8 * MIB])
@pytest.mark.parametrize("kind", ALGORITHMS)
def test_every_checksum_that_s3_keeps_is_understood(
    s3_server: S3Server, shared_bucket: str, kind: str, part_size: int | None
) -> None:
    data = BIG if part_size else BIG[: 3 * MIB]
    key = f"{kind}/{part_size}"
    upload(s3_server, shared_bucket, key, data, part_size or 8 * MIB, ChecksumAlgorithm=kind.upper())
    sizes = equal_sizes(len(data), part_size or len(data))
    # S3 keeps CRC64NVME of the whole object always; all others of the parts (User Guide).
    count = len(sizes) if part_size and kind != "crc64nvme" else None
    expected = composite(kind, data, sizes) if count else CHECKSUMS[kind](data)

    stored = store_of(s3_server, shared_bucket).head(key)

    assert stored.size == len(data)
    assert checksum(stored, kind) == StoredChecksum(kind, expected, count)
    md5 = composite("md5", data, sizes) if part_size else hashlib.md5(data).digest()
    assert checksum(stored, "md5") == StoredChecksum("md5", md5, len(sizes) if part_size else None)
    ours = compute_digests(io.BytesIO(data).readinto, DigestPlan((kind, "md5"), part_size))
    assert (ours[kind].composite(sizes) if count else ours[kind].full) == checksum(stored, kind).value
    assert (ours["md5"].composite(sizes) if part_size else ours["md5"].full) == checksum(stored, "md5").value


@pytest.mark.parametrize("calculation", ["when_supported", "when_required"])
@pytest.mark.parametrize("size", [0, 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 16 * MIB, len(BIG)])
def test_what_the_plan_sums_proves_what_boto3_uploads(
    s3_server: S3Server, shared_bucket: str, size: int, calculation: str
) -> None:
    """With its default checksums and without them, at every size around the multipart threshold."""
    import boto3

    key, secret = s3_server.credentials()
    client = boto3.Session(key, secret, region_name="us-east-1").client(
        "s3",
        endpoint_url=s3_server.endpoint_url,
        config=Config(request_checksum_calculation=calculation),
    )
    name = f"{calculation}/{size} bytes"
    client.upload_fileobj(io.BytesIO(BIG[:size]), shared_bucket, name)
    store = store_of(s3_server, shared_bucket, checksum=calculation)
    digests = compute_digests(io.BytesIO(BIG[:size]).readinto, store.plan(size))

    assert judge(size, digests, store.head(name)).verdict is Verdict.PROVEN
    (listed,) = store.list(name)
    proven_by_listing = size < 8 * MIB or calculation == "when_required"
    assert (judge(size, digests, listed).verdict is Verdict.PROVEN) == proven_by_listing


@pytest.mark.parametrize("position", [0, 12_345_678, len(BIG) - 1])
def test_one_flipped_bit_of_a_multipart_object_is_found_without_a_download(
    s3_server: S3Server, shared_bucket: str, position: int
) -> None:
    store, key = store_of(s3_server, shared_bucket), f"flipped at {position}"
    damaged = bytearray(BIG)
    damaged[position] ^= 0x10
    upload(s3_server, shared_bucket, key, bytes(damaged))
    asked = requests_of(store)

    stored = store.with_part_sizes(store.head(key))

    digests = compute_digests(io.BytesIO(BIG).readinto, store.plan(len(BIG)))
    assert checksum(stored, "crc32").value == composite(
        "crc32", bytes(damaged), equal_sizes(len(BIG), 8 * MIB)
    )
    assert digests["crc32"].composite(stored.part_sizes or ()) != checksum(stored, "crc32").value
    assert judge(len(BIG), digests, stored).verdict is Verdict.CORRUPT
    assert "GetObject" not in asked


# How an object was cut


def test_an_ordinary_object_is_answered_by_one_request(
    s3_server: S3Server, bucket: str, store: S3Store
) -> None:
    upload(s3_server, bucket, "single", BIG[:100])
    upload(s3_server, bucket, "parts", BIG)
    asked = requests_of(store)

    single, parts = store.head("single"), store.head("parts")

    assert asked == ["HeadObject", "HeadObject"]
    assert single.complete
    assert parts.complete
    assert store.with_part_sizes(single) == single
    assert asked == ["HeadObject", "HeadObject"]


def test_part_sizes_that_nobody_configured_are_told_by_the_store(
    s3_server: S3Server, bucket: str, store: S3Store
) -> None:
    upload(s3_server, bucket, "even", BIG, part_size=6 * MIB)
    uneven = [5 * MIB, 7 * MIB, 6 * MIB, 1]
    upload_parts(s3_server, bucket, "uneven", [bytes(size) for size in uneven])

    even = store.with_part_sizes(store.head("even"))

    assert even.part_sizes == tuple(equal_sizes(len(BIG), 6 * MIB))
    assert store.with_part_sizes(store.head("uneven")).part_sizes == tuple(uneven)
    # Summed in smaller parts that fit, the content is proven all the same.
    digests = compute_digests(io.BytesIO(BIG).readinto, DigestPlan(("crc32",), 2 * MIB))
    assert judge(len(BIG), digests, even).verdict is Verdict.PROVEN


@given(part_size=st.integers(1, 6 << 30), size=st.integers(0, 6 << 40))
@example(part_size=8 * MIB, size=80_000 * MIB)
@example(part_size=8 * MIB, size=80_000 * MIB + 1)
def test_the_part_size_is_the_one_that_boto3_chooses(part_size: int, size: int) -> None:
    assert upload_part_size(part_size, size) == ChunksizeAdjuster().adjust_chunksize(part_size, size)


def test_the_plan_follows_the_uploaders_configuration() -> None:
    configured = S3Store("b", part_size=16 * MIB, multipart_threshold=64 * MIB)
    assert configured.plan(64 * MIB - 1) == DigestPlan(("md5", "crc32"))
    assert configured.plan(64 * MIB) == DigestPlan(("crc32",), 16 * MIB)
    assert configured.plan(400 << 30) == DigestPlan(("crc32",), 64 * MIB)
    plain = S3Store("b", checksum="when_required")
    assert plain.plan(1) == DigestPlan(("md5", "crc32"))
    assert plain.plan(8 * MIB) == DigestPlan(("md5", "crc32"), 8 * MIB)


# Listing


def put_all(server: S3Server, bucket: str, keys: list[str]) -> None:
    client = client_of(server)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=key.encode()), keys))


def test_a_listing_of_many_pages_is_whole_and_in_order(
    s3_server: S3Server, bucket: str, store: S3Store
) -> None:
    keys = [f"run/ep{number // 100:02}/rank{number:04}.pt" for number in range(2500)]
    put_all(s3_server, bucket, [*keys, "runner", "other/x"])
    asked = requests_of(store)

    listed = list(store.list("run/"))

    assert [found.key for found in listed] == keys
    assert [found.checksums for found in listed] == [
        (StoredChecksum("md5", hashlib.md5(key.encode()).digest(), certain=False),) for key in keys
    ]
    assert {found.size for found in listed} == {len(keys[0])}
    assert not any(found.complete for found in listed)
    assert asked == ["ListObjectsV2"] * 3
    assert [found.key for found in store.list("run/", start_after=keys[1234])] == keys[1235:]
    assert [found.key for found in islice(store.list("run/", keys[2000]), 3)] == keys[2001:2004]
    assert list(store.list("run/", keys[-1])) == []
    assert list(store.list("no such prefix")) == []


ODD_KEYS = [
    "with space/a b.pt",
    "hash#1",
    "question?x=1&y=2",
    "percent%20literal",
    "percent%zz",
    "%2F",
    "plus+plus",
    "ünïcödé/日本/😀.pt",
    "e\u0301 decomposed",
    "dots/a..b/..c",
    "ep{epoch}-ba{batch}/{rank}.pt",
    "amp&lt;<tag>\"quoted'",
    "semi;colon:at@equals=",
    "*[glob]?",
    "~tilde^|`",
    "tab\tnewline\ncontrol\x01",
]


def test_keys_with_odd_characters_are_listed_and_asked_for_as_they_are(
    s3_server: S3Server, bucket: str, store: S3Store
) -> None:
    put_all(s3_server, bucket, ODD_KEYS)

    assert {found.key: found.size for found in store.list("")} == {key: len(key.encode()) for key in ODD_KEYS}
    for key in ODD_KEYS:
        stored = store.head(key)
        assert (stored.key, checksum(stored, "md5").value) == (key, hashlib.md5(key.encode()).digest())
        assert b"".join(store.read(key)) == key.encode()
        assert key in {found.key for found in store.list(key)}


@pytest.mark.parametrize("key", ["/leading", "//two", "a//b"])
def test_a_key_that_the_server_lists_under_another_spelling_is_found_by_asking_for_it(
    s3_server: S3Server, bucket: str, store: S3Store, key: str
) -> None:
    """SeaweedFS keeps objects as paths. So a key that a listing lacks is not yet missing."""
    put_all(s3_server, bucket, [key])
    assert store.head(key).size == len(key)


def test_an_object_is_put_and_read_back_in_blocks(store: S3Store) -> None:
    store.put("a/b", BIG[: 5 * MIB])
    blocks = list(store.read("a/b"))
    assert b"".join(blocks) == BIG[: 5 * MIB]
    assert max(map(len, blocks)) <= MIB


def test_unfinished_uploads_under_the_prefix_are_told(
    s3_server: S3Server, bucket: str, store: S3Store
) -> None:
    client = client_of(s3_server)
    for key in ("run/a b#1.pt", "run/b.pt", "other/c.pt"):
        upload_id = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        client.upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=1, Body=b"x")
    upload(s3_server, bucket, "run/finished.pt", BIG)

    found = store.unfinished_uploads("run/")

    assert sorted(upload.key for upload in found) == ["run/a b#1.pt", "run/b.pt"]
    assert all(upload.started.startswith("20") and upload.started.endswith("Z") for upload in found)


# Its life


def test_questions_from_many_threads_share_one_client(s3_server: S3Server, bucket: str) -> None:
    put_all(s3_server, bucket, [f"k{number}" for number in range(32)])
    store = store_of(s3_server, bucket)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        clients = set(pool.map(lambda _: id(store._client()), range(32)))
        found = list(pool.map(store.head, [f"k{number}" for number in range(32)]))
    assert len(clients) == 1
    assert [stored.key for stored in found] == [f"k{number}" for number in range(32)]


def test_a_closed_store_opens_again_when_asked(store: S3Store) -> None:
    store.put("k", b"1")
    store.close()
    store.close()
    assert store.head("k").size == 1


# What an uploader's arguments tell


def test_a_store_is_made_without_boto3_and_without_a_network() -> None:
    code = (
        "import sys\n"
        "from composer_obs.uploads.stores.s3 import S3Store\n"
        "S3Store.from_options(S3Store.options_from_uploader({'bucket': 'b'}, {})).plan(1)\n"
        "assert not {'boto3', 'botocore', 'torch', 'composer'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_options_are_what_is_needed_to_ask_again_and_no_secret() -> None:
    arguments = {
        "bucket": "/b/",
        "prefix": "kept in the keys",
        "region_name": "eu-central-1",
        "endpoint_url": "https://user:pass-word@s3.example.com:9000/path?token=t0ken",
        "aws_access_key_id": "AKIA0123456789ABCDEF",
        "aws_secret_access_key": "secret-value",
        "aws_session_token": "session-value",
        "client_config": {
            "request_checksum_calculation": "WHEN_REQUIRED",
            "s3": {"addressing_style": "virtual"},
            "proxies": {"http": "http://user:pass-word@proxy"},
            "retries": {"mode": "adaptive"},
        },
        "transfer_config": {"multipart_chunksize": 16 * MIB, "multipart_threshold": 32 * MIB},
    }
    assert S3Store.options_from_uploader(arguments, {}) == {
        "bucket": "b",
        "endpoint_url": "https://s3.example.com:9000/path",
        "region_name": "eu-central-1",
        "addressing_style": "virtual",
        "part_size": 16 * MIB,
        "multipart_threshold": 32 * MIB,
        "checksum": "when_required",
    }


@pytest.mark.parametrize(
    ("arguments", "environ", "endpoint"),
    [
        ({}, {}, None),
        ({}, {"AWS_ENDPOINT_URL": "http://all"}, "http://all"),
        ({}, {"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_S3": "http://s3"}, "http://s3"),
        ({}, {"S3_ENDPOINT_URL": "http://composer", "AWS_ENDPOINT_URL_S3": "http://s3"}, "http://composer"),
        ({"endpoint_url": "http://given"}, {"S3_ENDPOINT_URL": "http://composer"}, "http://given"),
    ],
)
def test_the_endpoint_is_the_one_that_composer_and_boto3_would_take(
    arguments: dict[str, str], environ: dict[str, str], endpoint: str | None
) -> None:
    options = S3Store.options_from_uploader({"bucket": "b", **arguments}, environ)
    assert options.get("endpoint_url") == endpoint


def test_the_environment_decides_checksum_and_region_where_the_arguments_do_not() -> None:
    environ = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "AWS_DEFAULT_REGION": "us-west-2"}
    options = S3Store.options_from_uploader({"bucket": "b", "client_config": None}, environ)
    assert (options["checksum"], options["region_name"]) == ("when_required", "us-west-2")
    given = {"bucket": "b", "client_config": {"request_checksum_calculation": "when_supported"}}
    assert S3Store.options_from_uploader(given, environ)["checksum"] == "when_supported"


def test_a_uri_is_taken_apart_as_it_is_written() -> None:
    store, key = S3Store.from_uri("s3://bucket/run %20 #1?/x", {})
    assert (store.bucket, key) == ("bucket", "run %20 #1?/x")
    assert S3Store.from_uri("s3://bucket", {})[1] == ""
    for uri in ("gs://bucket/x", "bucket/x", "s3://", "s3:///x"):
        with pytest.raises(StoreError, match="not an S3 URI"):
            S3Store.from_uri(uri, {})


def test_options_without_a_bucket_are_refused() -> None:
    with pytest.raises(StoreError, match="without a bucket"):
        S3Store.from_options({"endpoint_url": "http://x"})


# Where SeaweedFS cannot give the answer: a small real HTTP server, see its docstring


def test_a_listing_that_never_ends_is_given_up(answering: AnsweringServer, documented: S3Store) -> None:
    answering.always(200, {}, page(entry("k"), "<NextContinuationToken>same</NextContinuationToken>"))
    with pytest.raises(StoreUnreachableError, match="repeats itself"):
        list(documented.list(""))


def parts_body(sizes: list[int], first_number: int) -> str:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><Size>{size}</Size></Part>"
        for number, size in enumerate(sizes, start=first_number)
    )
    return f"<GetObjectAttributesResponse><ObjectParts>{parts}</ObjectParts></GetObjectAttributesResponse>"


def composed(size: int, count: int) -> StoredObject:
    return StoredObject("k", size, "HeadObject", (StoredChecksum("crc32", bytes(4), count),))


def test_part_sizes_are_collected_over_all_pages(answering: AnsweringServer, documented: S3Store) -> None:
    """S3 tells 1,000 parts at a time; SeaweedFS would need 10 GB for so many."""
    sizes = list(range(1, 2301))

    def answer(_method: str, _path: str) -> tuple[int, dict[str, str], str]:
        after = int(answering.headers["x-amz-part-number-marker"])
        return 200, {}, parts_body(sizes[after : after + 1000], after + 1)

    answering.answer = answer
    stored = documented.with_part_sizes(composed(sum(sizes), len(sizes)))
    assert stored.part_sizes == tuple(sizes)
    assert len(answering.requests) == 3


@pytest.mark.timeout(60)
def test_parts_that_repeat_themselves_are_given_up(answering: AnsweringServer, documented: S3Store) -> None:
    answering.answer = lambda method, _path: (200, {}, parts_body([1, 2], 1) if method == "GET" else "")
    assert documented.with_part_sizes(composed(6, 3)).part_sizes is None


@pytest.mark.parametrize(
    ("attributes", "sizes", "size", "expected"),
    [
        # Without the permission GetObjectAttributes, or without checksums, parts are asked one by one.
        ((403, error_body("AccessDenied")), {1: 6, 3: 5}, 17, (6, 6, 5)),
        ((501, error_body("NotImplemented")), {1: 6, 3: 6}, 18, (6, 6, 6)),
        ((200, parts_body([], 1)), {1: 6, 3: 1}, 13, (6, 6, 1)),
        # What does not add up is not told: 17 bytes in 3 parts, but not 6, 6 and 5.
        ((403, error_body("AccessDenied")), {1: 6, 3: 6}, 17, None),
        ((200, parts_body([6, 6, 6], 1)), {1: 7, 3: 7}, 17, None),
        ((404, error_body("NoSuchKey")), {}, 17, None),
    ],
)
def test_equal_parts_are_measured_where_the_store_does_not_list_them(
    answering: AnsweringServer,
    documented: S3Store,
    attributes: tuple[int, str],
    sizes: dict[int, int],
    size: int,
    expected: tuple[int, ...] | None,
) -> None:
    def answer(method: str, path: str) -> tuple[int, dict[str, str], str]:
        if method != "HEAD":
            return attributes[0], {}, attributes[1]
        number = int(path.partition("partNumber=")[2])
        return (206, {"Content-Length": str(sizes[number])}, "") if sizes else (404, {}, "")

    answering.answer = answer
    assert documented.with_part_sizes(composed(size, 3)).part_sizes == expected


def test_proxies_and_virtual_hosts_are_respected(
    answering: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stands for a proxy, which is asked for whole URLs (RFC 9112, absolute-form)."""
    monkeypatch.setenv("HTTP_PROXY", answering.url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    answering.always(200, {}, page(entry("k")))
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s"}
    store = S3Store("bucket", endpoint_url="http://s3.test", addressing_style="virtual", **keys)
    assert [found.key for found in store.list("p/")] == ["k"]
    assert answering.requests[0].startswith("GET http://bucket.s3.test/?list-type=2&prefix=p%2F")
