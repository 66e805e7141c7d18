"""PH50x: buckets, keys and folders."""

from __future__ import annotations

import re
from collections.abc import Iterator

from composer_obs.findings import Severity
from composer_obs.placeholders.calls import HOLE, Call, Text
from composer_obs.placeholders.checks import Effect, Problem, at_call, at_use, edit, on_run, on_template
from composer_obs.placeholders.fixes import Edit
from composer_obs.placeholders.grammar import parse
from composer_obs.placeholders.parameter import PLACEHOLDERS, TIME, Kind
from composer_obs.placeholders.uri import URI, parse_uri
from composer_obs.placeholders.uses import Run, TemplateUse, parameter_of, text_of

__all__ = ["CHECKS"]

_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def _uri(use: TemplateUse) -> URI | None:
    """The URI that Composer takes the template for; ``None`` where it takes none, or cannot."""
    if not use.parameter.uri or use.template.startswith(HOLE):
        return None
    try:
        return parse_uri(use.template)
    except ValueError:
        return None


@on_template(
    "PH501",
    "unsupported-scheme",
    Severity.ERROR,
    "Composer raises NotImplementedError for URI schemes that it does not know, when the Trainer is made. A "
    "colon in a local path makes a scheme of what stands before it. Schemes that you have registered with "
    "Composer can be listed under `schemes` in [tool.composer_obs.lint].",
    bad='Trainer(save_folder="hf://user/model")',
    good='Trainer(save_folder="s3://bucket/{run_name}/checkpoints")',
)
def unsupported_scheme(use: TemplateUse) -> Iterator[Problem]:
    uri = _uri(use)
    if uri is None or not uri.scheme or uri.scheme in use.run.schemes(use.parameter.kind):
        return
    end = use.template.index(":") + 1
    if "://" not in use.template:
        fix = "a colon before the first slash makes this a URI; write ./ before it"
    else:
        fix = f"known schemes: {', '.join(sorted(use.run.schemes(use.parameter.kind)))}"
    yield at_use(use, f"Composer has no store for the scheme {uri.scheme!r}", (0, end), fix=fix)


@on_template(
    "PH502",
    "uri-where-key-expected",
    Severity.ERROR,
    "A path or an object key is expected here, so a URI is taken as one: it makes a local folder called "
    "'s3:', or an object key that begins with 's3://'.",
    bad='FileLogger(filename="s3://bucket/{run_name}/log-rank{rank}.txt")',
    good='FileLogger(filename="log-rank{rank}.txt", remote_file_name="{run_name}/log-rank{rank}.txt")',
)
def uri_where_key_expected(use: TemplateUse) -> Iterator[Problem]:
    kinds = {Kind.FOLDER, Kind.FILE, Kind.KEY, Kind.KEY_FOLDER}
    if use.parameter.kind not in kinds or use.parameter.uri or not (found := _HAS_SCHEME.match(use.template)):
        return
    what = "an object key" if use.parameter.kind in {Kind.KEY, Kind.KEY_FOLDER} else "a local path"
    yield at_use(
        use,
        f"{use.parameter} is {what}, not a URI",
        (0, found.end()),
        fix="leave the scheme and the bucket out; the uploader knows them",
    )


@on_template(
    "PH503",
    "placeholder-in-bucket",
    Severity.ERROR,
    "The name of the bucket is read before anything is formatted: the store is asked for a bucket that is "
    "literally called 'my-bucket-{run_name}'.",
    bad='RemoteUploaderDownloader(bucket_uri="s3://my-bucket-{run_name}")',
    good='RemoteUploaderDownloader(bucket_uri="s3://my-bucket")',
)
def placeholder_in_bucket(use: TemplateUse) -> Iterator[Problem]:
    uri = _uri(use)
    if uri is not None and uri.scheme and set("{}") & set(uri.bucket):
        start = max(use.template.find("//"), 0) + 2
        yield at_use(
            use,
            f"the bucket's name is never formatted: it stays {uri.bucket.replace(HOLE, '…')!r}",
            (start, start + len(uri.bucket)),
            fix="put the placeholder behind the bucket's name",
            effect=Effect.STAYS,
        )


