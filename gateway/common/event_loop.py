"""The event loop of a command, and the system's signals to it.

uvloop where it is installed; it has no Windows. There asyncio's own loop takes no signal handlers
either: Ctrl-C and Ctrl-Break, which service managers send, are taken by the interpreter.
"""

import asyncio
import importlib.util
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* to its end on the fastest loop there is."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.run(work)
    import uvloop  # noqa: PLC0415 - not on Windows

    return uvloop.run(work)


def on_signal(number: signal.Signals, call: Callable[[], object]) -> None:
    """Call *call* in the running loop each time that the signal comes. From the main thread."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(number, call)
    except NotImplementedError:
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))
