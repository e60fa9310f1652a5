"""How many bytes came over a connection, as the system counts them: grpc does not report it.

A connection is found by its peer among the process's own sockets, and is held open by nothing here.
"""

import os
import re
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import unquote

SCAN_EVERY_S: Final = 0.1
"""At most; a scan asks every open file, some 3 µs each."""
_BYTES_RECEIVED: Final = struct.Struct("=128xQ")
"""`tcpi_bytes_received` of Linux' struct tcp_info."""
_PEER: Final = re.compile(r"ipv[46]:\[?([^\]]+)\]?:(\d+)")

Peer = tuple[str, int]


class Connections:
    """The connections of this process."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._files: dict[Peer, int] = {}
        self._scanned_s = -SCAN_EVERY_S

    def received_bytes(self, peer: str) -> int | None:
        """Since the connection began. *peer*: as grpc names it, `ipv4:127.0.0.1:50000`. None where
        that is no TCP, or it is not found.
        """
        found = _PEER.fullmatch(unquote(peer))
        if found is None:
            return None
        named = plain_address(found[1]), int(found[2])
        received = self._received(named)
        if received is None and self._monotonic_s() - self._scanned_s >= SCAN_EVERY_S:
            self._scan()
            received = self._received(named)
        return received

    def _received(self, peer: Peer) -> int | None:
        file = self._files.get(peer)
        if file is None or sys.platform != "linux":
            return None
        with suppress(OSError, ValueError, struct.error), socket_of(file) as connection:
            if peer_of(connection) == peer:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
                received: int = _BYTES_RECEIVED.unpack(info)[0]
                return received
        return None

    def _scan(self) -> None:
        self._scanned_s = self._monotonic_s()
        self._files.clear()
        with suppress(OSError):  # where no file can be opened any more
            for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers, and no paths
                self._note(int(name))

    def _note(self, file: int) -> None:
        with suppress(OSError, ValueError), socket_of(file) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                self._files[peer_of(connection)] = file


@contextmanager
def socket_of(file: int) -> Iterator[socket.socket]:
    """The socket of a descriptor, by a copy that is closed again. Raises OSError where it is
    none.
    """
    copy = os.dup(file)
    try:
        connection = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with connection:
        yield connection


def peer_of(connection: socket.socket) -> Peer:
    """Raises OSError for a socket that is not connected, ValueError for one without a port."""
    address, port, *_ = connection.getpeername()
    return plain_address(address), port


def plain_address(address: str) -> str:
    """One form for each; an IPv4 address that came by a socket of IPv6 is IPv4."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)
