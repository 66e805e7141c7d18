"""Hold a file's content as it was when its upload was asked for, and read it later.

The training thread opens the file and takes its size and identity: microseconds at any size, and
no byte is copied. The open descriptor keeps the content even if the name is removed. A background
thread reads it and then looks whether the file was changed in place meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from dataclasses import dataclass

from composer_obs.uploads.checkpoints import shards_in_metadata
from composer_obs.uploads.checksums import DigestPlan, compute_digests
from composer_obs.uploads.ledger import Content, Role

__all__ = ["HeldFile", "read_content"]

# Descriptors are a shared and bounded good of the process; beyond these a file is opened again by
# name, and its identity is compared.
_DESCRIPTORS = threading.BoundedSemaphore(128)
# A pointer is one key; a .metadata of a sharded checkpoint lists its files.
_LARGEST_POINTER = 4096
_LARGEST_METADATA = 256 << 20


@dataclass(slots=True)
class HeldFile:
    """A local file at one moment.

    Args:
        path (str): Where it is.
        size, mtime_ns, inode (int): Its identity.
        descriptor (int, optional): Open for reading; ``None`` if too many are open already.
        is_ours (bool): Nobody writes to it any more (a staged copy).
    """

    path: str
    size: int
    mtime_ns: int
    inode: int
    descriptor: int | None = None
    is_ours: bool = False

    @classmethod
    def open(cls, path: str, *, is_ours: bool = False) -> HeldFile:
        """Take hold of a file.

        Raises:
            OSError: There is no such file, or it is a folder, a pipe or a device.
        """
        descriptor: int | None = None
        if _DESCRIPTORS.acquire(blocking=False):
            try:
                # O_NONBLOCK: to open a named pipe that nobody writes to would wait for ever.
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError:
                # Not there, or not readable, or the process has no descriptor left: the name may do.
                _DESCRIPTORS.release()
        status = os.stat(path) if descriptor is None else os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            if descriptor is not None:
                os.close(descriptor)
                _DESCRIPTORS.release()
            raise OSError(errno.EINVAL, "not a regular file", path)
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino, descriptor, is_ours)

    def is_unchanged(self) -> bool:
        """Whether the held content is still what it was (never whether the name still exists)."""
        try:
            status = os.stat(self.path) if self.descriptor is None else os.fstat(self.descriptor)
        except OSError:
            return False
        return self._identity(status) == (self.size, self.mtime_ns, self.inode)

    def close(self) -> None:
        """Let go of the descriptor; the second call does nothing."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
            _DESCRIPTORS.release()

    @staticmethod
    def _identity(status: os.stat_result) -> tuple[int, int, int]:
        return status.st_size, status.st_mtime_ns, status.st_ino


def read_content(held: HeldFile, plan: DigestPlan, role: Role) -> Content:
    """Read what a file held. Never raises: what went wrong is the content's ``note``.

    Args:
        held (HeldFile): The file; it is closed afterwards.
        plan (DigestPlan): Which checksums to take.
        role (Role): Pointers are kept as text, and a sharded checkpoint's metadata is searched
            for its files' names.
    """
    try:
        return _read(held, plan, role)
    except FileNotFoundError:
        return Content(held.size, note="the file was removed before its content could be read")
    except Exception as error:  # the thread that reads all files must not end with one
        return Content(held.size, note=f"its content could not be read: {type(error).__name__}: {error}")
    finally:
        held.close()


def _read(held: HeldFile, plan: DigestPlan, role: Role) -> Content:
    if held.descriptor is None:
        descriptor = os.open(held.path, os.O_RDONLY | os.O_CLOEXEC)
        owned = True
    else:
        descriptor, owned = held.descriptor, False
    try:
        if owned and not held.is_unchanged():
            return Content(held.size, note="the file was changed before its content could be read")
        offset = 0

        def read_into(buffer: memoryview) -> int:
            nonlocal offset
            count = os.preadv(descriptor, [buffer], offset)
            offset += count
            return count

        digests = compute_digests(read_into, plan, limit=held.size)
        text = None
        shards: tuple[str, ...] = ()
        if role == "pointer" and held.size <= _LARGEST_POINTER:
            text = os.pread(descriptor, held.size, 0).decode("utf-8", "replace")
        elif role == "metadata" and held.size <= _LARGEST_METADATA:
            shards = shards_in_metadata(os.pread(descriptor, held.size, 0))
        note = None
        if not held.is_ours and not held.is_unchanged():
            # Growth leaves the first bytes as they were, so a checksum that agrees still proves;
            # one that differs does not condemn. `note` says that it is uncertain.
            note = "the file was written to while its content was read"
        return Content(offset, digests, note, text, shards)
    finally:
        if owned:
            os.close(descriptor)
