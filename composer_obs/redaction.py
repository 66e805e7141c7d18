"""No secret leaves the process.

`redact` is applied to every text that comes from outside (URIs, exception messages, environment)
before it reaches a log, ledger, report or message. It knows two kinds of secret: the *values* of
environment variables whose names say that they are secret, and *shapes* that are secret wherever
they stand (user information in a URI, signed query parameters, access keys, bearer tokens).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["MASK", "is_secret_name", "redact", "redact_mapping", "redact_values"]

MASK = "***"

_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_SECRET_WORDS = frozenset(
    "secret secrets token tokens password passwords passwd passphrase pwd credential credentials "
    "signature authorization webhook dsn apikey accesskey secretkey privatekey".split()
)
# Shorter values (a region, a flag, a port) would mask ordinary words of a message.
_SHORTEST_SECRET = 8

_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    # scheme://user:password@host; the host stays, so that a person can still tell where.
    (re.compile(r"(?P<head>[A-Za-z][\w+.-]*://)[^/\s'\"]+@"), rf"\g<head>{MASK}@"),
    # Headers and query parameters that authorise or sign a request, and settings that hold a secret,
    # as they stand in URLs, in key=value lists and in the text of a Python or JSON mapping.
    (
        re.compile(
            r"(?i)(?P<head>(\bsig|signature|credential|token|password|passwd|secret|api_?key|accesskeyid|"
            r"(access|secret|account|private)_?key(_id)?|authorization)['\"]?\s*[=:]\s*['\"]?"
            r"((bearer|basic)\s+)?)[^\s&;,'\"<>)}\]]+"
        ),
        rf"\g<head>{MASK}",
    ),
    (re.compile(r"(?i)(?P<head>\bbearer\s+)[A-Za-z0-9._~+/=-]{16,}"), rf"\g<head>{MASK}"),
    # Access keys of AWS; tokens of Slack, GitHub, Hugging Face, OpenAI and of JSON Web Tokens.
    (re.compile(r"\b(AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"), MASK),
    (re.compile(r"\bxox[a-z]-[A-Za-z0-9-]{8,}"), MASK),
    (re.compile(r"\b(gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|hf_[A-Za-z0-9]{16,})"), MASK),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{20,}"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"), MASK),
    (re.compile(r"https://hooks\.slack\.com/services/\S+"), f"https://hooks.slack.com/services/{MASK}"),
)


def is_secret_name(name: str) -> bool:
    """Whether a variable, parameter or header of this name holds a secret.

    Example:
        >>> [is_secret_name(n) for n in ("AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "key", "RANK", "keyboard")]
        [True, True, True, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    # A key is a secret where its name ends with it: API_KEY and ACCESS_KEY_ID, not KEY_COUNT.
    ends_with_key = bool(words) and (words[-1] in ("key", "keys") or words[-2:] == ["key", "id"])
    return ends_with_key or not _SECRET_WORDS.isdisjoint(words)


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Replace every secret in ``text`` by ``***``.

    Args:
        text (str): Any text: a URI, an exception's message, a log line.
        environ (Mapping[str, str], optional): Where secret values are looked up.
            Default: ``os.environ`` at the time of the call.

    Example:
        >>> redact("put s3://alice:hunter2@bucket/x failed", environ={})
        'put s3://***@bucket/x failed'
        >>> redact("login of s3cr3t-value refused", environ={"MY_TOKEN": "s3cr3t-value"})
        'login of *** refused'
    """
    return _redact(text, _secrets(os.environ if environ is None else environ))


def redact_values(record: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A copy of a record in which every text, at any depth, is redacted; names are kept.

    Example:
        >>> redact_values({"error": "refused s3cr3t-value", "size": 3}, environ={"MY_TOKEN": "s3cr3t-value"})
        {'error': 'refused ***', 'size': 3}
    """
    secrets = _secrets(os.environ if environ is None else environ)
    return {name: _redact_value(value, secrets, drop=False) for name, value in record.items()}


def redact_mapping(values: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A copy of ``values`` without secrets: secret names are dropped, texts are redacted, at any depth.

    Example:
        >>> redact_mapping(
        ...     {"bucket": "b", "aws_secret_access_key": "x", "config": {"token": 1, "a": 2}}, environ={}
        ... )
        {'bucket': 'b', 'config': {'a': 2}}
    """
    secrets = _secrets(os.environ if environ is None else environ)
    redacted: dict[str, Any] = _redact_value(values, secrets, drop=True)
    return redacted


def _secrets(environ: Mapping[str, str]) -> list[str]:
    """Secret values of the environment, longest first: one may contain another."""
    names = _names_of_secrets(tuple(environ))
    values = {environ[name] for name in names}
    return sorted(
        (value for value in values if len(value) >= _SHORTEST_SECRET and not _is_location(value)),
        key=len,
        reverse=True,
    )


@functools.lru_cache(maxsize=4)
def _names_of_secrets(names: tuple[str, ...]) -> tuple[str, ...]:
    # PWD is the working directory in every shell.
    return tuple(name for name in names if is_secret_name(name) and name != "PWD")


def _redact(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    for pattern, replacement in _SHAPES:
        text = pattern.sub(replacement, text)
    return text


def _redact_value(value: Any, secrets: list[str], *, drop: bool) -> Any:
    if isinstance(value, str):
        return _redact(value, secrets)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {
            str(name): _redact_value(item, secrets, drop=drop)
            for name, item in value.items()
            if not (drop and is_secret_name(str(name)))
        }
    if isinstance(value, (list, tuple)):
        return [_redact_value(item, secrets, drop=drop) for item in value]
    return _redact(str(value), secrets)


def _is_location(value: str) -> bool:
    """Paths such as ``/var/run/secrets/token`` say where a secret is; they are not one."""
    return value.startswith(("/", "./", "~")) and os.path.exists(os.path.expanduser(value))
