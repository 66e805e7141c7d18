"""The placeholder linter on a live Trainer: a Composer Callback over the pure core of this folder."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal

from composer.core import Callback, State
from composer.loggers import Logger
from composer.utils import dist

from composer_obs.containment import Guard
from composer_obs.errors import ComposerObsError
from composer_obs.findings import Finding, ObjectLocation, Rule, Severity
from composer_obs.placeholders.calls import Call, Constant, Items, Text, Unknown, Value
from composer_obs.placeholders.lint import Options, lint_calls
from composer_obs.placeholders.rules import CHECKS
from composer_obs.placeholders.sources.live import call_of
from composer_obs.placeholders.uses import Facts
from composer_obs.redaction import redact
from composer_obs.run_folder import JsonLinesWriter, resolve_run_folder

__all__ = ["PlaceholderLinter", "WrongTemplatesError"]

_log = logging.getLogger(__name__)


class WrongTemplatesError(ComposerObsError):
    """``on_finding="raise"``: a file-name template of the run is wrong."""


class PlaceholderLinter(Callback):
    """Find file-name templates that Composer will not fill in as meant, before the first batch.

    At ``INIT`` it looks at every logger, callback and profiler of the Trainer; after a checkpoint was
    loaded and when ``fit`` starts it looks again, because only then the place in the run and the
    length of an epoch are known. It reads attributes and nothing else: no file, no network, no
    communication between ranks.

    `Event.INIT` comes after loggers and profiler were made. `composer_obs.lint_kwargs` looks at the
    arguments before that, and ``composer-obs lint`` at the source.

    Example:
        >>> linter = PlaceholderLinter(on_finding="raise")

    Args:
        on_finding (str, optional): ``"warn"`` logs findings, on rank 0. ``"raise"`` also raises
            `WrongTemplatesError` if one of them is an error. Default: ``"warn"``.
        ignore (Sequence[str], optional): Codes of rules that do not count, or beginnings of codes.
            Default: none.
        schemes (Sequence[str], optional): URI schemes that are legal besides Composer's own.
            Default: none.
        folder (str, optional): Where findings are kept; may hold ``{run_name}``. Default:
            ``$COMPOSER_OBS_FOLDER``, else ``{run_name}/composer_obs``.
        strict (bool, optional): Let faults of the linter itself through. Default: ``False``.

    Files:
        ``findings-rank{rank}.jsonl`` in the run folder, if there are findings.

    Raises:
        ValueError: An argument is not one of the values above.
        WrongTemplatesError: With ``on_finding="raise"``, from ``Trainer(…)`` or ``fit``.
    """

    def __init__(
        self,
        on_finding: Literal["warn", "raise"] = "warn",
        ignore: Sequence[str] = (),
        schemes: Sequence[str] = (),
        folder: str | None = None,
        *,
        strict: bool = False,
    ) -> None:
        if on_finding not in ("warn", "raise"):
            raise ValueError(f"on_finding must be 'warn' or 'raise', not {on_finding!r}")
        self.on_finding = on_finding
        self.ignore = _codes(ignore)
        self.schemes = frozenset(schemes)
        self.folder = folder
        self.findings: list[Finding] = []
        self._guard = Guard("placeholder_linter", strict=strict)

    def init(self, state: State, logger: Logger) -> None:
        """Look at everything that the Trainer was made with."""
        self.findings.clear()
        self._look(state, logger)

    def after_load(self, state: State, logger: Logger) -> None:
        """Look again: a run that is resumed within an epoch changes what a schedule does."""
        self._look(state, logger)

    def fit_start(self, state: State, logger: Logger) -> None:
        """Look again: the length of an epoch and of the run are known now."""
        self._look(state, logger)

    def _look(self, state: State, logger: Logger) -> None:
        new: list[Finding] = []
        with self._guard("lint"):
            new = self._lint(state, logger)
            self.findings += new
        with self._guard("report"):
            if new:
                self._report(state, new)
        errors = [finding for finding in new if finding.level is Severity.ERROR]
        if errors and self.on_finding == "raise":
            raise WrongTemplatesError(
                f"{len(errors)} wrong templates or settings of this run:\n{_listed(errors)}"
            )

    def _lint(self, state: State, logger: Logger) -> list[Finding]:
        facts = Facts(
            world_size=dist.get_world_size(),
            schemes=self.schemes,
            batches_per_epoch=state.dataloader_len.value if state.dataloader_len is not None else None,
            resumed_at=int(state.timestamp.batch_in_epoch),
        )
        found = lint_calls([_trainer(state, logger)], Options(facts, self._counts))
        known = {(finding.rule.code, finding.message) for finding in self.findings}
        findings = [
            Finding(rule, p.message, ObjectLocation(p.object), p.fix, p.severity) for rule, p in found
        ]
        return [finding for finding in findings if (finding.rule.code, finding.message) not in known]

    def _counts(self, rule: Rule) -> bool:
        return not rule.code.startswith(self.ignore)

    def _report(self, state: State, findings: Sequence[Finding]) -> None:
        rank = dist.get_global_rank()
        if rank == 0:
            _log.warning("file names of this run:\n%s", _listed(findings))
        folder = resolve_run_folder(state.run_name, self.folder)
        writer = JsonLinesWriter(folder.absolute() / f"findings-rank{rank}.jsonl")
        for finding in findings:
            writer.append(finding.to_json())
        writer.close()


def _listed(findings: Sequence[Finding]) -> str:
    lines = [
        f"{finding.level.value} {finding.rule.code} {finding.rule.name}  {finding.where}  {finding.message}"
        + (f"; {finding.fix}" if finding.fix else "")
        for finding in findings
    ]
    return redact("\n".join(lines))


def _codes(ignore: Sequence[str]) -> tuple[str, ...]:
    if isinstance(ignore, str):
        ignore = ignore.split(",")
    codes = tuple(code.strip().upper() for code in ignore)
    for code in codes:
        if not any(check.rule.code.startswith(code) for check in CHECKS):
            raise ValueError(f"no rule's code begins with {code!r}; `composer-obs rule` lists all")
    return codes


def _trainer(state: State, logger: Logger) -> Call:
    """The call of the Trainer, as far as its parts tell; what they do not tell stays unknown."""
    destinations = list(logger.destinations)
    profiler = _part(state.profiler) if state.profiler is not None else Constant(None)
    elsewhere = {id(thing) for thing in (*destinations, *_profiler_parts(state))}
    callbacks = [callback for callback in state.callbacks if id(callback) not in elsewhere]
    arguments: dict[str, Value] = {
        "run_name": Text(state.run_name),
        "loggers": Items(tuple(map(_part, destinations))),
        "callbacks": Items(tuple(map(_part, callbacks))),
        "profiler": profiler,
    }
    if state.max_duration is not None:
        arguments["max_duration"] = Text(state.max_duration.to_timestring())
    if state.fsdp_sharded_state_dict_enabled:
        fsdp = Call("dict", {"state_dict_type": Text("sharded")})
        arguments["parallelism_config"] = Call("dict", {"fsdp": fsdp})
    return Call("Trainer", arguments, complete=False)


def _profiler_parts(state: State) -> list[object]:
    """What the Trainer puts among the callbacks on behalf of the profiler."""
    if state.profiler is None:
        return []
    return [state.profiler, *state.profiler._callbacks, *state.profiler.trace_handlers]  # noqa: SLF001 - nowhere else


def _part(thing: object) -> Value:
    return call_of(thing) or Unknown(type(thing).__name__)
