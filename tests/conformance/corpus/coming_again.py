"""A record that comes again, as one gateway hands it to another: through `/v1/sources/records`
as it was, and through `/v1/traces` as the span that the OTLP exporter makes of it.
"""

import gzip
from typing import Any

import orjson

from exporters.otlp.encode import encode_spans
from tests.conformance.corpus.counting import Sent, counted
from tests.support.corpus import CANARY


async def assert_come_through(first: list[bytes]) -> None:
    """The records *first* are the same on both ways, each counted once."""
    body = b"\n".join(first)
    if not body:
        return
    forwarded: Sent = body, "/v1/sources/records", "application/x-ndjson", ""
    again = await counted(forwarded)
    assert not again.rejected
    assert again.outcomes["kept"] == len(first)
    assert by_id(again.records) == by_id(first)
    spans = encode_spans(first, packs=True).body
    assert encode_spans(first, packs=True).body == spans, "a retry has the same bytes"
    assert CANARY.encode() not in gzip.decompress(spans)
    back = await counted((spans, "/v1/traces", "application/x-protobuf", "gzip"), forwarded)
    assert not back.rejected
    assert by_id(back.records) == by_id(first)
    assert (back.outcomes["kept"], back.outcomes["duplicate"]) == (len(first), len(first))


def by_id(records: list[bytes]) -> dict[str, Any]:
    """Without null fields, which mean the same as absent ones."""
    return {(found := without_nulls(orjson.loads(record)))["record_id"]: found for record in records}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value
