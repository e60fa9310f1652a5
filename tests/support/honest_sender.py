"""A sender of one small request after another, who notes how long each answer took: what others
do to the gateway must not show here.
"""

import json
import subprocess
import sys
import threading
import time
from http.client import HTTPConnection
from typing import Self
from urllib.parse import urlsplit

from tests.support.spans import call_span

EVERY_S = 0.02


class HonestSender:
    """Sends spans of distinct calls to `/v1/traces` while entered, from a process of its own, so
    that the work of a test does not hold it up.
    """

    def __init__(self, intake_url: str, *, name: str = "honest") -> None:
        self.accepted = 0
        self.slowest_s = 0.0
        self.errors: list[str] = []
        self._arguments = urlsplit(intake_url).netloc, name

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it begins
        return self

    def __exit__(self, *exc: object) -> None:
        seen, _ = self._process.communicate()
        self.accepted, self.slowest_s, self.errors = json.loads(seen)


def send(address: str, name: str) -> None:
    """Send until the standard input ends, then print what was seen."""
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    print("begins", flush=True)  # noqa: T201
    connection = HTTPConnection(address, timeout=60)
    number = accepted = 0
    slowest_s = 0.0
    errors: list[str] = []
    while not ends.wait(EVERY_S):
        number += 1
        body = call_span(f"{name}{number}", (1, 1), more={"gen_ai.response.id": f"{name}-{number}"})
        began_s = time.monotonic()
        try:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
        except OSError as error:
            errors.append(repr(error))
            connection.close()
            continue
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        if answer.status == 200:
            accepted += 1
        else:
            errors.append(f"status {answer.status}")
    connection.close()
    print(json.dumps([accepted, slowest_s, errors]))  # noqa: T201


if __name__ == "__main__":
    send(*sys.argv[1:])
