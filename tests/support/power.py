"""Power cuts, replayed: a process runs over `disk_shim.c`, and what a disk may hold at any moment
of its run is made from the notes.

Between two syncs a disk may have any of the writes, in any order, and half of one. A
write that a failed sync was to cover may be lost for good, whatever syncs state
afterwards: that is how Linux does it.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.support.shims import compiled

SOURCE = Path(__file__).with_name("disk_shim.c")
SECTOR_BYTES = 512
_HEAD = struct.Struct("=cQII")


class Note(NamedTuple):
    op: str
    """`w` write, `t` truncate, `u` unlink (on the disk at once), `f` synced, `e` sync failed,
    `s` said on standard output."""
    offset: int
    path: str
    data: bytes


def built_shim(folder: Path) -> Path:
    """The shim as a library; skips the test where no C compiler is."""
    return compiled(SOURCE, folder)


def notes(log: Path) -> Iterator[Note]:
    """What the shim noted; a last note that was cut by the process's end is left out."""
    content = log.read_bytes()
    at = 0
    while at + _HEAD.size <= len(content):
        op, offset, path_bytes, data_bytes = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        path, data = content[at : at + path_bytes], content[at + path_bytes : at + path_bytes + data_bytes]
        at += path_bytes + data_bytes
        if at <= len(content):
            yield Note(op.decode(), offset, path.decode(), data)


@dataclass
class File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Note] = field(default_factory=list)
    """Since the last sync, in order."""

    def apply(self, note: Note) -> None:
        content = self.durable
        if note.op == "t":
            del content[note.offset :]
            content.extend(bytes(note.offset - len(content)))
            return
        content.extend(bytes(max(0, note.offset - len(content))))
        content[note.offset : note.offset + len(note.data)] = note.data


class Disk:
    """What is on the disk for sure, and what may be."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}

    def take(self, note: Note) -> None:
        if note.op == "s":
            return
        if note.op == "u" or note.path.endswith(
            "-shm"
        ):  # the -shm is memory that processes share: no start believes it
            self.files.pop(note.path, None)
            return
        file = self.files.setdefault(note.path, File())
        if note.op == "f":
            for pending in file.pending:
                file.apply(pending)
            file.pending = []
        elif note.op == "e":
            file.pending = []
        else:
            file.pending.append(note)

    def after_a_cut(self, to: Path, root: str, chance: random.Random) -> None:
        """Write the files into *to* as a power cut now may leave them."""
        to.mkdir(parents=True)
        for path, file in self.files.items():
            left = File(bytearray(file.durable))
            for note in survivors(file.pending, chance):
                left.apply(note)
            place = to / Path(path).relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(left.durable)


def survivors(pending: list[Note], chance: random.Random) -> list[Note]:
    """None, all, the first few, or any of the writes, the last of them perhaps torn."""
    how = chance.choice(("none", "prefix", "any", "all"))
    if how == "none":
        return []
    if how == "all":
        return pending
    kept = (
        pending[: chance.randint(0, len(pending))] if how == "prefix" else [n for n in pending if chance.random() < 0.5]
    )
    if kept and kept[-1].op == "w" and chance.random() < 0.5:
        sectors = chance.randint(0, len(kept[-1].data) // SECTOR_BYTES)
        kept[-1] = kept[-1]._replace(data=kept[-1].data[: sectors * SECTOR_BYTES])
    return kept
