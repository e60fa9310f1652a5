"""Ports of loopback that are free."""

import socket
from contextlib import ExitStack
from typing import NamedTuple


def free_ports(count: int) -> list[int]:
    """*count* ports, no two the same."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in found]


def free_port() -> int:
    return free_ports(1)[0]


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
