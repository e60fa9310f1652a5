"""The data directory: its files, and who may enter it."""

import os
import stat
from pathlib import Path

from spool.data_access import refuse_no_access
from spool.errors import SpoolError
from spool.system.files import BINARY
from spool.system.users import HAS_MODES, is_superuser, user_id

OWNER_ONLY = 0o600
DATABASE = "spool.db"
LOCK = "lock"
RESERVE = "reserve"
GATEWAY_FILES = (DATABASE, LOCK, "control.db", "service/service.db")
"""One of these is in every data directory, also where one was restored in part."""
RESTORING = ".unfinished-restore"
"""A folder that is there while a restore is under way, or was interrupted."""
LOST_AND_FOUND = "lost+found"
"""Of every new disk."""
MOVED = ".moved"
"""A file that is there once what the directory holds was moved; it states where."""


def make_private_dir(path: Path) -> None:
    """Make *path* and its missing parents, 0700."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def make_data_dir(path: Path) -> None:
    """Make the data directory *path*, or make an existing one private, 0700.

    1. A directory that only its owner can enter is taken as it is.
    2. A directory with the sticky bit (`/tmp`), or of another user, is refused.
    3. So is one that others can enter and that holds files, but none of a gateway.

    Raises SpoolError for a directory that is refused, and for one that this user cannot use, with
    the command to type.
    """
    if not refuse_data_dir(path):
        make_private_dir(path)


def refuse_data_dir(path: Path) -> bool:
    """Whether *path* is a data directory as it is; False where it is to be made, or made private.

    Changes nothing; raises SpoolError as `make_data_dir`.
    """
    if not _is_there(path):
        refuse_no_access(path)
        return False
    status = path.stat()
    if not HAS_MODES or not status.st_mode & 0o077 or _is_closed(path, status):
        refuse_no_access(path)
        return True
    fault = _why_not_ours(path, status)
    if fault is not None:
        raise SpoolError(
            f"{path}: others can enter this folder, and {fault}, so its rights are not changed:"
            " name a folder of the gateway's own"
        )
    refuse_no_access(path)
    return False


def _is_there(path: Path) -> bool:
    try:
        return path.is_dir()
    except PermissionError:  # of a folder above it
        return False


def _is_closed(path: Path, status: os.stat_result) -> bool:
    """Whether it is a gateway's own, of another user, or its owner is kept out: rights to put
    right, and no folder named by mistake.
    """
    if status.st_mode & stat.S_ISVTX:
        return False
    if status.st_uid == user_id():
        return status.st_mode & stat.S_IRWXU != stat.S_IRWXU
    return not is_superuser() and os.access(path, os.R_OK | os.X_OK) and _holds_gateway(path)


def _holds_gateway(path: Path) -> bool:
    return any((path / name).is_file() for name in GATEWAY_FILES)


def _why_not_ours(path: Path, status: os.stat_result) -> str | None:
    if status.st_mode & stat.S_ISVTX:
        return "many use it (it has the sticky bit)"
    if status.st_uid != user_id():
        return "it belongs to another user"
    is_used = any(found.name != LOST_AND_FOUND for found in path.iterdir())
    if is_used and not _holds_gateway(path):
        return "it holds other files, and none of a gateway"
    return None


def refuse_half_restored(path: Path) -> None:
    """Raises SpoolError where a restore did not end in the data directory *path*."""
    if (path / RESTORING).exists():
        raise SpoolError(
            f"{path}: a restore is under way or was interrupted: delete what is in there, and restore again"
        )


def moved_to(path: Path) -> str | None:
    """Where what the data directory *path* holds was moved; None where it is here."""
    mark = path / MOVED
    return mark.read_text("utf-8").strip() if mark.exists() else None


def refuse_moved(path: Path) -> None:
    """Raises SpoolError where what the data directory *path* holds was moved."""
    if (where := moved_to(path)) is not None:
        raise SpoolError(
            f"{path}: what it holds was moved to the {where}, and would be counted and sent twice: start gateways of"
            f" that cell (store.type: postgres). If the cell is deleted and was never used, delete {MOVED} to go on here"
        )


def touch_private(path: Path) -> None:
    """Make the file *path* if it is missing, 0600, before anything can write to it."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | BINARY, OWNER_ONLY))
    if stat.S_IMODE(path.stat().st_mode) != OWNER_ONLY:
        path.chmod(OWNER_ONLY)
