"""The parser of URIs against Composer's own."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from composer_obs.placeholders.uri import parse_uri

PARTS = st.sampled_from(
    [
        "s3",
        "gs",
        "AZURE_BLOBS",
        "dbfs",
        "C",
        "exp",
        ":",
        "://",
        "/",
        "//",
        "a",
        "b-c",
        "{run_name}",
        "#",
        "?",
        ";x",
        "@",
        "\\",
        ".",
        " ",
    ]
)


@given(st.lists(PARTS, max_size=8).map("".join))
@example("/a/run#3/{run_name}")
@example("exp:1/ckpt")
@example("s3://key@bucket/x")
@example("azure://AZURE_BLOBS/x")
def test_scheme_bucket_and_path_are_composers(text: str) -> None:
    from composer.utils import parse_uri as composers

    ours = parse_uri(text)
    assert (ours.scheme, ours.bucket, ours.path) == composers(text)


def test_what_composer_cannot_parse_neither_can_we() -> None:
    from composer.utils import parse_uri as composers

    for parse in (composers, parse_uri):
        with pytest.raises(ValueError):
            parse("s3://[b")


@pytest.mark.parametrize(
    ("text", "dropped"),
    [
        ("s3://bucket/exp#1/x", "#1/x"),
        ("/data/a?b/c", "?b/c"),
        ("/data/a;b", ";b"),
        ("s3://key@host/x", "@host"),
        ("s3://bucket/a b/{run_name}", ""),
    ],
)
def test_what_is_dropped_is_what_is_not_in_the_parts(text: str, dropped: str) -> None:
    assert parse_uri(text).dropped == dropped
