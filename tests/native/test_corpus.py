"""Every captured payload of spans, as it is, with other values, and damaged: both readers give the
same.
"""

from collections.abc import Iterator
from random import Random

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.read.otlp_json import decode_traces_json
from gateway.rules.context import Context
from tests.native.readers import HASHED, LABELLED, Readers, context_at
from tests.native.varied import varied
from tests.support.corpus import scenarios

TIMES_EACH = 3


def bodies() -> Iterator[bytes]:
    for scenario in scenarios("traces"):
        for payload in scenario.payloads:
            if not payload.is_json:
                yield payload.body
            else:
                with_ids = decode_traces_json(payload.body)
                yield with_ids.request.SerializeToString()  # type: ignore[attr-defined]  # a wire view


CORPUS = [body for body in bodies() if body]


@pytest.mark.parametrize("context", [context_at(), LABELLED, HASHED], ids=["key", "labels", "hashed"])
def test_the_corpus_is_read_alike_cold_and_warm(context: Context) -> None:
    readers = Readers()
    for body in CORPUS:
        for _ in range(TIMES_EACH):
            readers.compare(body, context)
    assert readers.native.native_spans > len(CORPUS), "the native reader reads most of it"
    assert "differs" not in readers.native.python_payloads
    assert "differs" not in readers.native.python_spans


def test_spans_of_the_corpus_with_other_values_are_read_alike(chance: Random) -> None:
    readers = Readers()
    for body in CORPUS:
        request = ExportTraceServiceRequest.FromString(body)
        readers.compare(body, context_at())
        for oddity in (0, 0, 0, 0.3, 0.3, 1, 1, 1):
            readers.compare(varied(request, chance, oddity).SerializeToString(), context_at())
    assert readers.native.native_spans > len(CORPUS)
    assert "differs" not in readers.native.python_payloads
    assert "differs" not in readers.native.python_spans


def test_damaged_payloads_are_read_alike(chance: Random) -> None:
    readers = Readers()
    for body in CORPUS:
        if len(body) > 65_536:
            continue
        readers.compare(body, context_at())
        for _ in range(4):
            damaged = bytearray(body)
            for _ in range(chance.choice((1, 1, 2, 8))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            readers.compare(bytes(damaged), context_at())
        readers.compare(body[: chance.randrange(len(body))], context_at())
