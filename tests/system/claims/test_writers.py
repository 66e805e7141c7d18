"""Names that meet."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.system.claims._claims import (
    claims,
    file_logger,
    files,
    fit,
    objects,
    the_worker_dies,
    uploader,
)


@claims("PH301")
@pytest.mark.distributed
def test_ph301_ranks_that_share_a_name_lose_lines_and_die_of_each_others_traces(run_script, tmp_path):
    ended = run_script(
        """
        from composer.profiler import JSONTraceHandler, Profiler, cyclic_schedule

        def log(filename):
            logger = FileLogger(filename, capture_stdout=False, capture_stderr=False)
            class Speaks(Callback):
                def batch_end(self, state, _):
                    batch = int(state.timestamp.batch)
                    logger.write("[claim] ", f"rank {dist.get_global_rank()}, batch {batch}\\n")
            trainer = make_trainer(max_duration="1ep", loggers=[logger], callbacks=[Speaks()])
            trainer.fit()
            trainer.close()

        def trace(folder, filename, handlers):
            profiler = Profiler(
                cyclic_schedule(warmup=1, active=1, repeat=0), handlers, sys_prof_cpu=False,
                torch_prof_folder=folder, torch_prof_filename=filename, torch_prof_remote_file_name=None,
            )
            trainer = make_trainer(profiler=profiler, max_duration="1ep" if folder == "own" else "8ep")
            trainer.fit()
            trainer.close()

        def handler(folder):
            return JSONTraceHandler(folder, remote_file_name=None, merged_trace_filename=None)

        log("shared.txt")
        log("own-rank{rank}.txt")
        trace("own", "rank{rank}.{batch}.json", [handler("own-json")])
        print("all is well", flush=True)
        dist.barrier()
        # It depends on who is first, so the ranks get many chances.
        trace("shared", "{batch}.json", [handler("shared-json")])
        print("still alive", flush=True)
        """,
        ranks=2,
    )
    said = re.compile(r"^\[claim\] (rank [01], batch [1-4])$", re.MULTILINE)
    own = [said.findall((tmp_path / f"own-rank{rank}.txt").read_text()) for rank in (0, 1)]
    assert own == [[f"rank {rank}, batch {batch}" for batch in (1, 2, 3, 4)] for rank in (0, 1)]
    assert len(said.findall((tmp_path / "shared.txt").read_text())) < 8

    assert files(tmp_path / "own") == {f"rank{rank}.{batch}.json" for rank in (0, 1) for batch in (2, 4)}
    assert "all is well" in ended.output
    assert "still alive" not in ended.output
    assert ended.code != 0
    assert re.search(r"FileNotFoundError: .*'shared/\d+\.json'|JSONDecodeError", ended.output), ended.output


@claims("PH303")
@pytest.mark.parametrize("constant", ["model.pt", "ba{batch_in_epoch}-rank{rank}.pt"])
def test_ph303_pruning_a_name_that_repeats_deletes_the_last_checkpoint(constant, here):
    fit(save_folder="bad", save_filename=constant, save_num_checkpoints_to_keep=1, max_duration="2ep")
    assert files(here) == {"bad/latest-rank0.pt"}
    assert not Path("bad/latest-rank0.pt").exists()  # The link leads nowhere.

    fit(save_folder="good", save_num_checkpoints_to_keep=1, max_duration="2ep")
    assert files(here / "good") == {"latest-rank0.pt", "ep2-ba16-rank0.pt"}
    assert Path("good/latest-rank0.pt").exists()


@claims("PH303")
def test_ph303_pruning_a_name_that_repeats_within_an_epoch_ends_training():
    pruned = {"save_num_checkpoints_to_keep": 1, "save_interval": "2ba", "max_duration": "2ep"}
    # The first save of the second epoch prunes a file that is gone already.
    with pytest.raises(FileNotFoundError, match=r"bad/ep0\.pt"):
        fit(save_folder="bad", save_filename="ep{epoch}.pt", **pruned)
    fit(save_folder="good", **pruned)


@claims("PH303")
@the_worker_dies
def test_ph303_a_name_that_repeats_is_refused_by_a_store_and_replaced_in_silence_by_a_folder(here, tmp_path):
    constant = {"save_filename": "model.pt", "max_duration": "3ep"}
    fit(save_folder="bad", **constant)
    assert files(here) == {"bad/model.pt", "bad/latest-rank0.pt"}  # Of three checkpoints.
    # Refused by the store, or before it while the first upload still waits.
    with pytest.raises(FileExistsError, match=r"bad-too/model\.pt (already exists|was already enqueued)"):
        fit(save_folder="bad-too", loggers=[uploader(tmp_path / "store")], **constant)
    fit(save_folder="good", loggers=[uploader(tmp_path / "store")], max_duration="3ep")
    good = {name for name in objects(tmp_path / "store") if name.startswith("good/ep")}
    assert good == {"good/ep1-ba8-rank0.pt", "good/ep2-ba16-rank0.pt", "good/ep3-ba24-rank0.pt"}


@claims("PH305")
def test_ph305_two_loggers_of_one_file_write_over_each_other(here):
    from composer.core import Callback

    def readable(first: str, second: str) -> set[str]:
        """Those of the 16 lines that can be read afterwards."""
        loggers = [file_logger(first), file_logger(second)]

        class Speaks(Callback):
            def batch_end(self, state, logger):
                for number, destination in enumerate(loggers):
                    destination.write("[claim] ", f"logger {number}, batch {int(state.timestamp.batch)}\n")

        fit(loggers=loggers, callbacks=[Speaks()])
        text = "".join(Path(name).read_text() for name in {first, second})
        return set(re.findall(r"^\[claim\] logger [01], batch [1-8]$", text, re.MULTILINE))

    assert len(readable("one.txt", "two.txt")) == 16
    assert len(readable("same.txt", "same.txt")) == 8  # Both begin at the first byte of the file.


@claims("PH402")
@pytest.mark.parametrize("overwrite", [False, True])
def test_ph402_a_file_logger_empties_an_existing_log_whatever_it_was_told(overwrite, here):
    Path("log.txt").write_text("of the run before\n")
    fit(loggers=[file_logger("log.txt", overwrite=overwrite)], max_duration="1ba")
    assert "of the run before" not in Path("log.txt").read_text()
