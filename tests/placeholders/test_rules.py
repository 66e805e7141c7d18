"""Every rule against its own examples, and against templates that people have written."""

from __future__ import annotations

import pytest

from composer_obs.catalogue import rules
from composer_obs.findings import Rule, Severity
from composer_obs.placeholders.lint import Diagnostic, Options, lint_text
from composer_obs.placeholders.rules import CHECKS, RULES
from composer_obs.placeholders.uses import Facts

WITH_EXAMPLES = [rule for rule in RULES if rule.language]
SUFFIX = {"python": "py", "yaml": "yaml"}


def lint(text: str, name: str = "train.py", **facts: object) -> list[Diagnostic]:
    return lint_text(text, name, Options(Facts(**facts)))  # type: ignore[arg-type]


def codes(text: str, name: str = "train.py", **facts: object) -> list[str]:
    return [d.finding.rule.code for d in lint(text, name, **facts)]


def errors(text: str, name: str = "train.py", **facts: object) -> list[str]:
    return [d.finding.rule.code for d in lint(text, name, **facts) if d.finding.level is Severity.ERROR]


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.code)
def test_the_bad_example_of_a_rule_breaks_it(rule: Rule) -> None:
    assert rule.code in codes(rule.bad, f"x.{SUFFIX[rule.language]}")


@pytest.mark.parametrize("rule", WITH_EXAMPLES, ids=lambda rule: rule.code)
def test_the_good_example_of_a_rule_breaks_no_rule_of_severity_error_and_not_that_one(rule: Rule) -> None:
    found = codes(rule.good, f"x.{SUFFIX[rule.language]}")
    assert rule.code not in found
    assert not errors(rule.good, f"x.{SUFFIX[rule.language]}")


@pytest.mark.parametrize("rule", [rule for rule in WITH_EXAMPLES if rule.fix], ids=lambda rule: rule.code)
def test_a_rule_that_has_a_fix_offers_one_for_its_bad_example(rule: Rule) -> None:
    found = [d for d in lint(rule.bad, f"x.{SUFFIX[rule.language]}") if d.finding.rule is rule]
    assert any(diagnostic.edits for diagnostic in found)


def test_only_rules_that_say_so_offer_a_fix() -> None:
    for rule in WITH_EXAMPLES:
        for diagnostic in lint(rule.bad, f"x.{SUFFIX[rule.language]}"):
            assert not diagnostic.edits or diagnostic.finding.rule.fix


def test_the_rules_have_the_codes_names_and_severities_that_were_promised() -> None:
    promised = """
        PH000 unreadable-file E, PH001 unbalanced-brace E, PH002 positional-field E, PH003 attribute-or-index E,
        PH004 bad-spec-or-conversion E, PH005 escaped-braces-formatted-twice W,
        PH101 unknown-placeholder E, PH102 time-placeholder-where-only-dist E, PH103 parameter-not-formatted W,
        PH104 uploader-without-remote_file_name E, PH105 uploader-format-with-latest E,
        PH106 mlflow-id-without-logger E, PH107 launcher-placeholder E,
        PH201 save-filename-crashes-without-overwrite E, PH202 save-filename-not-a-regex E, PH203 float-in-name W,
        PH301 missing-rank W, PH302 merged-without-node_rank W, PH303 not-unique-in-time W,
        PH304 remote-without-run_name W, PH305 two-writers-one-path E, PH306 sharded-basename-ignored W,
        PH307 duplicated-prefix W, PH401 folder-not-resumable W, PH402 filelogger-always-truncates W,
        PH403 option-has-no-effect W, PH501 unsupported-scheme E, PH502 uri-where-key-expected E,
        PH503 placeholder-in-bucket E, PH504 uri-truncated-by-parser E, PH505 merged-trace-upload-path E,
        PH506 remote-folder-mismatch W, PH507 remote-is-a-folder W, PH601 latest-with-time E,
        PH602 load-path-strict E, PH603 save-folder-with-time E, PH604 braces-in-run_name E,
        PH701 omegaconf-dollar W, PH702 fstring-ate-placeholder E, PH801 schedule-crashes-torch E,
        PH802 schedule-never-saves E, PH803 window-open-at-close W, PH804 no-warm-up W,
        PH805 never-fires-after-resume E, PH901 unused-suppression W, PH902 blanket-suppression W
    """
    letters = {Severity.ERROR: "E", Severity.WARNING: "W"}
    ours = {
        f"{r.code} {r.name} {letters[r.severity]}" for code, r in rules().items() if code.startswith("PH")
    }
    assert ours == {" ".join(item.split()) for item in promised.split(",")}
    assert len({check.rule.code for check in CHECKS}) == len(CHECKS)


