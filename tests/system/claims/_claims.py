"""What the proofs of the linter's claims share: a small real training run, and what it left on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

#: Codes of the rules whose claim about Composer has a test here.
PROVEN: set[str] = set()


def claims(code: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Marks a test as a proof of what the rule ``code`` says about Composer."""

    def register(test: Callable[..., None]) -> Callable[..., None]:
        PROVEN.add(code)
        return test

    return register


#: An upload worker is a thread here; that it ends with an exception is what such a test is about.
the_worker_dies = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def trainer(*, batches: int = 8, **arguments: Any) -> Any:
    """A real Trainer of a tiny model on the CPU: one epoch of ``batches`` batches unless told otherwise."""
    import torch
    from composer import Trainer
    from composer.models import ComposerClassifier
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(1)
    data = TensorDataset(torch.randn(2 * batches, 4), torch.randint(0, 2, (2 * batches,)))
    return Trainer(
        model=ComposerClassifier(torch.nn.Linear(4, 2), num_classes=2),
        train_dataloader=DataLoader(data, batch_size=2),
        **{
            "run_name": "run",
            "max_duration": "1ep",
            "seed": 7,
            "device": "cpu",
            "progress_bar": False,
            **arguments,
        },
    )


def fit(**arguments: Any) -> Any:
    """Trains to the end and closes the Trainer, whatever happens."""
    made = trainer(**arguments)
    try:
        made.fit()
    finally:
        made.close()
    return made


def file_logger(filename: str, **arguments: Any) -> Any:
    """Composer's FileLogger, without what pytest prints."""
    from composer.loggers import FileLogger

    return FileLogger(filename=filename, capture_stdout=False, capture_stderr=False, **arguments)


def uploader(store: Path, **arguments: Any) -> Any:
    """Composer's uploader into a folder, through libcloud's local provider; its objects are files there."""
    from composer.loggers import RemoteUploaderDownloader

    (store / "bucket").mkdir(parents=True, exist_ok=True)
    return RemoteUploaderDownloader(
        "libcloud://bucket",
        backend_kwargs={"provider": "local", "provider_kwargs": {"key": str(store)}},
        use_procs=False,
        **arguments,
    )


def objects(store: Path) -> set[str]:
    """Keys in the store of `uploader`, without the object that Composer tries its credentials with."""
    return {
        name for name in files(store / "bucket") if not name.endswith(".credentials_validated_successfully")
    }


def files(folder: Path) -> set[str]:
    """Every file and link below a folder, as a path relative to it."""
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_symlink() or p.is_file()}


def profiler(schedule: Any = None, handlers: Any = (), **arguments: Any) -> Any:
    """Composer's Profiler: by default two batches of every epoch, with nothing but torch's trace."""
    from composer.profiler import Profiler, cyclic_schedule

    return Profiler(
        schedule=schedule or cyclic_schedule(warmup=1, active=1),
        trace_handlers=list(handlers),
        **{"sys_prof_cpu": False, "torch_prof_remote_file_name": None, **arguments},
    )


def json_handler(**arguments: Any) -> Any:
    """Composer's JSONTraceHandler, without its upload unless told otherwise."""
    from composer.profiler import JSONTraceHandler

    defaults = {"remote_file_name": None, "merged_trace_filename": None}
    return JSONTraceHandler(**{**defaults, **arguments})


def log_file_of(template: str, here: Path, **arguments: Any) -> str:
    """The name that FileLogger gives its file, and nothing else is left by the run."""
    fit(loggers=[file_logger(template)], max_duration="1ba", **arguments)
    (name,) = files(here)
    return name
