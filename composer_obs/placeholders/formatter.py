"""What Composer makes of a template: the same partial formatting, without Composer.

`composer.utils.misc.partial_format` calls `str.format` again and again, each time with one more of
the missing arguments replaced by its own text in braces, so that unknown names stay in the result
and every other error comes through. A property-based test holds this model to the original.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from composer_obs.placeholders.grammar import parse

__all__ = ["Rendered", "TooWideError", "conflicting_pattern", "render"]

# Composer gives up after so many missing arguments, with a RuntimeError.
_ATTEMPTS = 10_000
# No file system takes a name of more than 255 bytes, so a width of five digits is a mistake, and one
# of ten digits would take gigabytes to find that out.
_TOO_WIDE = re.compile(r"\d{5}")


class TooWideError(ValueError):
    """A format specification asks for a text that is not worth building."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Either the resulting text, or the exception that Composer would raise."""

    text: str | None
    error: Exception | None = None


def render(template: str, values: Mapping[str, object], *, strict: bool = False) -> Rendered:
    """Format a template as Composer does.

    Args:
        template (str): The template.
        values (Mapping[str, object]): The placeholders that are filled in.
        strict (bool): As plain `str.format`, where a missing name raises. Default: ``False``.

    Example:
        >>> render("ep{epoch}-rank{rank}", {"rank": 3}).text
        'ep{epoch}-rank3'
        >>> render("{epoch:04d}", {"rank": 3}).error
        ValueError("Unknown format code 'd' for object of type 'str'")
    """
    if any(_TOO_WIDE.search(field.spec) or len(field.nested) > 2 for field in parse(template).fields):
        return Rendered(None, TooWideError("the format specification is wider than any file name"))
    missing: tuple[str, ...] = ()
    known = dict(values)
    # A template of n characters cannot ask for more names than that; numbers can be larger.
    for _ in range(min(_ATTEMPTS, len(template) + _largest_position(template) + 2)):
        try:
            return Rendered(template.format(*missing, **known))
        except IndexError as error:
            if strict:
                return Rendered(None, error)
            missing += ("{}",)
        except KeyError as error:
            if strict:
                return Rendered(None, error)
            known[error.args[0]] = f"{{{error.args[0]}}}"
        except Exception as error:
            return Rendered(None, error)
    return Rendered(None, RuntimeError("Composer gives up on it after 10,000 attempts"))


def _largest_position(template: str) -> int:
    numbers = [int(name) for name, _ in parse(template).names() if name.isdecimal() and len(name) < 8]
    return max(numbers, default=0)


def conflicting_pattern(filename: str, values: Mapping[str, object]) -> Rendered:
    """The regular expression by which a CheckpointSaver looks for files in its way at fit_start.

    With ``overwrite=False`` Composer makes one of the template (`ensure_folder_has_no_conflicting_files`):
    it replaces the bare integer time placeholders by groups, and formats the rest with the
    distributed placeholders alone, strictly; ``{run_name}`` is not among them.

    Args:
        filename (str): The template of the checkpoint's name.
        values (Mapping[str, object]): The distributed placeholders, without ``run_name``.

    Example:
        >>> conflicting_pattern("{run_name}-ep{epoch}.pt", {"rank": 0}).error
        KeyError('run_name')
        >>> conflicting_pattern("ep{epoch}.pt", {"rank": 0}).text
        '^ep(?P<epoch>\\\\d+).pt$'
    """
    pattern = f"^{filename}$"
    for unit in ("epoch", "batch", "sample", "token", "batch_in_epoch", "sample_in_epoch", "token_in_epoch"):
        pattern = pattern.replace(f"{{{unit}}}", f"(?P<{unit}>\\d+)")
    rendered = render(pattern, values, strict=True)
    if rendered.text is None:
        return rendered
    try:
        with warnings.catch_warnings():
            # Of a name such as `[[a]]`: Composer's own warning is for Composer to give.
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(rendered.text)
    except re.error as error:
        return Rendered(rendered.text, error)
    return rendered
