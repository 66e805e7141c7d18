"""Plug-ins are attached to real Trainers, beside whatever the script gave them."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from composer_obs.attach import Attachment, attach
from composer_obs.plugins import PluginError

PLUGINS = """
from composer import Callback
from composer.loggers import LoggerDestination

class Noted(Callback):
    def __init__(self, word="none", fails=False):
        if fails:
            raise ValueError("it was told to fail")
        self.word = word

class Told(LoggerDestination):
    def __init__(self, word="none"):
        self.word = word

def made_by_a_function(word="none"):
    return Noted(word)
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution on the import path with a callback, a logger and a function that makes one."""
    (tmp_path / "noted_obs.py").write_text(PLUGINS)
    folder = tmp_path / "noted_obs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: noted-obs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[composer_obs.callbacks]\nnoted = noted_obs:Noted\nmade = noted_obs:made_by_a_function\n"
        "[composer_obs.loggers]\ntold = noted_obs:Told\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def trainer_with(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a real Trainer while these plug-ins are attached; closes it."""
    import torch
    from composer import Trainer
    from composer.models import ComposerClassifier

    made: list[Any] = []
    original = Trainer.__init__

    def make(plugins: dict[str, dict[str, Any]], cls: type = Trainer, **arguments: Any) -> Any:
        monkeypatch.setattr(Trainer, "__init__", original)  # without what was attached before
        attach(Attachment(plugins))
        model = ComposerClassifier(torch.nn.Linear(2, 2), num_classes=2)
        made.append(cls(model=model, device="cpu", progress_bar=False, **arguments))
        return made[-1]

    yield make
    for trainer in made:
        trainer.close()


def words(trainer: Any) -> list[tuple[str, str]]:
    ours = [c for c in trainer.state.callbacks if type(c).__module__ == "noted_obs"]
    return [(type(callback).__name__, callback.word) for callback in ours]


def test_a_callback_and_a_logger_are_attached_with_their_options(trainer_with: Callable[..., Any]) -> None:
    trainer = trainer_with({"noted": {"word": "a"}, "told": {"word": "b"}})
    assert sorted(words(trainer)) == [("Noted", "a"), ("Told", "b")]
    assert [type(d).__name__ for d in trainer.logger.destinations if type(d).__module__ == "noted_obs"] == [
        "Told"
    ]


@pytest.mark.parametrize("form", ["none", "one", "list", "tuple", "empty"])
def test_what_the_script_gave_stays_whatever_its_form(trainer_with: Callable[..., Any], form: str) -> None:
    from composer import Callback
    from composer.loggers import InMemoryLogger

    theirs: dict[str, Any] = {"callbacks": Callback(), "loggers": InMemoryLogger()}
    forms: dict[str, Callable[[Any], Any]] = {
        "none": lambda one: None,
        "one": lambda one: one,
        "list": lambda one: [one],
        "tuple": lambda one: (one,),
        "empty": lambda one: [],
    }
    arguments = {name: forms[form](one) for name, one in theirs.items()}
    trainer = trainer_with({"noted": {}, "told": {}}, **arguments)
    assert sorted(words(trainer)) == [("Noted", "none"), ("Told", "none")]
    kept = [one in trainer.state.callbacks for one in theirs.values()]
    assert kept == [form in ("one", "list", "tuple")] * 2


def test_the_scripts_own_list_is_not_changed(trainer_with: Callable[..., Any]) -> None:
    callbacks: list[Any] = []
    trainer_with({"noted": {}}, callbacks=callbacks)
    assert callbacks == []


def test_a_trainer_that_has_one_already_gets_no_second(trainer_with: Callable[..., Any]) -> None:
    import noted_obs  # type: ignore[import-not-found]

    class Better(noted_obs.Noted):  # type: ignore[misc]
        pass

    assert words(trainer_with({"noted": {"word": "ours"}}, callbacks=noted_obs.Noted("theirs"))) == [
        ("Noted", "theirs")
    ]
    trainer = trainer_with({"noted": {"word": "ours"}}, callbacks=[Better("theirs")])
    assert [c.word for c in trainer.state.callbacks if isinstance(c, noted_obs.Noted)] == ["theirs"]
    # Wherever it was put: a logger destination is a callback too.
    assert words(trainer_with({"told": {"word": "ours"}}, callbacks=noted_obs.Told("theirs"))) == [
        ("Told", "theirs")
    ]


def test_each_trainer_gets_its_own(trainer_with: Callable[..., Any]) -> None:
    one, two = (trainer_with({"noted": {}}) for _ in range(2))
    (first,) = [c for c in one.state.callbacks if type(c).__module__ == "noted_obs"]
    assert first not in two.state.callbacks


def test_a_subclass_of_the_trainer_gets_it_once(trainer_with: Callable[..., Any]) -> None:
    from composer import Trainer

    class Mine(Trainer):
        def __init__(self, *, extra: int, **arguments: Any) -> None:
            self.extra = extra
            super().__init__(**arguments)

    assert words(trainer_with({"noted": {}}, cls=Mine, extra=3)) == [("Noted", "none")]


def test_a_plug_in_may_be_a_function(trainer_with: Callable[..., Any]) -> None:
    assert words(trainer_with({"made": {"word": "x"}})) == [("Noted", "x")]


def test_the_signature_of_the_trainer_is_kept_and_its_own_errors_too(
    trainer_with: Callable[..., Any],
) -> None:
    from composer import Trainer

    before = inspect.signature(Trainer.__init__)
    trainer_with({"noted": {}})
    assert inspect.signature(Trainer.__init__) == before
    with pytest.raises(TypeError, match="unexpected keyword argument 'modle'"):
        Trainer(modle=None)  # type: ignore[call-arg]


def test_a_plug_in_that_refuses_its_options_says_so_when_the_trainer_is_made(
    trainer_with: Callable[..., Any],
) -> None:
    with pytest.raises(PluginError, match=r"the callback 'noted' refuses its options.*it was told to fail"):
        trainer_with({"noted": {"fails": True}})


def test_a_name_that_is_not_installed_is_refused_at_once(installed: Path) -> None:
    with pytest.raises(PluginError, match="no plug-in is named 'notde'"):
        Attachment({"notde": {}})


def test_a_store_cannot_be_attached(installed: Path) -> None:
    with pytest.raises(PluginError, match="no plug-in is named 's3'"):
        Attachment({"s3": {}})


def test_composer_is_not_imported_for_it_and_the_trainer_is_changed_when_it_is(installed: Path) -> None:
    code = """
        import sys
        from composer_obs.attach import Attachment, attach
        attach(Attachment({"noted": {}}))
        assert not {"composer", "torch"} & set(sys.modules)
        import composer.trainer
        assert composer.Trainer.__init__.__wrapped__
        assert composer.Trainer is composer.trainer.trainer.Trainer
        assert not any(type(finder).__module__ == "composer_obs.attach" for finder in sys.meta_path)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=installed,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
