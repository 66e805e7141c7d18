"""What Composer uploads to, in the ledger's terms: which store, which key, what it needs to be asked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from composer.loggers import LoggerDestination, NeptuneLogger, RemoteUploaderDownloader, WandBLogger
from composer.utils.remote_uploader import RemoteUploader

from composer_obs.redaction import redact_mapping
from composer_obs.uploads.ledger import Destination
from composer_obs.uploads.stores import open_store
from composer_obs.uploads.stores.base import Store
from composer_obs.uploads.stores.s3 import S3Store

__all__ = ["Route", "is_uploading", "route_to"]

# What Weights & Biases allows in an artifact's name; WandBLogger turns all else into a dot.
_NOT_FOR_WANDB = re.compile(r"[^a-zA-Z0-9-_\.]")


@dataclass(frozen=True, slots=True)
class Route:
    """A way out of the process.

    Args:
        destination (Destination): For the ledger.
        uploader_key_of (Callable[[str], str]): From an artifact's name to the uploader's name of it.
        prefix (str): What the store puts in front of the uploader's names.
        uri_of (Callable[[str], str]): From a key to what a person calls it.
        open (Callable[[], Store]): The store, with credentials that never leave the process.
    """

    destination: Destination
    uploader_key_of: Callable[[str], str]
    prefix: str
    uri_of: Callable[[str], str]
    open: Callable[[], Store]


def is_uploading(destination: LoggerDestination) -> bool:
    """Whether files given to this destination go anywhere.

    ``can_upload_files`` alone does not tell: a WandBLogger with ``log_artifacts=False`` says yes
    and drops them.
    """
    if isinstance(destination, WandBLogger):
        return bool(destination._enabled and destination._log_artifacts)
    return destination.can_upload_files()


def route_to(uploader: LoggerDestination | RemoteUploader) -> Route:
    """How to name and to ask what an uploader sends."""
    if isinstance(uploader, RemoteUploader):
        return _backend(uploader.remote_backend_name, uploader.backend_kwargs, lambda name: name)
    if isinstance(uploader, RemoteUploaderDownloader):
        return _backend(uploader.remote_backend_name, uploader.backend_kwargs, uploader._remote_file_name)
    if isinstance(uploader, WandBLogger):
        return _wandb(uploader)
    name = type(uploader).__name__
    if isinstance(uploader, NeptuneLogger):
        mode = (
            "offline: `neptune sync` sends it" if uploader._mode == "offline" else f"mode {uploader._mode!r}"
        )
        reason = f"Neptune ({mode}) tells no checksum of an uploaded file; look at the run's files there"
        return _unprovable("neptune://run", reason, lambda artifact: artifact)
    reason = f"{name} uploads by itself and offers no way to ask what arrived"
    return _unprovable(f"{name}://run", reason, lambda artifact: artifact)


def _backend(name: str, arguments: Mapping[str, Any], key_of: Callable[[str], str]) -> Route:
    if name in ("s3", "gs"):
        bucket = str(arguments["bucket"]).strip("/")
        prefix = str(arguments.get("prefix") or "").strip("/")
        prefix = f"{prefix}/" if prefix else ""
        if name == "gs":
            destination = Destination("", "gs", f"gs://{bucket}", {"bucket": bucket})
            return _route(destination, key_of, prefix=prefix)
        options = S3Store.options_from_uploader(arguments, os.environ)
        secrets = {k: v for k, v in arguments.items() if k.startswith("aws_") and v is not None}
        return _route(
            Destination("", "s3", f"s3://{bucket}", options),
            key_of,
            prefix=prefix,
            open_=lambda: S3Store.from_options({**options, **secrets}),
        )
    if name == "libcloud" and str(arguments.get("provider")).lower() == "local":
        container = str(arguments["container"])
        folder = str((arguments.get("provider_kwargs") or {}).get("key", "."))
        root = os.path.abspath(os.path.join(folder, container))
        return _route(Destination("", "folder", f"local://{container}", {"root": root}), key_of)
    place = next((arguments[k] for k in ("container", "bucket", "host", "path") if arguments.get(k)), "")
    uri = f"{name}://{str(place).removeprefix(f'{name}://').strip('/')}"
    options = {"backend": name, "kwargs": redact_mapping(arguments)}
    kept = dict(arguments)

    def open_with_secrets() -> Store:
        from composer_obs.uploads.stores.composer import ComposerStore

        return ComposerStore(name, kept)

    # Composer's own classes put their prefix in front by themselves.
    return _route(Destination("", "composer", uri, options), key_of, open_=open_with_secrets)


def _wandb(logger: WandBLogger) -> Route:
    mode = str(os.environ.get("WANDB_MODE") or logger._init_kwargs.get("mode") or "online")
    if mode == "offline":
        reason = "Weights & Biases runs offline: nothing has left this machine; `wandb sync` sends it"
    else:
        reason = (
            f"Weights & Biases ({mode}) is asked by its own client only; compare in the run's Artifacts tab"
        )
    return _unprovable(
        f"wandb://{logger.project or 'run'}", reason, lambda artifact: _NOT_FOR_WANDB.sub(".", artifact)
    )


def _unprovable(uri: str, reason: str, key_of: Callable[[str], str]) -> Route:
    return _route(Destination("", "unprovable", uri, {"reason": reason}), key_of)


def _route(
    destination: Destination,
    key_of: Callable[[str], str],
    *,
    prefix: str = "",
    open_: Callable[[], Store] | None = None,
) -> Route:
    return Route(
        destination,
        uploader_key_of=key_of,
        prefix=prefix,
        uri_of=lambda key: f"{destination.uri}/{key}",
        open=open_ or (lambda: open_store(destination)),
    )
