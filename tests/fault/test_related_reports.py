"""Thousands of related reports (a server that gives every answer one id, a deep chain, two
instrumentations of a burst of equal calls) hold up no other sender, and are delivered.

RELATED_TEST_CALLS makes them more.
"""

import os
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.calls import span_id, trace_id
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.honest_sender import HonestSender
from tests.support.metrics import LABELS, RESOURCE, at_ns, attributes

CALLS = int(os.environ.get("RELATED_TEST_CALLS", "3000"))
MAX_WORK_S = 0.5
"""CPU of the gateway before it answers another sender."""
TIMES_PLAIN = 8.0
"""CPU until all is delivered, over that for reports that are related to none."""
MAX_SPANS = 20_000
"""Of one request: below `limits.max_items`."""
UNDER_WAY = 500
"""Records of the honest sender that settle or are being sent."""
HEADERS = {"Content-Type": "application/x-protobuf"}


Shape = tuple[str, str, str, str, int]
"""Span, its parent, trace, response id, start in ms."""


def unrelated(n: int) -> Iterator[Shape]:
    return ((f"u{i}", "", f"u{i}", f"u{i}", i) for i in range(n))


def one_response(n: int) -> Iterator[Shape]:
    return ((f"s{i}", "", f"s{i}", "constant", i) for i in range(n))


def a_chain_from_its_leaf(n: int) -> Iterator[Shape]:
    return ((f"s{i}", f"s{i - 1}" if i else "", "t", "", 0) for i in reversed(range(n)))


def bodies(shape: Iterator[Shape], spans_each: int, *, tokens: int = 0, scopes: int = 1) -> Iterator[bytes]:
    """Requests with the spans of *shape*; *tokens*: what each of them states as its input, or 0
    for another number each; *scopes*: 1, or 2 that report in turn.
    """
    request = ExportTraceServiceRequest()
    for i, (span, parent, trace, response, start_ms) in enumerate(shape):
        if not i % spans_each:
            if i:
                yield request.SerializeToString()
            request = ExportTraceServiceRequest()
            resource = request.resource_spans.add()
            resource.resource.attributes.extend(attributes(RESOURCE))
            reporting = [resource.scope_spans.add(), resource.scope_spans.add()]
            for scope, name in zip(reporting, ("openai", "agents"), strict=True):
                scope.scope.name = name
        used = {"gen_ai.usage.input_tokens": tokens or i + 1, "gen_ai.usage.output_tokens": 5}
        reporting[i % scopes].spans.add(
            trace_id=trace_id(trace),
            span_id=span_id(span),
            parent_span_id=span_id(parent) if parent else b"",
            name="chat gpt-4o",
            start_time_unix_nano=at_ns(start_ms / 1000),
            end_time_unix_nano=at_ns(start_ms / 1000 + 1),
            attributes=attributes(
                {**LABELS, **used, **({"gen_ai.response.id": response} if response else {})},
            ),
        )
    yield request.SerializeToString()


LOADS = {
    "one response": (lambda n: bodies(one_response(n), 500), lambda n: n),
    "one response in one request": (lambda n: bodies(one_response(n), min(n, MAX_SPANS)), lambda n: n),
    "a chain from its leaf": (lambda n: bodies(a_chain_from_its_leaf(n), 50, tokens=7), lambda n: 1),
    "equal calls of two instrumentations": (
        lambda n: bodies(((f"s{i}", "", f"t{i // 2}", "", 0) for i in range(n)), min(n, MAX_SPANS), tokens=7, scopes=2),
        lambda n: n // 2,
    ),
}
"""Name -> requests of n reports, and how many calls those are."""


@pytest.mark.parametrize("load", LOADS)
def test_related_reports_are_delivered_and_hold_up_no_other_sender(load: str, tmp_path: Path) -> None:
    build, calls = LOADS[load]
    with GatewayProcess(tmp_path, settle="2s") as gateway:
        beside, plain_s = delivered(gateway, bodies(unrelated(CALLS), 500), "first")
        honest, took_s = delivered(gateway, build(CALLS), "then")
        status = gateway.wait_until_delivered()
    sys.stderr.write(
        f"{load}: {took_s:.1f} s of CPU (unrelated {plain_s:.1f}), {honest.most_work_s:.2f} for one answer\n"
    )
    assert broken_identities(status) == []
    assert status["lanes"]["ai_telemetry"]["delivered"] == CALLS + calls(CALLS) + beside.accepted + honest.accepted
    assert honest.most_work_s < MAX_WORK_S
    assert took_s < TIMES_PLAIN * plain_s


def delivered(gateway: GatewayProcess, made: Iterator[bytes], name: str) -> tuple[HonestSender, float]:
    """Send the requests, beside an honest sender; CPU of the gateway until no more is pending than
    that one has under way.
    """
    with HonestSender(gateway.intake_url, name=name, pid=gateway.process.pid) as honest:
        began_s = gateway.process.cpu_s()
        for body in made:
            request = urllib.request.Request(gateway.intake_url + "/v1/traces", data=body, headers=HEADERS)
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
        gateway.process.wait_until(lambda: is_settled(gateway) or None, timeout_s=300, what="delivered")
        took_s = gateway.process.cpu_s() - began_s
    assert honest.errors == []
    return honest, took_s


def is_settled(gateway: GatewayProcess) -> bool:
    """Whether all but the honest sender's last records left the lane."""
    pending: int = gateway.status()["lanes"]["ai_telemetry"]["pending"]
    return pending < UNDER_WAY
