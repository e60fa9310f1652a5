"""Device calls as records of the `devices` lane: `{"type", "device_id", "body"}`. Pure."""

import hashlib

import orjson

from gateway.decode.heartbeat import Heartbeat
from spool.clock import rfc3339_ms

EPOCH = 1


def enrolment_record(device_id: str, beat: Heartbeat, gateway_id: str, now_ms: int) -> bytes:
    """The enrolment of a device at its first contact; its id is the same each time, so a repeat enrols nobody twice."""
    said = {
        name: value for name, value in (("host", beat.host), ("client", beat.client), ("labels", beat.labels)) if value
    }
    body = {
        "enrollment_id": hashlib.sha256(f"enroll|{device_id}|{EPOCH}".encode()).hexdigest()[:32],
        "epoch": EPOCH,
        "device_id": device_id,
        "instance_id": beat.instance_id,
        "kind": beat.kind,
        "first_seen_at": rfc3339_ms(now_ms),
        "gateway_id": gateway_id,
        **said,
    }
    return orjson.dumps({"type": "enroll", "device_id": device_id, "body": body})


def heartbeat_record(device_id: str, beat: Heartbeat, gateway_id: str, now_ms: int) -> bytes:
    body = {
        "instance_id": beat.instance_id,
        "sequence": beat.sequence,
        "observed_at": beat.observed_at or rfc3339_ms(now_ms),
        "status": beat.status,
        "gateway_id": gateway_id,
    }
    if beat.last_activity_at is not None:
        body["last_activity_at"] = beat.last_activity_at
    if beat.counters:
        body["counters"] = beat.counters
    return orjson.dumps({"type": "heartbeat", "device_id": device_id, "body": body})
