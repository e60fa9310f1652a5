"""What the gateway reports to the service manager that started it, by systemd's `sd_notify`
protocol: ready, reloading, stopping, and that its event loop still turns.

Datagrams of `NAME=value` lines to the Unix socket that `NOTIFY_SOCKET` names, where `@` begins an
abstract one (sd_notify(3)). Without that variable nothing is sent.
"""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

SOCKET: Final = "NOTIFY_SOCKET"
WATCHDOG_US: Final = "WATCHDOG_USEC"
WATCHDOG_PROCESS: Final = "WATCHDOG_PID"
PER_LIMIT: Final = 3
"""Signs of life within the time after which systemd ends the process."""


class ServiceManager:
    """The one that *environ* names, or none."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        name = environ.get(SOCKET, "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._watchdog_s = watchdog_s(environ)

    def ready(self) -> None:
        """The listeners are bound, or a reload has ended."""
        self._send("READY=1")

    def reloading(self) -> None:
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    async def keep_alive(self) -> None:
        """Report from the event loop that it turns, until cancelled; return where no one asks."""
        while self._watchdog_s is not None:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / PER_LIMIT)

    def _send(self, text: str) -> None:
        if sys.platform == "win32" or not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.settimeout(0)
            sending.sendto(text.encode(), self._address)


def watchdog_s(environ: Mapping[str, str]) -> float | None:
    """Within how long a sign of life is awaited of this process; None where none is."""
    limit, process = environ.get(WATCHDOG_US, ""), environ.get(WATCHDOG_PROCESS, "")
    if not limit.isdecimal() or int(limit) == 0 or process not in {"", str(os.getpid())}:
        return None
    return int(limit) / 1e6
