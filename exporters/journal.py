"""An append-only file of lines that takes each batch once, across crashes.
Blocking; one thread owns it.

Beside the data file stands a journal, `<path>.journal`, one line a batch, forced to disk
*before* the batch's data:

<batch id> <start> <end> <crc32 of the data, hex>

`start` and `end` are offsets in the data file. Only the last entry can be unfinished, since each is
followed by its data's own fsync before the next begins. At start the last entry is checked against
the data: whole, and the batch counts as written; else what there is of it is cut off, and the batch
comes again. So a crash at any point leaves no batch torn or doubled, as long as no one else writes
to the file. Without a journal (a file from elsewhere), a last line without its end is cut.
"""

import os
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from spool.system.files import BINARY, read_at
from spool.system.sync import sync_data, sync_file, sync_path

IDS_KEPT = 256
"""More batches than any lane has under way or unacked at once."""
JOURNAL_LONGEST_LINES = 4096
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    batch_id: str
    start: int
    end: int
    crc32: int

    def line(self) -> bytes:
        return f"{self.batch_id} {self.start} {self.end} {self.crc32:08x}\n".encode()


class LineFile:
    """Opens or makes *path* and its journal, and repairs both. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._journal_path = path.with_name(f"{path.name}.journal")
        self._entries = read_entries(self._journal_path)
        self._lines = 0
        self._journal_fd = -1
        self._data_fd = _open(path)
        try:
            self._repair()
            self._compact()
        except OSError:
            self.close()
            raise

    def append(self, batch_id: str, data: bytes) -> None:
        """Add *data* (whole lines) and force it to disk; nothing when the batch is there already.

        Raises OSError; then close and open again, which repairs what the
        cutting back here could not.
        """
        if batch_id in self._entries:
            return
        start = os.fstat(self._data_fd).st_size
        entry = Entry(batch_id, start, start + len(data), zlib.crc32(data))
        if self._lines >= JOURNAL_LONGEST_LINES:
            self._compact()
        journal_size = os.fstat(self._journal_fd).st_size
        try:
            _write_all(self._journal_fd, entry.line())
            sync_data(self._journal_fd)
            _write_all(self._data_fd, data)
            sync_data(self._data_fd)
        except OSError:
            os.ftruncate(self._data_fd, start)
            os.ftruncate(self._journal_fd, journal_size)
            raise
        self._lines += 1
        self._remember(entry)

    def close(self) -> None:
        os.close(self._data_fd)
        if self._journal_fd >= 0:
            os.close(self._journal_fd)

    def _repair(self) -> None:
        """Cut the last batch off unless all of it is there; then a last line without
        its end, whoever wrote it.
        """
        size = os.fstat(self._data_fd).st_size
        if self._entries:
            last = next(reversed(self._entries.values()))
            if not self._is_whole(last, size):
                del self._entries[last.batch_id]
                if last.start <= size <= last.end:
                    os.ftruncate(self._data_fd, last.start)
        self._cut_torn_line()
        sync_data(self._data_fd)

    def _is_whole(self, entry: Entry, size: int) -> bool:
        if size < entry.end:
            return False
        crc32 = 0
        for position in range(entry.start, entry.end, _PIECE_BYTES):
            crc32 = zlib.crc32(read_at(self._data_fd, min(_PIECE_BYTES, entry.end - position), position), crc32)
        return crc32 == entry.crc32

    def _cut_torn_line(self) -> None:
        end = os.fstat(self._data_fd).st_size
        position = end
        while position > 0:
            start = max(0, position - _PIECE_BYTES)
            newline = read_at(self._data_fd, position - start, start).rfind(b"\n")
            if newline >= 0:
                position = start + newline + 1
                break
            position = start
        if position < end:
            os.ftruncate(self._data_fd, position)

    def _compact(self) -> None:
        """Write the journal again with the last entries only, by rename, so that a crash
        leaves the old or the new one.
        """
        fresh = self._journal_path.with_name(f"{self._journal_path.name}.new")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY, 0o600)
        try:
            _write_all(fd, b"".join(entry.line() for entry in self._entries.values()))
            sync_file(fd)
        finally:
            os.close(fd)
        if self._journal_fd >= 0:  # Windows replaces no file that is open
            os.close(self._journal_fd)
            self._journal_fd = -1
        fresh.replace(self._journal_path)
        sync_path(self._journal_path.parent)
        self._journal_fd = _open(self._journal_path)
        self._lines = len(self._entries)

    def _remember(self, entry: Entry) -> None:
        self._entries[entry.batch_id] = entry
        while len(self._entries) > IDS_KEPT:
            self._entries.popitem(last=False)


def read_entries(path: Path) -> OrderedDict[str, Entry]:
    """The journal's last entries by batch id, oldest first; lines that are none are passed
    over, and so is no journal.
    """
    entries: OrderedDict[str, Entry] = OrderedDict()
    if not path.exists():
        return entries
    for line in path.read_bytes().splitlines(keepends=True)[-IDS_KEPT:]:
        match line.split():
            case [batch_id, start, end, crc32] if line.endswith(b"\n") and start.isdigit() and end.isdigit():
                try:
                    entry = Entry(batch_id.decode("ascii"), int(start), int(end), int(crc32, 16))
                except ValueError:
                    continue
                entries[entry.batch_id] = entry
            case _:
                continue
    return entries


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | BINARY, 0o600)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
