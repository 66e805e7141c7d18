"""What a person is told when S3 refuses, lacks or does not answer.

Users, keys, pauses and kills are those of a real server (SeaweedFS). Errors that it does not give
on request come from a small real HTTP server, as the Amazon S3 API Reference lists them.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from composer_obs.demo import S3Server
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    StoredChecksum,
    StoreDeniedError,
    StoredObject,
    StoreError,
    StoreUnreachableError,
    StoreUnsupportedError,
)
from composer_obs.uploads.stores.s3 import S3Store
from tests.uploads.stores.answering import AnsweringServer, error_body
from tests.uploads.stores.objects import BIG, store_of, upload

SHORT = {"connect_timeout": 0.5, "read_timeout": 0.5}


# Whoever may not, is told so


def test_a_reader_reads_and_may_not_write(s3_server: S3Server, bucket: str) -> None:
    upload(s3_server, bucket, "object", b"data")
    reader = store_of(s3_server, bucket, "reader")
    assert reader.head("object").size == 4
    assert [found.key for found in reader.list("")] == ["object"]
    with pytest.raises(StoreDeniedError, match="PutObject got: 403"):
        reader.put("other", b"data")


def test_a_writer_is_told_that_it_may_not_read_back(s3_server: S3Server, bucket: str) -> None:
    writer = store_of(s3_server, bucket, "writer")
    writer.put("object", b"data")
    for ask in (
        lambda: writer.head("object"),
        lambda: list(writer.list("")),
        lambda: list(writer.read("object")),
        lambda: writer.head("no such key"),
    ):
        with pytest.raises(
            StoreDeniedError, match=rf"s3://{bucket}/.*no permission to read back; grant s3:GetObject"
        ):
            ask()


def test_an_absent_object_and_an_absent_bucket_are_not_found(
    s3_server: S3Server, bucket: str, store: S3Store
) -> None:
    with pytest.raises(ObjectNotFoundError, match=rf"s3://{bucket}/nothing at http://127.*no such object"):
        store.head("nothing")
    with pytest.raises(ObjectNotFoundError, match=rf"s3://{bucket}/nothing"):
        list(store.read("nothing"))
    elsewhere = store_of(s3_server, "no-such-bucket")
    with pytest.raises(ObjectNotFoundError, match=r"s3://no-such-bucket/run/ .*there is no such bucket"):
        list(elsewhere.list("run/"))
    with pytest.raises(ObjectNotFoundError, match="no such bucket"):
        elsewhere.head("x")
    with pytest.raises(ObjectNotFoundError, match="no such bucket"):
        elsewhere.put("x", b"")


def test_wrong_credentials_are_told_apart_and_never_shown(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, secret = s3_server.credentials()
    unknown = ("AKIAWRONGWRONGWRONG1", "an-unknown-secret-0123456789")
    wrong = (key, "a-wrong-secret-0123456789abcdef")
    texts = []
    for (key_id, secret_key), match in {
        unknown: "access key is not known",
        wrong: "secret key does not fit",
    }.items():
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret_key)
        store = S3Store(bucket, endpoint_url=s3_server.endpoint_url)
        with pytest.raises(StoreDeniedError, match=match) as error:
            list(store.list(""))
        texts.append(str(error.value))
        with pytest.raises(StoreDeniedError, match="no permission") as error:
            store.head("x")
        texts.append(str(error.value))
    for text in texts:
        assert not any(word in text for word in (*unknown, *wrong, key, secret))


def test_missing_credentials_name_the_variables(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    options = {"bucket": bucket, "endpoint_url": os.environ["S3_ENDPOINT_URL"]}
    with pytest.raises(StoreDeniedError, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"):
        S3Store.from_options(options).head("x")
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(StoreDeniedError, match="no-such-profile"):
        S3Store.from_options(options).head("x")


# Whoever does not answer


@pytest.mark.timeout(60)
def test_a_server_that_hangs_is_given_up_and_asked_again_later(
    fresh_s3_server: Callable[..., S3Server],
) -> None:
    server = fresh_s3_server()
    server.create_bucket("bucket")
    store = store_of(server, "bucket", **SHORT)
    store.put("object", b"data")
    server.pause()
    for ask in (
        lambda: store.head("object"),
        lambda: list(store.list("")),
        lambda: list(store.read("object")),
        lambda: store.with_part_sizes(StoredObject("x", 2, "", (StoredChecksum("md5", bytes(16), 2),))),
        lambda: store.unfinished_uploads(""),
    ):
        with pytest.raises(StoreUnreachableError, match=r"s3://bucket/.* at http.*no usable answer.*Timeout"):
            ask()
    server.resume()
    assert store.head("object").size == 4


@pytest.mark.timeout(60)
def test_a_server_that_ends_while_it_sends_is_unreachable(fresh_s3_server: Callable[..., S3Server]) -> None:
    server = fresh_s3_server()
    server.create_bucket("bucket")
    upload(server, "bucket", "object", BIG)
    store = store_of(server, "bucket", **SHORT)
    blocks = store.read("object")
    next(blocks)
    server.kill()
    with pytest.raises(StoreUnreachableError, match="GetObject got"):
        list(blocks)
    with pytest.raises(StoreUnreachableError, match="check that the endpoint is right, up and reachable"):
        store.head("object")


# As the Amazon S3 API Reference lists them


@pytest.mark.parametrize(
    ("status", "headers", "code", "kind", "match"),
    [
        (
            301,
            {"x-amz-bucket-region": "eu-west-3"},
            "PermanentRedirect",
            StoreDeniedError,
            "region, eu-west-3; set",
        ),
        # Without a Location boto3 follows this one in circles.
        (307, {}, "TemporaryRedirect", StoreError, "check bucket, endpoint and region"),
        (400, {}, "AuthorizationHeaderMalformed", StoreDeniedError, "in another region"),
        (400, {}, "ExpiredToken", StoreDeniedError, "credentials have expired; renew"),
        (400, {}, "InvalidToken", StoreDeniedError, "credentials have expired"),
        (400, {}, "InvalidBucketName", StoreError, "no valid name"),
        (400, {}, "RequestTimeout", StoreUnreachableError, "ask again later"),
        (400, {}, "SomethingNew", StoreError, "the server refused.*400 SomethingNew said so"),
        (401, {}, "Unauthorized", StoreDeniedError, "no permission"),
        (403, {}, "AllAccessDisabled", StoreDeniedError, "no permission"),
        (403, {}, "RequestTimeTooSkewed", StoreDeniedError, "clock"),
        (403, {}, "InvalidObjectState", StoreDeniedError, "archived"),
        (404, {}, "NoSuchKey", ObjectNotFoundError, "no such object"),
        (405, {}, "MethodNotAllowed", StoreUnsupportedError, "does not offer"),
        (429, {}, "TooManyRequests", StoreUnreachableError, "ask again later"),
        (500, {}, "InternalError", StoreUnreachableError, "could not answer now"),
        (501, {}, "NotImplemented", StoreUnsupportedError, "does not offer"),
        (503, {}, "SlowDown", StoreUnreachableError, "could not answer now"),
        (504, {}, "", StoreUnreachableError, "could not answer now"),
    ],
)
def test_every_documented_error_says_what_it_means(
    answering: AnsweringServer,
    documented: S3Store,
    status: int,
    headers: dict[str, str],
    code: str,
    kind: type[StoreError],
    match: str,
) -> None:
    answering.always(status, {"Content-Type": "application/xml", **headers}, error_body(code) if code else "")
    for ask in (lambda: list(documented.list("p/")), lambda: list(documented.read("p/k"))):
        with pytest.raises(StoreError, match=match) as error:
            ask()
        assert type(error.value) is kind
        assert "s3://bucket/p/" in str(error.value)
        assert "example-secret" not in str(error.value)


@pytest.mark.parametrize(
    ("status", "kind", "match"),
    [
        (400, StoreDeniedError, "usual ones are a wrong region, an expired session token"),
        (403, StoreDeniedError, "does not tell whether the object is there"),
        (404, ObjectNotFoundError, "or no such bucket"),
        (503, StoreUnreachableError, "ask again later"),
    ],
)
def test_the_answer_to_a_head_has_no_body_and_is_read_by_its_status(
    answering: AnsweringServer, documented: S3Store, status: int, kind: type[StoreError], match: str
) -> None:
    answering.always(status, {})
    with pytest.raises(kind, match=match):
        documented.head("k")


def test_a_fault_is_tried_again_before_it_is_told(answering: AnsweringServer) -> None:
    answers = iter([(503, {}, error_body("SlowDown")), (200, {"Content-Length": "4"}, "")])
    answering.answer = lambda _method, _path: next(answers)
    store = S3Store("b", endpoint_url=answering.url, aws_access_key_id="k", aws_secret_access_key="s")
    assert store.head("k").size == 4


def test_an_error_within_a_successful_answer_is_seen(answering: AnsweringServer, documented: S3Store) -> None:
    answering.always(200, {}, error_body("InternalError"))
    with pytest.raises(StoreUnreachableError, match="InternalError"):
        list(documented.list(""))


def test_an_endpoint_that_is_none_is_told() -> None:
    with pytest.raises(StoreError, match=r"check bucket, endpoint and region.*Invalid endpoint"):
        S3Store("bucket", endpoint_url="no url").head("k")


def test_secrets_that_an_answer_repeats_are_masked(
    answering: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OWNKEYID0123456789")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own-secret-0123456789")
    said = "OWNKEYID0123456789 own-secret-0123456789 X-Amz-Signature=0123abcd"
    answering.always(403, {}, error_body("AccessDenied").replace("said so", said))
    endpoint = answering.url.replace("://", "://user:pass-word@")
    with pytest.raises(StoreDeniedError) as error:
        list(S3Store("bucket", endpoint_url=endpoint, region_name="us-east-1").list(""))
    for secret in ("OWNKEYID0123456789", "own-secret-0123456789", "0123abcd", "pass-word"):
        assert secret not in str(error.value)
    assert "AccessDenied" in str(error.value)
