"""The names under which LLM Foundry's configurations know loggers and callbacks.

Source: the registrations in llm-foundry 0.22.0 (``llmfoundry/loggers``, ``llmfoundry/callbacks``), and
the names that plug-ins for Composer's other classes use.
"""

from __future__ import annotations

__all__ = ["CALLBACKS", "LOGGERS"]

LOGGERS = {
    "wandb": "WandBLogger",
    "tensorboard": "TensorboardLogger",
    "inmemory": "InMemoryLogger",
    "in_memory_logger": "InMemoryLogger",
    "mlflow": "MLFlowLogger",
    "mosaicml": "MosaicMLLogger",
    "file_logger": "FileLogger",
    "filelogger": "FileLogger",
    "remote_uploader_downloader": "RemoteUploaderDownloader",
    "object_store_logger": "RemoteUploaderDownloader",
    "slack": "SlackLogger",
    "slack_logger": "SlackLogger",
    "cometml": "CometMLLogger",
    "comet_ml": "CometMLLogger",
    "neptune": "NeptuneLogger",
    "console": "ConsoleLogger",
}
CALLBACKS = {
    "async_eval": "AsyncEval",
    "checkpoint_saver": "CheckpointSaver",
    "curriculum_learning": "CurriculumLearning",
    "dataset_swap": "DatasetSwap",
    "early_stopper": "EarlyStopper",
    "env_logging": "EnvironmentLoggingCallback",
    "eval_output_logging": "EvalOutputLogging",
    "export_for_inference": "ExportForInferenceCallback",
    "fdiff_metrics": "FDiffMetrics",
    "generate_callback": "Generate",
    "global_lr_scaling": "GlobalLRScaling",
    "hf_checkpointer": "HuggingFaceCheckpointer",
    "kill_loss_spike": "KillLossSpike",
    "layer_freezing": "LayerFreezing",
    "load_checkpoint": "LoadCheckpoint",
    "loss_perp_v_len": "LossPerpVsContextLengthLogger",
    "lr_monitor": "LRMonitor",
    "mbmoe_tok_per_expert": "MegaBlocksMoE_TokPerExpert",
    "memory_monitor": "MemoryMonitor",
    "memory_snapshot": "MemorySnapshot",
    "mono_checkpoint_saver": "MonolithicCheckpointSaver",
    "nan_monitor": "NaNMonitor",
    "oom_observer": "OOMObserver",
    "optimizer_monitor": "OptimizerMonitor",
    "run_timeout": "RunTimeoutCallback",
    "runtime_estimator": "RuntimeEstimator",
    "scheduled_gc": "ScheduledGarbageCollector",
    "speed_monitor": "SpeedMonitor",
    "system_metrics_monitor": "SystemMetricsMonitor",
}
