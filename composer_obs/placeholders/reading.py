"""What is in a file.

Whatever it is, it is survived: named pipes, files that cannot be read, bytes that are no text.
"""

from __future__ import annotations

import os
import stat
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BytesIO

__all__ = ["Prefilter", "Source", "read_bytes", "read_source", "reason"]

#: In bytes. Nobody writes so much source; notebooks with their pictures inside get close.
LARGEST = 20_000_000
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Source:
    """The content of a file.

    Args:
        path (str): As it is shown to the user.
        text (str, optional): Line ends are as in the file, a byte order mark is not part of it.
            ``None`` where there is nothing to look at.
        problem (str, optional): What is wrong with the file; there may be a text nonetheless.
        encoding (str): What `text` was decoded with. Default: ``"utf-8"``.
        bom (bool): Whether a UTF-8 byte order mark stands before the text. Default: ``False``.
        data (bytes): The bytes of the file.
    """

    path: str
    text: str | None
    problem: str | None = None
    encoding: str = "utf-8"
    bom: bool = False
    data: bytes = field(default=b"", repr=False)

    def encode(self, text: str) -> bytes:
        """What the file has to hold for another text.

        Raises:
            UnicodeError: The encoding lacks a character.
        """
        return _BOM * self.bom + text.encode(self.encoding)


class Prefilter:
    """Tells quickly that a file cannot hold anything of interest.

    Args:
        names (Iterable[str]): The file has to hold one of these. ASCII alone, so that they look the
            same in every encoding that Python takes for source.

    Example:
        >>> prefilter = Prefilter(["CheckpointSaver", "save_filename"])
        >>> prefilter.might_hold_templates(b"save_filename: ep{epoch}.pt")
        True
        >>> prefilter.might_hold_templates(b"import torch")
        False
    """

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str]) -> None:
        shortest_first = sorted(set(names), key=lambda name: (len(name), name))
        kept: list[bytes] = []
        for name in map(str.encode, shortest_first):
            # Whatever holds a name holds every part of it.
            if not any(part in name for part in kept):
                kept.append(name)
        self._names = tuple(kept)

    def might_hold_templates(self, data: bytes) -> bool:
        """Whether one of the names occurs."""
        # Faster than one regular expression of all names, and than a set of the words of the file.
        return any(name in data for name in self._names)


def read_source(path: str, *, prefilter: Prefilter | None = None) -> Source:
    r"""Read a file; whatever is wrong with it is said in the result.

    Python declares its encoding as in PEP 263; everything else is UTF-8. What is not in its encoding
    is taken for Latin-1, in which every byte is a character.

    Args:
        path (str): The file.
        prefilter (Prefilter, optional): Files that do not pass have no text and no problem.
            Default: ``None``, every file passes.

    Example:
        >>> read_source("no-such-file.yaml").problem
        'No such file or directory'
    """
    data = read_bytes(path)
    if isinstance(data, str):
        return Source(path, None, data)
    if prefilter is not None and not prefilter.might_hold_templates(data):
        return Source(path, None, data=data)
    if b"\0" in data:
        return Source(path, None, "a binary file, or not in UTF-8: it holds zero bytes", data=data)
    bom = data.startswith(_BOM)
    encoding, problem = "utf-8", None
    if not path.endswith((".yaml", ".yml", ".ipynb")):
        encoding, problem = _declared_encoding(data)
    body = data.removeprefix(_BOM)
    try:
        return Source(path, body.decode(encoding), problem, encoding, bom, data)
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        problem = f"not {_display(encoding)}: byte 0x{body[error.start]:02x} at line {line}"
    except (LookupError, ValueError):  # a codec that makes no text, or one that always fails
        problem = f"{encoding} is no encoding of text"
    return Source(path, body.decode("latin-1"), problem, "latin-1", bom, data)


def _declared_encoding(data: bytes) -> tuple[str, str | None]:
    """The encoding that Python source declares, and what is wrong with that."""
    try:
        encoding = tokenize.detect_encoding(BytesIO(data).readline)[0]
    except SyntaxError as error:
        # Without a declaration it says no more than that a line is not UTF-8; decoding says where.
        message = str(error).partition(" for ")[0]
        return "utf-8", None if message.startswith("invalid or missing") else message
    return ("utf-8" if encoding == "utf-8-sig" else encoding), None


def _display(encoding: str) -> str:
    return "UTF-8" if encoding == "utf-8" else encoding


def read_bytes(path: str) -> bytes | str:
    """The bytes of a regular file, or why there are none."""
    try:
        # Opening a pipe waits for a writer, and opening a device may do anything.
        if not stat.S_ISREG(mode := os.stat(path).st_mode):
            return "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        # Should a pipe have taken its place by now, this does not wait.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        return reason(error)
    return f"larger than {LARGEST // 1_000_000} MB" if len(data) > LARGEST else data


def reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
