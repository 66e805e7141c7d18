from __future__ import annotations

import textwrap

import pytest

from composer_obs.placeholders.calls import HOLE, Call, Constant, Items, Text, Unknown
from composer_obs.placeholders.sources.python_source import read_python


def read(source: str) -> list[Call]:
    return read_python(textwrap.dedent(source))


def only(source: str) -> Call:
    [call] = read(source)
    return call


def filename(source: str) -> Text:
    value = only(source).arguments["filename"]
    assert isinstance(value, Text)
    return value


# ---- which calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "from composer.loggers import FileLogger\nFileLogger('a')",
        "from composer.loggers import FileLogger as FL\nFL('a')",
        "from composer.loggers.file_logger import FileLogger\nFileLogger('a')",
        "import composer\ncomposer.loggers.FileLogger('a')",
        "import composer.loggers as cl\ncl.FileLogger('a')",
        "from composer import loggers\nloggers.FileLogger('a')",
        "from composer.loggers import *\nFileLogger('a')",
        "FileLogger('a')",
        "def f():\n    from composer.loggers import FileLogger\n    return FileLogger('a')",
        "import functools\nfunctools.partial(FileLogger, 'a')",
        "class C:\n    @decorate(FileLogger('a'))\n    def f(self): ...",
        "x = [FileLogger('a') for _ in range(3)]",
        "async def f():\n    await g(FileLogger('a'))",
        "x = lambda: FileLogger('a')",
        "match x:\n    case 1:\n        FileLogger('a')",
        "try:\n    pass\nexcept E:\n    FileLogger('a')",
    ],
)
def test_a_class_is_known_by_every_way_to_import_and_call_it(source: str) -> None:
    call = only(source)
    assert call.name == "FileLogger"
    assert call.arguments["filename"].value == "a"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import Trainer\nTrainer(save_strategy='x')",
        "from mylib.composer import FileLogger\nFileLogger('{')",
        "class FileLogger: ...\nFileLogger('{')",
        "def FileLogger(x): ...\nFileLogger('{')",
        "FileLogger = make()\nFileLogger('{')",
        "from . import FileLogger\nFileLogger('{')",
        "# FileLogger('{')\nx = 'FileLogger(1)'",
    ],
)
def test_other_classes_of_the_same_name_are_left_alone(source: str) -> None:
    assert read(source) == []


def test_positional_arguments_get_their_names() -> None:
    call = only("CheckpointSaver('f', 'n', None, 'l', None, '1ba', overwrite=True)")
    values = {name: getattr(value, "value", None) for name, value in call.arguments.items()}
    assert values == {
        "folder": "f", "filename": "n", "remote_file_name": None, "latest_filename": "l",
        "latest_remote_file_name": None, "save_interval": "1ba", "overwrite": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "complete"),
    [
        ("FileLogger(**{'filename': 'a'})", True),
        ("options = {'filename': 'a'}\nFileLogger(**options)", True),
        ("options = dict(filename='a')\nFileLogger(**options)", True),
        ("FileLogger(**{'filename': 'a', **more})", False),
        ("FileLogger('a', **more)", False),
        ("options = {'filename': 'a'}\noptions['overwrite'] = True\nFileLogger(**options)", False),
        ("partial(FileLogger, 'a')", False),
    ],
)
def test_unpacked_mappings_are_followed_and_unknown_ones_remembered(source: str, complete: bool) -> None:
    call = only(source)
    assert call.arguments["filename"].value == "a"  # type: ignore[union-attr]
    assert call.complete is complete


def test_parts_of_a_trainer_belong_to_it_through_variables() -> None:
    trainer = only(
        """
        uploader = RemoteUploaderDownloader("s3://b")
        loggers = [FileLogger("a"), uploader]
        trainer = Trainer(model=model, loggers=loggers, profiler=Profiler(cyclic_schedule(active=2), [h]))
        """
    )
    assert trainer.name == "Trainer"
    loggers = trainer.arguments["loggers"]
    assert isinstance(loggers, Items)
    assert [call.name for call in loggers.values if isinstance(call, Call)] == [
        "FileLogger",
        "RemoteUploaderDownloader",
    ]
    assert loggers.complete
    profiler = trainer.arguments["profiler"]
    assert isinstance(profiler, Call)
    assert isinstance(profiler.arguments["schedule"], Call)


def test_a_list_that_grows_later_is_not_complete() -> None:
    trainer = only("loggers = [FileLogger('a')]\nloggers.append(make())\nTrainer(loggers=loggers)")
    loggers = trainer.arguments["loggers"]
    assert isinstance(loggers, Items)
    assert not loggers.complete


def test_what_is_made_for_one_rank_alone_is_known() -> None:
    source = """
        if dist.get_global_rank() == 0:
            FileLogger("a")
        x = FileLogger("b") if rank == 0 else None
        FileLogger("c")
    """
    assert [call.one_rank for call in read(source)] == [True, True, False]


@pytest.mark.parametrize(
    "source",
    [
        "cfg = {'save_folder': 'x', 'lr': 1}",
        "cfg = dict(save_folder='x', lr=1)",
        "run(config={'trainer': {'save_folder': 'x'}})",
    ],
)
def test_a_mapping_with_a_trainers_arguments_is_a_configuration(source: str) -> None:
    call = only(source)
    assert (call.name, call.complete) == ("Trainer", False)
    assert call.arguments["save_folder"].value == "x"  # type: ignore[union-attr]


def test_llm_foundrys_builders_are_known() -> None:
    call = only("build_callback('hf_checkpointer', {'save_folder': 's3://b/x', 'save_interval': '1ep'})")
    assert call.name == "HuggingFaceCheckpointer"
    assert set(call.arguments) == {"save_folder", "save_interval"}


