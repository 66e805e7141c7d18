"""A list of SHA-256 sums that ``sha256sum -c`` accepts, for what an audit has proven.

A sum is never taken on trust: it comes from the ledger, else from the local file or from the
object's own bytes, and these are compared with the recorded checksum in the same pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from composer_obs.redaction import redact
from composer_obs.uploads.artifacts import Artifact
from composer_obs.uploads.checksums import Digest, DigestPlan, MissingChecksumLibraryError
from composer_obs.uploads.ledger import Attempt, Content, Destination, Ledger
from composer_obs.uploads.parallel import run_parallel
from composer_obs.uploads.reread import read_back, read_source
from composer_obs.uploads.stores.base import Store, StoreError
from composer_obs.uploads.verdicts import Verdict

__all__ = ["Manifest", "make_manifest", "manifest_line"]

_KIND = "sha256"


@dataclass(slots=True)
class Manifest:
    """The sums, and what has none.

    Args:
        lines (list[bytes]): One an object, in the order of their names.
        problems (dict[str, str]): URI of each proven artifact that has no line, and why.
    """

    lines: list[bytes] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)


def manifest_line(sha256: bytes, name: str) -> bytes:
    r"""A line in the format of GNU coreutils.

    Args:
        sha256 (bytes): The sum.
        name (str): Path that the file has below the folder where ``sha256sum -c`` is started.

    Example:
        >>> manifest_line(bytes(32), "a\nb")[:3] + manifest_line(bytes(32), "a\nb")[-7:]
        b'\\00  a\\nb\n'

    See Also:
        GNU coreutils manual, "cksum output modes": a name with a backslash, line feed or carriage
        return is escaped, and a backslash at the beginning of the line says so.
    """
    if name.startswith("/"):
        name = f".{name}"  # An object key may begin with a slash; it stays below the folder.
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != name else ""
    return f"{mark}{sha256.hex()}  {escaped}\n".encode(errors="surrogateescape")


def make_manifest(
    ledger: Ledger,
    artifacts: Sequence[Artifact],
    open_store: Callable[[Destination], Store],
    *,
    jobs: int = 16,
) -> Manifest:
    """SHA-256 sums of every proven artifact, named by their object keys.

    Args:
        ledger (Ledger): The ledger that was audited.
        artifacts (Sequence[Artifact]): What the audit said; only proven ones are listed.
        open_store (Callable): Opens the store of a destination.
        jobs (int): Files at a time. Default: ``16``.
    """
    objects: dict[str, list[Attempt]] = defaultdict(list)
    for artifact in artifacts:
        if artifact.verdict is Verdict.PROVEN:
            objects[artifact.attempt.uri].append(artifact.attempt)
    stores: dict[str, Store | StoreError] = {}
    for attempts in objects.values():
        destination = ledger.destinations[str(attempts[0].destination)]
        if destination.id not in stores:
            stores[destination.id] = _open(open_store, destination)

    def sum_of(uri: str) -> bytes | str:
        attempts = objects[uri]
        for attempt in attempts:
            content = ledger.contents.get(attempt.id)
            if content is not None and (found := _from_source(attempt, content)) is not None:
                return found
        store = stores[str(attempts[0].destination)]
        return _from_store(store, attempts[0], ledger.contents.get(attempts[0].id))

    try:
        return _collect(objects, run_parallel(sum_of, objects, jobs=jobs))
    finally:
        for store in stores.values():
            if isinstance(store, Store):
                store.close()


def _collect(objects: dict[str, list[Attempt]], sums: dict[str, bytes | str]) -> Manifest:
    manifest = Manifest()
    named: dict[str, tuple[str, bytes]] = {}
    for uri, attempts in objects.items():
        found, key = sums[uri], attempts[0].key
        if isinstance(found, str):
            manifest.problems[uri] = found
        elif named.setdefault(key, (uri, found))[1] != found:
            manifest.problems[uri] = f"{named[key][0]} has the same name and other content"
    for key, (uri, found) in sorted(named.items()):
        try:
            manifest.lines.append(manifest_line(found, key))
        except UnicodeEncodeError:
            manifest.problems[uri] = "no file can have this name"
    return manifest


def _open(open_store: Callable[[Destination], Store], destination: Destination) -> Store | StoreError:
    try:
        return open_store(destination)
    except StoreError as error:
        return error


def _from_source(attempt: Attempt, content: Content) -> bytes | None:
    if (recorded := content.digests.get(_KIND)) is not None:
        return recorded.full
    for kind, digest in content.digests.items():
        try:
            digests = read_source(attempt, DigestPlan((_KIND, kind)))
        except MissingChecksumLibraryError:
            continue
        if digests is None:
            return None
        if _agree(digests[kind], digest):
            return digests[_KIND].full
    return None


def _from_store(store: Store | StoreError, attempt: Attempt, content: Content | None) -> bytes | str:
    if isinstance(store, StoreError):
        return str(store)
    known = {} if content is None else content.digests
    for kind in (*known, _KIND):
        try:
            digests = read_back(store, attempt.key, DigestPlan(tuple({_KIND, kind})))
        except MissingChecksumLibraryError:
            continue
        except StoreError as error:
            return str(error)
        except Exception as error:  # a fault in another package's store
            return redact(f"{type(error).__name__}: {error}")
        if digests[_KIND].size != attempt.size or (kind in known and not _agree(digests[kind], known[kind])):
            return "what the store sends is not what was proven"
        return digests[_KIND].full
    return "no checksum of it can be computed here"


def _agree(one: Digest, other: Digest) -> bool:
    return (one.full, one.size) == (other.full, other.size)
