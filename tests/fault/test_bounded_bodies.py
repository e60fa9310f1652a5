"""Bodies that cost their sender nothing: small on the wire, millions of objects if they were read.

Each against a real gateway, with a worker, without one, and as a device. Memory is that of all its
processes together; an honest sender asks all the while, and its slowest answer is the stall.
"""

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from gateway.usage_events.intake import MAX_EVENTS_BYTES
from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.otlp_bytes import field
from tests.support.strain import MIB, Strain, post, rss_bytes, straining

MOST_STALL_S = 0.3
TRIES = 3
"""The machine may be at other work: the best of so many stalls counts."""

pytestmark = pytest.mark.timeout(600)


class Setting(NamedTuple):
    config: dict[str, object]
    most_mib: int
    """That a body of some kilobytes may cost."""
    worst_bytes: int
    """A body just below the limit."""
    worst_mib: int
    """That such a one may cost."""
    worst_stall_s: float
    """Without a worker a thread reads it, which keeps the interpreter for one call into C."""
    series: int
    """That one body may name."""


FEW_SERIES = {"max_source_series": 20_000}
SETTINGS = {
    "server": Setting({"auth": "none", "limits": FEW_SERIES}, 150, 63 * MIB, 450, 0.3, 10_000),
    "no-worker": Setting({"auth": "none", "workers": "off", "limits": FEW_SERIES}, 150, 63 * MIB, 400, 1.0, 10_000),
    "device": Setting({"auth": "none", "profile": "device"}, 64, 15 * MIB, 130, 0.3, 2_000),
}


