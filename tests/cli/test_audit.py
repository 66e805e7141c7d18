"""``composer-obs audit`` on ledgers written by hand and a real S3 server."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from composer_obs.run_folder import JsonLinesWriter
from composer_obs.uploads.ledger import Attempt, Destination, Run, to_record
from tests.cli.conftest import COMMAND, WrittenRun, invoke, invoke_json

Make = Callable[..., WrittenRun]


@pytest.fixture
def good_run(written_run: Make) -> WrittenRun:
    run = written_run()
    for number in range(1, 4):
        run.upload(f"gpt/ep{number}.pt", b"weights %d" % number)
    run.end()
    return run


@pytest.fixture
def bad_run(written_run: Make) -> WrittenRun:
    """One upload each: proven, missing, truncated, corrupt, no file."""
    run = written_run()
    run.upload("gpt/proven.pt", b"proven")
    run.upload("gpt/missing.pt", b"missing", stored=None)
    run.upload("gpt/truncated.pt", b"truncated", stored=b"trunc")
    run.upload("gpt/corrupt.pt", b"corrupt", stored=b"CORRUPT")
    run.upload("gpt/no-file.json", None, outcome=None)
    run.end()
    return run


class TestText:
    def test_a_run_whose_uploads_are_all_there_is_proven(self, good_run: WrittenRun, bucket: str) -> None:
        result = invoke("audit", "gpt")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == (
            "verdict  size  rank  uri\n"
            f"proven    9 B     0  s3://{bucket}/gpt/ep1.pt\n"
            f"proven    9 B     0  s3://{bucket}/gpt/ep2.pt\n"
            f"proven    9 B     0  s3://{bucket}/gpt/ep3.pt\n"
            "\n"
            "3 uploads: 3 proven\n"
        )

    def test_what_is_lost_comes_first_then_the_findings_then_one_line(
        self, bad_run: WrittenRun, bucket: str
    ) -> None:
        result = invoke("audit", "gpt/composer_obs")
        assert result.exit_code == 1
        table, findings, headline = result.stdout.rstrip("\n").split("\n\n")
        assert [line.split()[0] for line in table.split("\n")] == [
            "verdict", "missing", "truncated", "corrupt", "no_file", "proven",
        ]  # fmt: skip
        codes = re.findall(r"^error (UP\d+) \S+  (\S+) \(rank 0\)", findings, re.MULTILINE)
        assert dict(codes) == {
            "UP001": f"s3://{bucket}/gpt/missing.pt",
            "UP002": f"s3://{bucket}/gpt/truncated.pt",
            "UP003": f"s3://{bucket}/gpt/corrupt.pt",
            "UP009": f"s3://{bucket}/gpt/no-file.json",
        }
        assert headline == "5 uploads: 1 proven, 1 missing, 1 truncated, 1 corrupt, 1 no_file"

    def test_many_proven_artifacts_are_a_number_unless_they_are_asked_for(self, written_run: Make) -> None:
        run = written_run()
        for number in range(60):
            run.upload(f"gpt/{number:02}.pt", b"%d" % number)
        run.upload("gpt/lost.pt", b"lost", stored=None)
        run.end()
        short, long = invoke("audit", "gpt").stdout, invoke("audit", "gpt", "-v").stdout
        assert "60 proven artifacts are not listed (-v lists them)" in short
        assert short.count("\nproven ") == 0
        assert short.split("\n")[1].startswith("missing")
        assert long.count("\nproven ") == 60
        assert "not listed" not in long

    def test_forty_flushes_of_a_log_are_one_artifact_and_say_so(self, written_run: Make) -> None:
        run = written_run()
        for flush in range(1, 41):
            run.upload("gpt/logs.txt", b"line\n" * flush, stored="as sent" if flush in (1, 40) else None)
        run.end()
        result = invoke("audit", "gpt")
        assert result.exit_code == 0
        assert result.stdout.endswith("40 uploads: 1 proven, 39 superseded\n")

    def test_a_name_cannot_forge_a_line_or_steer_the_terminal(self, written_run: Make) -> None:
        run = written_run()
        run.upload("gpt/\x1b[2J\nproven  1 B  0  s3://x", b"x", stored=None)
        run.end()
        result = invoke("audit", "gpt")
        assert "\x1b" not in result.stdout
        assert "\nproven" not in result.stdout
        assert r"gpt/\x1b[2J\nproven" in result.stdout


class TestPrograms:
    def test_json_holds_artifacts_with_evidence_findings_and_a_summary(
        self, bad_run: WrittenRun, bucket: str
    ) -> None:
        report = invoke_json("audit", "gpt")
        assert list(report) == ["version", "findings", "artifacts", "summary"]
        by_uri = {artifact["uri"].rpartition("/")[2]: artifact for artifact in report["artifacts"]}
        corrupt = by_uri["corrupt.pt"]
        assert corrupt["verdict"] == "corrupt"
        assert corrupt["size"] == 7
        assert corrupt["evidence"]["expected"]["md5"] == hashlib.md5(b"corrupt").hexdigest()
        assert corrupt["evidence"]["stored"]["md5"] == hashlib.md5(b"CORRUPT").hexdigest()
        assert report["summary"] == {
            "error": 4, "warning": 0, "info": 0, "uploads": 5,
            "verdicts": {"proven": 1, "missing": 1, "truncated": 1, "corrupt": 1, "no_file": 1},
            "all_proven": False, "absent_ranks": {},
        }  # fmt: skip

    def test_sarif_and_github_tell_the_same_findings(self, bad_run: WrittenRun) -> None:
        sarif = json.loads(invoke("audit", "gpt", "--format", "sarif").stdout)
        assert sorted(result["ruleId"] for result in sarif["runs"][0]["results"]) == [
            "UP001", "UP002", "UP003", "UP009",
        ]  # fmt: skip
        github = invoke("audit", "gpt", "--format", "github").stdout.split("\n")
        assert sum(line.startswith("::error title=UP") for line in github) == 4
        assert github[-2].startswith("5 uploads: ")

    def test_output_goes_to_a_file_without_colour(self, bad_run: WrittenRun) -> None:
        result = invoke("audit", "gpt", "--output", "report.txt")
        assert (result.exit_code, result.stdout) == (1, "")
        assert Path("report.txt").read_text() == invoke("audit", "gpt").stdout

    def test_a_file_that_cannot_be_written_is_refused_before_anything_is_asked(
        self, bad_run: WrittenRun
    ) -> None:
        for option in ("--output", "--sha256sums"):
            for place in ("nowhere/report.txt", "gpt"):
                result = invoke("audit", "gpt", option, place)
                assert (result.exit_code, result.stdout) == (2, "")
                assert f"cannot write '{place}'" in result.stderr


class TestSelection:
    def test_an_ignored_rule_is_not_told_and_does_not_count_but_the_artifact_is_listed(
        self, written_run: Make
    ) -> None:
        run = written_run()
        run.upload("gpt/missing.pt", b"missing", stored=None)
        run.end()
        result = invoke("audit", "gpt", "--ignore", "up001")
        assert result.exit_code == 0
        assert "UP001" not in result.stdout
        assert result.stdout.startswith("verdict  size  rank  uri\nmissing")
        assert invoke_json("audit", "gpt", "--ignore", "UP001")["summary"]["all_proven"] is True

    @pytest.mark.parametrize(
        ("options", "code", "told"),
        [
            (["--ignore", "UP001,UP002,UP003"], 1, {"UP009"}),
            (["--ignore", "UP001,UP002", "--ignore", "UP003,UP009"], 0, set()),
            (["--select", "UP002"], 1, {"UP002"}),
            (["--select", "UP01"], 0, set()),
            (["--select", "UP0", "--ignore", "UP00"], 0, set()),
        ],
    )
    def test_select_and_ignore_take_lists_of_beginnings_and_decide_the_exit_code(
        self, bad_run: WrittenRun, options: list[str], code: int, told: set[str]
    ) -> None:
        assert invoke("audit", "gpt", *options).exit_code == code
        assert {finding["code"] for finding in invoke_json("audit", "gpt", *options)["findings"]} == told

    def test_a_rule_that_does_not_exist_is_refused(self, bad_run: WrittenRun) -> None:
        result = invoke("audit", "gpt", "--ignore", "UP9")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == "no rule's code begins with 'UP9'; `composer-obs rule` lists all\n"


class TestRunFolders:
    @pytest.mark.parametrize(
        ("place", "advice"),
        [
            ("nowhere", "there is no run folder 'nowhere'; pass the folder"),
            ("data", "the folder 'data' holds no ledger; pass the folder"),
            (".", "the folder '.' holds no ledger; did you mean 'gpt/composer_obs'?"),
        ],
    )
    def test_a_place_without_a_ledger_is_wrong_usage_with_advice(
        self, good_run: WrittenRun, place: str, advice: str
    ) -> None:
        result = invoke("audit", place)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(advice)
        assert result.stderr.count("\n") == 1

    def test_no_run_folder_at_all_is_wrong_usage(self) -> None:
        assert invoke("audit").exit_code == 2

    def test_a_file_that_is_no_ledger_is_wrong_usage(self, good_run: WrittenRun) -> None:
        Path("notes.txt").write_text("hello\n")
        result = invoke("audit", "notes.txt")
        assert result.exit_code == 2
        assert result.stderr == "notes.txt is not a ledger: line 1: not a JSON object\n"

    def test_a_run_that_announced_nothing_is_fine_and_says_so(self, written_run: Make) -> None:
        written_run().end()
        result = invoke("audit", "gpt")
        assert (result.exit_code, result.stdout) == (0, "0 uploads\n")
        assert result.stderr == "note: gpt: no upload was announced\n"

    def test_a_torn_last_line_is_told_and_costs_nothing(self, good_run: WrittenRun) -> None:
        with good_run.writer.path.open("ab") as file:
            file.write(b'{"v": 1, "kind": "atte')
        result = invoke("audit", "gpt")
        assert result.exit_code == 0
        assert "info UP014 unreadable-ledger  gpt/composer_obs/ledger-rank0.jsonl:13:1  torn" in result.stdout

    def test_a_rank_whose_ledger_is_not_here_is_told(self, written_run: Make) -> None:
        run = written_run(world_size=12, rank=1)
        run.upload("gpt/a.pt", b"1")
        run.end()
        result = invoke("audit", "gpt")
        assert result.exit_code == 0
        assert "no ledger of rank 0, 2, 3, 4, 5, 6, 7, 8, … of run 'gpt' is here" in result.stderr
        assert invoke_json("audit", "gpt")["summary"]["absent_ranks"] == {"gpt": [0, *range(2, 12)]}

    def test_ledgers_that_a_run_put_into_the_bucket_are_audited_from_there(
        self, bad_run: WrittenRun, bucket: str
    ) -> None:
        key = "gpt/composer_obs/ledger-rank0.jsonl"
        bad_run.client.upload_file(str(bad_run.writer.path), bucket, key)
        assert invoke("audit", f"s3://{bucket}/gpt").stdout == invoke("audit", "gpt").stdout
        assert invoke("audit", f"s3://{bucket}/gpt", "gpt").stdout == invoke("audit", "gpt").stdout

    def test_a_bucket_that_cannot_be_read_is_wrong_usage(self, good_run: WrittenRun) -> None:
        result = invoke("audit", "s3://no-such-bucket-at-all/gpt")
        assert result.exit_code == 2
        assert "there is no such bucket" in result.stderr

    def test_a_run_that_clobbered_another_is_found_when_both_are_audited(self, written_run: Make) -> None:
        first, second = written_run(name="gpt-a"), written_run(name="gpt-b")
        first.upload("latest.pt", b"first")
        second.upload("latest.pt", b"2nd..")
        first.end()
        second.end()
        assert "UP004" not in invoke("audit", "gpt-a").stdout
        result = invoke("audit", "gpt-a", "gpt-b")
        assert result.exit_code == 1
        assert "UP004 clobbered" in result.stdout
        assert "the store holds what rank 0 of run gpt-b uploaded" in result.stdout
        assert result.stdout.endswith("2 uploads: 1 proven, 1 clobbered\n")


class TestStores:
    @pytest.fixture
    def folder_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Uploads to a mounted folder, which keeps no checksums."""
        monkeypatch.chdir(tmp_path)
        writer = JsonLinesWriter(tmp_path / "gpt" / "composer_obs" / "ledger-rank0.jsonl")
        store = tmp_path / "store"
        store.mkdir()
        (store / "a.pt").write_bytes(b"weights")
        (tmp_path / "a.pt").write_bytes(b"weights")
        mtime = (tmp_path / "a.pt").stat().st_mtime_ns
        attempt = Attempt(
            "s/1", 0, "s:0", "a.pt", "a.pt", f"file://{store}/a.pt", str(tmp_path / "a.pt"), 7, mtime
        )
        writer.append(to_record("run", Run("s", "gpt", 0, 1, ended=True)))
        writer.append(
            to_record("destination", Destination("s:0", "folder", f"file://{store}", {"root": str(store)}))
        )
        writer.append(to_record("attempt", attempt))
        return store

    def test_size_alone_does_not_prove_and_a_download_does(self, folder_run: Path) -> None:
        result = invoke("audit", "gpt")
        assert result.exit_code == 1
        assert "UP016 size-only" in result.stdout
        assert invoke("audit", "gpt", "--ignore", "UP016").exit_code == 0
        assert invoke("audit", "gpt", "--download").stdout.endswith("1 upload: 1 proven\n")

    def test_a_download_finds_other_bytes(self, folder_run: Path) -> None:
        (folder_run / "a.pt").write_bytes(b"WEIGHTS")
        result = invoke("audit", "gpt", "--download")
        assert result.exit_code == 1
        assert "UP003 corrupt" in result.stdout

    def test_a_store_that_nobody_here_knows_is_unprovable(self, written_run: Make) -> None:
        run = written_run()
        run.upload("gpt/a.pt", b"1", stored=None)
        path = run.writer.path
        path.write_bytes(path.read_bytes().replace(b'"store":"s3"', b'"store":"tape"'))
        result = invoke("audit", "gpt")
        assert result.exit_code == 1
        assert "UP008 unprovable" in result.stdout
        assert "no plug-in is named 'tape'" in result.stdout

    def test_credentials_that_may_not_read_make_it_unprovable_never_missing(
        self, good_run: WrittenRun, s3_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in s3_server.environment("writer").items():
            monkeypatch.setenv(name, value)
        result = invoke("audit", "gpt")
        assert result.exit_code == 1
        assert result.stdout.endswith("3 uploads: 3 unprovable\n")
        assert s3_server.credentials("writer")[1] not in result.stdout

    def test_a_server_that_never_answers_costs_no_more_than_the_time_allowed(self, written_run: Make) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            run = written_run()
            run.upload("gpt/a.pt", b"1", stored=None)
            path = run.writer.path
            here = f"http://127.0.0.1:{silent.getsockname()[1]}"
            path.write_bytes(path.read_bytes().replace(run.endpoint.encode(), here.encode()))
            result = invoke("audit", "gpt", "--timeout", "0.2")
        assert result.exit_code == 1
        assert "the store gave no answer in the time that was allowed" in result.stdout

    @pytest.mark.parametrize(
        "option", [["--jobs", "0"], ["--timeout", "0"], ["--timeout", "-1"], ["--jobs", "x"]]
    )
    def test_numbers_out_of_range_are_wrong_usage(self, option: list[str]) -> None:
        assert invoke("audit", "gpt", *option).exit_code == 2


class TestSha256sums:
    def check(self, folder: Path) -> subprocess.CompletedProcess[str]:
        command = ["sha256sum", "--check", "--strict", "../SHA256SUMS"]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True)

    @pytest.mark.parametrize("local", [True, False], ids=["from the local files", "from the bucket"])
    def test_the_real_sha256sum_accepts_it_after_a_download_whatever_the_names(
        self, written_run: Make, tmp_path: Path, local: bool
    ) -> None:
        run = written_run()
        names = ["ep1.pt", "a b.pt", "back\\slash", "line\nfeed", "ä–日本.pt", "*", "-v", "#1?x=%20", "'\""]
        for name in names:
            run.upload(f"gpt/{name}", name.encode() * 100, local=local)
        run.end()
        result = invoke("audit", "gpt", "--sha256sums", "SHA256SUMS")
        assert (result.exit_code, result.stderr) == (0, "")
        folder = tmp_path / "download"
        (folder / "gpt").mkdir(parents=True)
        for name in names:
            run.client.download_file(run.bucket, f"gpt/{name}", str(folder / "gpt" / name))
        checked = self.check(folder)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        assert checked.stdout.count(": OK\n") == 9
        (folder / "gpt" / "ep1.pt").write_bytes(b"damaged")
        assert self.check(folder).returncode == 1

    def test_only_what_is_proven_is_in_it(self, bad_run: WrittenRun) -> None:
        result = invoke("audit", "gpt", "--sha256sums", "SHA256SUMS")
        assert result.exit_code == 1
        assert Path("SHA256SUMS").read_text() == f"{hashlib.sha256(b'proven').hexdigest()}  gpt/proven.pt\n"

    def test_what_cannot_be_summed_is_named_and_makes_the_exit_code_1(
        self, written_run: Make, s3_server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = written_run()
        run.upload("gpt/here.pt", b"here")
        run.upload("gpt/gone.pt", b"gone", local=False)
        run.end()
        deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject"}
        # A listing proves both; reading one of them back is then refused.
        import composer_obs.uploads.manifest as module

        read_back = module.read_back

        def refused(store: Any, key: str, plan: Any) -> Any:
            policy = {
                "Version": "2012-10-17",
                "Statement": [{**deny, "Resource": f"arn:aws:s3:::{run.bucket}/*"}],
            }
            run.client.put_bucket_policy(Bucket=run.bucket, Policy=json.dumps(policy))
            for name, value in s3_server.environment("reader").items():
                monkeypatch.setenv(name, value)
            from composer_obs.uploads.stores.s3 import S3Store

            return read_back(S3Store(run.bucket, endpoint_url=run.endpoint), key, plan)

        monkeypatch.setattr(module, "read_back", refused)
        result = invoke("audit", "gpt", "--sha256sums", "SHA256SUMS")
        assert result.exit_code == 1
        assert Path("SHA256SUMS").read_text().endswith("  gpt/here.pt\n")
        assert Path("SHA256SUMS").read_text().count("\n") == 1
        assert f"no SHA-256 sum of s3://{run.bucket}/gpt/gone.pt: " in result.stderr


class TestTerminal:
    def on_a_terminal(self, environment: dict[str, str], *arguments: str) -> str:
        """What a person sees: the command with a real pseudo-terminal as its outputs."""
        primary, secondary = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "audit", *arguments],
            stdin=secondary, stdout=secondary, stderr=secondary,
            env={**os.environ, "TERM": "xterm", **environment},
        )  # fmt: skip
        os.close(secondary)
        shown = b""
        while True:
            try:
                block = os.read(primary, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not block:
                break
            shown += block
        os.close(primary)
        assert process.wait() == 1
        return shown.decode()

    def test_colour_and_a_bar_are_shown(self, bad_run: WrittenRun) -> None:
        shown = self.on_a_terminal({}, "gpt")
        assert "\x1b[1;31merror\x1b[0m UP001" in shown
        assert "asking the stores" in shown

    def test_no_color_is_honoured(self, bad_run: WrittenRun) -> None:
        assert "\x1b[1;31m" not in self.on_a_terminal({"NO_COLOR": "1"}, "gpt")
        assert "\x1b[1;31m" in self.on_a_terminal({"NO_COLOR": ""}, "gpt")

    def test_a_dumb_terminal_is_sent_nothing_but_text(self, bad_run: WrittenRun) -> None:
        shown = self.on_a_terminal({"TERM": "dumb"}, "gpt")
        assert "\x1b" not in shown
        assert "asking the stores" not in shown

    def test_nothing_but_text_goes_to_a_pipe(self, bad_run: WrittenRun) -> None:
        ended = subprocess.run([*COMMAND, "audit", "gpt"], capture_output=True, text=True)
        assert ended.returncode == 1
        assert "\x1b" not in ended.stdout
        assert ended.stderr == ""

    def test_a_terminal_that_knows_only_ascii_gets_every_character_escaped(self, written_run: Make) -> None:
        run = written_run()
        run.upload("gpt/ä\ud800.pt", b"1", stored=None)
        run.end()
        environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        ended = subprocess.run([*COMMAND, "audit", "gpt"], capture_output=True, env=environment)
        assert ended.returncode == 1
        assert rb"gpt/\xe4\ud800.pt" in ended.stdout

    def test_ctrl_c_ends_it_quietly(self, written_run: Make) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(30)
            run = written_run()
            run.upload("gpt/a.pt", b"1", stored=None)
            path = run.writer.path
            here = f"http://127.0.0.1:{silent.getsockname()[1]}"
            path.write_bytes(path.read_bytes().replace(run.endpoint.encode(), here.encode()))
            process = subprocess.Popen(
                [*COMMAND, "audit", "gpt"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            connection, _ = silent.accept()  # it has asked, and waits for an answer
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
            connection.close()
        assert (process.returncode, out, err) == (130, b"", b"")
