from __future__ import annotations

import json
from pathlib import Path

import pytest

from composer_obs.findings import FileLocation, Severity
from composer_obs.placeholders.fixes import apply_edits
from composer_obs.placeholders.lint import Diagnostic, Options, lint_kwargs, lint_text
from composer_obs.placeholders.project import Linting, lint_files
from composer_obs.placeholders.uses import Facts

CASES = Path(__file__).parents[1] / "cases/lint"
EXPECTED = {
    k: v for k, v in json.loads((CASES / "expected.json").read_text()).items() if not k.startswith("_")
}


def lint(text: str, name: str = "train.py", **facts: object) -> list[Diagnostic]:
    return lint_text(text, name, Options(Facts(**facts)))  # type: ignore[arg-type]


def found_in(diagnostics: list[Diagnostic]) -> list[tuple[str, int]]:
    places = [(d.finding.rule.code, d.finding.where) for d in diagnostics]
    return [(code, where.line) for code, where in places if isinstance(where, FileLocation)]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_case_gives_what_is_expected_of_it_and_no_other_error(name: str) -> None:
    [result] = [
        *lint_files(
            [str(CASES / name)], Linting(facts=Facts(world_size=2), named=frozenset([str(CASES / name)]))
        ),
        *([None] if name == "clean.yaml" else []),
    ]
    diagnostics = result.diagnostics if result is not None else []
    expected = {(code, line) for code, line in EXPECTED[name]}
    assert expected <= set(found_in(diagnostics))
    errors = [d for d in diagnostics if d.finding.level is Severity.ERROR]
    assert set(found_in(errors)) <= expected


def test_every_case_is_one_of_the_files() -> None:
    assert {path.name for path in CASES.iterdir()} == {*EXPECTED, "expected.json"}


def test_a_finding_points_at_the_very_placeholder() -> None:
    [found] = lint('x = FileLogger(\n    filename="{run_name}/" "logs-{rnk}-{rank}.txt")')
    assert found.finding.where == FileLocation(
        "train.py", 2, 34, 39, '    filename="{run_name}/" "logs-{rnk}-{rank}.txt")'
    )


def test_a_finding_after_characters_of_several_bytes_has_its_column_in_characters() -> None:
    [found] = lint('x = FileLogger(filename="é😀-{rnk}-{rank}.txt")')
    where = found.finding.where
    assert isinstance(where, FileLocation)
    assert where.column == 'x = FileLogger(filename="é😀-{rnk}'.index("{rnk}") + 1


def test_one_thing_is_said_once_however_many_runs_share_it() -> None:
    text = """
    logger = FileLogger("{rnk}-{rank}.txt")
    Trainer(loggers=[logger])
    Trainer(loggers=[logger])
    """
    import textwrap

    assert [code for code, _ in found_in(lint(textwrap.dedent(text)))] == ["PH101"]


# ---- suppressions ----------------------------------------------------------------------------------


def test_a_comment_on_the_line_or_the_line_above_suppresses_a_rule_by_code_or_name() -> None:
    for comment in ("PH301", "missing-rank", "PH301, PH101"):
        same = f"FileLogger('{{rnk}}.txt')  # composer-obs: ignore[{comment}]"
        above = f"# composer-obs: ignore[{comment}]\nFileLogger('{{rnk}}.txt')"
        rest = [] if "PH101" in comment else ["PH101"]
        assert [code for code, _ in found_in(lint(same))] == rest
        assert [code for code, _ in found_in(lint(above))] == rest


def test_a_whole_file_can_be_suppressed() -> None:
    assert lint("FileLogger('{rnk}.txt')\n# composer-obs: ignore-file[PH101, PH301]") == []


def test_a_code_that_finds_nothing_is_reported_and_its_fix_keeps_the_other() -> None:
    text = "FileLogger('log.txt')  # composer-obs: ignore[PH301, PH504]\n"
    [found] = lint(text)
    assert found.finding.rule.code == "PH901"
    assert apply_edits(text, [found.edits])[0] == "FileLogger('log.txt')  # composer-obs: ignore[PH301]\n"


def test_a_code_that_does_not_exist_is_reported() -> None:
    [found] = lint("FileLogger('log-{rank}.txt')  # composer-obs: ignore[PH999]\n")
    assert (found.finding.rule.code, found.finding.message) == ("PH901", "no rule is called PH999")


def test_a_blanket_suppression_hides_and_is_reported() -> None:
    assert found_in(lint("FileLogger('{rnk}.txt')  # composer-obs: ignore")) == [("PH902", 1)]


def test_a_rule_that_is_switched_off_does_not_make_its_suppression_unused() -> None:
    options = Options(enabled=lambda rule: rule.code != "PH301")
    assert lint_text("FileLogger('log.txt')  # composer-obs: ignore[PH301]", "a.py", options) == []


def test_a_comment_in_yaml_suppresses_too() -> None:
    text = "save_folder: ckpt\nsave_filename: ep{epoch}-{rnk}.pt  # composer-obs: ignore[PH101]\n"
    assert lint(text, "train.yaml") == []


# ---- what cannot be read ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.py", "x = 1\nFileLogger(\n", 2),
        ("a.py", "FileLogger('a')\n  x", 2),
        ("a.py", "(" * 500 + "FileLogger(", 1),
        ("a.yaml", "save_folder: [a\n", 2),
        ("a.yaml", "save_folder: a\n\tb: c", 2),
        ("a.ipynb", "{", 1),
        ("a.ipynb", "[]", 1),
        ("a.ipynb", '{"cells": 3}', 1),
    ],
)
def test_what_cannot_be_read_is_one_finding(name: str, text: str, line: int) -> None:
    [found] = lint(text, name)
    assert found.finding.rule.code == "PH000"
    assert isinstance(found.finding.where, FileLocation)
    assert found.finding.where.line == line


def test_no_yaml_tag_is_executed(tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    text = f"save_folder: !!python/object/apply:os.system ['touch {proof}']\nsave_filename: !custom ep{{epoch}}-{{rnk}}.pt\n"
    lint(text, "a.yaml")
    assert not proof.exists()


# ---- before a Trainer is made ------------------------------------------------------------------------------


def test_keyword_arguments_are_linted_before_construction() -> None:
    findings = lint_kwargs(
        world_size=2,
        run_name="exp-{rank}",
        save_folder="/data/run#3/ckpt",
        save_filename="model.pt",
        save_num_checkpoints_to_keep=1,
        load_path="ckpt/ep{epoch}.pt",
    )
    assert {f.rule.code for f in findings} == {"PH303", "PH504", "PH602", "PH604"}
    assert all(f.level is Severity.ERROR for f in findings)
    assert str(findings[0].where).startswith("Trainer.")
