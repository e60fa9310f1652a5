"""Known traffic for the pages: calls of two teams, one without a known price, and a device."""

import json
import time
import urllib.request
from collections.abc import Mapping
from typing import NamedTuple

from tests.support.calls import EPOCH_MS
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

UNPRICED = "made-up-model"
DEVICE = "laptop-of-the-tests"


class SampleCall(NamedTuple):
    model: str
    tokens: tuple[int, int]
    team: str


CALLS = (
    SampleCall("gpt-4o", (1200, 300), "search"),
    SampleCall("gpt-4o", (800, 100), "support"),
    SampleCall("gpt-4o-mini", (5000, 900), "search"),
    SampleCall(UNPRICED, (700, 70), "support"),
)


def send_traffic(gateway: GatewayProcess) -> None:
    """Send `CALLS` and a heartbeat of `DEVICE`, and wait until the upstream has the calls."""
    for number, call in enumerate(CALLS):
        send_call(gateway, f"browser-{number}", call)
    beat = {"instance_id": "one", "sequence": 1}
    send_json(gateway, f"/v1/devices/{DEVICE}/heartbeat", beat)
    gateway.wait_until_delivered(at_least=len(CALLS))


def send_calls(gateway: GatewayProcess, count: int) -> None:
    """*count* calls, with 101, 102, … input tokens."""
    now_s = time.time() - EPOCH_MS / 1000
    for number in range(count):
        body = call_span(f"call-{number}", (101 + number, 10), at=now_s - 5)
        post(gateway.intake_url + "/v1/traces", body, {"Content-Type": "application/x-protobuf"})


def send_call(gateway: GatewayProcess, name: str, call: SampleCall = CALLS[0]) -> None:
    """One call of five seconds ago; *name* is of the span."""
    at_s = time.time() - 5 - EPOCH_MS / 1000
    more = {"gen_ai.response.model": call.model, "gen_ai.request.model": call.model}
    resource = {"service.name": f"{call.team}-assistant", "team.id": call.team}
    body = call_span(name, call.tokens, at=at_s, resource=resource, more=more)
    post(gateway.intake_url + "/v1/traces", body, {"Content-Type": "application/x-protobuf"})


def send_json(gateway: GatewayProcess, path: str, content: object) -> bytes:
    return post(gateway.intake_url + path, json.dumps(content).encode(), {"Content-Type": "application/json"})


def post(url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """The body of a 2xx answer. Raises HTTPError."""
    with urllib.request.urlopen(urllib.request.Request(url, body, dict(headers)), timeout=30) as answer:
        content: bytes = answer.read()
        return content
