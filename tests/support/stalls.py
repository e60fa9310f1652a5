"""How long a gateway leaves the smallest of requests without an answer, while left in peace."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Self
from urllib.parse import urlsplit

EVERY_S = 0.02


class Stalls:
    """Asks for `/healthz` from a thread of its own while entered.

    A try that gets no answer says nothing: the process was killed meanwhile.
    """

    def __init__(self, admin_url: Callable[[], str | None]) -> None:
        """*admin_url* is asked before each try; None while there is no gateway."""
        self.longest_s = 0.0
        self._admin_url = admin_url
        self._excuses = 0
        self._excused = False
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join()

    @contextmanager
    def excused(self) -> Iterator[None]:
        """What is slow meanwhile is not the gateway's fault."""
        self._excused = True
        self._excuses += 1
        try:
            yield
        finally:
            self._excused = False
            self._excuses += 1

    def _ask(self) -> None:
        while not self._ends.wait(EVERY_S):
            url = self._admin_url()
            if url is None or self._excused:
                continue
            excuses, began_s = self._excuses, time.monotonic()
            connection = HTTPConnection(urlsplit(url).netloc, timeout=30)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
            except (OSError, HTTPException):
                continue
            finally:
                connection.close()
            if excuses == self._excuses:
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
