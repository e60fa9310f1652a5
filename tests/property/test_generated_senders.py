"""Over two thousand senders that no table knows: each call is counted once, never too high, and
exactly wherever anything that is sent shows what its numbers hold.
"""

from collections import defaultdict
from random import Random

import orjson
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from gateway.cli.normalising import records_of_payloads
from tests.support.generated_senders import APART, Sent, request_of, senders, sent_by

ALL = [sent_by(sender, number) for number, sender in enumerate(senders())]
IN_ORDER = [span for sent in ALL for span in sent.spans]


def pieces(spans: list[ResourceSpans], size: int) -> list[list[ResourceSpans]]:
    return [spans[at : at + size] for at in range(0, len(spans), size)]


def shuffled(spans: list[ResourceSpans], seed: int) -> list[ResourceSpans]:
    return Random(seed).sample(spans, len(spans))


SPLITS = {
    "in order": pieces(IN_ORDER, 200),
    "backwards": pieces(IN_ORDER[::-1], 200),
    "in small pieces": pieces(IN_ORDER, 3),
    "shuffled": pieces(shuffled(IN_ORDER, 7), 50),
    "at once": [IN_ORDER],
}


@pytest.mark.parametrize("split", SPLITS)
async def test_every_call_is_counted_once_and_never_too_high_and_nearly_all_exactly(split: str) -> None:
    payloads = [(request_of(spans), "/v1/traces", "application/x-protobuf", "") for spans in SPLITS[split]]
    records, _, _ = await records_of_payloads(payloads)
    by_trace = defaultdict(list)
    for record in map(orjson.loads, records):
        by_trace[record["trace"]["trace_id"]].append(record)
    assert len(ALL) > 2_000
    exact = 0
    for sent in ALL:
        (record,) = by_trace[sent.trace_id.hex()]
        usage, sender = record["usage"], sent.sender
        assert usage["input_tokens"] in _given_or_served(sent), sender.name
        is_assumed = "basis_assumed" in record["flags"]
        exact += usage["input_tokens"] == sent.served.input
        assert usage["input_tokens"] == sent.served.input or (is_assumed and sender.is_open), sender.name
        assert "basis_learnt" not in record["flags"] or (sender.provider in APART and sender.has_cache), sender.name
        assert usage["output_tokens"] == sent.served.output, sender.name
        assert "conflict" not in record["flags"], sender.name
    assert exact >= 0.97 * len(ALL)


def _given_or_served(sent: Sent) -> set[int]:
    """What the sender passes on, and what was served: never anything above."""
    cache = sent.served.cache_read if sent.sender.is_exclusive else 0
    return {sent.served.input - cache, sent.served.input}
