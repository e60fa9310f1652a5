"""Request bodies and idempotency keys for the service. Pure; a retry has the same bytes.

Records travel byte for byte as the spool keeps them: the envelope is put around them,
and nothing is parsed again.
"""

import hashlib

import orjson

from spool.record import Batch

IDEMPOTENCY_HEX = 32


def encode_records(batch: Batch, gateway_id: str) -> bytes:
    """The `ai-telemetry/1` envelope around the batch's records, JSON."""
    head = orjson.dumps(
        {"schema": "ai-telemetry/1", "batch_id": batch.batch_id, "gateway_id": gateway_id, "sent_at": batch.sent_at}
    )
    parts = list(batch.records) or [b""]  # a probe has none
    parts[0] = head[:-1] + b',"records":[' + parts[0]
    parts[-1] += b"]}"
    return b",".join(parts)  # one copy: a second one keeps the event loop as long again


def encode_event(record: bytes, batch: Batch, gateway_id: str) -> bytes:
    """One usage event as the spool keeps it, with what the upstream needs to
    know it again in its `metadata`.

    `event_id` is the sender's; an event without one gets an id of its batch. `idempotency_key`
    follows from the event's id, so it is the same on every try, under whatever batch.
    """
    event = orjson.loads(record)
    metadata = event.setdefault("metadata", {})
    event_id = metadata.setdefault("event_id", _hex(f"{gateway_id}|{batch.lane}|{batch.batch_id}"))
    metadata.setdefault("idempotency_key", _hex(f"{batch.lane}|{event_id}"))
    return orjson.dumps(event)


def idempotency_key(batch: Batch, gateway_id: str) -> str:
    """32 hex digits: the same after silence, another after an answered failure (the
    service replays errors too).
    """
    return _hex(f"{gateway_id}|{batch.lane}|{batch.batch_id}|{batch.generation}")


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:IDEMPOTENCY_HEX]
