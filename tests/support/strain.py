"""What a gateway's processes hold, and how long its loop keeps an honest sender waiting, while
something else is sent.
"""

import gzip
import http.client
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import psutil

from tests.support.gateway_process import GatewayProcess

MIB = 1024 * 1024
_SAMPLE_S = 0.005


class Strain:
    """The most that was seen; final when the `straining` block ended."""

    def __init__(self, rss_bytes: int) -> None:
        self.before_bytes = self.max_bytes = rss_bytes
        self.slowest_s = 0.0
        """The slowest answer to the honest sender."""
        self.most_work_s = 0.0
        """CPU that the gateway's processes used before they answered it: what it waits for on a
        machine of its own, and another one's work is no part of it."""
        self.asked = 0

    @property
    def grown_mib(self) -> float:
        return (self.max_bytes - self.before_bytes) / MIB

    def __str__(self) -> str:
        return f"+{self.grown_mib:.0f} MiB, slowest of {self.asked} answers {self.slowest_s:.3f} s, after {self.most_work_s:.2f} s of CPU"


def rss_bytes(pid: int) -> int:
    """Resident memory of a process and its children together."""
    total = 0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += each.memory_info().rss
    return total


@contextmanager
def straining(gateway: GatewayProcess) -> Iterator[Strain]:
    """Watch *gateway* while the block runs; an honest sender asks all the time.

    What went wrong with either is raised behind the block.
    """
    strain = Strain(rss_bytes(gateway.process.pid))
    is_done = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        watching = [pool.submit(work, gateway, strain, is_done) for work in (weigh, ask)]
        try:
            yield strain
        finally:
            is_done.set()
    for each in watching:
        each.result()
    assert strain.asked, "the honest sender was never answered"


def weigh(gateway: GatewayProcess, strain: Strain, is_done: threading.Event) -> None:
    """Until *is_done*, and once behind it."""
    is_last = False
    while not is_last:
        is_last = is_done.wait(_SAMPLE_S)
        strain.max_bytes = max(strain.max_bytes, rss_bytes(gateway.process.pid))


def ask(gateway: GatewayProcess, strain: Strain, is_done: threading.Event) -> None:
    """One request after another. Raises AssertionError for one that is refused, OSError."""
    is_last = False
    while not is_last:
        is_last = is_done.wait(_SAMPLE_S)
        begun_s, used_s = time.monotonic(), gateway.process.cpu_s()
        status, _ = post(gateway, "/v1/traces", b"")
        assert status == 200, f"an honest sender was answered {status}"
        strain.slowest_s = max(strain.slowest_s, time.monotonic() - begun_s)
        strain.most_work_s = max(strain.most_work_s, gateway.process.cpu_s() - used_s)
        strain.asked += 1


def post(
    gateway: GatewayProcess, path: str, body: bytes, *, kind: str = "application/x-protobuf", zipped: bool = False
) -> tuple[int, bytes]:
    """Status and body of the answer."""
    address = urlsplit(gateway.intake_url)
    headers = {"Content-Type": kind}
    if zipped:
        body = gzip.compress(body, 9)
        headers["Content-Encoding"] = "gzip"
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=180)
    try:
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
