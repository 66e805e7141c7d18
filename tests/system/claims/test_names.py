"""Placeholders that raise, stay, or are filled in twice."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.system.claims._claims import (
    claims,
    file_logger,
    files,
    fit,
    json_handler,
    log_file_of,
    objects,
    profiler,
    trainer,
    uploader,
)


@claims("PH001")
@pytest.mark.parametrize("bad", ["{rank", "rank}", "{rank}}", "{{rank}"])
def test_ph001_an_unbalanced_brace_ends_the_trainer_before_it_begins(bad, here):
    with pytest.raises(ValueError, match=r"expected '}' before end of string|Single '}' encountered"):
        trainer(loggers=[file_logger(f"{bad}.txt")])
    assert files(here) == set()


@claims("PH001")
def test_ph001_a_balanced_brace_is_filled_in(here):
    assert log_file_of("{rank}.txt", here) == "0.txt"


@claims("PH002")
@pytest.mark.parametrize("bad", ["{}", "{0}", "{1}"])
def test_ph002_a_positional_placeholder_stays_in_the_name_as_empty_braces(bad, here):
    assert log_file_of(f"log-{bad}.txt", here) == "log-{}.txt"


@claims("PH002")
def test_ph002_mixed_numbering_raises(here):
    with pytest.raises(ValueError, match="cannot switch from manual field specification"):
        trainer(loggers=[file_logger("{0}-{}.txt")])


@claims("PH003")
@pytest.mark.parametrize(("bad", "error"), [("{run_name.attr}", AttributeError), ("{unknown[k]}", TypeError)])
def test_ph003_an_attribute_or_an_index_of_a_placeholder_raises(bad, error, here):
    with pytest.raises(error):
        trainer(loggers=[file_logger(f"{bad}.txt")])


@claims("PH003")
def test_ph003_an_attribute_that_exists_puts_its_repr_into_the_name(here):
    assert log_file_of("{rank.__class__}.txt", here) == "<class 'int'>.txt"


@claims("PH004")
@pytest.mark.parametrize("bad", ["{run_name:03d}", "{epoch:04d}"])
def test_ph004_a_number_format_for_text_raises(bad, here):
    with pytest.raises(ValueError, match="Unknown format code 'd' for object of type 'str'"):
        trainer(loggers=[file_logger(f"{bad}.txt")])


@claims("PH004")
def test_ph004_a_number_format_for_a_number_works(here):
    assert log_file_of("{rank:03d}.txt", here) == "000.txt"


@claims("PH005")
def test_ph005_doubled_braces_are_filled_in_for_the_upload_alone(here, tmp_path):
    def run(folder: str, filename: str) -> None:
        handler = json_handler(folder=folder, filename=filename, remote_file_name=f"{folder}.json")
        fit(profiler=profiler(handlers=[handler]), loggers=[uploader(tmp_path / "store")], run_name=folder)

    with pytest.raises(FileNotFoundError, match=r"bad/0\.json"):
        run("bad", "{{rank}}.json")
    assert "bad/{rank}.json" in files(here)
    assert "bad/0.json" not in files(here)
    run("good", "{rank}.json")
    assert "good.json" in objects(tmp_path / "store")


@claims("PH101")
def test_ph101_an_unknown_placeholder_stays_in_the_name(here):
    assert log_file_of("{run_nam}/{rank}.txt", here) == "{run_nam}/0.txt"


@claims("PH101")
def test_ph101_a_known_placeholder_does_not(here):
    assert log_file_of("{run_name}/{rank}.txt", here) == "run/0.txt"


@claims("PH102")
def test_ph102_a_time_placeholder_stays_in_a_name_that_is_made_before_time_begins(here):
    handlers = [
        json_handler(folder="traces/{batch}"),
        json_handler(folder="traces", filename="ba{batch}.json"),
    ]
    fit(loggers=[file_logger("log-{batch}.txt")], profiler=profiler(handlers=handlers))
    assert {name for name in files(here) if "torch" not in name} == {
        "log-{batch}.txt",
        "traces/{batch}/ep0-ba2-rank0.json",
        "traces/ba2.json",
    }


@claims("PH103")
def test_ph103_a_parameter_that_takes_no_placeholder_keeps_it_in_the_name(here):
    from composer.loggers import TensorboardLogger

    fit(loggers=[TensorboardLogger(log_dir="tb/{run_name}")], max_duration="1ba")
    fit(loggers=[TensorboardLogger(log_dir="plain")], max_duration="1ba")
    folders = {Path(name).parent.as_posix() for name in files(here)}
    assert folders == {"tb/{run_name}/run", "plain/run"}


def uploads(*names: str) -> Any:
    from composer.core import Callback

    class Uploading(Callback):
        def fit_start(self, state, logger):
            for name in names:
                Path(name).write_text(name)
                logger.upload_file(name, name, overwrite=True)

    return Uploading()


@claims("PH104")
def test_ph104_without_the_remote_file_name_all_uploads_become_one_object(tmp_path):
    def keys(template: str, store: Path) -> set[str]:
        logger = uploader(store, file_path_format_string=template)
        fit(loggers=[logger], callbacks=[uploads("a.txt", "b.txt")], save_latest_filename=None)
        return objects(store)

    assert keys("{run_name}/artifact", tmp_path / "bad") == {"run/artifact"}
    assert keys("{run_name}/{remote_file_name}", tmp_path / "good") == {"run/a.txt", "run/b.txt"}


@claims("PH105")
def test_ph105_a_format_string_and_a_latest_pointer_exclude_each_other(tmp_path):
    def make(**arguments: Any) -> None:
        logger = uploader(tmp_path, file_path_format_string="{run_name}/{remote_file_name}")
        trainer(loggers=[logger], **arguments).close()

    with pytest.raises(ValueError, match=r"`file_path_format_string` .* is not currently supported"):
        make()
    make(save_latest_filename=None)


@claims("PH106")
def test_ph106_an_mlflow_placeholder_needs_an_mlflow_logger(here, tmp_path):
    from composer.loggers import MLFlowLogger

    fit(save_folder="without/{mlflow_run_id}")
    assert {name for name in files(here) if name.startswith("without")} == {
        "without/{mlflow_run_id}/ep1-ba8-rank0.pt",
        "without/{mlflow_run_id}/latest-rank0.pt",
    }
    logger = MLFlowLogger(tracking_uri=(tmp_path / "mlruns").as_uri(), log_system_metrics=False)
    fit(save_folder="with/{mlflow_run_id}", loggers=[logger])
    (run_id,) = {Path(name).parts[1] for name in files(here) if name.startswith("with/")}
    assert re.fullmatch("[0-9a-f]{32}", run_id)


@claims("PH107")
def test_ph107_the_launcher_knows_no_run_name(here, monkeypatch, capfd):
    from composer.cli.launcher import main

    Path("script.py").write_text("print('hello')")

    def launch(stdout: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["composer", "-n", "2", "--stdout", stdout, "script.py"])
        code = main()
        return code, capfd.readouterr().err

    code, errors = launch("{run_name}.txt")
    assert "KeyError: 'run_name'" in errors
    assert files(here) == {"script.py"}
    code, errors = launch("rank{rank}.txt")
    assert (code, errors) == (0, "")
    assert Path("rank1.txt").read_text() == "hello\n"


@claims("PH702")
def test_ph702_python_fills_in_what_is_not_doubled_in_an_fstring(here):
    rank = 7  # Whatever it is when the line runs; Composer's rank is 0.
    for template in (f"{{run_name}}-{rank}.txt", "{run_name}-{rank}.txt"):
        fit(loggers=[file_logger(template)], max_duration="1ba")
    assert files(here) == {"run-7.txt", "run-0.txt"}


@claims("PH702")
def test_ph702_doubled_braces_in_a_plain_string_stay_in_a_name_that_is_formatted_once(here, tmp_path):
    made = trainer(loggers=[uploader(tmp_path / "store")], max_duration="1ba")
    Path("a.txt").write_text("a")
    made.fit()
    for name in ("{{run_name}}/a.txt", "{run_name}/b.txt"):
        made.logger.upload_file(remote_file_name=name, file_path="a.txt")
    made.close()
    assert objects(tmp_path / "store") == {"{run_name}/a.txt", "run/b.txt"}
