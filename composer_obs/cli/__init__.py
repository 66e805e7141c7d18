"""The command line, ``composer-obs``: one module a command, imported when it is asked for.

A command is a click command named ``command`` that returns its exit code. Of its errors, those
that the user can act on are shown as their message alone; anything else is a fault of ours, which
is told in one line and ends with exit code 3.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from typing import Any

import click

from composer_obs import __version__
from composer_obs.errors import ComposerObsError, InvalidInputError
from composer_obs.redaction import redact

__all__ = ["cli", "main"]

_COMMANDS = ("lint", "audit", "gpu", "run", "rule", "plugins", "demo")
_BAD_INPUT, _OUR_FAULT = 2, 3
# As shells count them: 128 and the number of the signal, SIGINT or SIGPIPE.
_INTERRUPTED, _BROKEN_PIPE = 130, 141


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for name in _COMMANDS if importlib.util.find_spec(f"{__name__}.{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except KeyboardInterrupt:
            code = _INTERRUPTED
        except BrokenPipeError:
            # Whoever read our output has gone; what is still buffered must not raise at exit again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = _BROKEN_PIPE
        except ComposerObsError as error:
            print(redact(str(error)), file=sys.stderr)
            code = _BAD_INPUT if isinstance(error, InvalidInputError) else _OUR_FAULT
        except Exception as error:
            _tell_fault(error, traceback=ctx.params["traceback"])
            code = _OUR_FAULT
        ctx.exit(code or 0)


def _tell_fault(error: Exception, *, traceback: bool) -> None:
    if traceback:
        from traceback import format_exception

        print(redact("".join(format_exception(error))), file=sys.stderr, end="")
        return
    what = " ".join(redact(f"{type(error).__name__}: {error}").split())
    print(f"composer-obs failed: {what} (COMPOSER_OBS_TRACEBACK=1 shows where)", file=sys.stderr)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="composer-obs")
@click.option(
    "--traceback",
    is_flag=True,
    envvar="COMPOSER_OBS_TRACEBACK",
    help="Show the traceback of a fault of composer-obs itself.",
)
def cli(traceback: bool) -> None:
    """Know what a Composer run left behind, and whether it is whole.

    Exit codes: 0 all is well, 1 something was found, 2 wrong usage, 3 a fault of composer-obs.
    """
    del traceback


def main() -> None:
    """Run the command line on ``sys.argv``."""
    cli(prog_name="composer-obs")
