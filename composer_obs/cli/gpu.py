"""``composer-obs gpu``: the GPUs as this process would see them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar, cast

import click

from composer_obs.cli._options import note
from composer_obs.gpu.metrics import METRICS
from composer_obs.gpu.nvml import NVML, Card, Reading, UnavailableError
from composer_obs.gpu.visible import visible_cards
from composer_obs.reporting.text import format_size, format_table

__all__ = ["command"]

# In seconds. Starting the library takes up to some of them on a machine with many cards.
_PATIENCE = 15
_Answer = TypeVar("_Answer")


@click.command("gpu")
@click.option("--all", "all_cards", is_flag=True, help="All cards, whatever CUDA_VISIBLE_DEVICES says.")
@click.option("--watch", is_flag=True, help="Show them anew every second, until you press Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def command(*, all_cards: bool, watch: bool, as_json: bool) -> int:
    """Show the GPUs that a training process started from here would use, and what they say of themselves.

    Where there is no driver it says so, which is no fault.
    """
    try:
        # Not shut down again: that may hang, too, and the process ends.
        nvml = _ask(lambda: NVML().__enter__())
        cards = _ask(lambda: _cards(nvml, all_cards=all_cards))
        if watch and not as_json:
            _watch(nvml, cards)
        elif as_json:
            print(json.dumps(_ask(lambda: _report(nvml, cards)), indent=2))
        else:
            print(_shown(nvml, cards))
    except UnavailableError as error:
        print(json.dumps({"version": 1, "gpus": [], "unavailable": str(error)}) if as_json else str(error))
    return 0


def _ask(question: Callable[[], _Answer]) -> _Answer:
    """Ask the driver, which now and then does not answer at all (NVIDIA/go-nvml#152)."""
    answers: SimpleQueue[tuple[_Answer | None, Exception | None]] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put((question(), None))
        except Exception as error:
            answers.put((None, error))

    Thread(target=ask, daemon=True).start()
    try:
        answer, error = answers.get(timeout=_PATIENCE)
    except Empty:
        raise UnavailableError(
            f"the driver has not answered for {_PATIENCE} s; look into `dmesg`, and try nvidia-smi"
        ) from None
    if error is not None:
        raise error
    return cast("_Answer", answer)


def _shown(nvml: NVML, cards: Sequence[Card]) -> str:
    return _text(cards, _ask(lambda: [nvml.read(card) for card in cards]))


def _cards(nvml: NVML, *, all_cards: bool) -> Sequence[Card]:
    cards = nvml.cards()
    if all_cards:
        return cards
    visible = visible_cards(cards, os.environ, nvml.card)
    if visible.doubt:
        note(visible.doubt)
    return visible.cards


def _watch(nvml: NVML, cards: Sequence[Card]) -> None:
    from rich.live import Live
    from rich.text import Text

    with Live(Text(_shown(nvml, cards)), auto_refresh=False) as live:
        while True:
            time.sleep(1)
            live.update(Text(_shown(nvml, cards)), refresh=True)


def _report(nvml: NVML, cards: Sequence[Card]) -> Mapping[str, Any]:
    readings = [nvml.read(card) for card in cards]
    return {
        "version": 1,
        "driver": nvml.driver_version,
        "gpus": [
            {
                "index": card.index,
                "uuid": card.uuid,
                "bus_id": card.bus_id,
                "name": card.name,
                "metrics": {
                    key: {"value": value, "unit": METRICS[key].unit} for key, value in reading.values.items()
                },
                "missing": dict(reading.missing),
                "unwell": _unwell(reading),
            }
            for card, reading in zip(cards, readings, strict=True)
        ],
    }


def _text(cards: Sequence[Card], readings: Sequence[Reading]) -> str:
    if not cards:
        return "no GPU is visible to a process that is started from here"
    columns = ["index", "uuid", "name", "busy", "memory", "power", "temperature", "state"]
    lines = [format_table(columns, [_row(*pair) for pair in zip(cards, readings, strict=True)])]
    for card, reading in zip(cards, readings, strict=True):
        if reading.missing:
            lacks = ", ".join(f"{key} ({why})" for key, why in sorted(reading.missing.items()))
            lines.append(f"{card.uuid} does not tell: {lacks}")
    return "\n".join(lines)


def _row(card: Card, reading: Reading) -> list[str]:
    values = reading.values

    def show(key: str, form: str) -> str:
        return form.format(values[key]) if key in values else "-"

    memory = " of ".join(
        format_size(int(values[key])) if key in values else "-" for key in ("memory_used", "memory_total")
    )
    power = " of ".join((show("power", "{:.0f}"), show("power_limit", "{:.0f} W")))
    busy, temperature = show("utilization", "{:.0%}"), show("temperature", "{:.0f} °C")
    state = ", ".join(_unwell(reading)) or "well"
    return [str(card.index), card.uuid, card.name, busy, memory, power, temperature, state]


_SIGNS = {
    "throttle/hw_thermal": "slowed by heat",
    "throttle/power_brake": "slowed by the power brake",
    "remap/pending": "memory rows wait to be remapped: reset the card",
    "remap/failure": "memory rows could not be remapped: replace the card",
    "ecc/uncorrected": "uncorrected memory errors since the driver was loaded",
    "recovery_action": "the driver asks for a recovery: see `nvidia-smi -q`",
}


def _unwell(reading: Reading) -> list[str]:
    """Signs at this moment; a cap on power is normal, and is none."""
    return [text for key, text in _SIGNS.items() if reading.values.get(key)]
