from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, invoke


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "other_obs-4.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: other-obs\nVersion: 4.5\n")
    (folder / "entry_points.txt").write_text("[composer_obs.callbacks]\nbroken = other_broken:Broken\n")
    (tmp_path / "other_broken.py").write_text("import a_package_that_is_not_installed\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_what_is_registered_is_listed_with_its_package(other_package: None) -> None:
    result = invoke("plugins")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.rstrip("\n").split("\n")]
    assert rows[0] == ["name", "kind", "package", "version", "target"]
    assert ["broken", "callback", "other-obs", "4.5", "other_broken:Broken"] in rows
    assert ["s3", "store", "composer-obs", "0.1.0", "composer_obs.uploads.stores.s3:S3Store"] in rows


def test_each_is_imported_on_request_and_what_fails_is_told(other_package: None) -> None:
    result = invoke("plugins", "--check")
    assert result.exit_code == 1
    by_name = {line.split()[0]: line for line in result.stdout.rstrip("\n").split("\n")}
    assert by_name["broken"].endswith(
        "ModuleNotFoundError: No module named 'a_package_that_is_not_installed'"
    )
    assert by_name["s3"].endswith("  ok")
    assert by_name["upload_auditor"].endswith("  ok")


def test_all_of_ours_can_be_imported() -> None:
    ended = subprocess.run([*COMMAND, "plugins", "--check"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
