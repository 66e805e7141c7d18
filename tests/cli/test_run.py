"""``composer-obs run`` runs a script as Python does: compared with Python itself."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from composer_obs.cli.run import OptionsError, _parse_with, _read_config
from tests.cli.conftest import COMMAND, invoke

WITH = ["run", "--with", "upload_auditor"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, code: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(textwrap.dedent(code))


def both(*arguments: str, **options: Any) -> tuple[Any, Any]:
    """What Python and what `composer-obs run` make of the same arguments: code, output, errors."""

    def run(command: list[str]) -> tuple[int, str, str]:
        ended = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, **options)
        return ended.returncode, ended.stdout, ended.stderr

    return run([sys.executable]), run([*COMMAND, *WITH])


FACTS = """
    import os, sys
    print(__name__, __file__, __package__, __doc__, __builtins__.__name__)
    print(getattr(__spec__, "name", None), type(__loader__).__name__)
    print(sys.argv, sys.path[0], os.getcwd())
    print(sys.modules["__main__"].__dict__ is globals(), sorted(globals()))
"""


class TestAsPythonDoes:
    @pytest.mark.parametrize("place", ["train.py", "./train.py", "scripts/train.py"])
    def test_a_script_sees_the_same_names_arguments_and_path(self, folder: Path, place: str) -> None:
        write(place, FACTS)
        python, ours = both(place, "--lr", "0.1", "-m", "x", "--help", "--with", "y", "--", "-v")
        assert python[0] == 0
        assert ours == python

    def test_a_script_behind_a_link_finds_the_modules_beside_it(self, folder: Path) -> None:
        write("real/helper.py", "WORD = 'found'")
        write("real/train.py", "import helper; print(helper.WORD)")
        os.symlink("real/train.py", "link.py")
        python, ours = both("link.py")
        assert python[1] == "found\n"
        assert ours == python

    @pytest.mark.parametrize("name", ["package.module", "package", "alone"])
    def test_a_module_or_package_does_too(self, folder: Path, name: str) -> None:
        write("package/__init__.py", "")
        for path in ("package/module.py", "package/__main__.py", "alone.py"):
            write(path, FACTS)
        python, ours = both("-m", name, "--lr", "0.1", "-m", "x")
        assert python[0] == 0
        assert ours == python

    @pytest.mark.parametrize(
        "ending",
        [
            "sys.exit()",
            "sys.exit(7)",
            "sys.exit('a message')",
            "raise SystemExit(None)",
            "pass",
            "os._exit(5)",
        ],
    )
    def test_it_ends_as_the_script_ends(self, folder: Path, ending: str) -> None:
        write("train.py", f"import os, sys\nprint('ran', flush=True)\n{ending}")
        python, ours = both("train.py")
        assert ours == python

    @pytest.mark.parametrize(
        "error",
        [
            "1 / 0",
            "raise ValueError('x') from KeyError('y')",
            "import helper; helper.fail()",
            "exec('1 +')",
            "raise KeyboardInterrupt",
            "x = = 1",
            "raise BrokenPipeError(32, 'broken')",
        ],
    )
    def test_an_error_is_shown_without_a_line_of_ours(self, folder: Path, error: str) -> None:
        write("helper.py", "def fail():\n    raise OSError('in the helper')")
        write("train.py", f"def work():\n    {error}\nwork()")
        python, ours = both("train.py")
        assert "Error" in python[2] or "Interrupt" in python[2]
        code = {-2: 130}.get(python[0], python[0])  # a shell says 130 to both
        assert ours == (code, *python[1:])

    def test_the_interpreters_exit_finds_the_scripts_main_module(self, folder: Path) -> None:
        write(
            "train.py",
            """
            import atexit, pickle
            class Kept: ...
            atexit.register(lambda: print(type(pickle.loads(pickle.dumps(Kept()))).__name__))
            """,
        )
        python, ours = both("train.py")
        assert python[1] == "Kept\n"
        assert ours == python

    @pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
    def test_processes_that_it_starts_import_the_script_and_not_us(self, folder: Path, method: str) -> None:
        write(
            "train.py",
            f"""
            import multiprocessing, sys
            class Item:
                def __init__(self, x): self.x = x
            def work(item):
                return item.x, __name__, "composer_obs.cli" in sys.modules
            if __name__ == "__main__":
                with multiprocessing.get_context({method!r}).Pool(1) as pool:
                    print(pool.apply(work, (Item(3),)))
            """,
        )
        python, ours = both("train.py")
        assert python[0] == 0, python[2]
        if method == "fork":  # a copy of this very process
            python = (0, python[1].replace("False", "True"), "")
        assert ours == python

    def test_encodings_and_future_imports_are_the_scripts_own(self, folder: Path) -> None:
        Path("train.py").write_bytes(
            b"# coding: latin-1\ndef f(x: undefined_name = '\xe4'): ...\nprint(f.__defaults__)"
        )
        python, ours = both("train.py")
        assert "NameError" in python[2]  # our own modules defer annotations; the script does not
        assert ours == python

    def test_standard_input_is_the_scripts(self, folder: Path) -> None:
        write("train.py", "print(input())")
        python, ours = both("train.py", input="hello\n")
        assert ours == python == (0, "hello\n", "")

    def test_nothing_is_imported_before_its_first_line(self, folder: Path) -> None:
        write("train.py", "import sys; print({'composer', 'torch', 'numpy'} & set(sys.modules))")
        assert both("train.py")[1] == (0, "set()\n", "")

    def test_safe_path_is_honoured(self, folder: Path) -> None:
        if sys.version_info < (3, 11):
            pytest.skip("Python 3.10 has no safe path")
        write("helper.py", "")
        write("train.py", "import helper")
        ended = subprocess.run(
            [*COMMAND, *WITH, "train.py"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
        )
        assert "ModuleNotFoundError: No module named 'helper'" in ended.stderr


class TestWrongUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["train.py"], "no plug-in to attach: name one, e.g. --with upload_auditor\n"),
            ([*WITH[1:], "nowhere.py"], "cannot open the script 'nowhere.py': No such file or directory\n"),
            ([*WITH[1:], "."], "cannot open the script '.': Is a directory\n"),
            ([*WITH[1:], "-m", "nowhere"], "there is no module 'nowhere' that can be run\n"),
            ([*WITH[1:], "-m", "no.where"], "cannot find the module 'no.where': No module named 'no'\n"),
            (["--with", "upload_auditro", "train.py"], "no plug-in is named 'upload_auditro'; installed are:"),
            (["--with", "upload_auditor:interval", "train.py"], "--with 'upload_auditor:interval': 'interval' is not KEY=VALUE\n"),
            (["--with", "upload_auditor:a b=1", "train.py"], "'a b=1' is not KEY=VALUE\n"),
            (["--config", "nowhere.yaml", "train.py"], "cannot read 'nowhere.yaml': No such file or directory\n"),
        ],
    )  # fmt: skip
    def test_is_told_in_one_line_before_the_script_runs(
        self, folder: Path, arguments: list[str], message: str
    ) -> None:
        write("train.py", "print('ran')")
        result = invoke("run", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr
        assert result.stderr.count("\n") == 1

    def test_no_script_is_wrong_usage(self) -> None:
        assert invoke("run").exit_code == 2
        assert invoke(*WITH).exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ("a", {})),
        ("a:", ("a", {})),
        ("a:x=1", ("a", {"x": 1})),
        ("a:x=1,y=2.5,z=true,n=null", ("a", {"x": 1, "y": 2.5, "z": True, "n": None})),
        ("a:x=word,y='1',z=\"q\"", ("a", {"x": "word", "y": "1", "z": "q"})),
        ("a:interval=100ms", ("a", {"interval": "100ms"})),
        ("a:folder=s3://b/{run_name}/x", ("a", {"folder": "s3://b/{run_name}/x"})),
        ("a:folder={run_name}", ("a", {"folder": "{run_name}"})),
        ("a:x=1,2,3,y=a=b", ("a", {"x": "1,2,3", "y": "a=b"})),
        ("a:x=", ("a", {"x": None})),
        ("a:x=2025-01-01", ("a", {"x": "2025-01-01"})),
        ("a:x=[1, 2]", ("a", {"x": "[1, 2]"})),
        ("a:x=: :", ("a", {"x": ": :"})),
    ],
)
def test_options_are_read_as_yaml_scalars(text: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert _parse_with(text) == expected


class TestConfig:
    def test_plug_ins_and_their_options_are_read_from_yaml(self, folder: Path) -> None:
        write("obs.yaml", "plugins:\n  upload_auditor: {on_failure: raise, interval: 5}\n  other:\n")
        assert _read_config("obs.yaml") == {
            "upload_auditor": {"on_failure": "raise", "interval": 5},
            "other": {},
        }

    @pytest.mark.parametrize(
        "text",
        ["", "[]", "plugin: {}", "plugins: {a: 1}", "plugins: [a]", "plugins: {}\nother: 1", "a: [", "\x00"],
    )
    def test_anything_else_is_refused(self, folder: Path, text: str) -> None:
        write("obs.yaml", text)
        with pytest.raises(OptionsError, match=r"'obs\.yaml'"):
            _read_config("obs.yaml")
