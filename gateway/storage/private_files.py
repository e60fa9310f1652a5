"""Small files that hold a secret: made once, whole, mode 0600, and on disk before they are used."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

OWNER_ONLY = 0o600


def write_private(path: Path, content: bytes) -> None:
    """Put *content* at *path* in one step: a crash leaves the old file or the new one, never half of it."""
    temporary = _written_beside(path, content)
    temporary.replace(path)
    _sync_folder(path.parent)


def read_or_create(path: Path, make: Callable[[], bytes]) -> bytes:
    """The file's content; made with *make* when there is none. Of two that start at once, both get the first one's."""
    if not path.exists():
        temporary = _written_beside(path, make())
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        _sync_folder(path.parent)
    restrict(path)
    return path.read_bytes()


def restrict(path: Path) -> None:
    """Take group's and others' rights away, where a restore or a volume's defaults gave them."""
    if path.stat().st_mode & 0o077:
        path.chmod(OWNER_ONLY)


def _written_beside(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
