"""Ports of loopback that are free, and stay free until they are used.

What listens on any port, and each connection to elsewhere, gets one of the system's own range: a
port of that range that is free now may be another's before a slow program has started.
"""

import os
import socket
from itertools import cycle
from typing import Final, NamedTuple

OURS: Final = range(20_000, 32_768)
"""Below the range of Linux, which begins lowest."""
_begin: Final = os.getpid() * 101 % len(OURS)
_next: Final = cycle([*OURS[_begin:], *OURS[:_begin]])
"""Other processes of the tests begin elsewhere."""


def free_ports(count: int) -> list[int]:
    """*count* ports, no two the same."""
    return [free_port() for _ in range(count)]


def free_port() -> int:
    return next(port for port in _next if is_free(port))


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


class OtlpPorts(NamedTuple):
    """Where a receiver of OTLP listens, over both transports."""

    http: int
    grpc: int

    @classmethod
    def free(cls) -> "OtlpPorts":
        return cls(*free_ports(2))

    def of(self, protocol: str) -> int:
        """*protocol* as in OTEL_EXPORTER_OTLP_PROTOCOL."""
        return self.grpc if protocol == "grpc" else self.http

    def settings(self) -> dict[str, object]:
        """The gateway's configuration for them: a restart has the same addresses."""
        listen = {"http": f"127.0.0.1:{self.http}", "grpc": f"127.0.0.1:{self.grpc}"}
        return {"listen": listen | {"admin": "127.0.0.1:0", "service": "127.0.0.1:0"}}
