"""The data directory: its files, and who may enter it."""

import os
import stat
from pathlib import Path

from spool.errors import SpoolError

DATABASE = "spool.db"
LOCK = "lock"
GATEWAY_FILES = (DATABASE, LOCK, "control.db", "service/service.db")
"""One of these is in every data directory, also where one was restored in part."""
LOST_AND_FOUND = "lost+found"
"""Of every new disk."""


def make_private_dir(path: Path) -> None:
    """Make *path* and its missing parents, 0700."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def make_data_dir(path: Path) -> None:
    """Make the data directory *path*, or make an existing one private, 0700.

    1. A directory that only its owner can enter is taken as it is.
    2. A directory with the sticky bit (`/tmp`), or of another user, is refused.
    3. So is one that others can enter and that holds files, but none of a gateway.

    Raises SpoolError for a directory that is refused.
    """
    if path.is_dir():
        status = path.stat()
        if not status.st_mode & 0o077 and status.st_mode & stat.S_IRWXU == stat.S_IRWXU:
            return
        fault = _why_not_ours(path, status)
        if fault is not None:
            raise SpoolError(
                f"{path}: others can enter this folder, and {fault}, so its rights are not changed:"
                " name a folder of the gateway's own"
            )
    make_private_dir(path)


def _why_not_ours(path: Path, status: os.stat_result) -> str | None:
    if status.st_mode & stat.S_ISVTX:
        return "many use it (it has the sticky bit)"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    is_used = any(found.name != LOST_AND_FOUND for found in path.iterdir())
    if is_used and not any((path / name).is_file() for name in GATEWAY_FILES):
        return "it holds other files, and none of a gateway"
    return None


def touch_private(path: Path) -> None:
    """Make the file *path* if it is missing, 0600, before anything can write to it."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
