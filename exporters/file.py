"""Appends records to a file as NDJSON, on disk before it reports success, each batch once
(`exporters.journal` states how).
"""

import asyncio
import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from exporters.base import Delivered, Hold, Outcome, Retry
from exporters.journal import LineFile
from spool.record import Batch

SET_UP_ERRORS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EROFS})
"""What an operator has to remedy; anything else (disk full) may pass."""


class FileExporter:
    """Opens *path* at the first batch; its folder must exist.

    One thread of its own does the writing, batch by batch.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="file-exporter")
        self._file: LineFile | None = None

    async def send(self, batch: Batch) -> Outcome:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._write, batch)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _write(self, batch: Batch) -> Outcome:
        try:
            if self._file is None:
                self._file = LineFile(self._path)
            self._file.append(batch.batch_id, b"\n".join((*batch.records, b"")))
        except OSError as error:
            self._close()
            reason = f"the file cannot be written: {error.strerror}"
            if error.errno in SET_UP_ERRORS:
                return Hold(reason, answered=False)
            return Retry(reason, answered=False)
        return Delivered()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
