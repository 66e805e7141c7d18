"""Fixtures for tests of stores; the object stores themselves are in `tests/conftest.py`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from composer_obs.uploads.stores.s3 import S3Store
from tests.uploads.stores.answering import AnsweringServer


@pytest.fixture
def store(bucket: str) -> S3Store:
    return S3Store.from_uri(f"s3://{bucket}", os.environ)[0]


@pytest.fixture
def answering() -> Iterator[AnsweringServer]:
    state = AnsweringServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            state.requests.append(f"{self.command} {self.path}")
            state.headers = dict(self.headers.items())
            status, headers, body = state.answer(self.command, self.path)
            pairs = list(headers.items()) if isinstance(headers, dict) else headers
            self.send_response(status)
            if not any(name.lower() == "content-length" for name, _ in pairs):
                pairs = [*pairs, ("Content-Length", str(len(body.encode())))]
            for name, value in pairs:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode())

        do_GET = do_HEAD = do_POST = do_PUT = respond  # noqa: N815 - the base class names them

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            # A client may hang up when it has read enough.
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def documented(answering: AnsweringServer) -> S3Store:
    """A store that asks the answering server, once for each question."""
    return S3Store(
        "bucket",
        endpoint_url=answering.url,
        region_name="us-east-1",
        attempts=1,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="example-secret",
        connect_timeout=5.0,
        read_timeout=5.0,
    )
