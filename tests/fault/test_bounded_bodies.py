"""Bodies that cost their sender nothing: small on the wire, millions of objects if they were read.

Each against a real gateway, with a worker, without one, and as a device. Memory is that of all its
processes together; an honest sender asks all the while, and its slowest answer is the stall.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.otlp_bytes import field
from tests.support.strain import Strain, post, straining

MOST_STALL_S = 0.3
TRIES = 3
"""The machine may be at other work: the best of so many stalls counts."""
MIB = 1024 * 1024
WORST_BYTES = 63 * MIB

pytestmark = pytest.mark.timeout(600)


class Setting(NamedTuple):
    config: dict[str, object]
    most_mib: int
    """That a body of some kilobytes may cost."""
    worst_bytes: int
    """A body just below the limit."""
    worst_mib: int
    """That such a one may cost."""


SETTINGS = {
    "server": Setting({"auth": "none"}, 150, 63 * MIB, 700),
    "no-worker": Setting({"auth": "none", "workers": "off"}, 150, 63 * MIB, 500),
    "device": Setting({"auth": "none", "profile": "device"}, 64, 15 * MIB, 160),
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


def strained(gateway: GatewayProcess, sent: Sent, *, zipped: bool = True) -> tuple[int, str, Strain]:
    """Status and text of the answer, and what it cost."""
    for left in reversed(range(TRIES)):
        with straining(gateway) as strain:
            status, text = post(gateway, sent.path, sent.body, kind=sent.kind, zipped=zipped)
        if strain.slowest_s <= MOST_STALL_S or not left:
            break
    return status, text.decode("utf-8", "replace"), strain


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
