"""Small files that hold a secret: created once, atomically, mode 0600, and synced before they are
used.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from spool.system.sync import sync_file, sync_path

OWNER_ONLY = 0o600


def write_private(path: Path, content: bytes) -> None:
    """Write *content* to *path* atomically: after a crash the file is the old one or the new
    one.
    """
    temporary = _written_beside(path, content)
    temporary.replace(path)
    sync_path(path.parent)


def read_or_create(path: Path, make: Callable[[], bytes]) -> bytes:
    """The file's content; created with *make* when missing. Of two concurrent callers both get the
    first one's.
    """
    if not path.exists():
        temporary = _written_beside(path, make())
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        sync_path(path.parent)
    restrict(path)
    return path.read_bytes()


def restrict(path: Path) -> None:
    """Remove group and other permissions, which a restore or a volume's defaults may have set."""
    if path.stat().st_mode & 0o077:
        path.chmod(OWNER_ONLY)


def _written_beside(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        sync_file(file.fileno())
    return Path(name)