def test_missing_rank_is_an_error_as_soon_as_more_than_one_rank_writes() -> None:
    text = "FileLogger(filename='{run_name}/log.txt')"
    assert [d.finding.level for d in lint(text)] == [Severity.WARNING]
    assert [d.finding.level for d in lint(text, world_size=2)] == [Severity.ERROR]
    assert lint(text, world_size=1) == []


# Strings from public code that are right: the parameter that they stand in, and the string.
RIGHT = [
    "Trainer(save_folder='./{run_name}/checkpoints')",
    "Trainer(save_folder='s3://my-bucket/my-folder/{run_name}/checkpoints')",
    "Trainer(load_path='./gpt-1b/checkpoints/latest-rank{rank}.pt')",
    "Trainer(save_folder='dbfs:/databricks/mlflow-tracking/{mlflow_experiment_id}/{mlflow_run_id}/ckpt', loggers=[MLFlowLogger()])",
    "Trainer(save_folder='dbfs:/databricks/mlflow-tracking/{mlflow_experiment_id}/{mlflow_run_id}/ckpt', **more)",
    "FileLogger(filename='experiments/{run_name}/logs-rank{rank}.txt')",
    "Trainer(save_folder=f, save_filename=run_name + '-ba{batch}.pt')",
    "Trainer(save_folder=f, save_filename=folder + f'/ep{epoch}-ba{batches}-' + 'rank{rank}.pt')",
    "CheckpointSaver(folder=f'{save_folder}/{task}', filename=f'{task}/ep{{epoch}}-ba{{batch}}-rank{{rank}}')",
    "CheckpointSaver(remote_file_name=f'{save_folder}/{task}/ep{{epoch}}-ba{{batch}}-rank{{rank}}')",
    "Trainer(save_folder='x', save_latest_filename='latest-sharded-rank{rank}')",
    "HuggingFaceCheckpointer('s3://b/{run_name}/hf', '1ep', huggingface_folder_name='ba{batch}')",
    "FSDPConfig(sharded_ckpt_prefix_dir='ba{batch}')",
    "FileLogger(filename='/logs/train_rank{rank}.log')",
]


@pytest.mark.parametrize("text", RIGHT)
@pytest.mark.parametrize("world_size", [None, 2])
def test_what_people_write_rightly_gives_no_error(text: str, world_size: int | None) -> None:
    assert errors(text, world_size=world_size) == []


# Wrong or risky strings from public code, and what is said about each.
WRONG = [
    ("Profiler(s, h, torch_prof_remote_file_name='runs/{run_name}/torch_profiler')", "PH301"),
    ("Profiler(s, h, torch_prof_remote_file_name='runs/{run_name}/torch_profiler')", "PH303"),
    (
        """JSONTraceHandler(folder='runs/{run_name}/composer_profiler',
        merged_trace_filename='runs/{run_name}/merged_trace_node{node_rank}.json')""",
        "PH307",
    ),
    (
        """JSONTraceHandler(folder='runs/{run_name}/composer_profiler',
        merged_trace_filename='runs/{run_name}/merged_trace_node{node_rank}.json')""",
        "PH505",
    ),
    ("cyclic_schedule(wait=0, warmup=0, active=1)", "PH804"),
    ("CheckpointSaver(folder='runs/{run_name}/runs/{run_name}/checkpoints')", "PH307"),
    (
        "ExportForInferenceCallback(save_format='torchscript', save_path='runs/{{run_name}}/model.pth')",
        "PH702",
    ),
    ("CheckpointSaver(folder='hf://user/model')", "PH501"),
    ("FileLogger(filename=f'{save_folder}/logs_{count}.txt')", "PH301"),
    ("Trainer(save_folder='x', save_filename='state_last.pt')", "PH303"),
    ("CheckpointSaver(remote_file_name='checkpoints/ep{epoch}-ba{batch}-rank{rank}.pt')", "PH304"),
    ("Trainer(save_folder='./local-finetune-checkpoints/{base_run_name}/x')", "PH101"),
    ("Trainer(save_folder='CLOUD://BUCKET_NAME/x/{run_name}/')", "PH501"),
    (
        """Trainer(save_folder='x', save_overwrite=True,
        save_filename='{run_name}/pretrained/ep{epoch}-ba{batch}-rank{rank}-wct{total_wct}')""",
        "PH203",
    ),
    ("cyclic_schedule(warmup=0, active=1, repeat=0)", "PH804"),
    ("Trainer(save_folder='s3://bucket/models')", "PH304"),
]


@pytest.mark.parametrize(("text", "code"), WRONG)
def test_what_people_write_wrongly_is_found(text: str, code: str) -> None:
    assert code in codes(text, world_size=2)
