"""Numbers are read as far as they are numbers."""

from __future__ import annotations

from composer_obs.placeholders.calls import Unknown
from tests.placeholders.yaml_reading import one


def test_numbers_that_are_none_or_too_long_are_unknown():
    call = one(
        f"save_folder: a\nb: {'9' * 5000}\nc: !!int x\nd: !!bool x\ne: {'1:' + '1:' * 50_000 + '1'}\nf: !!float x\n"
    )
    assert all(isinstance(call.arguments[name], Unknown) for name in "bcdef")
    assert one("save_folder: a\nb: 2024-01-01\n").arguments["b"].value == "2024-01-01"
