"""Fixing whole files: what comes out is a file in its language, and one bad file costs no other."""

from __future__ import annotations

import ast

import pytest

from composer_obs.findings import Severity
from composer_obs.placeholders import project
from composer_obs.placeholders.project import FileResult, Linting, lint_source
from composer_obs.placeholders.reading import Source

IMPORTS = (
    "import os\nfrom composer import Trainer\n"
    "from composer.profiler import JSONTraceHandler\nfrom composer.loggers import FileLogger\n"
)


def fix(code: str, path: str = "train.py") -> FileResult:
    return lint_source(Source(path, IMPORTS + code), Linting(fix="unsafe"))


KEY = 'merged_trace_remote_file_name="x/{run_name}/merged_trace.json"'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('F = "x/{run_name}"\nJSONTraceHandler(folder=F)', f'F = "x/{{run_name}}"\nJSONTraceHandler({KEY}, folder=F)'),
        ('JSONTraceHandler(folder=("x/{run_name}"))', f'JSONTraceHandler({KEY}, folder=("x/{{run_name}}"))'),
        ('JSONTraceHandler(folder="x" + "/{run_name}",)', f'JSONTraceHandler({KEY}, folder="x" + "/{{run_name}}",)'),
        # There is no place that is sure to be right.
        ('JSONTraceHandler(**{"folder": "x/{run_name}"})', None),
        ('JSONTraceHandler("x/{run_name}", "f{rank}", "r{rank}")', None),
    ],
)  # fmt: skip
def test_an_argument_is_added_where_the_syntax_allows_it(before: str, after: str | None) -> None:
    result = fix(before)
    text = result.fixed_text or IMPORTS + before
    ast.parse(text)
    if after is None:
        assert KEY not in text
    else:
        # Another rule puts {node_rank} in the name, which is no matter of where it stands.
        assert text.replace("-{node_rank}", "").replace("{node_rank}", "") == IMPORTS + after


def test_a_run_name_moves_from_the_checkpoints_name_to_its_folder() -> None:
    result = fix('Trainer(save_folder="ck/", save_filename="{run_name}-ba{batch}.pt")')
    assert (
        result.fixed_text == IMPORTS + 'Trainer(save_folder="ck/{run_name}/", save_filename="ba{batch}.pt")'
    )
    there = fix('Trainer(save_folder="{run_name}", save_filename="{run_name}-ba{batch}.pt")')
    assert there.fixed_text == IMPORTS + 'Trainer(save_folder="{run_name}", save_filename="ba{batch}.pt")'


def test_a_run_name_is_not_lost_where_the_folder_cannot_be_changed() -> None:
    result = fix('Trainer(save_folder=folder(), save_filename="{run_name}-ba{batch}.pt")')
    assert result.fixed_text is None
    assert [d.finding.rule.code for d in result.diagnostics] == ["PH201"]


def test_fixes_that_depend_on_each_other_come_to_an_end_and_count_once() -> None:
    result = fix(
        'JSONTraceHandler(folder=os.path.join("a", "{local_rnk}"), '
        'merged_trace_remote_file_name="a/{local_rnk}/merged_trace.json")'
    )
    assert result.fixes == 1
    assert result.fixed_text is not None
    assert '"a/{local_rank}/merged_trace.json"' in result.fixed_text


def test_a_file_that_the_linter_fails_on_is_a_finding_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    # No input is known that does this.
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(project, "lint_text", fail)
    [diagnostic] = fix("x = 1").diagnostics
    assert diagnostic.finding.rule.code == "PH000"
    assert diagnostic.finding.level is Severity.ERROR
    assert "ZeroDivisionError: oops" in diagnostic.finding.message


def test_placeholders_in_placeholders_are_read_no_deeper_than_python_does() -> None:
    depth = 5000
    result = fix(f'FileLogger("{"{rank:" * depth}{"}" * depth}")')
    assert {"PH004", "PH301"} >= {d.finding.rule.code for d in result.diagnostics} >= {"PH004"}
