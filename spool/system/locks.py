"""Exclusive and shared locks of an open file, which the system releases when the process ends.

`flock` where the system has it. Windows locks a byte range instead, and keeps others from reading
it: the byte lies far behind the end of every file that is locked here.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LOCKED_BYTE: Final = (1 << 30) + (1 << 16)
"""Not of the bytes from 2³⁰ on, which SQLite locks in its databases."""
_RETRY_S: Final = 0.05

if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int) -> None:
        """Wait for the exclusive lock. Raises OSError."""
        while True:
            try:
                return lock_now(descriptor)
            except BlockingIOError:
                time.sleep(_RETRY_S)

    def lock_now(descriptor: int) -> None:
        """Take the exclusive lock. Raises BlockingIOError while another holds one, OSError."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from error
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

    def is_locked(descriptor: int) -> bool:
        """Whether another process holds the exclusive lock of an open file. Raises OSError."""
        try:
            lock_now(descriptor)
        except BlockingIOError:
            return True
        unlock(descriptor)
        return False

    def unlock(descriptor: int) -> None:
        """Release the lock. Raises OSError."""
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)

    def hold_folder(folder: Path) -> int:
        """Keep *folder* from `released_folder` until the descriptor is closed. Raises OSError."""
        return os.open(_marker(folder), os.O_RDWR | os.O_CREAT, 0o600)

    @contextmanager
    def released_folder(folder: Path) -> Iterator[None]:
        """The block runs where no process holds *folder*. Raises OSError where one does."""
        _marker(folder).unlink(missing_ok=True)  # Windows removes no file that is open
        yield

    def _marker(folder: Path) -> Path:
        return folder.with_name(f"held{folder.name}")

else:
    import fcntl

    def lock(descriptor: int) -> None:
        """Wait for the exclusive lock. Raises OSError."""
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def lock_now(descriptor: int) -> None:
        """Take the exclusive lock. Raises BlockingIOError while another holds one, OSError."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_locked(descriptor: int) -> bool:
        """Whether another process holds the exclusive lock of an open file. Raises OSError."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return False

    def hold_folder(folder: Path) -> int:
        """Keep *folder* from `released_folder` until the descriptor is closed. Raises OSError."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    @contextmanager
    def released_folder(folder: Path) -> Iterator[None]:
        """The block runs where no process holds *folder*. Raises OSError where one does."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            lock_now(descriptor)
            yield
        finally:
            os.close(descriptor)
