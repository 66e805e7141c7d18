"""Comments that silence findings: ``# composer-obs: ignore[missing-rank]``.

A comment behind code speaks of its line; one that stands alone speaks of the next line of code. What
cannot be broken by a comment, such as a string of several lines, counts as one line.
"""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from composer_obs.findings import Rule
from composer_obs.placeholders.fixes import Edit

__all__ = ["Suppression", "find_suppressions", "removal"]

_MARK = "composer-obs:"
# Behind it may stand a reason that does not begin with a word: in `ignore PH301` and `ignore: PH301`
# brackets were forgotten, and silencing everything is not what was meant. Nor is it by `ignore[]`.
_DIRECTIVE = re.compile(
    r"\#\s*composer-obs:\s*ignore(?P<file>-file)?"
    r"(?:\[(?P<codes>[\w\s,-]*\w[\w\s,-]*)\](?!\w)|(?![\w-])(?=\s*(?:[^\w\s\[:=]|$)))"
    r"[^#]*"
)
_RETURN = re.compile(r"\r(?!\n)")
# What JSON puts around the lines of a notebook's cells, and before a quote in them.
_JSON = re.compile(r'^[ \t]*"|(?:\\n)?",?[ \t\r]*$|\\(?=")', re.MULTILINE)
_HASH = re.compile(r"(?:^|(?<=\s))#[^\r\n]*", re.MULTILINE)
_UNQUOTED = re.compile(r"""(?:[^'"#]|(?<=\S)\#|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")*""")


@dataclass(frozen=True, slots=True)
class Suppression:
    """One comment that silences findings.

    Args:
        line (int): The line that it stands on, from 1.
        column (int): The column of its ``#``, from 1.
        end_column (int): The column behind its last character.
        lines (range, optional): The lines that it speaks of. ``None``: the whole file.
        codes (tuple[str, ...]): Codes or names of rules, as they are written. Empty: all rules.
        text (str): The comment.
    """

    line: int
    column: int
    end_column: int
    lines: range | None
    codes: tuple[str, ...]
    text: str

    def matching(self, rule: Rule, line: int) -> tuple[str, ...] | None:
        """Which of the codes silence a finding of this rule on this line.

        Returns:
            ``None`` if the finding is not silenced; nothing but ``()`` if all rules are.
        """
        if self.lines is not None and line not in self.lines:
            return None
        names = {rule.code.lower(), rule.name.lower()}
        matching = tuple(code for code in self.codes if code.lower() in names)
        return matching if matching or not self.codes else None


def find_suppressions(text: str, language: str) -> list[Suppression]:
    """The comments in a source that silence findings, in order.

    Args:
        text (str): The source. Where it breaks its language's rules, comments are found line by line.
        language (str): ``"python"``, ``"yaml"`` or ``"notebook"``. In a notebook each line of its JSON
            counts by itself.

    Example:
        >>> [found] = find_suppressions("f(x)  # composer-obs: ignore[PH301, float-in-name]", "python")
        >>> found.lines, found.codes
        (range(1, 2), ('PH301', 'float-in-name'))
    """
    if _MARK not in text:
        return []
    text = _with_newlines(text)
    if language == "notebook":
        text = _JSON.sub(lambda found: " " * len(found[0]), text)
    starts = _line_starts(text)
    comments, joined = _LAYOUTS[language](text, starts)
    return [
        suppression
        for start, end in comments
        if _MARK in text[start:end]
        for suppression in _in_comment(text, starts, start, end, joined)
    ]


def removal(source: str, suppression: Suppression, unused_codes: Collection[str]) -> Edit:
    """The edit that takes codes out of a suppression, or all of it if none is left.

    Args:
        source (str): The text that the suppression was found in.
        suppression (Suppression): The comment.
        unused_codes (Collection[str]): Those of its codes to take out, as they are written.
    """
    source = _with_newlines(source)
    offset = _line_starts(source)[suppression.line - 1]
    start, end = offset + suppression.column - 1, offset + suppression.end_column - 1
    left = [code for code in suppression.codes if code not in unused_codes]
    if left:
        opening, closing = source.index("[", start) + 1, source.index("]", start)
        return Edit(opening, closing, ", ".join(left))
    line_end = source.find("\n", end) + 1 or len(source)
    before, after = source[offset:start], source[end:line_end]
    if not before.strip() and not after.strip():
        return Edit(offset, line_end, "")
    if after.strip():  # another comment, which takes the place of this one
        return Edit(start, end + len(after) - len(after.lstrip()), "")
    return Edit(offset + len(before.rstrip()), end, "")


