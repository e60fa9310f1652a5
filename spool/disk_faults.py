"""Errors of SQLite and the system that are no damage: of the disk, or of rights.

Who takes an unreadable disk for a damaged file moves good files away, and their keys with them.
"""

import errno
import sqlite3
from contextlib import suppress
from pathlib import Path

EIO = "the disk answered with an error (EIO), so whether the file is whole is not known: look at the disk (dmesg), then start again; move nothing away"
DENIED = "the system denied access to it: look at owner and mode (ls -l), then start again; move nothing away"
READ_ONLY = "it cannot be written: look at its mode and at how the disk is mounted, then start again; move nothing away"

_OF_SQLITE = {
    sqlite3.SQLITE_IOERR: EIO,
    sqlite3.SQLITE_CANTOPEN: DENIED,
    sqlite3.SQLITE_PERM: DENIED,
    sqlite3.SQLITE_AUTH: DENIED,
    sqlite3.SQLITE_READONLY: READ_ONLY,
}
_OF_SYSTEM = {errno.EIO: EIO, errno.EACCES: DENIED, errno.EPERM: DENIED, errno.EROFS: READ_ONLY}
READ_BYTES = 1 << 20
PRIMARY_CODE = 0xFF
"""Of SQLite's extended result codes."""


def disk_fault(error: BaseException | None) -> str | None:
    """The fault of the disk or of rights behind *error*, with the remedy; None for damage and
    everything else.
    """
    while error is not None:
        found = None
        if isinstance(error, OSError) and error.errno is not None:
            found = _OF_SYSTEM.get(error.errno)
        elif isinstance(error, sqlite3.Error):
            found = _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE)
        if found is not None:
            return found
        error = error.__cause__
    return None


def fault_of_reading(*paths: Path) -> str | None:
    """The same, asked by reading each of *paths* to its end; None where all can be read, or are
    missing.

    To be asked before a file is called damaged: SQLite calls it that, too, when the disk did not
    give it a page.
    """
    try:
        for path in paths:
            with suppress(FileNotFoundError), path.open("rb", buffering=0) as file:
                while file.read(READ_BYTES):
                    pass
    except OSError as error:
        return disk_fault(error) or EIO
    return None
