"""Calls on files that systems have under different names, or not at all."""

import os
import shutil
import sys
from pathlib import Path
from typing import BinaryIO, Final

BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""For `os.open`: Windows would change line ends."""
_PIECE: Final = bytes(1 << 20)


def free_bytes(path: Path) -> int:
    """Of the disk under *path*, for this user. Raises OSError."""
    return shutil.disk_usage(path).free


def is_read_only(path: Path) -> bool:
    """Whether the file system of *path* is mounted read-only; False where the system does not
    report it.
    """
    if sys.platform == "win32":
        return False
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def read_at(descriptor: int, n_bytes: int, position: int) -> bytes:
    """What stands at *position*; the descriptor's own position may move."""
    if sys.platform == "win32":
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, n_bytes)
    return os.pread(descriptor, n_bytes, position)


def allocate(file: BinaryIO, size_bytes: int) -> None:
    """Take *size_bytes* of the disk for *file*, which is at most as long. Raises OSError when there
    is no room.
    """
    if sys.platform != "linux":
        _write_up_to(file, size_bytes)
        return
    os.posix_fallocate(file.fileno(), 0, size_bytes)


def _write_up_to(file: BinaryIO, size_bytes: int) -> None:
    left_bytes = size_bytes - file.seek(0, os.SEEK_END)
    while left_bytes > 0:
        left_bytes -= file.write(_PIECE[:left_bytes])
    file.flush()


def allocated_bytes(path: Path) -> int:
    """What a file takes of the disk. Raises OSError."""
    status = path.stat()
    if sys.platform == "win32":
        return status.st_size
    return status.st_blocks * 512
