"""Clients that leave before their body is whole."""

import asyncio
import socket
import struct
from collections.abc import Mapping
from typing import Final

AT_ONCE: Final = struct.pack("ii", 1, 0)
"""A linger of 0 s: the connection is reset."""
BODY_BYTES: Final = 100_000


async def leave(port: int, method: str, path: str, headers: Mapping[str, str], n_bytes: int, *, reset: bool) -> None:
    """Send the head and *n_bytes* of the body in one write, and leave before the answer."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = {"Host": f"127.0.0.1:{port}", "Content-Length": str(BODY_BYTES), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + b"[" * n_bytes)
    await writer.drain()
    if reset:
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    writer.close()
