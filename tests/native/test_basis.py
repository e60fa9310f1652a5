"""How an input was read of which no table knows what it holds is the same from both readers, in the
record and in the ledger's row, although one shape of span is read in several ways.
"""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.counting.calls.digest import basis_of, unpack_fact
from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.rules.usage import ASSUMED, SHOWN_EXCLUSIVE, SHOWN_INCLUSIVE
from gateway.usage.pricing.prices import Prices
from tests.native.readers import Readers, context_at
from tests.support.metrics import attributes

COUNTS = ((200, 100), (20, 5000), (300, 0), (100, 100), (99, 100), (1, 1), (0, 7), (101, 100))
"""Input and cache reads."""


def payload(counts: tuple[tuple[int, int], ...], *, total: bool, base: int) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add()
    spans.resource.attributes.extend(attributes({"service.name": "app"}))
    scope_spans = spans.scope_spans.add()
    scope_spans.scope.name, scope_spans.scope.version = "my.own.scope", "1.0"
    for number, (given, cached) in enumerate(counts):
        values: dict[str, object] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude-sonnet-4-5",
            "gen_ai.usage.input_tokens": given,
            "gen_ai.usage.output_tokens": 10,
            "gen_ai.usage.cache_read.input_tokens": cached,
        }
        if total:
            values["gen_ai.usage.total_tokens"] = given + 10 + (cached if number % 2 else 0)
        scope_spans.spans.add(
            trace_id=base.to_bytes(16, "big"),
            span_id=(base + number).to_bytes(8, "big"),
            name="chat",
            start_time_unix_nano=1_767_607_200_000_000_000,
            end_time_unix_nano=1_767_607_201_000_000_000,
            attributes=attributes(values),
        )
    return request.SerializeToString()


def test_an_open_basis_is_read_alike_and_goes_into_the_row() -> None:
    readers, read = Readers(), 0
    for base in range(1, 60):
        for total in (False, True):
            at = base % len(COUNTS)
            body = payload((COUNTS[at:] + COUNTS[:at]) * 3, total=total, base=1000 * base + 500 * total)
            read += readers.compare(body, context_at())
    assert read > 50, "the native reader reads such spans"


def test_the_row_states_how_the_input_was_read() -> None:
    body = payload(((200, 100), (20, 5000), (300, 0)), total=False, base=1)
    parsed = parse(Payload("traces", body, json=False), context_at(), ParseRules(Prices()))
    assert parsed.calls is not None
    rows = parsed.calls.rows
    n = len(parsed.calls.records)
    assert [basis(rows, number) for number in range(n)] == [ASSUMED, SHOWN_EXCLUSIVE, 0]
    assert SHOWN_INCLUSIVE not in {basis(rows, number) for number in range(n)}


def basis(rows: bytes, number: int) -> int:
    return basis_of(unpack_fact(rows, number))
