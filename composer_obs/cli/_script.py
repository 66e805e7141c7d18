"""Run a script or a module as Python itself would, in this process.

`runpy` takes the main module away again as soon as the script's last line has run. What Composer
does at the interpreter's exit, and in the processes that its uploaders spawn, still needs it.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import InspectLoader
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

from composer_obs.errors import InvalidInputError

__all__ = ["ScriptError", "run_script"]

_INTERRUPTED = 130


class ScriptError(InvalidInputError):
    """There is nothing to run."""


def run_script(script: str, arguments: Sequence[str], *, is_module: bool, before: Callable[[], None]) -> int:
    """Run ``python script arguments…``, or ``python -m script arguments…``; returns the exit code.

    Args:
        script (str): Path of a script, or name of a module.
        arguments (Sequence[str]): What ``sys.argv`` holds after it.
        is_module (bool): Whether ``script`` is a module's name.
        before (Callable[[], None]): Called when the script was found, before its first line.

    Raises:
        ScriptError: There is no such script or module.
        SystemExit: The script raised it.
    """
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.realpath(script))
    load, main = _find_module(script) if is_module else _find_script(script)
    before()
    sys.argv = [str(main.__file__) if is_module else script, *arguments]
    sys.modules["__main__"] = main
    try:
        exec(load(), main.__dict__)  # noqa: S102 - this is what it is for
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        # The script's own part of the traceback, as Python would show it.
        while trace is not None and trace.tb_frame.f_globals is not main.__dict__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _find_script(path: str) -> tuple[Callable[[], CodeType], ModuleType]:
    file = os.path.join(os.getcwd(), path)  # not normalised, as Python does
    try:
        with io.open_code(file) as opened:
            source = opened.read()
    except OSError as error:
        raise ScriptError(f"cannot open the script {path!r}: {error.strerror}") from error
    main = _main_module(file)
    main.__loader__ = SourceFileLoader("__main__", file)
    return lambda: compile(source, file, "exec", dont_inherit=True), main


def _find_module(name: str) -> tuple[Callable[[], CodeType], ModuleType]:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError) as error:
        raise ScriptError(f"cannot find the module {name!r}: {error}") from error
    if spec is None or not isinstance(spec.loader, InspectLoader):
        raise ScriptError(f"there is no module {name!r} that can be run")
    loader, full_name = spec.loader, spec.name
    main = _main_module(spec.origin)
    main.__spec__, main.__loader__, main.__package__ = spec, loader, spec.parent

    def load() -> CodeType:
        code = loader.get_code(full_name)
        if code is None:
            raise ScriptError(f"the module {name!r} holds no Python code")
        return code

    return load, main


def _main_module(file: str | None) -> ModuleType:
    main = ModuleType("__main__")
    main.__file__ = file
    main.__dict__.update(__builtins__=builtins, __annotations__={}, __cached__=None)
    return main
