"""The exclusive lock on a data directory, where the system has flock.

1. An flock on the directory itself, which no file's removal undoes. A file system that has none
   for directories (NFS) leaves the file's.
2. An flock on its file `lock`, which holds the owner's process id. It keeps out releases that know
   this one alone, and its name is what people look at.
3. No other process has one of the databases open, as far as the system lists locks (Linux): by a
   hard or symbolic link it would be the same file in another directory.

Nothing is written to `lock` before both are held, and only to a file that is ours alone: a symbolic
link is never followed, a file with a second name or of another kind is refused.
"""

import errno
import fcntl
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from spool.data_access import refuse_no_access
from spool.data_dir import DATABASE, LOCK, OWNER_ONLY
from spool.errors import SpoolError, SpoolLocked
from spool.system.locks import is_locked

assert sys.platform != "win32"  # noqa: S101 - for mypy: the calls of this module are not there

OWNER_BYTES = 20
"""A process id and some more: what is read of `lock`."""
DATABASES = (DATABASE, "control.db", "service/service.db")
READS = 5
READ_S = 0.3
"""A command that reads a database of no running gateway is done within some of these."""
ATTEMPTS = 10
"""Opens of a `lock` that is replaced meanwhile."""
LOCKS = Path("/proc/locks")
"""`1: FLOCK ADVISORY WRITE 4711 00:1b:42 0 EOF`: kind, process, device and inode."""
NO_DIRECTORY_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP}
"""What a file system answers that cannot lock a directory."""