def test_uploads_through_a_logger_are_known_by_their_argument() -> None:
    assert only("state.logger.upload_file(remote_file_name='a', file_path=p)").name == "Logger.upload_file"
    assert read("s3.upload_file('a', 'bucket', 'key')") == []


def test_a_command_line_of_the_launcher_is_found_in_lists_and_strings() -> None:
    source = "subprocess.run(['composer', '-n', '2', '--stdout', 'x{rank}', 'train.py'])"
    assert only(source).arguments["stdout"].value == "x{rank}"  # type: ignore[union-attr]
    assert only("os.system('composer -n 2 --stdout x{rank} train.py')").name == "launcher"


# ---- strings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'a' + '/b'", "a/b"),
        ("root + '/b'", "runs/b"),
        ("f'{root}/b'", "runs/b"),
        ("f'{root}/{{rank}}'", "runs/{rank}"),
        ("(root) + f'/{x}-' 'b'", f"runs/{HOLE}-b"),
        ("folder + '/b'", f"{HOLE}/b"),
        ("os.path.join(root, 'b')", "runs/b"),
        ("os.path.join(root, '/b')", "/b"),
        ("str(Path(root) / 'b')", "runs/b"),
        ("Path(root, 'b')", "runs/b"),
        ("f'{rank}.txt'", f"{HOLE}.txt"),
        ("twice + 'x'", f"{HOLE}x"),
        ("'''a\nb'''", "a\nb"),
        ("outer_twice", "runs/runs"),
    ],
)
def test_strings_are_folded_as_far_as_the_source_tells(expression: str, value: str) -> None:
    source = f"root = 'runs'\nrank = 0\ntwice = 'a'\ntwice = 'b'\nouter_twice = f'{{root}}/{{root}}'\nFileLogger({expression})"
    assert filename(source).value == value


@pytest.mark.parametrize(
    "expression", ["make()", "self.name", "a or 'b'", "'a' if x else 'b'", "'{}'.format(x)", "'%s' % x"]
)
def test_what_only_the_program_knows_is_unknown(expression: str) -> None:
    assert isinstance(only(f"FileLogger({expression})").arguments["filename"], Unknown)


def test_a_local_name_hides_a_global_one() -> None:
    source = """
        name = "global"
        def f(name):
            return FileLogger(name + ".txt")
        def g():
            name = "local"
            return FileLogger(name + ".txt")
        def h():
            return FileLogger(name + ".txt")
    """
    values = [call.arguments["filename"] for call in read(source)]
    assert [value.value for value in values if isinstance(value, Text)] == [
        f"{HOLE}.txt",
        "local.txt",
        "global.txt",
    ]


def test_each_character_is_where_it_stands() -> None:
    source = 'root = "runs"\nFileLogger(root + f"/{{run_name}}" "-{rank}")'
    text = filename(source)
    for index, char in enumerate(text.value):
        start, end = text.spans[index]
        assert source[start:end] in {char, char * 2, "{rank}"}


def test_numbers_truths_and_nothing_are_constants() -> None:
    call = only("CheckpointSaver(overwrite=True, num_checkpoints_to_keep=-1, remote_file_name=None)")
    assert [v.value for v in call.arguments.values() if isinstance(v, Constant)] == [True, -1, None]


def test_names_that_refer_to_themselves_end() -> None:
    assert isinstance(only("a = a + 'x'\nFileLogger(a)").arguments["filename"], Unknown | Text)
    assert only("a = b\nb = a\nFileLogger(a)").name == "FileLogger"


def test_a_call_that_holds_itself_ends() -> None:
    assert {call.name for call in read("x = Trainer(run_name='a', callbacks=[x])")} == {"Trainer"}


@pytest.mark.parametrize(
    "change",
    [
        'kw["save_filename"] = name()',
        "kw['save_filename'] = kw['save_filename'].replace('{foo}', 'x')",
        "kw.update(other)",
        'kw.update({"save_filename": name()})',
        "for key in kw:\n    kw[key] = fill(kw[key])",
        "kw |= other",
    ],
)
@pytest.mark.parametrize(
    "made", ['{"save_folder": "ck", "save_filename": "{foo}.pt"}', 'dict(save_folder="ck", save_filename="{foo}.pt")']
)  # fmt: skip
def test_what_a_module_changes_in_a_mapping_is_unknown(made: str, change: str) -> None:
    source = f"from composer import Trainer\nkw = {made}\n{change}\nTrainer(**kw)\n"
    calls = [call for call in read_python(source) if "save_folder" in call.arguments]
    assert calls
    for call in calls:
        assert isinstance(call.arguments["save_filename"], Unknown)
        assert not call.complete
    unchanged = isinstance(calls[0].arguments["save_folder"], Text)
    assert unchanged == ("kw['save_filename'] =" in change.replace('"', "'"))


@pytest.mark.parametrize(
    "function", ["def f():\n    global NAME\n    NAME = 'x'", "def f(): global NAME; NAME = 'x'"]
)
def test_what_a_function_binds_in_the_module_is_unknown(function: str) -> None:
    [call] = read_python(f"NAME = '{{foo}}.pt'\n{function}\ndef g():\n    FileLogger(NAME)\n")
    assert isinstance(call.arguments["filename"], Unknown)


def test_an_unpacked_literal_is_all_that_a_trainer_gets() -> None:
    for given in ('**{"save_folder": "ck"}', '**dict(save_folder="ck")'):
        [call] = read_python(f"Trainer({given})")
        assert call.complete
