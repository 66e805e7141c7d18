"""A record outlives what happens to runs: kill -9, full disks, removed folders, forks."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_obs.run_folder import SCHEMA_VERSION, JsonLinesWriter, parse_lines, resolve_run_folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "composer_obs" / "ledger-rank0.jsonl"


def numbers(path: Path) -> list[int]:
    """The field ``n`` of every line; a line that cannot be used is an error."""
    lines = list(parse_lines(path.read_bytes()))
    assert [line.problem for line in lines] == [None] * len(lines)
    return [line.record["n"] for line in lines]


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


class TestWriting:
    def test_a_line_is_on_disk_when_append_returns(self, path: Path) -> None:
        writer = JsonLinesWriter(path)
        writer.append({"n": 1})
        assert numbers(path) == [1]
        assert (writer.error, writer.lines_waiting) == (None, 0)

    def test_every_line_carries_the_version_and_the_time_in_utc(self, path: Path) -> None:
        from datetime import datetime, timezone

        before = datetime.now(timezone.utc)
        JsonLinesWriter(path).append({"n": 1})
        record = json.loads(path.read_bytes())
        assert list(record) == ["v", "t", "n"]
        assert record["v"] == SCHEMA_VERSION
        assert record["t"].endswith("Z")
        written = datetime.fromisoformat(record["t"].replace("Z", "+00:00"))
        assert abs((written - before).total_seconds()) < 60

    def test_nothing_is_made_before_the_first_line(self, path: Path) -> None:
        JsonLinesWriter(path).close()
        # Closing flushes, which opens the file.
        assert not path.exists() or path.read_bytes() == b""

    def test_no_secret_is_written(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_TOKEN", "very-secret-value")
        JsonLinesWriter(path).append(
            {"error": "very-secret-value refused", "deep": [{"x": "very-secret-value"}]}
        )
        assert b"very-secret-value" not in path.read_bytes()

    @given(st.lists(st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text(), max_size=2),
    ), max_size=5))  # fmt: skip
    def test_whatever_is_appended_is_read_again(
        self, tmp_path_factory: Any, records: list[dict[str, Any]]
    ) -> None:
        path = tmp_path_factory.mktemp("run") / "x.jsonl"
        writer = JsonLinesWriter(path)
        for record in records:
            writer.append(record)
        read = [line.record for line in parse_lines(path.read_bytes() if records else b"")]
        assert [{k: v for k, v in record.items() if k not in ("v", "t")} for record in read] == records
        assert writer.read() == (path.read_bytes() if records else b"")
        writer.close()

    def test_lines_of_many_threads_are_whole_and_none_is_lost(self, path: Path) -> None:
        writer = JsonLinesWriter(path)

        def work(first: int) -> None:
            for number in range(first, first + 200):
                writer.append({"n": number, "pad": "x" * (number % 300)})

        threads = [threading.Thread(target=work, args=(k * 200,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers(path)) == list(range(1600))

    def test_a_second_run_appends(self, path: Path) -> None:
        for number in range(2):
            writer = JsonLinesWriter(path)
            writer.append({"n": number})
            assert writer.close() is None
        assert numbers(path) == [0, 1]

    def test_a_closed_writer_can_be_appended_to(self, path: Path) -> None:
        writer = JsonLinesWriter(path)
        writer.append({"n": 1})
        writer.close()
        writer.append({"n": 2})
        assert numbers(path) == [1, 2]

    def test_a_torn_last_line_of_a_killed_run_stays_alone(self, path: Path) -> None:
        path.parent.mkdir(parents=True)
        path.write_bytes(b'{"n": 1}\n{"n": 2, "torn')
        JsonLinesWriter(path).append({"n": 3})
        lines = list(parse_lines(path.read_bytes()))
        assert [line.record.get("n") for line in lines] == [1, None, 3]
        assert [line.number for line in lines if line.problem] == [2]


class TestKill:
    def test_kill_9_in_mid_writing_leaves_at_most_one_torn_line(self, path: Path) -> None:
        code = """
            import sys
            from pathlib import Path
            from composer_obs.run_folder import JsonLinesWriter
            writer = JsonLinesWriter(Path(sys.argv[1]))
            number = 0
            while True:
                number += 1
                writer.append({"n": number, "pad": "x" * (number % 5000)})
                if number == 200:
                    print("go", flush=True)
        """
        for _ in range(3):
            process = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(code), str(path)], stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            lines = list(parse_lines(path.read_bytes()))
            assert len(lines) >= 200
            assert not any(line.problem for line in lines[:-1])
            good = [line.record["n"] for line in lines if not line.problem]
            assert good == list(range(1, len(good) + 1))
            path.unlink()


class TestFullDisk:
    """The disk is full in one of two ways: a small file system, or a limit on the size of files."""

    @pytest.fixture(params=["file system", "file size limit"])
    def full_disk(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
        if request.param == "file system":
            folder = tmp_path / "small"
            folder.mkdir()
            mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
            if subprocess.run(mount, capture_output=True).returncode:
                pytest.skip("only root may mount a small file system")
            ballast = folder / "ballast"
            ballast.write_bytes(b"x" * 48 * 1024)
            yield folder, ballast.unlink
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        else:
            # Python ignores SIGXFSZ, so that a write beyond the limit is refused like on a full disk.
            before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
            try:
                yield tmp_path, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def test_no_line_is_lost_or_halved_and_all_are_written_when_space_returns(self, full_disk: Any) -> None:
        folder, free = full_disk
        writer = JsonLinesWriter(folder / "ledger-rank0.jsonl")
        for number in range(60):
            writer.append({"n": number, "pad": "x" * 997})
        assert isinstance(writer.error, OSError)
        assert 0 < writer.lines_waiting < 60
        on_disk = numbers(writer.path)
        assert on_disk == list(range(60 - writer.lines_waiting))
        assert len(list(parse_lines(writer.read()))) == 60
        free()
        writer.append({"n": 60})
        assert (writer.error, writer.lines_waiting) == (None, 0)
        assert numbers(writer.path) == list(range(61))

    def test_space_that_returns_later_is_used_at_the_next_flush(self, full_disk: Any) -> None:
        folder, free = full_disk
        writer = JsonLinesWriter(folder / "ledger-rank0.jsonl")
        for number in range(60):
            writer.append({"n": number, "pad": "x" * 997})
        free()
        writer.flush()
        assert numbers(writer.path) == list(range(60))

    def test_lines_that_are_still_refused_at_the_end_are_put_elsewhere(
        self, full_disk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, _free = full_disk
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        writer = JsonLinesWriter(folder / "ledger-rank0.jsonl")
        # Fewer than the limit on the size of any one file, more than what is left.
        for number in range(17):
            writer.append({"n": number, "pad": "x" * 997})
        assert writer.lines_waiting
        on_disk = numbers(writer.path)
        rescued = writer.close()
        assert rescued is not None
        assert rescued.parent == tmp_path
        assert on_disk + numbers(rescued) == list(range(17))
        assert writer.lines_waiting == 0

    def test_a_folder_that_cannot_be_made_raises_nothing_and_loses_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "run").write_bytes(b"a file where the folder should be")
        writer = JsonLinesWriter(tmp_path / "run" / "ledger-rank0.jsonl")
        writer.append({"n": 1})
        assert isinstance(writer.error, OSError)
        (tmp_path / "run").unlink()
        writer.append({"n": 2})
        assert numbers(writer.path) == [1, 2]


class TestRemoved:
    def test_a_folder_that_is_removed_in_mid_run_is_put_back_with_every_line(self, path: Path) -> None:
        import shutil

        writer = JsonLinesWriter(path)
        writer.append({"n": 1})
        shutil.rmtree(path.parent.parent)
        writer.append({"n": 2})
        assert numbers(path) == [1, 2]
        writer.append({"n": 3})
        assert numbers(path) == [1, 2, 3]

    def test_a_file_that_is_removed_twice_is_put_back_twice(self, path: Path) -> None:
        writer = JsonLinesWriter(path)
        for number in range(3):
            writer.append({"n": number})
            path.unlink()
        writer.append({"n": 3})
        assert numbers(path) == [0, 1, 2, 3]

    def test_a_folder_that_is_moved_takes_its_lines_along(self, path: Path) -> None:
        writer = JsonLinesWriter(path)
        writer.append({"n": 1})
        moved = path.parent.rename(path.parent.with_name("moved"))
        writer.append({"n": 2})
        assert numbers(moved / path.name) == [1, 2]

    def test_a_file_that_somebody_else_put_in_its_place_is_appended_to(self, path: Path) -> None:
        writer = JsonLinesWriter(path)
        writer.append({"n": 1})
        path.unlink()
        path.write_bytes(b'{"n": 10}\n')
        writer.append({"n": 2})
        # It may be a copy of ours, which must not hold every line twice.
        assert numbers(path) == [10, 2]


class TestFork:
    def test_a_forked_child_is_no_second_writer(self, path: Path) -> None:
        code = """
            import os, sys
            from pathlib import Path
            from composer_obs.run_folder import JsonLinesWriter
            writer = JsonLinesWriter(Path(sys.argv[1]))
            writer.append({"n": 1})
            child = os.fork()
            if child == 0:
                writer.append({"n": -1})
                writer.flush(durable=True)
                assert writer.close() is None
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            writer.append({"n": 2})
        """
        ended = run_python(code, path)
        assert ended.returncode == 0, ended.stderr
        assert numbers(path) == [1, 2]

    def test_a_child_that_was_forked_while_a_thread_wrote_does_not_hang(self, path: Path) -> None:
        code = """
            import os, sys, threading
            from pathlib import Path
            from composer_obs.run_folder import JsonLinesWriter
            writer = JsonLinesWriter(Path(sys.argv[1]))
            writer.append({"n": 1})
            with writer._lock:  # as another thread holds it in the middle of a write
                child = os.fork()
                if child == 0:
                    writer.append({"n": -1})
                    writer.flush()
                    writer.close()
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        """
        ended = run_python(code, path)
        assert ended.returncode == 0, ended.stderr
        assert numbers(path) == [1]

    def test_lines_that_wait_in_the_parent_are_not_rescued_by_the_child(self, tmp_path: Path) -> None:
        code = """
            import os, sys, tempfile
            from pathlib import Path
            from composer_obs.run_folder import JsonLinesWriter
            folder = Path(sys.argv[1])
            tempfile.tempdir = str(folder / "rescued")
            os.mkdir(tempfile.tempdir)
            (folder / "run").write_bytes(b"")
            writer = JsonLinesWriter(folder / "run" / "x.jsonl")
            writer.append({"n": 1})
            assert writer.lines_waiting == 1
            child = os.fork()
            if child == 0:
                writer.close()
                os._exit(0)
            os.waitpid(child, 0)
            assert os.listdir(tempfile.tempdir) == []
        """
        ended = run_python(code, tmp_path)
        assert ended.returncode == 0, ended.stderr


class TestParsing:
    @given(st.binary(max_size=300))
    def test_arbitrary_bytes_never_raise_and_every_line_is_accounted_for(self, data: bytes) -> None:
        lines = list(parse_lines(data))
        expected = [n for n, raw in enumerate(data.split(b"\n"), 1) if raw.strip(b" \t\r\n\0")]
        assert [line.number for line in lines] == expected
        assert all(bool(line.problem) or isinstance(line.record, dict) for line in lines)

    @given(
        st.lists(st.sampled_from([
            b'{"n": 1}', b"", b"  ", b"\0\0\0", b"[1]", b"1", b"null", b'"x"', b"{", b'{"n": ', b"\xff\xfe", b"{}}",
        ]), max_size=10)
    )  # fmt: skip
    def test_foreign_lines_cost_none_of_ours(self, raw: list[bytes]) -> None:
        lines = list(parse_lines(b"\n".join(raw)))
        assert sum(line.record == {"n": 1} for line in lines) == raw.count(b'{"n": 1}')
        assert sum(line.problem is None for line in lines) == raw.count(b'{"n": 1}')

    def test_a_file_and_its_lines_give_the_same(self, tmp_path: Path) -> None:
        data = b'{"n": 1}\r\n\n{"n": 2}\njunk\n{"to'
        path = tmp_path / "x"
        path.write_bytes(data)
        with path.open("rb") as file:
            assert list(parse_lines(file)) == list(parse_lines(data))

    @pytest.mark.parametrize(
        "raw",
        [b"[" * 100_000, b"1" * 100_000, b'{"n": ' * 100_000],
        ids=["nested", "long number", "nested objects"],
    )
    def test_lines_that_a_parser_gives_up_on_are_problems(self, raw: bytes) -> None:
        (line,) = parse_lines(raw)
        assert line.problem


class TestWhere:
    @pytest.mark.parametrize(
        ("folder", "environ", "expected"),
        [
            (None, {}, "gpt/composer_obs"),
            (None, {"COMPOSER_OBS_FOLDER": "/logs/{run_name}/obs"}, "/logs/gpt/obs"),
            ("mine/{run_name}", {"COMPOSER_OBS_FOLDER": "/logs"}, "mine/gpt"),
            ("", {"COMPOSER_OBS_FOLDER": ""}, "gpt/composer_obs"),
            ("{rank}/{other}", {}, "{rank}/{other}"),
        ],
    )
    def test_the_argument_goes_before_the_environment_before_the_default(
        self, folder: str | None, environ: dict[str, str], expected: str
    ) -> None:
        assert str(resolve_run_folder("gpt", folder, environ)) == expected

    def test_the_environment_of_the_process_is_the_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPOSER_OBS_FOLDER", os.sep + "logs")
        assert str(resolve_run_folder("gpt")) == "/logs"
