"""Which cards a process sees. The expected values are CUDA's documented rules, worked out by hand."""

from __future__ import annotations

import pytest

from composer_obs.gpu.nvml import NVML, Card
from composer_obs.gpu.visible import visible_cards
from tests.gpu.stand_in import StandIn

# NVML counts them in another order than they stand on the bus.
CARDS = [
    Card(None, 0, "GPU-cafe0001", "00000000:c1:00.0", "A"),
    Card(None, 1, "GPU-cafe0002", "00000000:01:00.0", "A"),
    Card(None, 2, "GPU-beef0003", "00000000:41:00.0", "A"),
    Card(None, 3, "GPU-beef0004", "00000000:81:00.0", "A"),
]
PART = Card(None, 2, "MIG-0005", "00000000:41:00.0", "A")


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [1, 2, 3, 0]),
        ("3", [0]),
        ("0,1", [1, 2]),
        ("2, 0", [3, 1]),
        ("", []),
        ("-1", []),
        ("none", []),
        ("0,9,1", [1]),  # nothing counts behind one that is not there
        ("0,0,1", [1]),
        ("1,-1,2", [2]),
        ("GPU-beef0004", [3]),
        ("GPU-beef0004,GPU-cafe0001", [3, 0]),
        ("GPU-cafe0002,GPU-c", [1]),  # which of the two is meant is not clear
        ("GPU-b", []),
        ("GPU-beef0003,2", [2, 3]),
        ("GPU-f", []),
        ("MIG-0005", [PART]),
        ("MIG-9", []),
    ],
)
def test_the_cards_are_those_that_cuda_would_use(visible: str | None, expected: list[int | Card]) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    found = visible_cards(CARDS, environment, {"MIG-0005": PART}.get)
    assert found.cards == [CARDS[card] if isinstance(card, int) else card for card in expected]
    assert found.doubt is None


@pytest.mark.parametrize(
    ("environment", "doubtful"),
    [
        ({}, True),
        ({"CUDA_VISIBLE_DEVICES": "1"}, True),
        ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, True),
        ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, False),
        ({"CUDA_VISIBLE_DEVICES": "GPU-beef0004"}, False),
        ({"CUDA_VISIBLE_DEVICES": ""}, False),
    ],
)
def test_numbers_are_in_doubt_where_the_fastest_comes_first(
    environment: dict[str, str], doubtful: bool
) -> None:
    mixed = [*CARDS[:3], Card(None, 3, "GPU-beef0004", "00000000:81:00.0", "B")]
    assert (visible_cards(mixed, environment).doubt is not None) == doubtful
    assert visible_cards(CARDS, environment).doubt is None


def test_a_real_library_names_them_all(nvml: StandIn) -> None:
    nvml.do("gpus 5", "gpu 0 bus_id 00000000:F1:00.0", "gpu 4 uuid MIG-x", "gpu 4 parent 2")
    with NVML() as opened:
        cards = opened.cards()
        assert [card.index for card in visible_cards(cards, {}).cards] == [1, 2, 3, 0]
        part = visible_cards(cards, {"CUDA_VISIBLE_DEVICES": "MIG-x"}, opened.card).cards
        assert [card.uuid for card in part] == ["MIG-x"]
