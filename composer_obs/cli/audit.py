"""``composer-obs audit``: verify every recorded upload again, now, from any machine."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from composer_obs.catalogue import Selection
from composer_obs.cli._options import Reporting, note, output_path, reporting_options
from composer_obs.errors import InvalidInputError
from composer_obs.findings import Severity
from composer_obs.redaction import redact_values
from composer_obs.reporting.text import format_size, format_table, printable
from composer_obs.run_folder import RunFolderError
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.audit import Audit, AuditOptions, audit
from composer_obs.uploads.ledger import Ledger
from composer_obs.uploads.sources import read_ledgers
from composer_obs.uploads.stores import open_store
from composer_obs.uploads.summary import headline
from composer_obs.uploads.verdicts import RULE_OF, Verdict

__all__ = ["command"]

# More proven artifacts than a screen holds hide the others.
_FEW = 40


@click.command("audit")
@click.argument("run_folders", nargs=-1, required=True, metavar="RUN_FOLDER...")
@click.option("--jobs", type=click.IntRange(1, 256), default=16, help="Requests at a time (default: 16).")
@click.option("--download", is_flag=True, help="Read back what the store keeps no checksum of.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Ask no longer.")
@click.option(
    "--sha256sums",
    metavar="FILE",
    callback=output_path,
    help="Write SHA-256 sums of what is proven, for `sha256sum -c`.",
)
@click.option("-v", "--verbose", is_flag=True, help="List proven artifacts too, however many.")
@reporting_options
def command(
    *,
    run_folders: tuple[str, ...],
    jobs: int,
    download: bool,
    timeout: float | None,
    sha256sums: str | None,
    verbose: bool,
    reporting: Reporting,
) -> int:
    """Verify every recorded upload, now: is it in the store, whole?

    RUN_FOLDER is the folder of a run's records ({run_name}/composer_obs), the folder above it, one
    ledger file, or a URI below which ledgers were put (s3://bucket/run_name). Several are audited
    together, so that what one run did to another's objects is found too.

    Ends with 0 if every upload is proven, else with 1. A rule that --ignore (or --select) leaves out
    is left out of this too; the artifacts are listed all the same.
    """
    # Everything that is read stays until the end, and the collector would walk it over and over:
    # a third of the time for ten thousand uploads. Requests leave cycles, so it is not off.
    gc.set_threshold(1_000_000)
    ledger = read_ledgers(run_folders)
    _check(ledger, run_folders)
    with _progress() as progress:
        result = audit(ledger, open_store, AuditOptions(jobs, download, timeout, progress))
    findings = [finding for finding in result.findings if reporting.selection.includes(finding.rule)]
    lost = [artifact for artifact in result.artifacts if _counts_as_lost(artifact, reporting.selection)]
    proven = not lost and not any(finding.level is Severity.ERROR for finding in findings)
    reporting.write(
        findings,
        headline=headline(result),
        text_before=_table(result.artifacts, verbose=verbose) if reporting.format == "text" else "",
        summary=_summary(result, ledger, proven=proven),
        artifacts=map(_to_json, result.artifacts),
    )
    complete = sha256sums is None or _write_manifest(sha256sums, ledger, result, jobs)
    gc.freeze()  # Nor at exit.
    return 0 if proven and complete else 1


def _check(ledger: Ledger, places: Sequence[str]) -> None:
    """Refuse what is no ledger, and say what the ledgers leave open."""
    if not ledger.attempts:
        if ledger.problems and not ledger.runs:
            first = ledger.problems[0]
            raise RunFolderError(f"{first.file} is not a ledger: line {first.line}: {first.reason}")
        note(f"{', '.join(places)}: no upload was announced")
    for run_name, ranks in _absent_ranks(ledger).items():
        listed = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
        note(f"no ledger of rank {listed} of run {run_name!r} is here; audit all of its run folders together")


def _absent_ranks(ledger: Ledger) -> dict[str, list[int]]:
    """Ranks that a run had and that left no ledger here: their uploads are not known."""
    present: dict[str, set[int]] = defaultdict(set)
    expected: dict[str, int] = defaultdict(int)
    for run in ledger.runs.values():
        present[run.run_name].add(run.rank)
        expected[run.run_name] = max(expected[run.run_name], run.world_size)
    absent = {name: [r for r in range(expected[name]) if r not in ranks] for name, ranks in present.items()}
    return {name: ranks for name, ranks in absent.items() if ranks}


def _counts_as_lost(artifact: Artifact, selection: Selection) -> bool:
    return not artifact.verdict.is_fine and selection.includes(RULE_OF[artifact.verdict])


def _table(artifacts: Sequence[Artifact], *, verbose: bool) -> str:
    few = verbose or len(artifacts) <= _FEW
    shown = [artifact for artifact in artifacts if few or not artifact.verdict.is_fine]
    rows = [
        [a.verdict.value, format_size(a.attempt.size), str(a.attempt.rank), a.attempt.uri]
        for a in sorted(shown, key=_worst_first)
    ]
    parts = [format_table(["verdict", "size", "rank", "uri"], rows, right=["size", "rank"])] if rows else []
    if hidden := len(artifacts) - len(shown):
        parts.append(f"{hidden:,} proven artifacts are not listed (-v lists them)")
    return "\n".join(parts)


def _worst_first(artifact: Artifact) -> tuple[bool, bool, int, str, int]:
    rule = RULE_OF.get(artifact.verdict)
    is_error = rule is not None and rule.severity is Severity.ERROR
    order = list(Verdict).index(artifact.verdict)
    return artifact.verdict.is_fine, not is_error, order, artifact.attempt.uri, artifact.attempt.rank


def _to_json(artifact: Artifact) -> dict[str, Any]:
    record = artifact.to_json()
    # What is proven holds only what the ledger holds, which was redacted when it was written.
    return record if artifact.verdict.is_fine else redact_values(record)


def _summary(result: Audit, ledger: Ledger, *, proven: bool) -> dict[str, Any]:
    return {
        "uploads": result.attempted,
        "verdicts": result.counts(),
        "all_proven": proven,
        "absent_ranks": _absent_ranks(ledger),
    }


def _write_manifest(path: str, ledger: Ledger, result: Audit, jobs: int) -> bool:
    from composer_obs.uploads.manifest import make_manifest

    manifest = make_manifest(ledger, result.artifacts, open_store, jobs=jobs)
    try:
        with open(path, "wb") as file:
            file.writelines(manifest.lines)
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {error.strerror}") from error
    for uri, reason in manifest.problems.items():
        note(printable(f"no SHA-256 sum of {uri}: {reason}"))
    return not manifest.problems


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, where a person can see it."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("asking the stores", total=None)
        yield lambda answered, total: bar.update(task, completed=answered, total=total)
