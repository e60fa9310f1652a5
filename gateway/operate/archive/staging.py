"""What of a data directory a backup holds, and the folder in which its copies wait.

Databases are copied as of one moment; keys, tokens and secrets are small files that change by hand
alone. Left out is what belongs to this machine or this run (`lock`, `admin-address`, `reserve`),
what a restore makes again (`spool.summary`, `state.summary`) and `quarantine/`.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gateway.access.key_files import INBOUND, OF_SERVICE
from gateway.common.storage.private_files import write_private
from spool.data_dir import DATABASE, make_private_dir
from spool.errors import SpoolError
from spool.store import Snapshots
from spool.system.locks import hold_folder, released_folder

CONTROL: Final = INBOUND.database
SERVICE: Final = OF_SERVICE.database
DATABASES: Final = (DATABASE, CONTROL, SERVICE)
SECRETS: Final = ("*-token", "*-secret", "*-key", "*.key", "*.pepper")
"""Names of the small files."""
FOLDERS: Final = ("", "service")
MAX_SECRET_BYTES: Final = 64 << 10
PREFIX: Final = ".backup-"


def secret_files(data_dir: Path) -> list[str]:
    """Names of the keys, tokens and secrets in *data_dir*, sorted."""
    found = {
        path.relative_to(data_dir).as_posix()
        for folder in FOLDERS
        for pattern in SECRETS
        for path in (data_dir / folder).glob(pattern)
        if _is_small_file(path)
    }
    return sorted(found)


def stage(snapshots: Snapshots, data_dir: Path, work_dir: Path, *, keep_free_bytes: int) -> Path:
    """Write the *snapshots* and the small files of *data_dir* into a new folder in *work_dir*; the
    folder. Raises SpoolError; nothing is left then.
    """
    folder = make_folder(work_dir)
    try:
        with held(folder):
            snapshots.copy(folder, keep_free_bytes=keep_free_bytes)
            for name in secret_files(data_dir):
                make_private_dir((folder / name).parent)
                write_private(folder / name, (data_dir / name).read_bytes())
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise SpoolError(f"the copies could not be written: {error}") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def make_folder(work_dir: Path) -> Path:
    """A new private folder, after those were removed that ended backups left. Raises SpoolError."""
    if not work_dir.is_dir():
        raise SpoolError(f"{work_dir} is not a directory")
    remove_left(work_dir)
    folder = work_dir / f"{PREFIX}{secrets.token_hex(6)}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise SpoolError(f"{work_dir} cannot be written to: {error.strerror}") from error
    return folder


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep *folder* from `remove_left` until the end of the block. Raises OSError."""
    descriptor = hold_folder(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def remove_left(work_dir: Path) -> None:
    """Delete the folders of backups that were killed, as far as this user may."""
    for folder in work_dir.glob(f"{PREFIX}*"):
        with suppress(OSError), released_folder(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_small_file(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and status.st_size <= MAX_SECRET_BYTES
