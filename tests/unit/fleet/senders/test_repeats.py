"""What a sender repeats counts for it once, as in the usage."""

import orjson

from gateway.fleet.senders.repeats import reported_once, sent_once


def record(service: str | None, *, status: str = "ok", usage: str = "reported", kind: str = "call") -> bytes:
    attribution = {} if service is None else {"service_name": service}
    return orjson.dumps({"kind": kind, "status": status, "usage": {"status": usage}, "attribution": attribution})


REPEATS = [
    record("bot"),
    record("bot", usage="missing"),
    record("bot", usage="missing", status="error"),
    record(None),
    record("bot", kind="aggregate"),
]


def test_repeated_calls_are_taken_off_by_service_and_items_stay() -> None:
    reported = [("bot", 10, 9, 4), (None, 2, 2, 0), ("other", 1, 1, 0)]
    assert reported_once(reported, REPEATS) == [("bot", 10, 6, 3), (None, 2, 1, 0), ("other", 1, 1, 0)]
    sent = [("bot", 3, 10, 9, 4, 800)]
    assert sent_once(sent, REPEATS) == [("bot", 3, 10, 6, 3, 800)]


def test_without_repeats_nothing_is_read() -> None:
    reported = [("bot", 10, 9, 4)]
    assert reported_once(reported, []) is reported
