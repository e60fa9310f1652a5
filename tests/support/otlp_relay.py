"""Stands between a real client and the gateway, and notes what was in the bodies that it passes on."""

import gzip
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self, cast

from tests.support.canary import CANARY

_TIMEOUT_S = 30
_FORWARDED = ("content-type", "content-encoding")


class OtlpRelay:
    """A server on loopback; whoever posts to it posts to *target*."""

    def __init__(self, target: str) -> None:
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
        """Base URL of the relay."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def signals(self) -> set[str]:
        """What was posted: `traces`, `logs`, `metrics`."""
        return {path.rpartition("/")[2] for path, _, _ in self._server.seen}

    @property
    def statuses(self) -> set[int]:
        """What the target answered."""
        return {status for _, status, _ in self._server.seen}

    @property
    def saw_content(self) -> bool:
        """Whether any body held a canary."""
        return any(has_canary for _, _, has_canary in self._server.seen)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.seen: list[tuple[str, int, bool]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        server = cast("_Server", self.server)
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name: self.headers[name] for name in _FORWARDED if name in self.headers}
        request = urllib.request.Request(server.target + self.path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                status, answer = response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, answer = error.code, error.read()
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        server.seen.append((self.path, status, CANARY in plain))
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
