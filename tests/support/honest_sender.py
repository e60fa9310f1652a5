"""A sender of one small request after another, who notes how long each answer took: what others
do to the gateway must not show here.
"""

import threading
import time
from http.client import HTTPConnection
from typing import Self
from urllib.parse import urlsplit

from tests.support.spans import call_span

EVERY_S = 0.02


class HonestSender:
    """Sends spans of distinct calls to `/v1/traces` from a thread of its own while entered."""

    def __init__(self, intake_url: str, *, name: str = "honest") -> None:
        self.accepted = 0
        self.slowest_s = 0.0
        self.errors: list[str] = []
        self._address = urlsplit(intake_url).netloc
        self._name = name
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join()

    def _send(self) -> None:
        connection = HTTPConnection(self._address, timeout=60)
        number = 0
        while not self._ends.wait(EVERY_S):
            number += 1
            more = {"gen_ai.response.id": f"{self._name}-{number}"}
            body = call_span(f"{self._name}{number}", (1, 1), more=more)
            began_s = time.monotonic()
            try:
                connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
            except OSError as error:
                self.errors.append(repr(error))
                connection.close()
                continue
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            if answer.status == 200:
                self.accepted += 1
            else:
                self.errors.append(f"status {answer.status}")
        connection.close()
