from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import botocore.exceptions
import pytest
from botocore.exceptions import ClientError

import composer_obs
from composer_obs.demo import S3Server, S3ServerError

BODY = b"weights of a very small model"
ROOT = Path(composer_obs.__file__).parents[1]
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG and /proc are Linux's")


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return error.value.response["Error"]["Code"]


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until_dead(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(pid)


def sockets_of(pid: int) -> list[Path]:
    """The files of the Unix sockets that a process has bound, as the kernel knows them."""
    descriptors = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    # Num RefCount Protocol Flags Type St Inode [Path], see proc_net(5)
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    named = [row for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in descriptors]
    return sorted({Path(row[7]) for row in named})


@contextlib.contextmanager
def listening_on(url: str) -> Iterator[None]:
    """Somebody else has the port."""
    with socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))):
        yield


def owner(script: str, *, flags: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    """Another Python process that owns a server; what it prints is read from its stdout."""
    preamble = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom composer_obs.demo import S3Server\n"
    return subprocess.Popen(
        [sys.executable, *flags, "-c", preamble + script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


class TestObjects:
    def test_the_admin_gets_back_the_bytes_that_it_put(self, s3_server: S3Server, bucket: str) -> None:
        client = s3_server.client()
        client.put_object(Bucket=bucket, Key="ep0/rank0.pt", Body=BODY)
        assert client.get_object(Bucket=bucket, Key="ep0/rank0.pt")["Body"].read() == BODY

    def test_plain_boto3_finds_the_server_through_the_environment(
        self, s3_server: S3Server, bucket: str
    ) -> None:
        boto3.Session().client("s3").put_object(Bucket=bucket, Key="a", Body=BODY)
        assert s3_server.client().head_object(Bucket=bucket, Key="a")["ContentLength"] == len(BODY)

    def test_a_session_token_of_the_caller_is_not_sent(
        self, s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-account")
        for name, value in s3_server.environment().items():
            monkeypatch.setenv(name, value)
        credentials = boto3.Session().get_credentials()
        assert credentials is not None
        assert not credentials.token
        boto3.Session().client("s3").put_object(Bucket=bucket, Key="a", Body=BODY)

    def test_a_new_bucket_is_empty(self, s3_server: S3Server, bucket: str) -> None:
        assert s3_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0

    def test_a_put_does_not_make_its_bucket(self, s3_server: S3Server) -> None:
        with pytest.raises(ClientError) as error:
            s3_server.client().put_object(Bucket="never-made", Key="a", Body=BODY)
        assert code(error) == "NoSuchBucket"


class TestIdentities:
    def test_a_reader_reads_and_lists_but_is_refused_a_put(self, s3_server: S3Server, bucket: str) -> None:
        s3_server.client().put_object(Bucket=bucket, Key="a", Body=BODY)
        reader = s3_server.client("reader")
        assert reader.head_object(Bucket=bucket, Key="a")["ContentLength"] == len(BODY)
        assert [entry["Key"] for entry in reader.list_objects_v2(Bucket=bucket)["Contents"]] == ["a"]
        with pytest.raises(ClientError) as error:
            reader.put_object(Bucket=bucket, Key="b", Body=BODY)
        assert code(error) == "AccessDenied"

    def test_a_writer_puts_but_is_refused_get_head_and_list(self, s3_server: S3Server, bucket: str) -> None:
        writer = s3_server.client("writer")
        writer.put_object(Bucket=bucket, Key="a", Body=BODY)
        with pytest.raises(ClientError) as error:
            writer.get_object(Bucket=bucket, Key="a")
        assert code(error) == "AccessDenied"
        with pytest.raises(ClientError) as error:
            writer.head_object(Bucket=bucket, Key="a")
        assert code(error) == "403"  # an answer to HEAD has no body to hold a name
        with pytest.raises(ClientError) as error:
            writer.list_objects_v2(Bucket=bucket)
        assert code(error) == "AccessDenied"

    def test_an_action_can_be_limited_to_a_bucket_or_a_prefix(
        self, fresh_s3_server: Callable[..., S3Server]
    ) -> None:
        server = fresh_s3_server(identities={"auditor": ["Write", "Read:seen", "Read:half/logs/*"]})
        auditor = server.client("auditor")
        for name in ("seen", "half"):
            server.create_bucket(name)
            for key in ("ckpt/a", "logs/a"):
                auditor.put_object(Bucket=name, Key=key, Body=BODY)
        for name, key in (("seen", "ckpt/a"), ("seen", "logs/a"), ("half", "logs/a")):
            assert auditor.head_object(Bucket=name, Key=key)["ContentLength"] == len(BODY)
        with pytest.raises(ClientError) as error:
            auditor.get_object(Bucket="half", Key="ckpt/a")
        assert code(error) == "AccessDenied"

    def test_a_bucket_policy_denies_one_key_to_one_identity(self, s3_server: S3Server, bucket: str) -> None:
        for key in ("secret", "open"):
            s3_server.client().put_object(Bucket=bucket, Key=key, Body=BODY)
        statement = {
            "Effect": "Deny",
            "Principal": {"AWS": "arn:aws:iam::000000000000:user/reader"},
            "Action": ["s3:GetObject"],
            "Resource": [f"arn:aws:s3:::{bucket}/secret"],
        }
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        s3_server.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
        s3_server.client("reader").get_object(Bucket=bucket, Key="open")
        s3_server.client("admin").get_object(Bucket=bucket, Key="secret")
        with pytest.raises(ClientError) as error:
            s3_server.client("reader").get_object(Bucket=bucket, Key="secret")
        assert code(error) == "AccessDenied"

    def test_a_wrong_secret_key_is_refused(self, s3_server: S3Server) -> None:
        client = boto3.Session(region_name="us-east-1").client(
            "s3",
            endpoint_url=s3_server.endpoint_url,
            aws_access_key_id=s3_server.access_key,
            aws_secret_access_key="wrong",
        )
        with pytest.raises(ClientError) as error:
            client.list_buckets()
        assert code(error) == "SignatureDoesNotMatch"

    def test_an_unknown_identity_is_named_together_with_those_that_exist(self, s3_server: S3Server) -> None:
        with pytest.raises(S3ServerError, match=r"no identity 'stranger'.* admin, reader, writer"):
            s3_server.credentials("stranger")


class TestChecksums:
    def test_a_wrong_content_md5_is_refused_and_nothing_is_stored(
        self, s3_server: S3Server, bucket: str
    ) -> None:
        md5 = base64.b64encode(hashlib.md5(b"something else").digest()).decode()
        with pytest.raises(ClientError) as error:
            s3_server.client().put_object(Bucket=bucket, Key="a", Body=BODY, ContentMD5=md5)
        assert code(error) == "BadDigest"
        assert s3_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0

    def test_a_wrong_crc32_is_refused_and_nothing_is_stored(self, s3_server: S3Server, bucket: str) -> None:
        crc32 = base64.b64encode(zlib.crc32(b"something else").to_bytes(4, "big")).decode()
        with pytest.raises(ClientError) as error:
            s3_server.client().put_object(Bucket=bucket, Key="a", Body=BODY, ChecksumCRC32=crc32)
        assert code(error) == "BadDigest"
        assert s3_server.client().list_objects_v2(Bucket=bucket)["KeyCount"] == 0

    def test_head_returns_the_crc32_and_the_listing_the_md5_of_a_single_put(
        self, s3_server: S3Server, bucket: str
    ) -> None:
        client = s3_server.client()
        client.put_object(Bucket=bucket, Key="a", Body=BODY)
        head = client.head_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")
        assert base64.b64decode(head["ChecksumCRC32"]) == zlib.crc32(BODY).to_bytes(4, "big")
        (entry,) = client.list_objects_v2(Bucket=bucket)["Contents"]
        assert entry["ETag"] == f'"{hashlib.md5(BODY).hexdigest()}"'

    def test_a_multipart_upload_has_the_composite_crc32_and_the_md5_of_its_parts_md5s(
        self, s3_server: S3Server, bucket: str, tmp_path: Path
    ) -> None:
        size = 8 * 2**20  # boto3's default size of a part, and of the smallest file that has parts
        parts = [os.urandom(size), os.urandom(1000)]
        (tmp_path / "weights.pt").write_bytes(b"".join(parts))
        client = s3_server.client()
        client.upload_file(str(tmp_path / "weights.pt"), bucket, "weights.pt")

        head = client.head_object(Bucket=bucket, Key="weights.pt", ChecksumMode="ENABLED")
        crc32 = zlib.crc32(b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts))
        assert head["ChecksumCRC32"] == base64.b64encode(crc32.to_bytes(4, "big")).decode() + "-2"
        assert head["ChecksumType"] == "COMPOSITE"
        (entry,) = client.list_objects_v2(Bucket=bucket)["Contents"]
        md5 = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts))
        assert entry["ETag"] == f'"{md5.hexdigest()}-2"'


class TestLife:
    def test_two_servers_run_side_by_side_with_keys_and_objects_of_their_own(
        self, fresh_s3_server: Callable[..., S3Server]
    ) -> None:
        one, two = fresh_s3_server(), fresh_s3_server()
        assert one.endpoint_url != two.endpoint_url
        assert one.credentials() != two.credentials()
        one.create_bucket("only-in-one")
        assert [entry["Name"] for entry in one.client().list_buckets()["Buckets"]] == ["only-in-one"]
        assert two.client().list_buckets()["Buckets"] == []

    def test_servers_that_start_at_once_do_not_take_each_others_ports(self) -> None:
        script = "with S3Server() as server: print(server.endpoint_url); sys.stdin.read()"
        owners = [owner(script) for _ in range(3)]
        endpoints = [process.stdout.readline() for process in owners if process.stdout]
        for process in owners:
            process.communicate()
        assert all(endpoint.startswith("http://127.0.0.1:") for endpoint in endpoints)
        assert len(set(endpoints)) == 3

    def test_a_paused_server_lets_clients_time_out_and_answers_after_resume(
        self, fresh_s3_server: Callable[..., S3Server]
    ) -> None:
        server = fresh_s3_server()
        server.create_bucket("runs")
        server.pause()
        with pytest.raises(botocore.exceptions.ReadTimeoutError):
            server.client(read_timeout=1.0).put_object(Bucket="runs", Key="a", Body=BODY)
        server.resume()
        server.client().put_object(Bucket="runs", Key="b", Body=BODY)
        assert server.client().get_object(Bucket="runs", Key="b")["Body"].read() == BODY

    @pytest.mark.parametrize("end", [S3Server.kill, S3Server.stop])
    def test_a_restarted_server_keeps_endpoint_keys_and_objects(
        self, fresh_s3_server: Callable[..., S3Server], end: Callable[[S3Server], None]
    ) -> None:
        server = fresh_s3_server()
        server.create_bucket("runs")
        client, first = server.client(), server.pid
        client.put_object(Bucket="runs", Key="a", Body=BODY)
        end(server)
        assert not server.is_running()
        with pytest.raises(botocore.exceptions.EndpointConnectionError):
            client.head_object(Bucket="runs", Key="a")
        server.start()
        assert server.pid != first
        assert client.get_object(Bucket="runs", Key="a")["Body"].read() == BODY

    def test_a_paused_server_can_be_stopped(self, fresh_s3_server: Callable[..., S3Server]) -> None:
        server = fresh_s3_server()
        server.pause()
        server.stop()
        assert not server.is_running()

    def test_starting_a_running_server_changes_nothing(
        self, fresh_s3_server: Callable[..., S3Server]
    ) -> None:
        server = fresh_s3_server()
        pid = server.pid
        server.start()
        assert server.pid == pid

    @needs_linux
    def test_process_folder_and_sockets_are_gone_after_the_context(self) -> None:
        with S3Server() as server:
            pid = server.pid
            folder = Path(os.readlink(f"/proc/{pid}/cwd"))
            sockets = sockets_of(pid)
            assert is_alive(pid)
            assert folder.is_dir()
            assert sockets
        assert not is_alive(pid)
        assert not folder.exists()
        assert not any(path.exists() for path in sockets)
        with pytest.raises(S3ServerError, match="closed"):
            server.start()

    @needs_linux
    def test_the_server_dies_when_its_owner_is_killed(self) -> None:
        process = owner(
            "server = S3Server(); server.start(); print(server.pid, flush=True); sys.stdin.read()"
        )
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        folder, sockets = Path(os.readlink(f"/proc/{pid}/cwd")), sockets_of(pid)
        assert is_alive(pid)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert wait_until_dead(pid)
        shutil.rmtree(folder)  # nobody else was left to do it
        for path in sockets:
            path.unlink()

    @needs_linux
    def test_the_server_ends_with_an_interpreter_that_forgot_to_close_it(self) -> None:
        script = "server = S3Server(); server.start(); print(server.pid, server._folder)"
        out, err = owner(script).communicate()
        assert err == ""
        pid, folder = out.split()
        assert wait_until_dead(int(pid))
        assert not Path(folder).exists()

    @needs_linux
    def test_the_server_outlives_the_thread_that_started_it(
        self, fresh_s3_server: Callable[..., S3Server]
    ) -> None:
        servers: list[S3Server] = []
        thread = threading.Thread(target=lambda: servers.append(fresh_s3_server()))
        thread.start()
        thread.join()
        servers[0].create_bucket("runs")
        assert is_alive(servers[0].pid)

    @needs_linux
    def test_a_forked_child_that_exits_leaves_the_server_alone(self) -> None:
        script = (
            "import os\n"
            "server = S3Server(); server.start()\n"
            "child = os.fork()\n"
            "if child: os.waitpid(child, 0); server.create_bucket('runs'); print('alive')\n"
        )
        out, _ = owner(script).communicate()
        assert out == "alive\n"


class TestErrors:
    def test_a_port_taken_before_the_first_start_is_replaced(self) -> None:
        server = S3Server()
        first = server.endpoint_url
        with listening_on(first):
            try:
                server.start()
                assert server.endpoint_url != first
                server.create_bucket("runs")
            finally:
                server.close()

    def test_a_port_taken_before_a_restart_is_reported_with_the_servers_log(
        self, fresh_s3_server: Callable[..., S3Server]
    ) -> None:
        server = fresh_s3_server()
        server.kill()
        port = server.endpoint_url.rpartition(":")[2]
        reason = rf"(?s)ended with code 1 before it was ready; .*port {port} .* is not available"
        with listening_on(server.endpoint_url), pytest.raises(S3ServerError, match=reason):
            server.start()

    def test_a_server_that_is_not_ready_in_time_is_reported_and_ended(self) -> None:
        server = S3Server(ready_timeout=0.0)
        try:
            with pytest.raises(S3ServerError, match="not ready within 0 s"):
                server.start()
            assert not server.is_running()
        finally:
            server.close()

    def test_a_server_that_does_not_run_cannot_be_paused(self) -> None:
        server = S3Server()
        try:
            with pytest.raises(S3ServerError, match=r"not running; call start\(\)"):
                server.pause()
        finally:
            server.close()

    def test_without_the_extra_the_error_names_it(self) -> None:
        # Without site-packages nothing is installed.
        _, err = owner("S3Server().start()", flags=("-S",), PATH="/nonexistent").communicate()
        assert "S3ServerError" in err
        assert "pip install 'composer-obs[demo]'" in err

    def test_no_secret_key_is_shown(self, fresh_s3_server: Callable[..., S3Server]) -> None:
        server = fresh_s3_server()
        log = next(Path(f"/proc/{server.pid}/cwd").glob("server.log"))
        with log.open("a") as stream:
            stream.write(f"secret={server.secret_key}\n")
        assert server.secret_key not in server.log_tail()
        assert server.log_tail(1) == "secret=***"
        assert server.secret_key not in repr(server)
