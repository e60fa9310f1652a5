"""The file of a Unix socket: one that a server answers on is left alone, and a server removes none
but its own.
"""

import errno
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

FileId = tuple[int, int]
"""Device and inode: of one socket alone for as long as that is open."""


def new() -> socket.socket:
    """A stream socket. Raises OSError where Python has none for this system: on Windows."""
    if sys.platform == "win32":
        raise OSError(errno.EAFNOSUPPORT, "this system has no Unix sockets: set host:port")
    return socket.socket(socket.AF_UNIX)


def clear(path: Path) -> None:
    """Remove the socket that a killed process left at *path*.

    Raises OSError: EADDRINUSE where a server answers, or where another kind of file is.
    """
    if not path.exists():
        return
    if not path.is_socket() or is_answered(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(path))
    path.unlink(missing_ok=True)


def is_answered(path: Path) -> bool:
    """Whether a server listens on the socket at *path*; also where that cannot be found out."""
    with new() as tried:
        tried.settimeout(0)
        try:
            tried.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # it has more clients than it accepts, or no right is given
            return True
    return True


def id_of(path: Path) -> FileId:
    """Raises OSError."""
    found = path.lstat()
    return found.st_dev, found.st_ino


def remove(path: Path, own: FileId) -> None:
    """Unlink *path* where it is *own* still. To be called while that socket is open."""
    with suppress(OSError):
        if id_of(path) == own:
            path.unlink()
