"""A device's heartbeat as it is posted -> checked fields. Pure.

Only the contract's fields are taken over (wire contract 6.4), each checked; whatever else a
device states stays behind.
"""

from typing import Any, NamedTuple

import orjson

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.read.json_size import has_more_values
from gateway.read.loose_json import place_of
from gateway.usage.events.checks import parsed_time
from spool.clock import rfc3339_ms

MAX_NAME = 128
MAX_BYTES = 256 * 1024
"""Far more than all texts that a body may state."""
MAX_VALUES = 4096
"""Objects, arrays and commas: it is read on the event loop."""
MAX_TEXTS = 64
"""Entries of `host`, `client`, `labels` and `counters` each."""
MAX_COUNT = 2**63 - 1
KINDS = ("workstation", "server", "gateway")


class Heartbeat(NamedTuple):
    instance_id: str
    sequence: int
    observed_at: str | None
    """RFC 3339 UTC with milliseconds; None when the device did not state."""
    last_activity_at: str | None
    status: str
    kind: str | None
    """None when the device did not state."""
    host: dict[str, str]
    client: dict[str, str]
    labels: dict[str, str]
    counters: dict[str, int]


def decode_heartbeat(body: bytes) -> Heartbeat:
    """Raises BadPayload, naming the field."""
    value = _object(body)
    instance_id = value.get("instance_id")
    if not isinstance(instance_id, str) or not 1 <= len(instance_id) <= MAX_NAME:
        raise BadPayload("instance_id must be a text of 1 to 128 characters")
    sequence = value.get("sequence")
    if not isinstance(sequence, int) or isinstance(sequence, bool) or not 0 <= sequence <= MAX_COUNT:
        raise BadPayload("sequence must be a whole number from 0 up")
    kind = _kind(value)
    return Heartbeat(
        instance_id,
        sequence,
        _time(value, "observed_at"),
        _time(value, "last_activity_at"),
        _text(value.get("status", "healthy"), "status"),
        kind,
        _texts(value, "host"),
        _texts(value, "client"),
        _texts(value, "labels"),
        _counters(value),
    )


class Enrolment(NamedTuple):
    device_id: str
    instance_id: str | None
    """None when the device did not state."""
    kind: str | None
    """The same."""
    details: dict[str, dict[str, str]]
    """`host`, `client` and `labels`, as far as they were reported."""


def decode_enrolment(body: bytes) -> Enrolment:
    """Raises BadPayload, naming the field."""
    value = _object(body)
    device_id = value.get("device_id")
    if not isinstance(device_id, str):
        raise BadPayload("device_id must be a text of 1 to 128 characters")
    instance_id = value.get("instance_id")
    details = {name: _texts(value, name) for name in ("host", "client", "labels")}
    return Enrolment(
        device_id,
        None if instance_id is None else _text(instance_id, "instance_id"),
        _kind(value),
        {name: said for name, said in details.items() if said},
    )


def _object(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_BYTES:
        raise TooLarge(f"the body is larger than {MAX_BYTES} bytes: send what describes the device alone")
    if has_more_values(body, MAX_VALUES):
        raise TooLarge(f"the body holds more than {MAX_VALUES} values: send what describes the device alone")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadPayload(f"the body is not valid JSON ({place_of(error)})") from error
    if not isinstance(value, dict):
        raise BadPayload("the body must be a JSON object")
    return value


def _kind(value: dict[str, Any]) -> str | None:
    kind = value.get("kind")
    if kind is not None and kind not in KINDS:
        raise BadPayload(f"kind must be one of {', '.join(KINDS)}")
    return kind


def _time(value: dict[str, Any], name: str) -> str | None:
    stamp = value.get(name)
    if stamp is None:
        return None
    time = parsed_time(stamp) if isinstance(stamp, str) else None
    if time is None:
        raise BadPayload(f"{name} must be an RFC 3339 time with an offset")
    return rfc3339_ms(int(time.timestamp() * 1000))


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME:
        raise BadPayload(f"{name} must be a text of 1 to 128 characters")
    return value


def _texts(value: dict[str, Any], name: str) -> dict[str, str]:
    found = value.get(name) or {}
    if not isinstance(found, dict):
        raise BadPayload(f"{name} must be an object of texts")
    if len(found) > MAX_TEXTS:
        raise BadPayload(f"{name} must have at most {MAX_TEXTS} entries")
    return {_text(key, f"a name in {name}"): _text(text, f"a value in {name}") for key, text in found.items()}


def _counters(value: dict[str, Any]) -> dict[str, int]:
    found = value.get("counters") or {}
    if not isinstance(found, dict) or len(found) > MAX_TEXTS:
        raise BadPayload(f"counters must be an object of at most {MAX_TEXTS} whole numbers from 0 up")
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MAX_COUNT for n in found.values()):
        raise BadPayload("counters must be an object of whole numbers from 0 up")
    return {_text(key, "a name in counters"): n for key, n in found.items()}
