"""Names of checkpoints, and finding them again."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.system.claims._claims import (
    claims,
    file_logger,
    files,
    fit,
    objects,
    the_worker_dies,
    trainer,
    uploader,
)


@claims("PH201")
@pytest.mark.parametrize(
    ("template", "saved"),
    [
        ("{run_name}-ep{epoch}.pt", r"run-ep1\.pt"),
        ("{batch:06d}.pt", r"000008\.pt"),
        ("{total_wct}.pt", r"[0-9.]+\.pt"),
    ],
)
def test_ph201_what_the_search_for_conflicts_cannot_fill_in_raises_unless_overwriting(template, saved, here):
    name = template[1:].split("}")[0].split(":")[0]
    made = trainer(save_folder="bad", save_filename=template)
    with pytest.raises(KeyError, match=name):
        made.fit()
    made.close()
    assert files(here) == set()
    fit(save_folder="good", save_filename=template, save_overwrite=True)
    assert any(re.fullmatch(f"good/{saved}", name) for name in files(here))


@claims("PH202")
@pytest.mark.parametrize(
    ("template", "saved"),
    [("c++[0-9-ba{batch}.pt", "c++[0-9-ba8.pt"), ("ep{epoch}/ep{epoch}.pt", "ep1/ep1.pt")],
)
def test_ph202_a_name_that_is_no_regular_expression_raises_unless_overwriting(template, saved, here):
    made = trainer(save_folder="bad", save_filename=template)
    with pytest.raises(re.error):
        made.fit()
    made.close()
    assert files(here) == set()
    fit(save_folder="good", save_filename=template, save_overwrite=True)
    assert f"good/{saved}" in files(here)


def train_twice(
    latest: str, *loggers: Callable[[], Any], between: Callable[[], None] | None = None, **more: Any
) -> tuple[int, Exception | None]:
    """The batch at which the second run begins, and how that run ends."""
    arguments = {"save_folder": "ck", "save_latest_filename": latest, "autoresume": True, **more}
    fit(loggers=[logger() for logger in loggers], **arguments)
    if between:
        between()
    made = trainer(loggers=[logger() for logger in loggers], max_duration="2ep", **arguments)
    begins = int(made.state.timestamp.batch)
    error: Exception | None = None
    try:
        made.fit()
    except Exception as raised:
        error = raised
    finally:
        made.close()
    return begins, error


@claims("PH601")
@pytest.mark.parametrize("pointer", ["latest-ep{epoch}.pt", "latest-ba{batch}.pt"])
def test_ph601_a_pointer_with_time_is_never_found_and_the_run_begins_again_in_silence(pointer, here):
    assert train_twice(pointer, save_overwrite=True) == (0, None)


@claims("PH601")
def test_ph601_without_overwriting_the_second_run_stops_at_the_checkpoints_of_the_first(here):
    begins, error = train_twice("latest-ep{epoch}.pt")
    assert begins == 0
    assert isinstance(error, FileExistsError)
    assert "ck/ep1-ba8-rank0.pt may conflict with a future checkpoint" in str(error)


@claims("PH601")
@the_worker_dies
def test_ph601_on_a_new_machine_the_second_run_trains_again_until_the_store_refuses(here, tmp_path):
    def move() -> None:
        (here / "another machine").mkdir()
        os.chdir(here / "another machine")

    begins, error = train_twice("latest-ep{epoch}.pt", partial(uploader, tmp_path / "bad"), between=move)
    assert begins == 0
    assert isinstance(error, FileExistsError)
    assert "ck/ep1-ba8-rank0.pt already exists" in str(error)
    os.chdir(here)
    (here / "another machine").rename(here / "used")
    good = partial(uploader, tmp_path / "good")
    assert train_twice("latest-rank{rank}.pt", good, between=move, save_folder="good") == (8, None)


@claims("PH601")
@pytest.mark.parametrize("pointer", ["latest-rank{rank}.pt", "latest.pt"])
def test_ph601_a_pointer_without_time_is_found(pointer, here):
    assert train_twice(pointer) == (8, None)


@claims("PH601")
def test_ph601_a_pointer_is_never_made_where_no_checkpoint_is_kept(here):
    assert train_twice("latest-rank{rank}.pt", save_num_checkpoints_to_keep=0) == (0, None)


@claims("PH602")
def test_ph602_a_load_path_takes_the_run_name_and_bare_ranks_alone(here):
    fit(save_folder="run")
    with pytest.raises(KeyError, match="epoch"):
        trainer(load_path="run/ep{epoch}-ba8-rank0.pt")
    with pytest.raises(ValueError, match="Unknown format code 'd'"):
        trainer(load_path="run/ep1-ba8-rank{rank:01d}.pt")
    made = trainer(load_path="{run_name}/ep1-ba8-rank{rank}.pt")
    assert made.state.timestamp.batch == 8
    made.close()


@claims("PH603")
def test_ph603_time_in_the_folder_parts_checkpoint_and_pointer(here):
    fit(save_folder="bad/{batch}", save_interval="4ba")
    # At the end of an epoch its number has not moved on yet.
    checkpoints = {"ep0-ba4-rank0.pt", "ep0-ba8-rank0.pt"}
    assert files(here) == {"bad/4/ep0-ba4-rank0.pt", "bad/8/ep0-ba8-rank0.pt", "bad/{batch}/latest-rank0.pt"}
    fit(save_folder="good", save_interval="4ba")
    assert files(here / "good") == {*checkpoints, "latest-rank0.pt"}
    fit(save_folder="good-too", save_filename="ba{batch}/rank{rank}.pt", save_interval="4ba")
    assert files(here / "good-too") == {"ba4/rank0.pt", "ba8/rank0.pt", "latest-rank0.pt"}


@claims("PH604")
def test_ph604_a_placeholder_in_the_run_name_is_filled_in_for_the_upload_alone(here, tmp_path):
    def run(name: str) -> None:
        log = file_logger("{run_name}/log.txt")
        try:
            fit(loggers=[log, uploader(tmp_path / "store")], run_name=name)
        finally:
            log.file = None  # Its close fails too, and Composer would try it again at exit.

    with pytest.raises(FileNotFoundError, match=r"exp0/log\.txt"):
        run("exp{rank}")
    assert files(here) == {"exp{rank}/log.txt"}
    run("exp-rank")
    assert objects(tmp_path / "store") == {"exp-rank/log.txt"}
    with pytest.raises(ValueError, match="expected '}' before end of string"):
        run("exp{x")
