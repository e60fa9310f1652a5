"""Stands between a real client and the gateway, and notes what was in the
bodies that it passes on.
"""

import gzip
from http.server import ThreadingHTTPServer
from typing import cast

from tests.support.canary import CANARY
from tests.support.relay import Relay, RelayHandler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.seen: list[tuple[str, int, bool]] = []


class OtlpRelay(Relay[_Server]):
    """Whoever posts to it posts to *target*."""

    def __init__(self, target: str) -> None:
        super().__init__(_Server(target))

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


class _Handler(RelayHandler):
    def do_POST(self) -> None:  # noqa: N802 the name that http.server calls
        server = cast("_Server", self.server)
        passed = self.pass_on(server.target)
        plain = gzip.decompress(passed.body) if passed.headers.get("content-encoding") == "gzip" else passed.body
        server.seen.append((self.path, passed.status, CANARY in plain))
        self.answer(passed)
