"""For how long a gateway's event loop answers no one, by its own CPU: a machine that is at other
work does not count.
"""

import threading
import time
from http.client import HTTPConnection
from typing import Self
from urllib.parse import urlsplit

from tests.support.gateway_process import GatewayProcess
from tests.support.process_cpu import cpu_s

EVERY_S = 0.01
ANSWER_S = 120.0


class Stillness:
    """Asks for `/healthz` all the time while entered."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self.longest_s = 0.0
        """CPU that the gateway's own process used at most until it answered, and no more than the
        time that passed."""
        self._address = urlsplit(gateway.admin_url).netloc
        self._pid = gateway.process.pid
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join()

    def _ask(self) -> None:
        connection = HTTPConnection(self._address, timeout=ANSWER_S)
        try:
            while not self._ends.wait(EVERY_S):
                began_s, cpu = time.monotonic(), cpu_s(self._pid)
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                self.longest_s = max(self.longest_s, min(time.monotonic() - began_s, cpu_s(self._pid) - cpu))
        finally:
            connection.close()
