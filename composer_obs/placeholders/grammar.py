"""The grammar of format strings, with the position of every part.

`str.format` says neither where a fault is nor what the good parts are, so the template is read here
once more, by the same rules: CPython's ``Objects/stringlib/unicode_format.h`` (`MarkupIterator_next`,
`parse_field`), which `string.Formatter.parse` exposes without positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from composer_obs.placeholders.calls import HOLE

__all__ = ["BraceFault", "Field", "Template", "parse"]


@dataclass(frozen=True, slots=True)
class Field:
    """One ``{…}``.

    Args:
        start (int): Index of its opening brace.
        end (int): Index behind its closing brace.
        name (str): What stands before the first ``.``, ``[``, ``!`` or ``:``.
        path (str): Attributes and indexes behind the name, e.g. ``".attr[0]"``.
        conversion (str): ``"r"``, ``"s"``, ``"a"``, or ``""``.
        spec (str): What stands behind ``:``.
        nested (tuple[Field, ...]): The fields inside ``spec``.
    """

    start: int
    end: int
    name: str
    path: str = ""
    conversion: str = ""
    spec: str = ""
    nested: tuple[Field, ...] = ()

    @property
    def positional(self) -> bool:
        """Whether it asks for a positional argument, as ``{}`` and ``{0}`` do."""
        return not self.name or self.name.isdecimal()

    @property
    def bare(self) -> bool:
        """Whether it is a name and nothing else."""
        return not (self.path or self.conversion or self.spec)

    @property
    def has_hole(self) -> bool:
        """Whether a part of it is known only to the running program."""
        return HOLE in self.name + self.path + self.conversion + self.spec


@dataclass(frozen=True, slots=True)
class BraceFault:
    """Why a template is no format string, and where."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class Template:
    """A format string, taken apart.

    Args:
        fields (tuple[Field, ...]): In order; those before the fault, if there is one.
        escapes (tuple[int, ...]): Index of the first brace of each ``{{`` and ``}}``.
        fault (BraceFault, optional): Why the rest cannot be read.
    """

    fields: tuple[Field, ...]
    escapes: tuple[int, ...]
    fault: BraceFault | None = None

    def names(self) -> Iterator[tuple[str, Field]]:
        """Each name, nested ones too, with the outermost field that it stands in."""
        for field in self.fields:
            yield field.name, field
            for inner in field.nested:
                yield inner.name, field


def parse(template: str, *, _depth: int = 0) -> Template:
    """Take a format string apart; never raises.

    Example:
        >>> template = parse("ep{epoch:04d}-{{x}}-{rank")
        >>> [(field.name, field.spec) for field in template.fields], template.escapes
        ([('epoch', '04d')], (14, 17))
        >>> template.fault
        BraceFault(index=20, reason="'{' is never closed")
    """
    fields: list[Field] = []
    escapes: list[int] = []
    index, end = 0, len(template)
    while index < end:
        char = template[index]
        if char not in "{}":
            index += 1
        elif template[index + 1 : index + 2] == char:
            escapes.append(index)
            index += 2
        elif char == "}":
            return Template(
                tuple(fields), tuple(escapes), BraceFault(index, "a '}' closes nothing; it was never opened")
            )
        else:
            field = _read_field(template, index, _depth)
            if isinstance(field, BraceFault):
                return Template(tuple(fields), tuple(escapes), field)
            fields.append(field)
            index = field.end
    return Template(tuple(fields), tuple(escapes))


# `str.format` raises beyond this.
_DEEPEST = 2


def _read_field(template: str, start: int, depth: int) -> Field | BraceFault:
    never_closed = BraceFault(start, "'{' is never closed")
    index = start + 1
    while True:
        char = template[index : index + 1]
        if not char:
            return never_closed
        if char == "{":
            return BraceFault(index, "a '{' stands inside a placeholder's name")
        if char == "[":
            closing = template.find("]", index)
            if closing < 0:
                return never_closed
            index = closing
        elif char in "}:!":
            break
        index += 1
    name, path = _split_name(template[start + 1 : index])
    conversion = ""
    if template[index] == "!":
        conversion = template[index + 1 : index + 2]
        follows = template[index + 2 : index + 3]
        if not follows:
            return never_closed
        if follows not in "}:":
            return BraceFault(index + 2, "':' or '}' must follow a conversion such as !r")
        index += 2
    if template[index] == "}":
        return Field(start, index + 1, name, path, conversion)
    opened, first = 1, index + 1
    for position in range(first, len(template)):
        opened += {"{": 1, "}": -1}.get(template[position], 0)
        if not opened:
            spec = template[first:position]
            nested = parse(spec, _depth=depth + 1).fields if "{" in spec and depth < _DEEPEST else ()
            return Field(start, position + 1, name, path, conversion, spec, nested)
    return never_closed


def _split_name(text: str) -> tuple[str, str]:
    cut = min((i for i in (text.find("."), text.find("[")) if i >= 0), default=len(text))
    return text[:cut], text[cut:]
