"""What tests need that give up the powers of root."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["open_to_all"]


def open_to_all() -> None:
    """Let everybody into the current folder; pytest's own are for its user alone."""
    for folder in [Path.cwd(), *Path.cwd().parents]:
        if folder == Path(tempfile.gettempdir()):
            break
        os.chmod(folder, 0o755)
