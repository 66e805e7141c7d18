"""What an audit found, as findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from composer_obs.findings import ArtifactLocation, FileLocation, Finding, Severity
from composer_obs.run_folder import SCHEMA_VERSION
from composer_obs.uploads import rules
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.checkpoints import check_pointers, check_shards
from composer_obs.uploads.ledger import Attempt, Destination, Ledger
from composer_obs.uploads.stores.base import UnfinishedUpload
from composer_obs.uploads.verdicts import RULE_OF, Verdict

__all__ = ["findings_of"]

_FIXES = {
    Verdict.MISSING: "upload it again from {source}",
    Verdict.TRUNCATED: "upload it again from {source}",
    Verdict.CORRUPT: "upload it again from {source}, and ask who wrote the object",
    Verdict.CLOBBERED: "put {{rank}} or {{run_name}} into the file name",
    Verdict.UNROUTED: "add a destination that uploads, e.g. RemoteUploaderDownloader, to loggers",
    Verdict.FAILED: "mend the cause, then upload it again from {source}",
    Verdict.UNFINISHED: "upload it again from {source}",
    Verdict.UNPROVABLE: "run `composer-obs audit` with credentials that may list and read",
    Verdict.NO_FILE: "write the file before its upload is asked for",
    Verdict.PRESENT: "run `composer-obs audit --download` to compare the bytes",
}


def findings_of(
    ledger: Ledger,
    artifacts: Sequence[Artifact],
    unfinished: Sequence[tuple[Destination, UnfinishedUpload]],
    holds_key: Callable[[Attempt, str], bool],
) -> list[Finding]:
    """Every finding of an audit, errors first."""
    findings = [
        *(finding for artifact in artifacts for finding in _of_artifact(ledger, artifact)),
        *check_shards(ledger, artifacts),
        *check_pointers(ledger, artifacts, holds_key),
        *_collisions(ledger, artifacts),
        *(_unfinished_upload(destination, upload) for destination, upload in unfinished),
        *_ledger_problems(ledger),
    ]
    return sorted(findings, key=lambda finding: finding.level, reverse=True)


def _of_artifact(ledger: Ledger, artifact: Artifact) -> Iterator[Finding]:
    if artifact.verdict is Verdict.PROVEN:
        return
    attempt = artifact.attempt
    where = ArtifactLocation(attempt.uri, attempt.rank)
    if artifact.verdict in RULE_OF:
        fix = _FIXES[artifact.verdict].format(source=attempt.source)
        yield Finding(RULE_OF[artifact.verdict], artifact.reason, where, fix)
    content = ledger.contents.get(attempt.id)
    if content is not None and content.note is not None:
        yield Finding(rules.CONTENT_CHANGED, f"{attempt.source}: {content.note}", where)


def _collisions(ledger: Ledger, artifacts: Sequence[Artifact]) -> Iterator[Finding]:
    names: dict[tuple[str, str], dict[str, Attempt]] = defaultdict(dict)
    standing = {artifact.attempt.uri for artifact in artifacts}
    for attempt in ledger.attempts.values():
        if attempt.destination is not None and attempt.uri in standing:
            names[attempt.destination, attempt.key].setdefault(attempt.artifact, attempt)
    for (_, key), attempts in names.items():
        if len(attempts) > 1:
            last = list(attempts.values())[-1]
            listed = ", ".join(repr(name) for name in attempts)
            yield Finding(
                rules.NAME_COLLISION,
                f"{len(attempts)} artifacts all become {key!r} in this destination: {listed}",
                ArtifactLocation(last.uri, last.rank),
                "rename one of them",
            )


def _unfinished_upload(destination: Destination, upload: UnfinishedUpload) -> Finding:
    return Finding(
        rules.INCOMPLETE_MULTIPART,
        f"a multipart upload that began at {upload.started} was neither completed nor aborted",
        ArtifactLocation(f"{destination.uri}/{upload.key}", 0),
        "abort it, and give the bucket a lifecycle rule that does so by itself",
    )


def _ledger_problems(ledger: Ledger) -> Iterator[Finding]:
    for problem in ledger.problems:
        torn = problem.reason.startswith("torn")
        yield Finding(
            rules.UNREADABLE_LEDGER,
            problem.reason,
            FileLocation(problem.file, problem.line),
            severity=Severity.INFO if torn else None,
        )
    if ledger.newest_version > SCHEMA_VERSION:
        yield Finding(
            rules.UNREADABLE_LEDGER,
            f"written in schema version {ledger.newest_version}; this is version {SCHEMA_VERSION}, "
            "so parts of it may be passed over",
            FileLocation("ledger", 1),
            "pip install --upgrade composer-obs",
        )
