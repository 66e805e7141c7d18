"""From text to calls: one module a kind of source."""

from __future__ import annotations

from composer_obs.placeholders.calls import Call

__all__ = ["read"]


def read(text: str, language: str) -> list[Call]:
    """The outermost calls of known classes in a text.

    Args:
        text (str): The text.
        language (str): ``"python"``, ``"yaml"`` or ``"notebook"``.

    Raises:
        SyntaxError, ValueError, RecursionError: It cannot be read as that.
    """
    if language == "yaml":
        from composer_obs.placeholders.sources.yaml_source import read_yaml

        return read_yaml(text)
    if language == "notebook":
        from composer_obs.placeholders.sources.notebook import read_notebook

        return read_notebook(text)
    from composer_obs.placeholders.sources.python_source import read_python

    return read_python(text)
