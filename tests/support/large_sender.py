"""An honest sender of 130 kB of spans in JSON, one body after another, who notes how long each
answer took; from a process of its own.
"""

import json
import os
import subprocess
import sys
import threading
import time
from base64 import b64encode
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

import grpc
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.gateway_process import GatewayProcess
from tests.support.grpc_calls import TRACES

EVERY_S = 0.3
ANSWER_S = 120.0
SPANS = 10
FILLER = "x" * 12_500
NAMES = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}


class LargeSender:
    """Sends while entered; the first answer, for which a process may be started, is not counted."""

    def __init__(self, gateway: GatewayProcess, transport: str) -> None:
        self.waits: list[tuple[float, float]] = []
        """Of each body when it was sent (`time.monotonic`), and seconds until its answer."""
        self.others: list[str] = []
        """Answers that were no success."""
        self._arguments = transport, gateway.grpc_target if transport == "grpc" else gateway.intake_url

    @property
    def sent(self) -> int:
        return len(self.waits)

    @property
    def slowest_s(self) -> float:
        return max((waited_s for _, waited_s in self.waits), default=0.0)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__, *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it begins
        return self

    def __exit__(self, *exc: object) -> None:
        seen, _ = self._process.communicate()
        self.waits, self.others = json.loads(seen)


def body() -> dict[str, Any]:
    """130 kB of calls that were never sent before."""
    return {
        "resourceSpans": [
            {"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": [*map(span, range(SPANS))]}]}
        ]
    }


def span(_: int) -> dict[str, Any]:
    named = [{"key": name, "value": {"stringValue": text}} for name, text in {**NAMES, "filler": FILLER}.items()]
    counts = [{"key": f"gen_ai.usage.{kind}_tokens", "value": {"intValue": "7"}} for kind in ("input", "output")]
    return {
        "traceId": os.urandom(16).hex(),
        "spanId": os.urandom(8).hex(),
        "name": "chat",
        "kind": 3,
        "startTimeUnixNano": str(time.time_ns() - 10**9),
        "endTimeUnixNano": str(time.time_ns()),
        "attributes": [*named, *counts],
    }


def over_http(url: str) -> str:
    """What is wrong with the answer; empty for nothing."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=ANSWER_S)
    try:
        connection.request("POST", "/v1/traces", json.dumps(body()), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    return "" if answer.status == 200 else f"{answer.status} {text[:200]!r}"


def over_grpc(address: str) -> str:
    export: Any = grpc.insecure_channel(address).unary_unary(TRACES)
    request = ParseDict(hexed(body()), ExportTraceServiceRequest())
    try:
        export(request.SerializeToString(), timeout=ANSWER_S)
    except grpc.RpcError as error:
        found: Any = error
        return str(found.code())
    return ""


def hexed(request: dict[str, Any]) -> dict[str, Any]:
    """*request* with its ids in base64, as protobuf's own JSON has them."""
    for each in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        each["traceId"], each["spanId"] = (
            b64encode(bytes.fromhex(each[name])).decode() for name in ("traceId", "spanId")
        )
    return request


def run(transport: str, address: str) -> None:
    """Send until the standard input ends, then print what was seen."""
    send = {"http": over_http, "grpc": over_grpc}[transport]
    ends = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ends.set()), daemon=True).start()
    send(address)
    print("begins", flush=True)  # noqa: T201
    waits: list[tuple[float, float]] = []
    others: list[str] = []
    while not ends.wait(EVERY_S):
        began_s = time.monotonic()
        wrong = send(address)
        waits.append((began_s, time.monotonic() - began_s))
        others += [wrong] if wrong else []
    print(json.dumps([waits, others]))  # noqa: T201


if __name__ == "__main__":
    run(*sys.argv[1:])
