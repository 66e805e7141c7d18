"""What a checkpoint needs beyond its own bytes: all of its shards, and a pointer that finds it."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from composer_obs.findings import ArtifactLocation, Finding
from composer_obs.uploads import rules
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.ledger import Attempt, Ledger, Role
from composer_obs.uploads.verdicts import Verdict

__all__ = ["check_pointers", "check_shards", "role_of", "shards_in_metadata"]

# File names of torch.distributed.checkpoint: __{rank}_{number}.distcp beside one .metadata.
_SHARD = re.compile(r"__(\d+)_\d+\.distcp$")
_SHARD_IN_METADATA = re.compile(rb"__\d+_\d+\.distcp")
_METADATA = ".metadata"
# Composer's emulated symlink: a text file whose content is the key that it points to.
_POINTER_SUFFIX = ".symlink"


def role_of(key: str, *, from_saver: bool) -> Role:
    """What an object is to the run, by its name and who uploads it.

    Example:
        >>> [
        ...     role_of(k, from_saver=True)
        ...     for k in ("ep1.pt", "latest.pt.symlink", "a/__0_0.distcp", "a/.metadata")
        ... ]
        ['checkpoint', 'pointer', 'shard', 'metadata']
    """
    if key.endswith(_POINTER_SUFFIX):
        return "pointer"
    if _SHARD.search(key):
        return "shard"
    if posixpath.basename(key) == _METADATA:
        return "metadata"
    return "checkpoint" if from_saver else "file"


def shards_in_metadata(data: bytes) -> tuple[str, ...]:
    """File names that a sharded checkpoint's ``.metadata`` lists.

    It is a pickle. Its texts stand in it as they are, so they are found without executing any of it.

    Example:
        >>> import pickle
        >>> shards_in_metadata(pickle.dumps({"w": "__0_0.distcp", "b": "__1_0.distcp", "n": "other"}))
        ('__0_0.distcp', '__1_0.distcp')
    """
    return tuple(sorted({name.decode() for name in _SHARD_IN_METADATA.findall(data)}))


def check_shards(ledger: Ledger, artifacts: Sequence[Artifact]) -> Iterator[Finding]:
    """Sharded checkpoints that lack a shard or their ``.metadata``."""
    folders: dict[tuple[str | None, str], list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        if artifact.attempt.role in ("shard", "metadata"):
            uri_folder = posixpath.dirname(artifact.attempt.uri)
            folders[None, uri_folder].append(artifact)
    for (_, folder), members in folders.items():
        arrived = {posixpath.basename(a.attempt.key) for a in members if _arrived(a)}
        expected = {posixpath.basename(a.attempt.key) for a in members} | {_METADATA}
        for member in members:
            content = ledger.contents.get(member.attempt.id)
            expected |= set(content.shards if content is not None else ())
        ranks = {int(match[1]) for name in expected if (match := _SHARD.fullmatch(name))}
        absent = sorted(expected - arrived)
        if not absent:
            continue
        names = ", ".join(_with_rank(name) for name in absent[:8]) + (", …" if len(absent) > 8 else "")
        yield Finding(
            rules.INCOMPLETE_CHECKPOINT,
            f"the sharded checkpoint of {len(ranks)} ranks lacks {len(absent)} of {len(expected)} files: "
            f"{names}",
            ArtifactLocation(folder, members[0].attempt.rank),
            "upload the named files from the ranks that wrote them, or load an older checkpoint",
        )


def _with_rank(name: str) -> str:
    match = _SHARD.fullmatch(name)
    return f"{name} (rank {match[1]})" if match else name


def check_pointers(
    ledger: Ledger, artifacts: Sequence[Artifact], holds_key: Callable[[Attempt, str], bool]
) -> Iterator[Finding]:
    """``latest`` pointers that are missing, point at nothing, or at something older."""
    newest = _newest_checkpoints(artifacts)
    pointers = [artifact for artifact in artifacts if artifact.attempt.role == "pointer"]
    # What a pointer may name: a checkpoint, or the folder of a sharded one.
    named: dict[str, list[Artifact]] = defaultdict(list)
    for artifact in artifacts if pointers else ():
        named[artifact.attempt.uri].append(artifact)
        named[posixpath.dirname(artifact.attempt.uri)].append(artifact)
    for pointer in pointers:
        yield from _check_pointer(ledger, pointer, named, newest, holds_key)
    pointed = {posixpath.dirname(pointer.attempt.uri) for pointer in pointers}
    for folder, checkpoint in newest.items():
        key = checkpoint.attempt.key
        wants_pointer = any(s.pointer and key.startswith(s.folder) for s in ledger.savers)
        if wants_pointer and folder not in pointed:
            yield _finding(
                "the newest checkpoint arrived, but no latest pointer was uploaded", checkpoint, None
            )


def _check_pointer(
    ledger: Ledger,
    pointer: Artifact,
    by_uri: Mapping[str, Sequence[Artifact]],
    newest: dict[str, Artifact],
    holds_key: Callable[[Attempt, str], bool],
) -> Iterator[Finding]:
    best = newest.get(posixpath.dirname(pointer.attempt.uri))
    content = ledger.contents.get(pointer.holds or "")
    if content is None or content.text is None:
        if not _arrived(pointer) and pointer.verdict is not Verdict.UNPROVABLE:
            yield _finding("the latest pointer did not arrive", best, pointer)
        return
    prefix = pointer.attempt.key.removesuffix(pointer.attempt.artifact.lstrip("/"))
    target = prefix + content.text.strip()
    named = by_uri.get(pointer.attempt.uri.removesuffix(pointer.attempt.key) + target, ())
    if named and not any(_arrived(a) for a in named):
        yield _finding(f"the latest pointer names {target}, which did not arrive", best, pointer)
    elif not named and not holds_key(pointer.attempt, target):
        yield _finding(f"the latest pointer names {target}, which is not in the store", best, pointer)
    elif named and best is not None and max(a.attempt.batch for a in named) < best.attempt.batch:
        yield _finding(f"the latest pointer names {target}, an older checkpoint", best, pointer)


def _finding(message: str, best: Artifact | None, pointer: Artifact | None) -> Finding:
    about = pointer or best
    assert about is not None  # each caller has one of them
    fix = "no checkpoint in this folder is proven; look for an older one"
    if best is not None:
        path = best.attempt.uri
        if best.attempt.role in ("shard", "metadata"):
            path = posixpath.dirname(path)
        fix = f"resume with load_path={path!r} (batch {best.attempt.batch})"
    return Finding(
        rules.LATEST_POINTER, message, ArtifactLocation(about.attempt.uri, about.attempt.rank), fix
    )


def _newest_checkpoints(artifacts: Sequence[Artifact]) -> dict[str, Artifact]:
    """The newest checkpoint that arrived, for each folder that pointers to it would stand in."""
    newest: dict[str, Artifact] = {}
    for artifact in artifacts:
        attempt = artifact.attempt
        if attempt.role not in ("checkpoint", "shard") or not _arrived(artifact):
            continue
        folder = posixpath.dirname(attempt.uri)
        if attempt.role == "shard":
            folder = posixpath.dirname(folder)
        if folder not in newest or attempt.batch >= newest[folder].attempt.batch:
            newest[folder] = artifact
    return newest


def _arrived(artifact: Artifact) -> bool:
    return artifact.verdict in (Verdict.PROVEN, Verdict.PRESENT)
