"""Texts of which at least one stands in every file in which there is something to find."""

from __future__ import annotations

from composer_obs.placeholders.table import TARGETS

__all__ = ["CLASSES", "CONFIGURATION", "PYTHON", "YAML"]

#: Keys by which a mapping is known as a Trainer's configuration.
CONFIGURATION = frozenset({"save_folder", "save_filename", "save_latest_filename"})
CLASSES = tuple(name for name in TARGETS if "." not in name and name != "launcher")
_LAUNCHER = ("--stdout", "--stderr")
PYTHON = (*CLASSES, "upload_file", "build_callback", "build_logger", *sorted(CONFIGURATION), *_LAUNCHER)
YAML = (*sorted(CONFIGURATION), "load_path", "loggers:", "callbacks:", "profiler:", "_target_", *_LAUNCHER)
