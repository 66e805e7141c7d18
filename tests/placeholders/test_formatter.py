"""The model of Composer's formatter against the original."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_obs.placeholders.formatter import TooWideError, conflicting_pattern, render
from composer_obs.placeholders.moments import values
from composer_obs.placeholders.parameter import DIST, TIME
from tests.placeholders.grammar_strategies import TEMPLATES

VALUES = values(DIST | TIME)


def composer_format(template: str, given: dict[str, Any]) -> tuple[str | None, type[BaseException] | None]:
    from composer.utils.misc import partial_format

    try:
        return partial_format(template, **given), None
    except Exception as error:
        return None, type(error)


@settings(max_examples=1000)
@given(TEMPLATES, st.sampled_from([sorted(DIST), sorted(DIST | TIME), ["rank"], []]))
def test_the_result_or_the_exception_is_that_of_composer(template: str, legal: list[str]) -> None:
    given = {name: VALUES[name] for name in legal}
    text, error = composer_format(template, given)
    ours = render(template, given)
    assert _without_address(ours.text) == _without_address(text)
    assert type(ours.error) is (error or type(None))


def _without_address(text: str | None) -> str | None:
    """A bound method shows its object's address, and the objects are not the same."""
    return text and re.sub(r"0x[0-9a-f]+", "0x", text)


# As measured on Composer 0.32.1 with rank=3 and nothing else.
MEASURED = [
    ("{rank:03d}", "003"), ("{rank!r}", "3"), ("{rank:>3}", "  3"), ("{{rank}}", "{rank}"), ("{}", "{}"),
    ("{0}", "{}"), ("{1}", "{}"), ("{unknown}", "{unknown}"), ("{Rank}", "{Rank}"), ("{ rank}", "{ rank}"),
    ("{rank+1}", "{rank+1}"), ("{run-name}", "{run-name}"), ("{unknown!r}", "'{unknown}'"),
    ("{unknown[0]}", "{"), ('{"a":1}', '{"a"}'), ("${rank}", "$3"), ("{", ValueError), ("}", ValueError),
    ("{rank", ValueError), ("{rank}}", ValueError), ("{{rank}", ValueError), ("{0}-{}", ValueError),
    ("{unknown:03d}", ValueError), ("{unknown[k]}", TypeError), ("{rank.attr}", AttributeError),
    ("{rank:{world_size}d}", ValueError),
]  # fmt: skip


@pytest.mark.parametrize(("template", "result"), MEASURED)
def test_what_was_measured(template: str, result: str | type[Exception]) -> None:
    ours = render(template, {"rank": 3})
    assert ours.text == result if isinstance(result, str) else type(ours.error) is result


@pytest.mark.parametrize(
    "template", ["{rank:999999999d}", "{run_name:>99999999999}", "{rank:{world_size}{rank}{rank}d}"]
)
def test_a_width_that_would_take_all_memory_is_refused(template: str) -> None:
    assert isinstance(render(template, VALUES).error, TooWideError)


@settings(max_examples=400)
@given(TEMPLATES)
def test_the_pattern_of_conflicting_files_raises_where_composers_does(template: str) -> None:
    from composer.utils.file_helpers import _get_dist_config

    ours = conflicting_pattern(template, {**_get_dist_config(strict=False)})
    kind, expected = conflict_check(template)
    if kind == "fine":
        assert ours.error is None
    else:
        assert type(ours.error) is expected


def conflict_check(template: str) -> tuple[str, type[BaseException] | None]:
    """Composer's own check over an empty folder: it makes the pattern, and finds no file."""
    import tempfile

    from composer.core import Timestamp
    from composer.utils.file_helpers import ensure_folder_has_no_conflicting_files

    with tempfile.TemporaryDirectory() as folder:
        try:
            ensure_folder_has_no_conflicting_files(folder, template, Timestamp())
        except Exception as error:
            return "raises", type(error)
    return "fine", None


def test_the_pattern_of_the_default_name_matches_a_checkpoint(tmp_path: Path) -> None:
    pattern = conflicting_pattern("ep{epoch}-ba{batch}-rank{rank}.pt", {"rank": 0}).text
    assert pattern is not None
    found = re.match(pattern, "ep3-ba24-rank0.pt")
    assert found is not None
    assert found.groupdict() == {"epoch": "3", "batch": "24"}
