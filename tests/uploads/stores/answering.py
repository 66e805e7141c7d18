"""A small real HTTP server, for answers that the real object stores on loopback never give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Headers = dict[str, str] | list[tuple[str, str]]
Answer = tuple[int, Headers, str]


@dataclass
class AnsweringServer:
    """Answers each request with what `answer` says of its method and path, and remembers them.

    The answers are those that the stores' documentation prescribes: with a real bucket they take a
    KMS key, another region or a fault of the store.
    """

    url: str = ""
    answer: Callable[[str, str], Answer] = lambda _method, _path: (500, {}, "no answer was set")
    requests: list[str] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)  # of the request that is being answered

    def always(self, status: int, headers: Headers, body: str = "") -> None:
        self.answer = lambda _method, _path: (status, headers, body)


# Listings as ListObjectsV2 writes them.
def page(contents: str, more: str = "", namespace: str = "") -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult{namespace}>{more}{contents}</ListBucketResult>'


def entry(key: str) -> str:
    return f"<Contents><Key>{key}</Key><Size>3</Size></Contents>"


def error_body(code: str, more: str = "") -> str:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>said so</Message>{more}</Error>'
