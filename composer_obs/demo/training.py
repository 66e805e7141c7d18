"""The training run of the demonstration: what a user would write, on a CPU and in seconds.

``python -m composer_obs.demo.training BUCKET`` trains a small classifier in the working directory. Its
checkpoints, its log, its TensorBoard events and its profiler's traces all go to the bucket.
"""

from __future__ import annotations

import sys
import warnings

__all__ = ["main"]


def main(bucket: str) -> None:
    """Train, and upload everything to ``s3://{bucket}``."""
    warnings.filterwarnings("ignore")  # Composer's and torch's advice is not what this is about.
    import torch
    from composer import Trainer
    from composer.loggers import FileLogger, RemoteUploaderDownloader, TensorboardLogger
    from composer.models import ComposerClassifier
    from composer.profiler import JSONTraceHandler, Profiler, cyclic_schedule
    from torch.utils.data import DataLoader, TensorDataset

    from composer_obs import UploadAuditor

    torch.manual_seed(17)
    images = TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    trainer = Trainer(
        model=ComposerClassifier(network, num_classes=10),
        optimizers=torch.optim.AdamW(network.parameters(), lr=1e-3),
        train_dataloader=DataLoader(images, batch_size=32, shuffle=True),
        max_duration="3ep",
        run_name="demo",
        device="cpu",
        progress_bar=False,
        save_folder="{run_name}/checkpoints",
        loggers=[
            FileLogger("{run_name}/logs-rank{rank}.txt", capture_stdout=False, capture_stderr=False),
            TensorboardLogger(log_dir="tensorboard"),
            RemoteUploaderDownloader(f"s3://{bucket}"),
            UploadAuditor(),
        ],
        profiler=Profiler(
            schedule=cyclic_schedule(skip_first=1, wait=0, warmup=1, active=2, repeat=1),
            trace_handlers=[JSONTraceHandler(folder="{run_name}/traces", merged_trace_filename=None)],
            torch_prof_folder="{run_name}/torch_traces",
        ),
    )
    trainer.fit()
    trainer.close()  # type: ignore[no-untyped-call]  # Composer's signature


if __name__ == "__main__":
    main(sys.argv[1])
