"""For any template: the linter says that it raises, or that braces stay, exactly when Composer does so."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings

from composer_obs.findings import Severity
from composer_obs.placeholders.calls import Call, Text
from composer_obs.placeholders.checks import Effect
from composer_obs.placeholders.lint import Options, lint_calls
from composer_obs.placeholders.moments import values
from composer_obs.placeholders.table import TARGETS
from tests.placeholders.grammar_strategies import TEMPLATES
from tests.placeholders.test_formatter import composer_format, conflict_check

#: Formatted without time, with time, once, and twice.
PARAMETERS = [
    ("FileLogger", "filename"),
    ("TorchProfiler", "filename"),
    ("JSONTraceHandler", "remote_file_name"),
    ("OOMObserver", "folder"),
    ("ExportForInferenceCallback", "save_path"),
    ("MonolithicCheckpointSaver", "filename"),
    ("RemoteUploaderDownloader", "file_path_format_string"),
]


def said(owner: str, name: str, template: str) -> tuple[bool, bool]:
    """Whether the linter says that formatting raises, and that braces stay."""
    found = lint_calls([Call(owner, {name: Text(template)})], Options())
    for rule, problem in found:
        if problem.effect is Effect.RAISES:
            assert (problem.severity or rule.severity) is Severity.ERROR
    effects = {problem.effect for _, problem in found}
    return Effect.RAISES in effects, Effect.STAYS in effects


@pytest.mark.parametrize(("owner", "name"), PARAMETERS)
@settings(max_examples=400)
@given(TEMPLATES)
@example("{unknown:.0s}")
@example("{0}{}")
@example("{rank:{}}")
@example("{{x}}")
@example("{unknown[0]}")
def test_an_error_is_said_to_raise_if_composer_raises_and_braces_to_stay_if_they_do(
    owner: str, name: str, template: str
) -> None:
    legal = TARGETS[owner].parameters[name].legal
    text, error = composer_format(template, values(legal))
    raises, stays = said(owner, name, template)
    assert raises == (error is not None)
    if text is not None:
        assert stays == bool({"{", "}"} & set(text))


@settings(max_examples=400)
@given(TEMPLATES)
@example("{run_name}-ep{epoch}.pt")
@example("ep{epoch}-{epoch}.pt")
@example("{batch:06d}")
@example("[[")  # of which Python's re says that it may mean something else one day
def test_a_checkpoints_name_is_said_to_raise_if_composer_raises_at_fit_start_or_when_it_saves(
    template: str,
) -> None:
    legal = TARGETS["CheckpointSaver"].parameters["filename"].legal
    _, error = composer_format(template, values(legal))
    kind, _ = conflict_check(template)
    raises, _ = said("CheckpointSaver", "filename", template)
    assert raises == (error is not None or kind == "raises")


def test_load_path_is_said_to_raise_if_strict_formatting_does() -> None:
    for template in (
        "{rank}",
        "{rank:01d}",
        "{epoch}",
        "{run_name}",
        "{run_name:>9}",
        "x",
        "{local_rank}-{world_size}",
    ):
        once, error = composer_format(template, {"run_name": "run"})
        try:
            expected = (
                error is not None or once is None or once.format(rank=0, local_rank=0, node_rank=0) is None
            )
        except (KeyError, ValueError):
            expected = True
        assert said("LoadCheckpoint", "load_path", template)[0] is expected, template