@on_template(
    "PH504",
    "uri-truncated-by-parser",
    Severity.ERROR,
    "Composer parses the text as a URI, local paths too. What follows '#' or '?' is dropped without a word, "
    "so '/data/run#3/{run_name}' becomes '/data/run' for all runs; 's3:/bucket/x' has no bucket at all.",
    bad='Trainer(save_folder="/data/run#3/{run_name}")',
    good='Trainer(save_folder="/data/run-3/{run_name}")',
)
def uri_truncated_by_parser(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.uri and not use.template.startswith(HOLE):
        try:
            parse_uri(use.template)
        except ValueError as error:
            yield at_use(use, f"Composer cannot parse it as a URI: {error}", fix="leave the brackets out")
            return
    uri = _uri(use)
    # A query belongs to a web address.
    if uri is None or uri.scheme in {"http", "https"}:
        return
    if uri.dropped:
        start = max(use.template.find(uri.dropped[0]), 0)
        yield at_use(
            use,
            f"Composer drops {uri.dropped.replace(HOLE, '…')!r}, which looks like the end of a URI",
            (start, start + 1),
            fix="leave '#', '?', ';' and '@' out of paths",
        )
    elif uri.scheme in {"s3", "gs", "oci", "azure"} and not uri.bucket:
        yield at_use(use, "the URI names no bucket", fix=f"write {uri.scheme}:// with two slashes")


@on_run(
    "PH505",
    "merged-trace-upload-path",
    Severity.ERROR,
    "JSONTraceHandler uploads the merged trace from a local path that equals its *remote* name, so unless "
    "both are the same it looks for a file that is not there: training ends, or the trace never arrives.",
    bad='JSONTraceHandler(folder="out/{run_name}/traces")',
    good='JSONTraceHandler(folder="out/{run_name}/traces", '
    'merged_trace_remote_file_name="out/{run_name}/traces/merged_trace.json")',
    fix="safe",
)
def merged_trace_upload_path(run: Run) -> Iterator[Problem]:
    if run.uploads is False:
        return
    for call in run.calls:
        if call.name != "JSONTraceHandler":
            continue
        folder, name = text_of(call, "folder"), text_of(call, "merged_trace_filename")
        remote = text_of(call, "merged_trace_remote_file_name")
        if folder is None or name is None or remote is None:
            continue
        names = {field for field, _ in parse(folder.value).names()}
        if names & TIME or names - PLACEHOLDERS:
            continue  # The folder is not what was meant, which PH101 and PH102 say.
        local = f"{folder.value.rstrip('/')}/{name.value}"
        key = parse_uri(remote.value).path if "://" in remote.value else remote.value
        if local == key or HOLE in key:
            continue
        argument = next(
            (
                a
                for a in ("merged_trace_remote_file_name", "folder", "merged_trace_filename")
                if a in call.arguments
            ),
            None,
        )
        written = call.arguments.get(argument or "")
        if argument is None or not isinstance(written, Text):
            continue
        parameter = parameter_of(call, argument)
        assert parameter is not None
        yield at_use(
            TemplateUse(parameter, written, call, run),
            f"the merged trace is written to {local.replace(HOLE, '…')!r} and uploaded from {key!r}",
            fix=f"pass merged_trace_remote_file_name={local.replace(HOLE, '…')!r}, or None",
            edits=(_same_path(call, folder, name, remote, local),),
        )


def _same_path(call: Call, folder: Text, name: Text, remote: Text, local: str) -> Edit | None:
    """Make the remote name what the local path is."""
    if remote.span is not None and remote.known and "://" not in remote.value and HOLE not in local:
        return edit(remote, 0, len(remote.value), local)
    if remote.span is not None or not (folder.known and name.known) or not local.isprintable():
        return None
    key = call.keys.get("folder")
    # A keyword can always be put before another one; the key of a dictionary has quotes around it.
    if key is None or key[1] - key[0] != len("folder") or set("\"'\\") & set(local):
        return None
    return Edit(key[0], key[0], f'merged_trace_remote_file_name="{local}", ')


@on_run(
    "PH506",
    "remote-folder-mismatch",
    Severity.WARNING,
    "CheckpointSaver takes the bucket from its folder and nothing else: the path behind it has no effect on "
    "object keys, which follow remote_file_name.",
    bad='CheckpointSaver(folder="s3://bucket/mine/{run_name}/checkpoints")',
    good='CheckpointSaver(folder="s3://bucket/mine/{run_name}/checkpoints", '
    'remote_file_name="mine/{run_name}/checkpoints/ep{epoch}-ba{batch}-rank{rank}.pt", '
    'latest_remote_file_name="mine/{run_name}/checkpoints/latest-rank{rank}.pt")',
)
def remote_folder_mismatch(run: Run) -> Iterator[Problem]:
    for call in run.calls:
        folder = call.arguments.get("folder")
        if (
            call.name != "CheckpointSaver"
            or not isinstance(folder, Text)
            or not _HAS_SCHEME.match(folder.value)
        ):
            continue
        try:
            path = parse_uri(folder.value).path.rstrip("/")
        except ValueError:
            continue
        for name in ("remote_file_name", "latest_remote_file_name"):
            key = text_of(call, name)
            if key is None or not path or key.value.lstrip("/").startswith(f"{path}/"):
                continue
            yield at_call(
                call,
                f"objects go to {key.value.replace(HOLE, '…')!r}, not below {path.replace(HOLE, '…')!r}",
                name if name in call.arguments else "folder",
                fix=f"begin {name} with the folder's path, or use Trainer(save_folder=…)",
            )
            break


@on_template(
    "PH507",
    "remote-is-a-folder",
    Severity.WARNING,
    "This remote name is a folder, to which the local files' names are added; it is formatted without "
    "training time. A name of a file in it becomes a folder of that name, and {batch} stays literal.",
    bad='MemorySnapshot(remote_file_name="{run_name}/ba{batch}.memory_snapshot")',
    good='MemorySnapshot(remote_file_name="{run_name}/memory_snapshots")',
)
def remote_is_a_folder(use: TemplateUse) -> Iterator[Problem]:
    if use.parameter.kind is not Kind.KEY_FOLDER or use.parsed.fault is not None:
        return
    time = next((field for name, field in use.parsed.names() if name in TIME and not field.has_hole), None)
    base = use.template.rsplit("/", 1)[-1]
    if time is not None:
        yield at_use(
            use,
            f"{{{time.name}}} stays in it: this is a folder, formatted without training time",
            time,
            fix="put it into filename",
            effect=Effect.STAYS,
        )
    elif re.search(r"\.[A-Za-z_]+$", base):
        yield at_use(use, f"{base!r} looks like a file, but becomes a folder", fix="name a folder")


CHECKS = (
    unsupported_scheme,
    uri_where_key_expected,
    placeholder_in_bucket,
    uri_truncated_by_parser,
    merged_trace_upload_path,
    remote_folder_mismatch,
    remote_is_a_folder,
)
