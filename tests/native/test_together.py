"""Payloads that are read together come to what they come to one by one."""

from collections import Counter
from random import Random

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.pipeline.parsing.joining import joined
from gateway.pipeline.parsing.parse import Payload
from tests.native import readers
from tests.native.test_generated import SENDERS, bodies
from tests.native.varied import varied

BODIES = 400


def payloads(random: Random) -> list[bytes]:
    requests = [ExportTraceServiceRequest.FromString(bodies()[name]) for name in SENDERS]
    made = [varied(random.choice(requests), random, 0.1).SerializeToString() for _ in range(BODIES)]
    return [body if random.random() < 0.9 else body[: random.randrange(len(body))] for body in made] + [b""]


def test_payloads_read_together_are_those_read_one_by_one(chance: Random) -> None:
    context = readers.context_at()
    reader, made = readers.Readers().native, payloads(chance)
    for body in made:  # learns
        reader.parse(Payload("traces", body, json=False), context)
    reader._left_ns = reader._most_ns = 0
    before = reader.native_spans
    read = reader.read_together(made, context)
    assert read is not None
    assert reader.native_spans == before
    gaps = reader.python_spans.total() + reader.python_payloads.total()
    alone: list[tuple[bytes, ParsedPayload]] = []
    for place, body in enumerate(made):
        parsed = reader.parse(Payload("traces", body, json=False), context)
        now = reader.python_spans.total() + reader.python_payloads.total()
        assert (now > gaps) == (place in read.left), place
        gaps = now
        if place not in read.left:
            assert parsed is not None
            assert parsed.calls is not None
            alone.append((body, parsed.calls))
    assert BODIES / 2 < len(alone) < BODIES
    first, *others = (calls for _, calls in alone)
    wanted = joined(first, [(len(first.records), len(first.links), calls) for calls in others])
    wanted = wanted._replace(items=sum(calls.items for _, calls in alone), reported=[])
    assert readers.compared(read.calls) == readers.compared(wanted)
    assert {(service, requests, *counts) for service, requests, *counts in read.sent} == sent_by(alone)


def sent_by(alone: list[tuple[bytes, ParsedPayload]]) -> set[tuple[object, ...]]:
    """As `Sent`: what each service sent, a payload with several in equal parts."""
    sums: dict[str | None, Counter[int]] = {}
    for body, calls in alone:
        of_payload = calls.reported or [(None, 0, 0, 0)]
        for service, *counts in of_payload:
            parts = (1, *counts, len(body) // len(of_payload))
            sums.setdefault(service, Counter()).update(dict(enumerate(parts)))
    return {(service, *(counts[i] for i in range(5))) for service, counts in sums.items()}
