"""Stands between a sender and the gateway; of requests that the gateway answered, some answers never get back."""

import http.client
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self, cast

_TIMEOUT_S = 30
_FORWARDED = ("content-type", "content-encoding")

Act = Callable[[], None]


class AnswerLoss:
    """A server on loopback; whoever posts to it posts to what *target* names at that moment."""

    def __init__(self, target: Callable[[], str]) -> None:
        self._server = _Server(target)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where to send."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def answered(self) -> list[int]:
        """The status of every answer of the gateway, lost or not."""
        return self._server.answered

    def lose_next(self, then: Act) -> None:
        """Lose the next answer: when it is there, *then* is done and the sender's connection is cut."""
        self._server.then = then


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: Callable[[], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.answered: list[int] = []
        self.then: Act | None = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        server = cast("_Server", self.server)
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name: self.headers[name] for name in _FORWARDED if name in self.headers}
        try:
            status, answer = _post(server.target() + self.path, body, headers)
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError):
            self.close_connection = True
            return
        server.answered.append(status)
        then, server.then = server.then, None
        if then is not None:
            then()
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def _post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=_TIMEOUT_S) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
