"""A copy of spool.db at one moment, taken while the gateway goes on; the copy
opens as a spool of its own.
"""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from spool.data_dir import touch_private
from spool.errors import SpoolError
from spool.sqlite.database import connect_to_read, mapped_errors, refuse_newer
from spool.sqlite.recovery.salvage import sync


def back_up(data_dir: Path, to: Path) -> int:
    """Write the copy to *to*, 0600, whole or not at all; its bytes.

    Raises SpoolError, also where *to* exists.
    """
    beside = to.with_name(f".{to.name}.{os.getpid()}")
    with mapped_errors(str(to)):
        if to.exists():
            raise SpoolError(f"{to} exists already: name a file that does not")
        touch_private(beside)
        try:
            _copy(data_dir, beside)
            sync(beside)
            os.link(beside, to)
        finally:
            beside.unlink(missing_ok=True)
        sync(to.parent)
        return to.stat().st_size


def _copy(data_dir: Path, to: Path) -> None:
    with closing(connect_to_read(data_dir)) as source, closing(sqlite3.connect(to)) as target:
        refuse_newer(source)
        source.backup(target)
        # The copy states that it has a log, like its original: without, it is one file that can be
        # read from anywhere.
        target.execute("PRAGMA journal_mode=DELETE").fetchall()
