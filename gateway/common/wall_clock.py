"""The wall clock, for stamps that people and other systems read."""

import time


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
