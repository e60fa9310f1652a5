"""A free port of loopback."""

import socket


def free_port() -> int:
    """Free until something binds it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
