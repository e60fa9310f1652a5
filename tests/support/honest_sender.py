"""A sender of one small request after another, who notes how long each answer took, and after how
much work of the gateway it came: what others do to the gateway must not show here.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

import grpc

from benchmarks.processes import cpu_s
from tests.support.grpc_calls import TRACES
from tests.support.spans import call_span

EVERY_S = 0.02
ANSWER_S = 60.0


class HonestSender:
    """Sends spans of distinct calls while entered, from a process of its own, so that the work of a
    test does not hold it up.
    """

    def __init__(
        self, intake_url: str, *, name: str = "honest", key: str = "", transport: str = "http", pid: int = 0
    ) -> None:
        """*intake_url*: of *transport* `grpc` the address of its listener. *pid*: the gateway's."""
        self.acked: list[str] = []
        """Names of the calls that were acknowledged."""
        self.slowest_s = 0.0
        self.most_work_s = 0.0
        """CPU that the gateway used before it answered; 0 without its *pid*."""
        self.errors: list[str] = []
        address = urlsplit(intake_url).netloc or intake_url
        self._arguments = transport, address, name, key, str(pid)

    @property
    def accepted(self) -> int:
        return len(self.acked)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it begins
        return self

    def __exit__(self, *exc: object) -> None:
        seen, _ = self._process.communicate()
        self.acked, self.slowest_s, self.most_work_s, self.errors = json.loads(seen)


Send = Callable[[bytes], str | None]
"""Sends a body; what was wrong, None where it was acknowledged."""


def over_http(address: str, key: str) -> Send:
    connection = HTTPConnection(address, timeout=ANSWER_S)
    headers = {"Content-Type": "application/x-protobuf"} | ({"Authorization": key} if key else {})

    def send(body: bytes) -> str | None:
        try:
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            answer.read()
        except OSError as error:
            connection.close()
            return repr(error)
        return None if answer.status == 200 else f"status {answer.status}"

    return send


def over_grpc(address: str, key: str) -> Send:
    export: Any = grpc.insecure_channel(address).unary_unary(TRACES)
    metadata = [("authorization", key)] if key else []

    def send(body: bytes) -> str | None:
        try:
            export(body, timeout=ANSWER_S, metadata=metadata)
        except grpc.RpcError as error:
            return str(error.code())
        return None

    return send


def run(transport: str, address: str, name: str, key: str, pid: int) -> None:
    """Send until the standard input ends, then print what was seen."""
    send = {"http": over_http, "grpc": over_grpc}[transport](address, key)
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    print("begins", flush=True)  # noqa: T201
    number, slowest_s, most_work_s = 0, 0.0, 0.0
    acked: list[str] = []
    errors: list[str] = []
    while not ends.wait(EVERY_S):
        number += 1
        call = f"{name}-{number}"
        body = call_span(call, (1, 1), more={"gen_ai.response.id": call})
        began_s, used_s = time.monotonic(), cpu_s(pid) if pid else 0.0
        error = send(body)
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        most_work_s = max(most_work_s, (cpu_s(pid) if pid else 0.0) - used_s)
        if error is None:
            acked.append(call)
        else:
            errors.append(error)
    print(json.dumps([acked, slowest_s, most_work_s, errors]))  # noqa: T201


if __name__ == "__main__":
    run(*sys.argv[1:-1], pid=int(sys.argv[-1]))
