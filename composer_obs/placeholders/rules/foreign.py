"""PH70x: template languages that meet in one string: OmegaConf, f-strings, str.format."""

from __future__ import annotations

import re
from collections.abc import Iterator

from composer_obs.findings import Severity
from composer_obs.placeholders.checks import Problem, at_use, on_template
from composer_obs.placeholders.parameter import PLACEHOLDERS, TIME, Kind
from composer_obs.placeholders.rules.syntax import doubled_braces
from composer_obs.placeholders.uses import TemplateUse

__all__ = ["CHECKS"]

_PROCESS = {"rank", "local_rank", "node_rank"}
_INTERPOLATION = re.compile(r"\$\{\s*(\w+)\s*\}")


@on_template(
    "PH701",
    "omegaconf-dollar",
    Severity.WARNING,
    "`${…}` is OmegaConf's, `{…}` is Composer's. In YAML `${rank}` is looked up among the configuration's "
    "keys and is an error if there is none; in Python it becomes '$3'.",
    bad="save_folder: ckpt\nsave_filename: ep${epoch}-rank{rank}.pt",
    good="save_folder: ckpt\nsave_filename: ep{epoch}-rank{rank}.pt",
    language="yaml",
)
def omegaconf_dollar(use: TemplateUse) -> Iterator[Problem]:
    for index, source in use.text.holes.items():
        found = _INTERPOLATION.fullmatch(source)
        if found is not None and found[1] in PLACEHOLDERS:
            yield at_use(
                use,
                f"{source} is looked up among the configuration's keys, and {found[1]!r} is none of them",
                (index, index + 1),
                fix=f"write {{{found[1]}}}",
            )
    for field in use.fields():
        if field.name in use.legal and use.template[field.start - 1 : field.start] == "$" and field.start:
            yield at_use(
                use,
                f"the $ stays in the name: ${{{field.name}}} becomes '$' and the value",
                (field.start - 1, field.end),
                fix=f"write {{{field.name}}}",
            )


@on_template(
    "PH702",
    "fstring-ate-placeholder",
    Severity.ERROR,
    "In an f-string Python fills {rank} from a variable at once, and Composer never sees it; only {{rank}} "
    "reaches Composer. In a plain string it is the other way round: {{rank}} is a literal '{rank}' in the "
    "name.",
    bad='rank = 0\nFileLogger(filename=f"{{run_name}}/log-{rank}.txt")',
    good='FileLogger(filename="{run_name}/log-{rank}.txt")',
)
def fstring_ate_placeholder(use: TemplateUse) -> Iterator[Problem]:
    if use.run.language == "python":
        mixed = any(field.name in PLACEHOLDERS for field in use.fields()) and use.text.doubled
        for index, source in use.text.holes.items():
            name = source.strip()
            # In one f-string with a template's own braces, it was to be one of them.
            if name in use.legal and mixed and name in (TIME | _PROCESS) and _in_fstring(use, index):
                yield at_use(
                    use,
                    f"Python fills in {{{name}}} when this line runs; Composer never sees it",
                    (index, index + 1),
                    fix=f"write {{{{{name}}}}}",
                )
    kinds = {Kind.PLAIN, Kind.BUCKET, Kind.LAUNCHER}
    if not use.parameter.formatted_twice and use.parameter.kind not in kinds:
        yield from doubled_braces(use, "they stay in the name")


def _in_fstring(use: TemplateUse, index: int) -> bool:
    """Whether the hole stands in an f-string that doubles a brace."""
    return index in use.text.doubled and any(
        i in use.text.doubled for i, char in enumerate(use.template) if char == "{"
    )


CHECKS = (omegaconf_dollar, fstring_ate_placeholder)
