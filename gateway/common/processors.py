"""How many processors this process may use."""

import os
import sys


def usable_processors() -> int:
    """Those that its affinity leaves, where the system has one; at least 1."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))
