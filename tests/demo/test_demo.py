"""The demonstration shows what it says, and would say so if it did not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from composer_obs.cli.demo import unexpected
from composer_obs.demo.damage import Damage

DAMAGE = [
    Damage("demo/a.pt", "deleted", "missing"),
    Damage("demo/b.pt", "cut from 2 to 1 bytes", "truncated"),
    Damage("demo/c.txt", "replaced by 9 other bytes", "corrupt"),
]
SEEN = {
    "s3://demo/demo/a.pt": "missing",
    "s3://demo/demo/b.pt": "truncated",
    "s3://demo/demo/c.txt": "corrupt",
    "s3://demo/demo/d.json": "proven",
}


def test_the_whole_demonstration_names_exactly_the_damage_and_leaves_nothing_behind(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "composer_obs", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    before, after = ended.stdout.split("[4/5]")
    first_table = before.split("[3/5]")[1]
    verdicts = {line.split()[0] for line in first_table.splitlines() if "s3://demo/" in line}
    assert verdicts == {"proven"}
    table = {
        line.split()[-1]: line.split()[0] for line in after.splitlines() if line[:1] not in (" ", "e", "")
    }
    damaged = {
        uri: verdict for uri, verdict in table.items() if uri.startswith("s3://") and verdict != "proven"
    }
    assert damaged == {
        "s3://demo/demo/checkpoints/ep1-ba8-rank0.pt": "missing",
        "s3://demo/demo/checkpoints/ep3-ba24-rank0.pt": "truncated",
        "s3://demo/demo/logs-rank0.txt": "corrupt",
    }
    # The pointer names the truncated checkpoint; what to load instead is the one that is whole.
    assert "load_path='s3://demo/demo/checkpoints/ep2-ba16-rank0.pt'" in after
    assert "UploadAuditor()" in after.split("What to do next")[1]
    assert list(tmp_path.iterdir()) == []
    listing = subprocess.run(["pgrep", "-f", f"weed.*{tmp_path}"], capture_output=True, text=True)
    assert listing.stdout == ""


def test_an_audit_that_sees_exactly_the_damage_is_as_expected() -> None:
    assert unexpected(SEEN, DAMAGE) == []


def test_a_blind_audit_is_told() -> None:
    (problem,) = unexpected({**SEEN, "s3://demo/demo/c.txt": "proven"}, DAMAGE)
    assert "c.txt is corrupt, but the audit says proven" in problem


def test_an_audit_that_does_not_list_a_damaged_object_is_told() -> None:
    seen = {uri: verdict for uri, verdict in SEEN.items() if "a.pt" not in uri}
    (problem,) = unexpected(seen, DAMAGE)
    assert "a.pt is missing, which the audit does not tell" in problem


def test_a_false_alarm_is_told() -> None:
    (problem,) = unexpected({**SEEN, "s3://demo/demo/d.json": "corrupt"}, DAMAGE)
    assert "d.json is proven, but the audit says corrupt" in problem
