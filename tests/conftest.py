"""Fixtures that start real servers.

The object store is SeaweedFS, started from the extra ``demo`` on loopback: it checks signatures,
permissions and checksums as S3 does, and its objects are files on this disk. Nothing is simulated.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from composer_obs.demo import S3Server

# Inputs of tests, some of them broken on purpose: none is a test or has doctests.
collect_ignore_glob = ["cases/*"]

# How long an example takes depends on what else the machine does; benchmarks measure time.
settings.register_profile("composer_obs", deadline=None)
settings.load_profile("composer_obs")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One real S3 server for the whole session; do not pause or end it (see ``fresh_s3_server``).

    ``admin`` may do everything, ``reader`` only read and list, ``writer`` only write.
    """
    with S3Server(identities={"reader": ["Read", "List"], "writer": ["Write"]}) as server:
        yield server


@pytest.fixture
def bucket(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a new bucket, in an environment where boto3 and Composer find it as ``admin``."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    # The developer's own profiles and settings are not part of a test.
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    name = f"bucket-{uuid.uuid4().hex[:12]}"
    s3_server.create_bucket(name)
    return name


@pytest.fixture
def fresh_s3_server() -> Iterator[Callable[..., S3Server]]:
    """Starts real S3 servers of the test's own, to be paused, killed or given other identities."""
    servers: list[S3Server] = []

    def start(**arguments: object) -> S3Server:
        server = S3Server(**arguments)  # type: ignore[arg-type]
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.close()
