"""Building and steering the stand-in for NVIDIA's management library; see ``nvml_stand_in.c``."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_stand_in.c")
SONAME = "libnvidia-ml.so.1"
_WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-format-truncation", "-Wno-deprecated-declarations"]


def _compiler() -> str:
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return found
    raise RuntimeError("there is no C compiler to build the stand-in for NVML with; install gcc")


def build(folder: Path) -> Path:
    """Compile it; the result has the name by which a process looks for the real one."""
    library = folder / SONAME
    command = [_compiler(), "-O1", *_WARNINGS, "-shared", "-fPIC", f"-Wl,-soname,{SONAME}"]
    subprocess.run([*command, "-o", str(library), str(SOURCE), "-lm", "-lpthread"], check=True)
    return library


def check_against(header: Path) -> subprocess.CompletedProcess[str]:
    """Let the compiler compare every declaration with NVIDIA's own."""
    define = f'-DNVML_HEADER="{header}"'
    return subprocess.run(
        [_compiler(), *_WARNINGS, "-fsyntax-only", define, str(SOURCE)], capture_output=True, text=True
    )


def nvidia_header() -> Path:
    """``nvml.h`` of the package nvidia-nvml-dev."""
    files = metadata.files("nvidia-nvml-dev") or []
    return next(Path(str(file.locate())) for file in files if file.name == "nvml.h")


class StandIn:
    """The library, loaded into this process.

    Args:
        library (Path): What `build` has made.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.stand_in_calls.restype = ctypes.c_long

    def do(self, *lines: str) -> None:
        """Obey lines, in the language that the C source explains."""
        wrong = self._library.stand_in("\n".join(lines).encode())
        if wrong:
            raise ValueError(f"the stand-in does not understand {lines[wrong - 1]!r}")

    def calls(self, name: str) -> int:
        """How often a function was called, or a field (``"field:83"``) was asked for."""
        return int(self._library.stand_in_calls(name.encode()))
