"""Names that no payload had before: of models, providers, operations, attributes, scopes, services,
users. What is remembered of them is bounded, so that a sender of ever new ones costs no memory.

Four times the largest bound of names must come to see that, some 40,000 of each, at 2.5 ms of CPU
for each under tracemalloc: seven minutes, which NEW_NAMES_TEST=1 runs. The one structure that had
no bound has its test in every run, `tests/unit/usage/pricing/test_prices.py`.
"""

import os
import sys
import tracemalloc
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.read.limits import ParseLimits
from gateway.rules.context import Context
from gateway.usage.pricing.prices import MAX_KNOWN, Prices
from tests.support.metrics import at_ns
from tests.support.spans import call_span

SPANS = 250
"""Of one payload."""
NAMES = MAX_KNOWN + SPANS
"""The largest bound of names is reached with so many."""


def template() -> bytes:
    """Spans in which every name has its own number, that of the first payload."""
    request = ExportTraceServiceRequest()
    for number in range(SPANS):
        name = f"name-000000-{number:03}"
        attributes = dict.fromkeys(
            ("gen_ai.request.model", "gen_ai.provider.name", "gen_ai.operation.name", "user.id", "team.id"), name
        )
        more = {**attributes, "gen_ai.response.model": f"of-{name}", name: name, f"gen_ai.usage.{name}": 3}
        one = ExportTraceServiceRequest.FromString(
            call_span(name, (1, 1), resource={"service.name": name, f"of.{name}": name}, more=more)
        )
        one.resource_spans[0].scope_spans[0].scope.name = name
        request.MergeFrom(one)
    return request.SerializeToString()


def remembered_bytes() -> Iterator[int]:
    """After each payload of names that are new: what is remembered since the first."""
    body = template()
    rules = ParseRules(Prices())
    context = Context(at_ns(2) // 10**6, "2026-01-05T10:00:00.000Z", key="key", limits=ParseLimits())

    def read(payload: int) -> None:
        named = body.replace(b"name-000000", b"name-%06d" % payload)
        parsed = parse(Payload("traces", named, json=False), context, rules)
        assert parsed.calls is not None
        assert len(parsed.calls.records) == SPANS

    read(1)
    tracemalloc.start()
    try:
        for payload in range(2, 1000):
            read(payload)
            yield tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.timeout(900)
@pytest.mark.skipif("NEW_NAMES_TEST" not in os.environ, reason="seven minutes: NEW_NAMES_TEST=1 runs it")
def test_what_is_remembered_of_new_names_does_not_grow_without_end() -> None:
    remembered = remembered_bytes()
    of_n = max(next(remembered) for _ in range(NAMES // SPANS))
    of_four_n = max(next(remembered) for _ in range(3 * NAMES // SPANS))
    remembered.close()  # type: ignore[attr-defined]  # it is a generator
    sys.stderr.write(f"{of_n / 2**20:.1f} MiB of {NAMES} names, {of_four_n / 2**20:.1f} MiB of four times as many\n")
    assert of_n > 2**20
    assert of_four_n < 1.15 * of_n, (of_n, of_four_n)
