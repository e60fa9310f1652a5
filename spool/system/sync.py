"""Forcing files to the disk itself, on each system.

On macOS `fsync` only hands the data to the drive, which may keep it in its cache; `F_FULLFSYNC`
waits for the platter, where the file system has it (SQLite: `PRAGMA fullfsync`). Windows flushes
files that are open for writing, and has no flush of a folder: NTFS keeps its own journal of names.
"""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

_NO_FULL_SYNC: Final = {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY}
"""What a file system answers that has no `F_FULLFSYNC`: network volumes, FAT."""


def full_sync() -> Callable[[int], None] | None:
    """The call that empties the drive's cache, where `fsync` does not; None elsewhere."""
    if sys.platform == "win32":
        return None
    import fcntl  # noqa: PLC0415 - Windows has none

    command: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if command is None:
        return None

    def sync(descriptor: int) -> None:
        try:
            fcntl.fcntl(descriptor, command)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
            os.fsync(descriptor)

    return sync


_full_sync: Final = full_sync()


def sync_file(descriptor: int) -> None:
    """Data and metadata of an open file. Raises OSError."""
    (os.fsync if _full_sync is None else _full_sync)(descriptor)


def sync_data(descriptor: int) -> None:
    """Data of an open file, and its length. Raises OSError."""
    if _full_sync is not None:
        _full_sync(descriptor)
    elif sys.platform != "linux":
        os.fsync(descriptor)
    else:
        os.fdatasync(descriptor)


def sync_path(path: Path) -> None:
    """A file, or the names in a folder. Raises OSError."""
    if sys.platform == "win32":
        if path.is_dir():
            return
        descriptor = os.open(path, os.O_RDWR)
    else:
        descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
