"""Which cards a process uses: what CUDA makes of its environment, in terms of NVML.

CUDA counts cards in an order of its own; only UUIDs and places on the bus mean the same to both
(CUDA C Programming Guide, "CUDA Environment Variables").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from composer_obs.gpu.nvml import Card

__all__ = ["Visible", "visible_cards"]


@dataclass(frozen=True, slots=True)
class Visible:
    """The cards that a process sees, as CUDA counts them.

    Args:
        cards (Sequence[Card]): In CUDA's order.
        doubt (str, optional): Why this may be wrong. Default: ``None``, it is certain.
    """

    cards: Sequence[Card]
    doubt: str | None = None


def visible_cards(
    cards: Sequence[Card],
    environment: Mapping[str, str],
    find: Callable[[str], Card | None] = lambda uuid: None,  # noqa: ARG005
) -> Visible:
    """What CUDA makes of ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER``.

    As CUDA does, it stops at the first entry that names no card or one that it has already, and takes
    the beginning of a UUID for the whole if only one begins like that.

    Args:
        cards (Sequence[Card]): All cards, in NVML's order.
        environment (Mapping[str, str]): The environment variables.
        find (Callable[[str], Card | None]): Looks up a MIG device by its UUID. Default: there are none.

    Example:
        >>> cards = [Card(None, i, f"GPU-{i}a", f"00000000:0{i}:00.0", "X") for i in range(4)]
        >>> environment = {"CUDA_VISIBLE_DEVICES": "3,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        >>> [card.uuid for card in visible_cards(cards, environment).cards]
        ['GPU-3a', 'GPU-1a']
    """
    by_bus = sorted(cards, key=lambda card: card.bus_id)
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return Visible(by_bus, _doubt(cards, environment))
    chosen: list[Card] = []
    by_number = False
    for entry in (part.strip() for part in wanted.split(",")):
        card: Card | None
        if entry.startswith("MIG-"):
            card = find(entry)
        elif entry.startswith("GPU-"):
            matching = [card for card in cards if card.uuid.startswith(entry)]
            card = matching[0] if len(matching) == 1 else None
        else:
            card = by_bus[int(entry)] if entry.isdecimal() and int(entry) < len(by_bus) else None
            by_number = by_number or card is not None
        if card is None or card in chosen:
            break
        chosen.append(card)
    return Visible(chosen, _doubt(cards, environment) if by_number else None)


def _doubt(cards: Sequence[Card], environment: Mapping[str, str]) -> str | None:
    # By default CUDA puts the fastest first, and by what it judges that is not told.
    if environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({card.name for card in cards}) <= 1:
        return None
    return (
        "there are cards of several kinds, which CUDA counts in an order of its own; "
        "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
    )
