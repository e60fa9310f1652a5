"""The system's signals that a command heeds."""

import signal
from typing import Final

RELOAD: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)
"""Asks for the configuration to be read again; None where the system has no such signal."""
STOP: Final[tuple[signal.Signals, ...]] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)
)


def ignore(number: signal.Signals | None) -> None:
    """Let the signal end nothing; None is nothing."""
    if number is not None:
        signal.signal(number, signal.SIG_IGN)