def _with_newlines(text: str) -> str:
    """The same, offset by offset, without a carriage return that ends a line alone."""
    return _RETURN.sub("\n", text)


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _in_comment(
    text: str, starts: list[int], start: int, end: int, joined: dict[int, range]
) -> Iterator[Suppression]:
    line = bisect_right(starts, start)
    alone = not text[starts[line - 1] : start].strip()
    for match in _DIRECTIVE.finditer(text[start:end].rstrip()):
        covered: range | None = None
        if not match["file"]:
            code = _next_code(text, starts, line) if alone else line
            covered = joined.get(code, range(code, code + 1)) if code else range(0)
        column = start + match.start() - starts[line - 1] + 1
        found = match[0].rstrip()
        codes = tuple(dict.fromkeys(re.findall(r"[\w-]+", match["codes"] or "")))
        yield Suppression(line, column, column + len(found), covered, codes, found)


def _next_code(text: str, starts: list[int], line: int) -> int | None:
    """The next line that holds more than a comment."""
    for index in range(line, len(starts)):
        content = text[starts[index] : starts[index + 1] if index + 1 < len(starts) else None].strip()
        if content and not content.startswith("#"):
            return index + 1
    return None


#: Where comments stand, and the lines that count as one with each of them.
_Layout = tuple[list[tuple[int, int]], dict[int, range]]


def _python(text: str, starts: list[int]) -> _Layout:
    comments: list[tuple[int, int]] = []
    joined: dict[int, range] = {}
    first, last = 1, 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            last = token.end[0]
            if token.type == tokenize.COMMENT:
                start = starts[token.start[0] - 1] + token.start[1]
                comments.append((start, start + len(token.string)))
            # Between two line ends that the tokenizer reports there is no place for a comment.
            elif token.type in {tokenize.NEWLINE, tokenize.NL}:
                lines = range(first, last + 1)
                joined.update(dict.fromkeys(lines, lines))
                first = token.start[0] + 1
    # No Python, or no Python of this version.
    except (tokenize.TokenError, SyntaxError, ValueError):
        comments += _line_by_line(text, starts, starts[last] if last < len(starts) else len(text))
    return comments, joined


def _yaml(text: str, starts: list[int]) -> _Layout:
    import yaml

    comments: list[tuple[int, int]] = []
    joined: dict[int, range] = {}
    at = 0
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            start, end = token.start_mark.index, token.end_mark.index
            comments += _hashes(text, at, start)
            if isinstance(token, yaml.ScalarToken):
                if token.style in {"|", ">"}:
                    # Its first line may end with a comment; all else in it is text.
                    header_end = text.find("\n", start, end)
                    comments += _hashes(text, start, end if header_end < 0 else header_end)
                last = start + len(text[start:end].rstrip())
                lines = range(bisect_right(starts, start), bisect_right(starts, last) + 1)
                joined.update(dict.fromkeys(lines, lines))
            at = max(at, end)
        comments += _hashes(text, at, len(text))
    except yaml.YAMLError:
        comments += _line_by_line(text, starts, at)
    return comments, joined


def _notebook(text: str, starts: list[int]) -> _Layout:
    return list(_line_by_line(text, starts, 0)), {}


_LAYOUTS = {"python": _python, "yaml": _yaml, "notebook": _notebook}


def _hashes(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The comments of YAML between two tokens."""
    return (match.span() for match in _HASH.finditer(text, start, end))


def _line_by_line(text: str, starts: list[int], at: int) -> Iterator[tuple[int, int]]:
    """The comments from here on, as far as each line tells: not between quotes."""
    for start, end in pairwise([*starts[bisect_right(starts, at) - 1 :], len(text)]):
        unquoted = _UNQUOTED.match(text[start:end])
        begin = start + (unquoted.end() if unquoted else 0)
        if begin >= at and text.startswith("#", begin):
            yield begin, end
