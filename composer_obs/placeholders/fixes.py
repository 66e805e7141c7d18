"""Changing a source: which edits go together, how a change is shown, and how it is written."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from bisect import bisect, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from composer_obs.errors import ComposerObsError
from composer_obs.placeholders.reading import Source, read_bytes, reason

__all__ = ["Edit", "WriteError", "apply_edits", "unified_diff", "write_source"]


class WriteError(ComposerObsError):
    """A fixed file could not be written; it is as it was."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replaces a part of a source.

    Args:
        start (int): Index of its first character.
        end (int): Index behind its last character; equal to ``start`` to insert.
        text (str): What comes in its place.
    """

    start: int
    end: int
    text: str


def apply_edits(source: str, fixes: Iterable[Sequence[Edit]]) -> tuple[str, int]:
    """Apply fixes, each of them wholly or not at all.

    A fix that touches what an earlier one has changed is left for the next round, when its places are
    found anew. The same fix twice is one fix.

    Args:
        source (str): The text.
        fixes (Iterable[Sequence[Edit]]): Each fix is the edits that belong together.

    Returns:
        The text after it, and how many fixes were applied.

    Raises:
        ValueError: An edit lies outside of the source, or a fix overlaps with itself.

    Example:
        >>> apply_edits("abc", [[Edit(0, 1, "A")], [Edit(0, 2, "x")], [Edit(2, 3, "C"), Edit(3, 3, "!")]])
        ('AbC!', 2)
    """
    taken: list[Edit] = []
    applied = 0
    for fix in fixes:
        edits = tuple(sorted(fix, key=lambda edit: (edit.start, edit.end)))
        _check(edits, len(source))
        if not edits or any(_meets(edit, taken) for edit in edits):
            continue
        applied += 1
        for edit in edits:
            insort(taken, edit, key=lambda edit: (edit.start, edit.end))
    parts, at = list[str](), 0
    for edit in taken:
        parts += source[at : edit.start], edit.text
        at = edit.end
    return "".join([*parts, source[at:]]), applied


def _check(edits: Sequence[Edit], length: int) -> None:
    at = 0
    for edit in edits:
        if not at <= edit.start <= edit.end <= length:
            raise ValueError(f"{edit} lies outside of the source or overlaps with its neighbour")
        at = edit.end


def _meets(edit: Edit, taken: Sequence[Edit]) -> bool:
    """Whether an edit overlaps with one of these, or inserts right beside it."""
    index = bisect(taken, (edit.start, edit.end), key=lambda other: (other.start, other.end))
    for other in taken[max(index - 1, 0) : index + 1]:
        inserts = edit.start == edit.end or other.start == other.end
        if max(edit.start, other.start) < min(edit.end, other.end) + inserts:
            return True
    return False


def unified_diff(path: str, before: str, after: str) -> str:
    r"""A change as ``git apply`` and ``patch -p1`` take it, in the folder that the path is relative to.

    Args:
        path (str): The file. A leading ``/`` is left out, for ``patch -d /``.
        before (str): Its text.
        after (str): Its text after the change.

    Returns:
        Text that ends with a newline, empty if nothing changes. To be applied to a file that is not
        in UTF-8, it has to be written in the encoding of the file.

    Example:
        >>> print(unified_diff("a.yaml", "x: 1\n", "x: 2\n"), end="")
        --- a/a.yaml
        +++ b/a.yaml
        @@ -1 +1 @@
        -x: 1
        +x: 2
    """
    name = os.path.normpath(path).lstrip("/")
    lines = difflib.unified_diff(
        _lines(before), _lines(after), _header_name(f"a/{name}"), _header_name(f"b/{name}")
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    # Not `splitlines`, which also splits at form feeds and the like.
    return [line + "\n" for line in text.split("\n")[:-1]] + [line for line in text.split("\n")[-1:] if line]


def _header_name(name: str) -> str:
    """A name in the header: a tab ends one that holds a space, as Git writes it."""
    if any(character in '"\\\x7f' or character < " " for character in name):
        quoted = "".join(
            f"\\{character}" if character in '"\\' else
            f"\\{ord(character):03o}" if character < " " or character == "\x7f" else character
            for character in name
        )  # fmt: skip
        return f'"{quoted}"'
    return f"{name}\t" if " " in name else name


def write_source(source: Source, text: str) -> None:
    """Replace the content of a file, at once and for good.

    Encoding, byte order mark and permissions stay; a link stays a link. A file with several hard links
    is replaced under this one name.

    Args:
        source (Source): The file, as it was read.
        text (str): Its new text.

    Raises:
        WriteError: The file changed since it was read, its encoding lacks a character, or it cannot be
            written. Then it is as it was.
    """
    if text == source.text:
        return
    path = os.path.realpath(source.path)
    try:
        data = source.encode(text)
    except (UnicodeError, LookupError) as error:
        raise WriteError(
            f"{source.path} was not changed: the fix is not in {source.encoding}: {error}"
        ) from error
    # Some encodings write one text in several ways; what was not edited must stay as it is.
    if source.text is None or source.encode(source.text) != source.data:
        raise WriteError(
            f"{source.path} was not changed: {source.encoding} would not give the same bytes again"
        )
    if read_bytes(path) != source.data:
        raise WriteError(f"{source.path} was not changed: it is not as it was read; run the command again")
    if not os.access(path, os.W_OK):
        raise WriteError(f"{source.path} was not changed: it is read-only")
    try:
        _replace(path, data)
    except OSError as error:
        raise WriteError(f"{source.path} was not changed: {reason(error)}") from error


def _replace(path: str, data: bytes) -> None:
    before = os.stat(path)
    descriptor, temporary = tempfile.mkstemp(
        dir=os.path.dirname(path), prefix=f".{os.path.basename(path)[:200]}."
    )
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if (os.geteuid(), os.getegid()) != (before.st_uid, before.st_gid):
                with contextlib.suppress(PermissionError):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, before.st_mode & 0o7777)
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
