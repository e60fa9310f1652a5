"""The exclusive lock on a data directory, as the system allows it."""

import sys

if sys.platform == "win32":
    from spool.system.windows_data_lock import DataLock, held_by
else:
    from spool.system.posix_data_lock import DataLock, held_by

__all__ = ["DataLock", "held_by"]
