"""Room on the disk that is held back for deliveries: a full disk refuses new data,
never acks and deletions.

The reserve is a file of its own with all its blocks allocated. It is given up when the spool cannot
write any more, and taken again, before new data is, once there is room for it.
"""

import os
from pathlib import Path

from spool.data_dir import RESERVE, touch_private
from spool.system.files import allocate, allocated_bytes, free_bytes

FLOOR_OF = 4
"""A part in so many of the reserve must be free besides, for new data to be taken."""


def lacking_bytes(data_dir: Path, size_bytes: int) -> int:
    """What must become free on the disk of *data_dir* before a spool with a reserve of *size_bytes*
    takes data; 0 for nothing. A directory that is not there yet is asked for by its parent.
    """
    folder = next(path for path in (data_dir, *data_dir.absolute().parents) if path.is_dir())
    path = data_dir / RESERVE
    held_bytes = min(allocated_bytes(path), size_bytes) if path.is_file() else 0
    return max(0, size_bytes - held_bytes + size_bytes // FLOOR_OF - free_bytes(folder))


class Reserve:
    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path = path
        self.size_bytes = size_bytes
        self.floor_bytes = size_bytes // FLOOR_OF
        self.is_held = False

    def hold(self) -> bool:
        """Whether the room is set aside now, with a quarter of it free besides: else the next
        append would fill the disk again.
        """
        if not self.is_held:
            self.is_held = self._allocate()
        return self.is_held

    def give_up(self) -> bool:
        """Free the room; whether there was any to free."""
        try:
            was_bytes = allocated_bytes(self._path)
            os.truncate(self._path, 0)
        except OSError:
            return False
        self.is_held = False
        return was_bytes > 0

    def _allocate(self) -> bool:
        try:
            touch_private(self._path)
            with self._path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) > self.size_bytes:
                    file.truncate(self.size_bytes)
                if self.size_bytes:
                    allocate(file, self.size_bytes)
            enough = free_bytes(self._path) >= self.floor_bytes
        except OSError:
            enough = False
        if not enough:
            self.give_up()
        return enough
