"""``composer-obs run``: an unchanged training script with plug-ins attached to its Trainers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from composer_obs.attach import Attachment, attach
from composer_obs.cli._script import run_script
from composer_obs.errors import InvalidInputError

__all__ = ["command"]

# A comma ends an option's value only where the next option begins, so a value may hold commas.
_NEXT_OPTION = re.compile(r",(?=\w+=)")


class OptionsError(InvalidInputError):
    """Plug-ins or their options are not written as they should be."""


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--with",
    "with_",
    multiple=True,
    metavar="NAME[:KEY=VALUE,…]",
    help="A plug-in and its options; repeatable. `composer-obs plugins` lists the names.",
)
@click.option("--config", metavar="FILE", help="YAML: plugins: {NAME: {KEY: VALUE}}. --with adds to it.")
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is the name of a module, as for python -m.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(
    *, with_: tuple[str, ...], config: str | None, is_module: bool, script: str, args: tuple[str, ...]
) -> int:
    """Run a training script, unchanged, with plug-ins attached to every Trainer that it makes.

    Also under the launcher: composer -n 8 -m composer_obs run --with upload_auditor train.py --lr 0.1

    Ends as the script ends.
    """
    plugins = {} if config is None else _read_config(config)
    for text in with_:
        name, options = _parse_with(text)
        plugins[name] = {**plugins.get(name, {}), **options}
    if not plugins:
        raise OptionsError("no plug-in to attach: name one, e.g. --with upload_auditor")
    attachment = Attachment(plugins)
    return run_script(script, args, is_module=is_module, before=lambda: attach(attachment))


def _read_config(path: str) -> dict[str, dict[str, Any]]:
    import yaml

    try:
        config = yaml.safe_load(Path(path).read_bytes())
    except OSError as error:
        raise OptionsError(f"cannot read {path!r}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise OptionsError(f"{path!r} is not YAML: {error}") from error
    plugins = config.get("plugins") if isinstance(config, Mapping) and set(config) == {"plugins"} else None
    if not isinstance(plugins, Mapping):
        raise OptionsError(f"{path!r} must hold one entry, plugins: {{NAME: {{KEY: VALUE}}}}")
    for name, options in plugins.items():
        if not isinstance(options, Mapping | None):
            raise OptionsError(f"{path!r}: the options of {name!r} must be KEY: VALUE")
    return {str(name): {str(k): v for k, v in (options or {}).items()} for name, options in plugins.items()}


def _parse_with(text: str) -> tuple[str, dict[str, Any]]:
    """A plug-in's name and options.

    Example:
        >>> _parse_with("upload_auditor:interval=5,folder=s3://b/{run_name},x,strict=true")
        ('upload_auditor', {'interval': 5, 'folder': 's3://b/{run_name},x', 'strict': True})
    """
    name, _, rest = text.partition(":")
    options = {}
    for option in _NEXT_OPTION.split(rest) if rest else ():
        key, equals, value = option.partition("=")
        if not equals or not key.isidentifier():
            raise OptionsError(f"--with {text!r}: {option!r} is not KEY=VALUE")
        options[key] = _parse_value(value)
    return name, options


def _parse_value(text: str) -> Any:
    """A scalar as YAML reads it; anything else, such as ``{run_name}``, is text."""
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if value is None or isinstance(value, bool | int | float | str) else text
