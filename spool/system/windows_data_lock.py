"""The exclusive lock on a data directory under Windows: a lock of its file `lock`.

Windows lets no process remove, rename or replace a file that another has open, nor the folder that
it lies in. So the lock that was taken stays in its place for as long as it is held.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Self

from spool.data_access import refuse_no_access
from spool.data_dir import LOCK, OWNER_ONLY
from spool.errors import SpoolError, SpoolLocked
from spool.system.files import BINARY
from spool.system.locks import is_locked, lock_now

OWNER_BYTES = 20
"""A process id and some more: what is read of `lock`."""


class DataLock:
    """Held from the constructor until closed, or until the process ends."""

    is_lost = False

    def __init__(self, data_dir: Path) -> None:
        """Raises SpoolLocked while another process holds it, SpoolError where it cannot be made."""
        refuse_no_access(data_dir)
        try:
            self._file = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT | BINARY, OWNER_ONLY)
        except OSError as error:
            raise SpoolError(f"{data_dir / LOCK}: {error.strerror}") from error
        try:
            lock_now(self._file)
        except BlockingIOError as error:
            owner = _read_owner(self._file)
            self.close()
            process = f" (process {owner})" if owner else ""
            raise SpoolLocked(f"{data_dir}: another gateway runs on this data directory{process}") from error
        except OSError as error:
            self.close()
            raise SpoolError(f"{data_dir / LOCK}: {error.strerror}") from error
        self._note_owner()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release it; again is nothing."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def keep(self) -> bool:
        """Whether the lock had to be made again: never, the system keeps it."""
        return False

    def guards(self) -> bool:
        """Whether the directory of that name is still the locked one: always."""
        return True

    def _note_owner(self) -> None:
        with suppress(OSError):  # a full disk keeps no gateway from its start
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            os.write(self._file, str(os.getpid()).encode())


def held_by(data_dir: Path) -> str | None:
    """The id of the process that holds the lock, empty where it is not stated; None when no one
    does.
    """
    try:
        descriptor = os.open(data_dir / LOCK, os.O_RDWR | BINARY)
    except OSError:
        return None
    try:
        return _read_owner(descriptor) if is_locked(descriptor) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read_owner(descriptor: int) -> str:
    os.lseek(descriptor, 0, os.SEEK_SET)
    text = os.read(descriptor, OWNER_BYTES).decode("ascii", "replace").strip()
    return text if text.isdecimal() else ""
