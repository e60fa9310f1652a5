"""The CPU that a process may use to read one body. The limits of items, attributes and values keep
any body far below it; it is there for what no one foresaw.

The kernel ends the process, whatever it is at. Windows has no such timer: there only time ends it.
"""

import signal
import sys
from typing import Final

CPU_SIGNAL: Final[int] = getattr(signal, "SIGPROF", 0)
"""What the process is ended by."""
CPU_S: Final = 10.0
CPU_S_PER_BYTE: Final = 0.25e-6


def limit_cpu(n_bytes: int) -> None:
    """Until `end_limit`, this process ends itself when it has used more CPU than a body of
    *n_bytes* may take.
    """
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, CPU_S + n_bytes * CPU_S_PER_BYTE)


def end_limit() -> None:
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, 0)