@pytest.fixture(scope="module", params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> Setting:
    return SETTINGS[request.param]


@pytest.fixture(scope="module")
def gateway(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    upstream = Upstream("http://127.0.0.1:9", "tgk_none") if setting.config.get("profile") == "device" else None
    with GatewayProcess(tmp_path_factory.mktemp("bounded"), config=setting.config, upstream=upstream) as process:
        assert post(process, "/v1/traces", b"")[0] == 200
        yield process


class Sent(NamedTuple):
    path: str
    body: bytes
    kind: str = "application/x-protobuf"


def strained(
    gateway: GatewayProcess, sent: Sent, *, zipped: bool = True, tries: int = TRIES
) -> tuple[int, str, Strain]:
    """Status and text of the answer, and what it cost."""
    status, text, best = 0, b"", None
    for _ in range(tries):
        with straining(gateway) as strain:
            status, text = post(gateway, sent.path, sent.body, kind=sent.kind, zipped=zipped)
        if best is None or strain.slowest_s < best.slowest_s:
            best = strain
        if best.slowest_s < MOST_STALL_S:
            break
    assert best is not None
    return status, text.decode("utf-8", "replace"), best


JSON = "application/json"
MANY = 5_000_000


def json_of(before: str, one: str, after: str, most: int = MANY // 2) -> bytes:
    return f"{before}{(one + ',') * most}{one}{after}".encode()


SPANS = '{"resourceSpans":[{"scopeSpans":[{"spans":['
SMALL: dict[str, Callable[[], Sent]] = {
    "empty spans": lambda: Sent("/v1/traces", field(1, field(2, b"\x12\x00" * MANY))),
    "empty ScopeSpans": lambda: Sent("/v1/traces", field(1, b"\x12\x00" * MANY)),
    "empty ResourceSpans": lambda: Sent("/v1/traces", b"\x0a\x00" * MANY),
    "empty log records": lambda: Sent("/v1/logs", field(1, field(2, b"\x12\x00" * MANY))),
    "empty ScopeLogs": lambda: Sent("/v1/logs", field(1, b"\x12\x00" * MANY)),
    "empty metrics": lambda: Sent("/v1/metrics", field(1, field(2, b"\x12\x00" * MANY))),
    "empty points": lambda: Sent("/v1/metrics", field(1, field(2, field(2, field(7, b"\x0a\x00" * MANY))))),
    "spans in JSON": lambda: Sent("/v1/traces", json_of(SPANS, "{}", "]}]}]}"), JSON),
    "ScopeSpans in JSON": lambda: Sent("/v1/traces", json_of('{"resourceSpans":[{"scopeSpans":[', "{}", "]}]}"), JSON),
    "ResourceSpans in JSON": lambda: Sent("/v1/traces", json_of('{"resourceSpans":[', "{}", "]}"), JSON),
    "log records in JSON": lambda: Sent(
        "/v1/logs", json_of('{"resourceLogs":[{"scopeLogs":[{"logRecords":[', "{}", "]}]}]}"), JSON
    ),
    "unknown values in JSON": lambda: Sent("/v1/traces", json_of('{"unknown":[', "[]", "]}"), JSON),
    "rows": lambda: Sent("/v1/sources/generic", json_of("[", "{}", "]"), JSON),
    "rows, one a line": lambda: Sent("/v1/sources/generic", b"{}\n" * (MANY // 2), JSON),
    "records": lambda: Sent(
        "/v2/ai-telemetry/records", json_of('{"schema":"ai-telemetry/1","records":[', "{}", "]}"), JSON
    ),
    "events": lambda: Sent("/v1/events", json_of("[", "{}", "]"), JSON),
    "events, one a line": lambda: Sent("/v1/events", b"1\n" * MANY, "application/x-ndjson"),
    "unit cost": lambda: Sent("/v1/unit-cost/metric/units/sum", json_of('{"records":[', "1", "]}", 2_000_000), JSON),
    "a device": lambda: Sent("/v1/devices", json_of('{"device_id":"d","labels":[', "{}", "]}"), JSON),
}


@pytest.mark.parametrize("name", SMALL)
def test_some_kilobytes_cost_no_memory_and_keep_no_one_waiting(
    gateway: GatewayProcess, setting: Setting, name: str
) -> None:
    status, text, strain = strained(gateway, SMALL[name]())
    assert status == 413, text[:300]
    assert re.search(r"raise limits\.max_|than \d+ bytes: send|in several requests", text), "it names the remedy"
    assert strain.grown_mib < setting.most_mib, strain
    assert strain.slowest_s < MOST_STALL_S, strain


NOW_NS = time.time_ns()
HOUR_NS = 3600 * 10**9


def fixed64(number: int, value: int) -> bytes:
    return bytes((number << 3 | 1,)) + value.to_bytes(8, "little")


def attribute(number: int, name: bytes, value: bytes) -> bytes:
    return field(number, field(1, name) + field(2, value))


def series(start: int, n: int) -> bytes:
    """Tokens of *n* models, each a series of its own."""
    points = (
        field(
            1,
            fixed64(2, NOW_NS - HOUR_NS)
            + fixed64(3, NOW_NS)
            + fixed64(6, 7)
            + attribute(7, b"gen_ai.request.model", field(1, b"model %d" % number))
            + attribute(7, b"gen_ai.token.type", field(1, b"input")),
        )
        for number in range(start, start + n)
    )
    metric = field(1, b"gen_ai.client.token.usage") + field(7, b"".join(points) + b"\x10\x02\x18\x01")
    return field(1, field(2, field(2, metric)))


def test_three_hundred_thousand_series_in_three_bodies_are_refused_in_little_memory(gateway: GatewayProcess) -> None:
    for start in range(0, 300_000, 100_000):
        status, text, strain = strained(gateway, Sent("/v1/metrics", series(start, 100_000)))
        assert status == 413
        assert re.search(r"raise limits\.max_(items|series)", text)
        assert strain.grown_mib < 64, strain
        assert strain.slowest_s < MOST_STALL_S, strain


def test_new_series_are_taken_in_little_memory_until_their_source_brought_too_many(
    gateway: GatewayProcess, setting: Setting
) -> None:
    a_body, together = setting.series, 20_000
    before_mib = rss_bytes(gateway.process.pid) / MIB
    for start in range(0, together, a_body):
        status, text, strain = strained(gateway, Sent("/v1/metrics", series(start, a_body)), tries=1)
        assert status == 200, text
        assert strain.most_bytes / MIB - before_mib < 200, strain
    status, text, strain = strained(gateway, Sent("/v1/metrics", series(0, a_body)), tries=1)
    assert status == 429
    assert "raise limits.max_source_series" in text
    assert strain.grown_mib < 64, strain


def full_of(attributes: bytes, size: int) -> bytes:
    """Spans that hold *attributes* each, *size* bytes together."""
    span = field(2, field(1, b"t" * 16) + field(2, b"s" * 8) + attributes)
    return field(1, field(2, span * (size // len(span))))


EMPTY_VALUES = attribute(9, b"a", field(5, b"\x0a\x00" * 9_000))
NAMES = b"".join(attribute(9, b"%04d" % n, b"") for n in range(5_000))
WORST: dict[str, Callable[[int], Sent]] = {
    "one span": lambda size: Sent("/v1/traces", full_of(attribute(9, b"a", field(1, b"x" * (size - 100))), size)),
    "empty values": lambda size: Sent("/v1/traces", full_of(EMPTY_VALUES, size)),
    "attributes": lambda size: Sent("/v1/traces", full_of(NAMES, size)),
    "attributes of log records": lambda size: Sent("/v1/logs", full_of(NAMES.replace(b"\x4a", b"\x32"), size)),
    "events": lambda size: Sent("/v1/traces", full_of(b"\x5a\x00" * 9_000, size)),
    "damaged": lambda size: Sent("/v1/traces", full_of(EMPTY_VALUES, size)[:-1]),
    "a text in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b"x" * size + b'"}', JSON),
    "escapes in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b"\\n" * (size // 2) + b'"}', JSON),
    "halves in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b"\\ud83d" * (size // 6) + b'"}', JSON),
    "quotes in JSON": lambda size: Sent("/v1/traces", b'{"a":"' + b'\\",' * (size // 3) + b'"}', JSON),
    "brackets": lambda size: Sent("/v1/traces", b"[" * size, JSON),
    "blank lines": lambda size: Sent("/v1/sources/generic", b"\n" * size, JSON),
    "bad lines": lambda size: Sent("/v1/sources/generic", b"{\n" * (size // 2), JSON),
    "one bad line": lambda size: Sent("/v1/sources/generic", b"[1" + b"\\" * size, JSON),
    "a long first line": lambda size: Sent("/v1/sources/generic", b'["' + b"x" * size + b'"]\n{}', JSON),
    "an event": lambda size: Sent(
        "/v1/events", b'{"title":"' + b"x" * (min(size, MAX_EVENTS_BYTES) - 12) + b'"}', JSON
    ),
    "bad events": lambda size: Sent(
        "/v1/events", b'{"title":"' + b"\\ud83dx" * (min(size, MAX_EVENTS_BYTES) // 7 - 2), JSON
    ),
}


@pytest.mark.parametrize("name", WORST)
def test_the_largest_body_of_the_worst_bytes_costs_bounded_memory_and_keeps_no_one_waiting(
    gateway: GatewayProcess, setting: Setting, name: str
) -> None:
    status, text, strain = strained(gateway, WORST[name](setting.worst_bytes), zipped=False)
    assert status in {200, 202, 400, 413}, text[:300]
    assert strain.grown_mib < setting.worst_mib, strain
    assert strain.slowest_s < setting.worst_stall_s, strain
