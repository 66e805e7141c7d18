"""What the errors of S3 and of botocore mean to somebody who asks whether an upload arrived."""

from __future__ import annotations

from composer_obs.redaction import redact
from composer_obs.uploads.stores.base import (
    ObjectNotFoundError,
    StoreDeniedError,
    StoreError,
    StoreUnreachableError,
    StoreUnsupportedError,
)

__all__ = ["explain"]

_Meaning = tuple[type[StoreError], str]

_NOT_FOUND: _Meaning = (
    ObjectNotFoundError,
    "there is no such object (or no such bucket: the answer to a HEAD does not tell)",
)
_NO_BUCKET: _Meaning = (
    ObjectNotFoundError,
    "there is no such bucket; check its name, the endpoint and the account",
)
_DENIED: _Meaning = (
    StoreDeniedError,
    (
        "no permission to read back; grant s3:GetObject and s3:ListBucket (without ListBucket S3 answers "
        "403 for a missing key too, so this does not tell whether the object is there)"
    ),
)
_EXPIRED: _Meaning = (StoreDeniedError, "the credentials have expired; renew them and ask again")
_OTHER_REGION: _Meaning = (
    StoreDeniedError,
    "the bucket is in another region{region}; set region_name, or AWS_DEFAULT_REGION, to the bucket's own",
)
_OVERLOADED: _Meaning = (StoreUnreachableError, "the server could not answer now; ask again later")
_UNSUPPORTED: _Meaning = (StoreUnsupportedError, "this server does not offer that question")
_NO_CREDENTIALS: _Meaning = (
    StoreDeniedError,
    (
        "no usable credentials here; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or "
        "run where a role is attached"
    ),
)
_NO_ANSWER: _Meaning = (
    StoreUnreachableError,
    (
        "no usable answer; check that the endpoint is right, up and reachable from here (proxy, firewall, "
        "certificates), and ask again"
    ),
)
_BAD_REQUEST: _Meaning = (
    StoreDeniedError,
    (
        "the request was refused without a reason; usual ones are a wrong region, an expired session token, "
        "or an object that was encrypted with a key of the customer's (SSE-C)"
    ),
)

# By error code, else by HTTP status: the answer to a HEAD has no body, so its code is its status.
# Codes: Amazon S3 API Reference, "Error responses".
_MEANINGS: dict[str, _Meaning] = {
    "NoSuchBucket": _NO_BUCKET,
    "404": _NOT_FOUND,
    "403": _DENIED,
    "401": _DENIED,
    "InvalidObjectState": (StoreDeniedError, "the object is archived; restore it before it can be read"),
    "InvalidAccessKeyId": (
        StoreDeniedError,
        "this access key is not known there; check AWS_ACCESS_KEY_ID (or AWS_PROFILE) and the endpoint",
    ),
    "SignatureDoesNotMatch": (
        StoreDeniedError,
        "the secret key does not fit the access key; check AWS_SECRET_ACCESS_KEY, then the region",
    ),
    "RequestTimeTooSkewed": (StoreDeniedError, "the clock of this machine is wrong; set it"),
    "ExpiredToken": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "AuthorizationHeaderMalformed": _OTHER_REGION,
    "301": _OTHER_REGION,
    "307": _OTHER_REGION,
    "400": _BAD_REQUEST,
    "InvalidBucketName": (StoreError, "this is no valid name of a bucket"),
    "RequestTimeout": _OVERLOADED,
    "SlowDown": _OVERLOADED,
    "429": _OVERLOADED,
    "405": _UNSUPPORTED,
    "501": _UNSUPPORTED,
}


def explain(error: Exception, *, question: str, where: str) -> StoreError:
    """Our error for one of boto3's: what was asked, where, why it failed, what to do next.

    Args:
        error (Exception): What boto3 raised.
        question (str): The S3 operation, e.g. ``"HeadObject"``.
        where (str): The URI that it was about, and the endpoint.
    """
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError):
        (kind, meaning), answer = _of_response(error)
    else:
        (kind, meaning), answer = _of_exception(error), f"{type(error).__name__}: {error}"
    return kind(redact(f"{where}: {meaning}. {question} got: {answer}"))


def _of_response(error: Exception) -> tuple[_Meaning, str]:
    response = getattr(error, "response", {})
    metadata = response.get("ResponseMetadata", {})
    detail = response.get("Error", {})
    code, status = str(detail.get("Code", "")), int(metadata.get("HTTPStatusCode", 0))
    answer = f"{status} {code} {detail.get('Message', '')}".strip()
    if status >= 500 and status != 501:
        return _OVERLOADED, answer
    # A 400 that has a code of its own is no riddle: the code and the message say what it is.
    by_status = str(status) if status != 400 else "none"
    kind, meaning = _MEANINGS.get(code) or _MEANINGS.get(by_status) or (StoreError, "the server refused")
    if "{region}" in meaning:
        region = detail.get("Region") or metadata.get("HTTPHeaders", {}).get("x-amz-bucket-region")
        meaning = meaning.format(region=f", {region}" if region else "")
    return (kind, meaning), answer


def _of_exception(error: Exception) -> _Meaning:
    from botocore import exceptions as botocore

    credentials = (
        botocore.NoCredentialsError,
        botocore.PartialCredentialsError,
        botocore.CredentialRetrievalError,
        botocore.ProfileNotFound,
        botocore.TokenRetrievalError,
        botocore.SSOError,
    )
    # HTTPClientError covers timeouts, TLS and proxies; OSError a certificate file that is not there.
    network = (
        botocore.HTTPClientError,
        botocore.ConnectionError,
        botocore.IncompleteReadError,
        OSError,
    )
    if isinstance(error, credentials):
        return _NO_CREDENTIALS
    if isinstance(error, network):
        return _NO_ANSWER
    from botocore.parsers import ResponseParserError

    if isinstance(error, ResponseParserError):
        return StoreUnreachableError, "the answer is not S3's; check that the endpoint is an S3 server"
    return StoreError, "the question could not be asked; check bucket, endpoint and region"
