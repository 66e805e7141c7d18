"""The rules that an upload can break (codes ``UP…``)."""

from __future__ import annotations

from composer_obs.findings import Rule, Severity

__all__ = ["RULES"]

MISSING = Rule(
    "UP001",
    "missing",
    Severity.ERROR,
    "The uploader accepted the file, but the store has no such object. Composer logs 'Finished uploading' "
    "before the upload begins, so its log is no evidence; the first to notice is usually whoever needs the "
    "checkpoint.",
    bad="The log says that ep3-ba300-rank0.pt was uploaded; the bucket does not list it.",
    good="Every announced key is in the store's own listing.",
)
TRUNCATED = Rule(
    "UP002",
    "truncated",
    Severity.ERROR,
    "The object is shorter than the file that was sent, so part of its content is gone.",
    bad="A 4.2 GB checkpoint is 3.9 GB in the bucket.",
    good="Size and checksum in the store are those of the file.",
)
CORRUPT = Rule(
    "UP003",
    "corrupt",
    Severity.ERROR,
    "The object has the right size and other bytes: its checksum differs from that of the file that was "
    "sent.",
    bad="One bit of a 20 MB object differs; loading it gives wrong weights or no error at all.",
    good="The store's checksum equals the one taken from the file.",
)
CLOBBERED = Rule(
    "UP004",
    "clobbered",
    Severity.ERROR,
    "Somebody else's content stands under this key: another rank, another run or another program wrote it "
    "too. Usually a file name lacks {rank} or {run_name}.",
    bad="logger.upload_file('shared.txt', …) on every rank.",
    good="logger.upload_file('shared-rank{rank}.txt', …)",
)
UNROUTED = Rule(
    "UP005",
    "unrouted",
    Severity.WARNING,
    "Something was given to the Logger for upload, but no destination in `loggers` can upload files, so "
    "Composer dropped the request without a word.",
    bad="Trainer(loggers=[FileLogger(), MLFlowLogger()])",
    good="Trainer(loggers=[FileLogger(), RemoteUploaderDownloader('s3://bucket')])",
)
FAILED = Rule(
    "UP006",
    "failed",
    Severity.ERROR,
    "The uploader reported an error, or the worker that held the file died. Composer raises the first such "
    "error at the next batch end, and only warns when no batch follows; everything still queued behind it "
    "is lost.",
    bad="The first of three queued files is refused (PermissionError); the other two are never sent.",
    good="Fix the cause that the evidence names, then upload again from the local copy.",
)
UNFINISHED = Rule(
    "UP007",
    "unfinished",
    Severity.ERROR,
    "The upload was announced, and the process ended or the audit's time ran out before anything was known "
    "of its end; the store does not have this content.",
    bad="kill -9 two seconds after a checkpoint was saved.",
    good="`composer-obs audit` some time later, or an upload by hand from the local copy.",
)
UNPROVABLE = Rule(
    "UP008",
    "unprovable",
    Severity.WARNING,
    "The store could not be asked, or has no way to tell what it holds; the object may well be fine.",
    bad="Credentials that may put objects but not read them back.",
    good="Run `composer-obs audit` with credentials that may list and read.",
)
NO_FILE = Rule(
    "UP009",
    "no-file",
    Severity.ERROR,
    "The local file did not exist when its upload was asked for.",
    bad="logger.upload_file('metrics.json', 'out/metrics.json') before the file is written.",
    good="Write and close the file first.",
)
INCOMPLETE_CHECKPOINT = Rule(
    "UP010",
    "incomplete-checkpoint",
    Severity.ERROR,
    "A sharded checkpoint can be loaded only if its .metadata and every shard that .metadata lists are "
    "there; one is not.",
    bad="ep1-ba100/ holds .metadata and __0_0.distcp, and __1_0.distcp is missing.",
    good="Every file that .metadata lists is in the folder and proven.",
)
LATEST_POINTER = Rule(
    "UP011",
    "latest-pointer",
    Severity.ERROR,
    "Autoresume and load_path follow the `latest` pointer. It is missing, names an object that is not "
    "there, or names an older checkpoint than the newest that arrived; a restart would lose work or fail. "
    "Composer uploads it after a delay of about 30 seconds, so a crash soon after a checkpoint leaves it "
    "behind.",
    bad="ep5-ba500-rank0.pt arrived, latest-rank0.pt.symlink still names ep4-ba400-rank0.pt.",
    good="Pass the checkpoint by name: load_path='s3://bucket/run/ep5-ba500-rank0.pt'.",
)
NAME_COLLISION = Rule(
    "UP012",
    "name-collision",
    Severity.ERROR,
    "Two artifacts become one name in the destination, so the second replaces the first or hides it.",
    bad="Weights & Biases stores run/a/x.pt and run.a/x.pt both as run.a.x.pt.",
    good="Names that still differ when every character but letters, digits, '-', '_' and '.' becomes '.'.",
)
INCOMPLETE_MULTIPART = Rule(
    "UP013",
    "incomplete-multipart",
    Severity.WARNING,
    "A multipart upload was begun under this key and neither completed nor aborted. What it was to bring "
    "is not in the object, and the store charges for the parts until somebody aborts it.",
    bad="A worker is killed in the middle of a 40 GB upload.",
    good="A bucket lifecycle rule that aborts incomplete multipart uploads after some days.",
)
UNREADABLE_LEDGER = Rule(
    "UP014",
    "unreadable-ledger",
    Severity.WARNING,
    "A line of the ledger cannot be used. One torn line at the end is what a killed process leaves; more, "
    "or a newer schema, may hide attempts from the audit.",
    bad="The last line ends in the middle of a word.",
    good="Audit with the version of composer_obs that wrote the ledger, or a newer one.",
)
CONTENT_CHANGED = Rule(
    "UP015",
    "content-changed",
    Severity.WARNING,
    "The local file changed or vanished before its content could be read, so what was sent is not known to "
    "the byte.",
    bad="A file is rewritten in place right after upload_file.",
    good="Write to a new name, then upload; remove it after the run.",
)
SIZE_ONLY = Rule(
    "UP016",
    "size-only",
    Severity.WARNING,
    "The object is there with the right size, but nothing that the store keeps proves its bytes.",
    bad="An SFTP server tells sizes and no checksums.",
    good="`composer-obs audit --download` reads the object back and compares.",
)
LEDGER_NOT_WRITTEN = Rule(
    "UP017",
    "ledger-not-written",
    Severity.ERROR,
    "Lines of the ledger could not be written to the run folder (disk full, folder not writable). What "
    "is written nowhere is unknown to a later audit.",
    bad="The disk that holds the run folder is full.",
    good="COMPOSER_OBS_FOLDER on a disk with room; lines that the disk refused are put beside it.",
)

RULES = (
    MISSING,
    TRUNCATED,
    CORRUPT,
    CLOBBERED,
    UNROUTED,
    FAILED,
    UNFINISHED,
    UNPROVABLE,
    NO_FILE,
    INCOMPLETE_CHECKPOINT,
    LATEST_POINTER,
    NAME_COLLISION,
    INCOMPLETE_MULTIPART,
    UNREADABLE_LEDGER,
    CONTENT_CHANGED,
    SIZE_ONLY,
    LEDGER_NOT_WRITTEN,
)
