"""How long a gateway leaves the smallest of requests without an answer, and how much work it does
meanwhile.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Self
from urllib.parse import urlsplit

from benchmarks.processes import HANGS_S
from tests.support.gateway_process import GatewayProcess

EVERY_S = 0.02


class Stalls:
    """Asks for `/healthz` from a thread of its own while entered.

    A try that gets no answer says nothing: the process was killed meanwhile.
    """

    def __init__(self, gateway: Callable[[], GatewayProcess | None]) -> None:
        """*gateway* is asked for before each try; None while there is none."""
        self.longest_s = 0.0
        self.most_work_s = 0.0
        """CPU that its processes used before they answered."""
        self._gateway = gateway
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
            gateway = self._gateway()
            if gateway is None or self._excused:
                continue
            excuses, began_s = self._excuses, time.monotonic()
            connection = HTTPConnection(urlsplit(gateway.admin_url).netloc, timeout=HANGS_S)
            try:
                used_s = gateway.process.cpu_s()
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                work_s = gateway.process.cpu_s() - used_s
            except TimeoutError:
                work_s = HANGS_S
            except (OSError, HTTPException):
                continue
            finally:
                connection.close()
            if excuses == self._excuses:
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
                self.most_work_s = max(self.most_work_s, work_s)
