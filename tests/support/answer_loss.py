"""Stands between a sender and the gateway; of requests that the gateway
answered, some answers never get back.
"""

import http.client
import urllib.error
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import cast

from tests.support.relay import Relay, RelayHandler

Act = Callable[[], None]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: Callable[[], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.answered: list[int] = []
        self.then: Act | None = None


class AnswerLoss(Relay[_Server]):
    """Whoever posts to it posts to what *target* names at that moment."""

    def __init__(self, target: Callable[[], str]) -> None:
        super().__init__(_Server(target))

    @property
    def answered(self) -> list[int]:
        """The status of every answer of the gateway, lost or not."""
        return self._server.answered

    def lose_next(self, then: Act) -> None:
        """Lose the next answer: when it is there, *then* is done and the
        sender's connection is cut.
        """
        self._server.then = then


class _Handler(RelayHandler):
    def do_POST(self) -> None:  # noqa: N802 the name that http.server calls
        server = cast("_Server", self.server)
        try:
            passed = self.pass_on(server.target())
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError):
            self.close_connection = True
            return
        server.answered.append(passed.status)
        then, server.then = server.then, None
        if then is not None:
            then()
            self.close_connection = True
            return
        self.answer(passed)
