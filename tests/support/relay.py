"""A server on loopback that stands between a sender and the gateway: its life,
and how it passes a request on.
"""

import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Generic, NamedTuple, Self, TypeVar

_TIMEOUT_S = 30
_FORWARDED = ("content-type", "content-encoding")

S = TypeVar("S", bound=ThreadingHTTPServer)


class Relay(Generic[S]):
    """Serves while it is entered."""

    def __init__(self, server: S) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, daemon=True)

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


class Passed(NamedTuple):
    body: bytes
    headers: dict[str, str]
    status: int
    answer: bytes


class RelayHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def pass_on(self, target: str) -> Passed:
        """Post what came to *target* and the path that was asked for.

        Raises what urllib raises where no one answers.
        """
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name: self.headers[name] for name in _FORWARDED if name in self.headers}
        request = urllib.request.Request(target + self.path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                return Passed(body, headers, response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Passed(body, headers, error.code, error.read())

    def answer(self, passed: Passed) -> None:
        self.send_response(passed.status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(passed.answer)))
        self.end_headers()
        self.wfile.write(passed.answer)
