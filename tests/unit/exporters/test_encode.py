import hashlib
from dataclasses import replace

import orjson

from exporters.cost_service.encode import encode_event, encode_records, idempotency_key
from spool.record import Batch

RECORDS = (b'{"schema":"inference/1","record_id":"a","x":1.50}', b'{"record_id": "b",  "odd":"spaces kept"}')
BATCH = Batch("0199-b", "ai_telemetry", 0, 0, "2026-01-05T10:00:05Z", RECORDS)


def test_the_envelope_is_around_the_records_byte_for_byte() -> None:
    body = encode_records(BATCH, "gw-7f3a")
    assert body == (
        b'{"schema":"ai-telemetry/1","batch_id":"0199-b","gateway_id":"gw-7f3a","sent_at":"2026-01-05T10:00:05Z",'
        b'"records":[' + RECORDS[0] + b"," + RECORDS[1] + b"]}"
    )
    assert len(orjson.loads(body)["records"]) == 2


def test_attempts_and_generation_change_no_byte_of_the_body() -> None:
    assert encode_records(replace(BATCH, attempts=7, generation=3), "gw") == encode_records(BATCH, "gw")


def test_the_idempotency_key_is_the_contracts_hash_and_follows_the_generation() -> None:
    assert idempotency_key(BATCH, "gw") == hashlib.sha256(b"gw|ai_telemetry|0199-b|0").hexdigest()[:32]
    assert idempotency_key(replace(BATCH, attempts=5), "gw") == idempotency_key(BATCH, "gw")
    assert idempotency_key(replace(BATCH, generation=1), "gw") != idempotency_key(BATCH, "gw")


def test_an_event_keeps_its_own_ids_and_gets_those_it_lacks_the_same_on_every_try() -> None:
    own = b'{"title":"t","metadata":{"event_id":"evt-1","quantity":"120"}}'
    sent = orjson.loads(encode_event(own, BATCH, "gw"))
    assert sent["metadata"]["event_id"] == "evt-1"
    assert sent["metadata"]["quantity"] == "120"
    again = replace(BATCH, batch_id="0199-c", generation=4)
    assert encode_event(own, again, "gw") == encode_event(own, BATCH, "gw")

    bare = b'{"title":"t"}'
    metadata = orjson.loads(encode_event(bare, BATCH, "gw"))["metadata"]
    assert len(metadata["event_id"]) == 32
    assert encode_event(bare, replace(BATCH, generation=4), "gw") == encode_event(bare, BATCH, "gw")
    assert encode_event(bare, replace(BATCH, batch_id="0199-c"), "gw") != encode_event(bare, BATCH, "gw")
