"""Random templates over the whole grammar of format strings, and beside it."""

from __future__ import annotations

from hypothesis import strategies as st

from composer_obs.placeholders.parameter import PLACEHOLDERS

NAMES = st.one_of(
    st.sampled_from(sorted(PLACEHOLDERS)),
    st.sampled_from(
        ["Rank", " rank", "run-name", "iteration", "rank+1", "unknown", "step", '"a"', "1", "0", "", "7", "²"]
    ),
)
PATHS = st.sampled_from(
    ["", "", "", "", ".upper", ".real", ".attr", "[0]", "[k]", "[99]", ".__class__", ".", "[]", "[0]x", "[0"]
)
CONVERSIONS = st.sampled_from(["", "", "", "", "!r", "!s", "!a", "!x", "!", "!rr"])
PLAIN_SPECS = [
    "",
    "",
    "",
    "03d",
    "d",
    ">10",
    "<3",
    "s",
    ".2f",
    "x",
    ",",
    "%",
    "c",
    "{{",
    "}}",
    "!",
    "=+5",
    "e",
    "z",
]
SPECS = st.one_of(
    st.sampled_from(PLAIN_SPECS),
    NAMES.map(lambda name: f"{{{name}}}d"),
    NAMES.map(lambda name: f"{{{name}}}"),
    st.just("{{x}}"),
)


@st.composite
def fields(draw: st.DrawFn) -> str:
    spec = draw(SPECS)
    return f"{{{draw(NAMES)}{draw(PATHS)}{draw(CONVERSIONS)}{':' + spec if spec else ''}}}"


LITERALS = st.text("abz09./-_:$#?@ é[]()!\\'\"\n", max_size=4)
BRACES = st.sampled_from(["{{", "}}", "{{rank}}", "{", "}", "{{{rank}}}", "{{rank}", "{rank}}"])
#: Mostly well-formed; one in ten has a brace too many.
TEMPLATES = st.lists(
    st.one_of(fields(), fields(), LITERALS, LITERALS, st.sampled_from(["{{", "}}", "{{rank}}"]), BRACES),
    max_size=5,
).map("".join)
