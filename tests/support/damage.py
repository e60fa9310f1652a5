"""Damage to a spool's files, by seed: bytes flipped, pages zeroed or overwritten, files cut,
in the database and in its log.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

PAGE_BYTES = 4096
"""Of a file that is made now."""
LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
FRAME_BYTES = FRAME_HEADER_BYTES + PAGE_BYTES


def damaged_copy(crashed: Path, to: Path) -> Path:
    """A fresh copy of the files; the -shm is left out, for no restart of a machine keeps it."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(crashed, to)
    (to / "spool.db-shm").unlink(missing_ok=True)
    return to


def damage(data_dir: Path, chance: random.Random, page_bytes: int = PAGE_BYTES) -> str:
    """Damage one to four places; what was done."""
    done = [_damage_once(data_dir, chance, page_bytes) for _ in range(chance.randint(1, 4))]
    return ", ".join(done)


def _damage_once(data_dir: Path, chance: random.Random, page_bytes: int) -> str:
    files = [
        path for path in (data_dir / "spool.db", data_dir / "spool.db-wal") if path.exists() and path.stat().st_size
    ]
    if not files:
        return "nothing left"
    path = chance.choice(files)
    content = bytearray(path.read_bytes())
    how = chance.choices(("flip", "zero", "overwrite", "cut"), (5, 4, 3, 1))[0]
    at = chance.randrange(len(content))
    if how == "cut":
        path.write_bytes(content[:at])
        return f"{path.name} cut at {at}"
    first, after = (at, at + 1) if how == "flip" else _page_around(path, at, page_bytes)
    if how == "flip":
        content[at] ^= 1 << chance.randrange(8)
    else:
        n = min(after, len(content)) - first
        content[first : first + n] = bytes(n) if how == "zero" else chance.randbytes(n)
    path.write_bytes(content)
    return f"{path.name} {how} at {first}"


def _page_around(path: Path, at: int, page_bytes: int) -> tuple[int, int]:
    """Where the page that holds byte *at* begins and ends."""
    if path.name == "spool.db":
        first = at // page_bytes * page_bytes
        return first, first + page_bytes
    frame_bytes = FRAME_HEADER_BYTES + page_bytes
    first = LOG_HEADER_BYTES + max(0, at - LOG_HEADER_BYTES) // frame_bytes * frame_bytes + FRAME_HEADER_BYTES
    return first, first + page_bytes


def pages_of(data_dir: Path, page_bytes: int = PAGE_BYTES) -> Iterator[tuple[str, bytes]]:
    """(where, content) of each page of the database and each frame of
    its log, with the frame's head.
    """
    content = (data_dir / "spool.db").read_bytes()
    for at in range(0, len(content), page_bytes):
        yield f"page {at // page_bytes + 1}", content[at : at + page_bytes]
    frame_bytes = FRAME_HEADER_BYTES + page_bytes
    log = data_dir / "spool.db-wal"
    frames = log.read_bytes()[LOG_HEADER_BYTES:] if log.exists() else b""
    for at in range(0, len(frames), frame_bytes):
        yield f"frame {at // frame_bytes}", frames[at : at + frame_bytes]
