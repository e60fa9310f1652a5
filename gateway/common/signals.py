"""The system's signals that a command heeds."""

import signal
from typing import Final

RELOAD: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)
"""Asks for the configuration to be read again; None where the system has no such signal."""
STOP: Final[tuple[signal.Signals, ...]] = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGBREAK", "SIGQUIT", "SIGPWR", "SIGXCPU")
    if hasattr(signal, name)
)
"""End a command in order."""
_NAMES: Final = ("SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGSTKFLT", "SIGPIPE", "SIGXFSZ")
_REAL_TIME: Final = range(getattr(signal, "SIGRTMIN", 1), getattr(signal, "SIGRTMAX", 0) + 1)
MEANINGLESS: Final[tuple[int, ...]] = (
    *(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)),
    *_REAL_TIME,
)
"""The system would end the process on them at once; nothing of ours sends or needs them."""


def ignore(number: signal.Signals | None) -> None:
    """Let the signal end nothing; None is nothing."""
    if number is not None:
        signal.signal(number, signal.SIG_IGN)


def ignore_meaningless() -> None:
    """Let none of `MEANINGLESS` end the process. From the main thread."""
    for number in MEANINGLESS:
        signal.signal(number, signal.SIG_IGN)
