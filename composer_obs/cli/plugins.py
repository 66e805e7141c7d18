"""``composer-obs plugins``: what is registered, and from which package."""

from __future__ import annotations

import click

from composer_obs.plugins import Plugin, PluginError, discover
from composer_obs.redaction import redact
from composer_obs.reporting.text import format_table

__all__ = ["command"]


@click.command("plugins")
@click.option("--check", is_flag=True, help="Import each one, and say which cannot be (imports composer).")
def command(check: bool) -> int:
    """List the loggers, callbacks and stores that can be used by name."""
    plugins = list(discover())
    columns = ["name", "kind", "package", "version", "target"]
    rows = [[p.name, p.kind, p.package, p.version, p.target] for p in plugins]
    faults = [_fault(plugin) for plugin in plugins] if check else []
    if check:
        columns.append("check")
        rows = [[*row, fault or "ok"] for row, fault in zip(rows, faults, strict=True)]
    print(format_table(columns, rows))
    return 1 if any(faults) else 0


def _fault(plugin: Plugin) -> str | None:
    try:
        plugin.load()
    except PluginError as error:
        return redact(f"{type(error.__cause__).__name__}: {error.__cause__}")
    return None
