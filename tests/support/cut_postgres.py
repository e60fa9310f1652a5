"""Cuts a connection to Postgres in its COMMIT, as a network or a server that dies would."""

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import psycopg

from tests.support.postgres import Server

_COMMIT: Final = b"Q\0\0\0\x0bCOMMIT\0"
Moment = Literal["before", "after"]


class Cutter:
    """Between a client and a server, on a socket of its own."""

    def __init__(self, server: Path, folder: Path) -> None:
        self._server = server
        self.folder = folder
        self.next_cut: Moment | None = None
        """Cut the next commit: the server never sees it, or it is done and not answered."""
        self.cuts = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / server.name))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connected, args=(client,), daemon=True).start()

    def _connected(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(self._server))
            answering = threading.Thread(target=_answer, args=(client, server), daemon=True)
            answering.start()
            with suppress(OSError):
                self._relay(client, server)
            answering.join()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        while data := client.recv(1 << 16):
            if self.next_cut is not None and data == _COMMIT:
                self._cut(data, client, server)
                return
            server.sendall(data)
        server.shutdown(socket.SHUT_RDWR)

    def _cut(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        moment, self.next_cut = self.next_cut, None
        self.cuts += 1
        client.shutdown(socket.SHUT_RDWR)  # whatever the server answers does not arrive
        if moment == "after":
            server.sendall(data)  # and ends when it is done
            server.shutdown(socket.SHUT_WR)
        else:
            server.shutdown(socket.SHUT_RDWR)


def _answer(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):
        while data := server.recv(1 << 16):
            client.sendall(data)
    for each in (client, server):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutter(server: Server, dsn: str) -> Iterator[tuple[Cutter, str]]:
    """A cutter in front of *server*, and *dsn* through it."""
    port = psycopg.conninfo.conninfo_to_dict(dsn)["port"]
    with tempfile.TemporaryDirectory(prefix="cut-") as folder:
        found = Cutter(server.folder / f".s.PGSQL.{port}", Path(folder))
        try:
            yield found, psycopg.conninfo.make_conninfo(dsn, host=folder)
        finally:
            found.close()
