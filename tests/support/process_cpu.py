"""CPU of another process, to the nanosecond: Linux names its clock by its id."""

import time

_CLOCK_OF_PROCESS = 2


def cpu_s(pid: int) -> float:
    """User and system time of all its threads, without its children. Raises OSError where it is
    gone.
    """
    return time.clock_gettime(~pid << 3 | _CLOCK_OF_PROCESS)