class DataLock:
    """Held from the constructor until closed, or until the process ends."""

    def __init__(self, data_dir: Path) -> None:
        """Raises SpoolLocked while another process holds it, SpoolError where it cannot be made,
        also where this user cannot use the directory or a file in it.
        """
        refuse_no_access(data_dir)
        self._data_dir = data_dir
        self.is_lost = False
        """Whether `keep` found the directory in other hands: write nothing there by name."""
        self._file = -1
        try:
            self._folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SpoolError(f"{data_dir}: {error}") from error
        try:
            self._holds_folder = self._lock_folder()
            self._file = self._locked_file()
            refuse_other_users(data_dir)
            self._note_owner()
        except OSError as error:
            self.close()
            raise SpoolError(f"{data_dir / LOCK}: {error.strerror}") from error
        except SpoolError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release both; again is nothing."""
        for descriptor in (self._file, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._folder = -1

    def keep(self) -> bool:
        """Make `lock` again where it was removed or replaced; whether it had to be.

        Raises SpoolLocked when another process has the data directory by now, or the directory is
        no longer where it was; SpoolError when `lock` cannot be made again for now.
        """
        try:
            return self._keep()
        except SpoolLocked:
            self.is_lost = True
            raise

    def guards(self) -> bool:
        """Whether the directory of that name is still the locked one: write to it by name only
        then. True also while the system cannot say.
        """
        try:
            return not self.is_lost and _is_same(self._folder, self._data_dir.stat())
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _keep(self) -> bool:
        try:
            if not _is_same(self._folder, self._data_dir.stat()):
                raise SpoolLocked(f"{self._data_dir}: the data directory was replaced by another")
            if self._is_named():
                return False
            if self._holds_folder:
                self._remove_what_is_no_lock()
            new = self._locked_file()
        except FileNotFoundError as error:
            raise SpoolLocked(f"{self._data_dir}: the data directory was moved or deleted") from error
        except OSError as error:
            raise SpoolError(f"{self._data_dir / LOCK}: {error.strerror}") from error
        os.close(self._file)
        self._file = new
        self._note_owner()
        return True

    def _lock_folder(self) -> bool:
        """Whether the directory itself is locked; False where the file system cannot."""
        try:
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise self._held_by(self._owner()) from error
        except OSError as error:
            if error.errno in NO_DIRECTORY_LOCKS:
                return False
            raise
        return True

    def _locked_file(self) -> int:
        """A descriptor of `lock`, locked, and of the file that has that name now."""
        for _ in range(ATTEMPTS):
            descriptor = self._open(os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same(descriptor, self._named()):
                    return descriptor
            except BlockingIOError as error:
                owner = _read_owner(descriptor)
                os.close(descriptor)
                raise self._held_by(owner) from error
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise SpoolError(f"{self._data_dir / LOCK}: another process replaces it again and again")

    def _open(self, flags: int) -> int:
        """Raises SpoolError for what must not be written to; nothing of it is changed."""
        try:
            descriptor = os.open(LOCK, flags | os.O_NOFOLLOW | os.O_NONBLOCK, OWNER_ONLY, dir_fd=self._folder)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
                raise self._no_lock() from error
            raise
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(descriptor)
            raise self._no_lock()
        if stat.S_IMODE(status.st_mode) != OWNER_ONLY:
            os.fchmod(descriptor, OWNER_ONLY)
        return descriptor

    def _no_lock(self) -> SpoolError:
        path = self._data_dir / LOCK
        return SpoolError(
            f"{path} is a link or no plain file, so it was left as it is: find out who put it there, then `rm {path}`"
        )

    def _remove_what_is_no_lock(self) -> None:
        """While the directory is locked: a link in the place of `lock` goes, not what it names."""
        status = self._named()
        if status is not None and (not stat.S_ISREG(status.st_mode) or status.st_nlink > 1):
            os.unlink(LOCK, dir_fd=self._folder)

    def _named(self) -> os.stat_result | None:
        """What has the name `lock` in the directory; None for nothing."""
        try:
            return os.stat(LOCK, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _is_named(self) -> bool:
        return _is_same(self._file, self._named())

    def _note_owner(self) -> None:
        with suppress(OSError):  # a full disk keeps no gateway from its start
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def _owner(self) -> str:
        """The process id in `lock`; empty when it cannot be read."""
        try:
            descriptor = self._open(os.O_RDONLY)
        except (OSError, SpoolError):
            return ""
        try:
            return _read_owner(descriptor)
        finally:
            os.close(descriptor)

    def _held_by(self, owner: str) -> SpoolLocked:
        process = f" (process {owner})" if owner else ""
        return SpoolLocked(f"{self._data_dir}: another gateway runs on this data directory{process}")


def refuse_other_users(data_dir: Path) -> None:
    """Raise SpoolLocked where another process keeps a database of *data_dir* open: longer than a
    command that reads it takes.
    """
    for _ in range(READS):
        used = used_database(data_dir)
        if used is None:
            return
        time.sleep(READ_S)
    used = used_database(data_dir)
    if used is not None:
        path, owner = used
        raise SpoolLocked(
            f"{path}: process {owner} uses this file, by another name of it (a link):"
            " give this directory a copy of its own"
        )


def used_database(data_dir: Path) -> tuple[Path, str] | None:
    """A database of *data_dir* that another process has open, and the id of that process."""
    for path in (data_dir / name for name in DATABASES):
        if path.is_file() and (owner := user_of(path)) is not None:
            return path, owner
    return None


def user_of(database: Path) -> str | None:
    """The id of another process that has SQLite's lock on the file; None where none is listed."""
    try:
        status, listed = database.stat(), LOCKS.read_text().splitlines()
    except OSError:
        return None
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in listed:
        match line.split():
            case [_, "POSIX", _, _, owner, locked, *_] if locked == place and owner != str(os.getpid()):
                return owner
    return None


def held_by(data_dir: Path) -> str | None:
    """The id of the process that holds the lock, empty where it is not stated; None when no one
    does. Changes nothing.

    Asked of the system's list of locks; without one (macOS), by trying for a shared lock.
    """
    try:
        held = LOCKS.read_text().splitlines()
    except OSError:
        return _held_by_trying(data_dir)
    try:
        inodes = {str(path.stat().st_ino) for path in (data_dir, data_dir / LOCK)}
    except OSError:
        return None
    for line in held:
        match line.split():
            case [_, "FLOCK", _, "WRITE", owner, place, *_] if place.rpartition(":")[2] in inodes:
                return owner
    return None


def _held_by_trying(data_dir: Path) -> str | None:
    try:
        descriptor = os.open(data_dir / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return _read_owner(descriptor) if is_locked(descriptor) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_same(descriptor: int, named: os.stat_result | None) -> bool:
    ours = os.fstat(descriptor)
    return named is not None and (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino)


def _read_owner(descriptor: int) -> str:
    text = os.pread(descriptor, OWNER_BYTES, 0).decode("ascii", "replace").strip()
    return text if text.isdecimal() else ""
