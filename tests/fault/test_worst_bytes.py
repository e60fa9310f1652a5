"""Bytes that cost a reader most cost the gateway's own process no more than ordinary text does: the
short form of `python -m tests.fault.worst_bytes`, by CPU as a ratio.

What they cost the processes that read bodies is bounded by limits: `tests/unit/read`,
`tests/unit/pipeline/test_generated_bodies.py`. Compressed bytes have `test_decompression.py`.
"""

import gzip
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.fault.worst_bytes import CONFIG, NOWHERE
from tests.support.gateway_process import GatewayProcess
from tests.support.large_sender import LargeSender
from tests.support.native import needs_native
from tests.support.otlp_bytes import field
from tests.support.process_cpu import cpu_s
from tests.support.raw_posts import Posts, Sent
from tests.support.strain import MIB
from tests.support.worst_bodies import SPANS

BYTES = 8 * MIB
TIMES = 4.0
"""What the worst bytes may cost over what text does."""
LEAST_S = 0.04
"""Below, the cost of a request outweighs that of its bytes."""
TRIES = 3

JSON, PROTOBUF = "application/json", "application/x-protobuf"
NUMBERS = b"\x78\x00" * (BYTES // 2)

pytestmark = pytest.mark.timeout(300)


def span_of(inside: bytes) -> bytes:
    return field(1, field(2, field(2, inside)))


def protobuf(path: str, body: Callable[[], bytes]) -> Callable[[], Sent]:
    return lambda: sent(path, body(), PROTOBUF)


def sent(path: str, plain: bytes, kind: str) -> Sent:
    return Sent(path, gzip.compress(plain, 1), {"Content-Type": kind, "Content-Encoding": "gzip"}, plain)


TEXT = protobuf("/v1/traces", lambda: span_of(field(9, field(1, b"a") + field(2, field(1, b"x" * BYTES)))))
OVER_BOTH: Mapping[str, Callable[[], Sent]] = {
    "zeros": protobuf("/v1/traces", lambda: bytes(BYTES)),
    "unknown fields": protobuf("/v1/traces", lambda: NUMBERS),
    "unknown fields of a resource": protobuf("/v1/traces", lambda: field(1, NUMBERS)),
    "unknown fields of a scope": protobuf("/v1/traces", lambda: field(1, field(2, NUMBERS))),
    "unknown fields of a span": protobuf("/v1/traces", lambda: span_of(NUMBERS)),
    "groups": protobuf("/v1/logs", lambda: b"\x7b\x7c" * (BYTES // 2)),
    "attributes": protobuf("/v1/logs", lambda: field(1, field(2, field(2, b"\x32\x00" * (BYTES // 2))))),
    "points between other fields": protobuf(
        "/v1/metrics", lambda: field(1, field(2, field(2, field(7, b"\x0a\x00\x10\x02" * (BYTES // 4)))))
    ),
}
OVER_HTTP: Mapping[str, Callable[[], Sent]] = {
    "halves of pairs": lambda: sent("/v1/logs", b'{"a":"' + b"\\ud83dx" * (BYTES // 7) + b'"}', JSON),
    "short texts": lambda: sent(
        "/v1/traces", b'{"a":["' + b"," * 1_000_001 + b'"' + b',""' * (BYTES // 3) + b"]}", JSON
    ),
    "empty spans": lambda: sent("/v1/traces", SPANS.encode() + b"{}," * (BYTES // 3) + b"{}]}]}]}", JSON),
    "bad lines": lambda: sent("/v1/sources/generic", b"{\n" * (BYTES // 2), JSON),
    "a first line to be mended": lambda: sent(
        "/v1/sources/generic", b'{"a":"' + b"\\ud83dx" * (3 * MIB // 7) + b'"}\n' + b" " * 5 * MIB, JSON
    ),
    "bad events": lambda: sent("/v1/events", b"1\n" * (BYTES // 2), "application/x-ndjson"),
    "lists of events": lambda: sent("/v1/events", b"[" + b"[]," * (BYTES // 3) + b"1]", JSON),
    "unit cost": lambda: sent("/v1/unit-cost/metric/units/sum", b'{"records":[' + b"1," * (2 * MIB) + b"1]}", JSON),
}


class Costs:
    """What bodies cost the own process of one gateway."""

    def __init__(self, gateway: GatewayProcess, transport: str) -> None:
        self._gateway = gateway
        self._posts = Posts(gateway, transport)
        self.transport = transport
        self.of_text_s = max(LEAST_S, min(self.cost_s(TEXT()) for _ in range(TRIES)))

    def cost_s(self, sent: Sent) -> float:
        before_s = cpu_s(self._gateway.process.pid)
        assert self._posts.post(sent) in {200, 202, 400, 413}
        return cpu_s(self._gateway.process.pid) - before_s

    @property
    def ended(self) -> list[str]:
        """What the log states of processes that ended."""
        return [line for line in self._gateway.log.read_text().splitlines() if "worker ended" in line]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("http native", marks=needs_native),
        "http python",
        pytest.param("grpc native", marks=needs_native),
        "grpc python",
    ],
)
def costs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Costs]:
    transport, reader = request.param.split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELEMETRY_GATEWAY_READER", reader)
        folder = tmp_path_factory.mktemp("worst")
        with GatewayProcess(folder, config=CONFIG, upstream=NOWHERE, settle="10m") as gateway:
            with LargeSender(gateway, transport):  # both processes run, and what is read is learnt
                pass
            yield Costs(gateway, transport)


@pytest.mark.parametrize("name", [*OVER_BOTH, *OVER_HTTP])
def test_the_worst_bytes_cost_the_own_process_no_more_than_text(costs: Costs, name: str) -> None:
    if costs.transport == "grpc" and name in OVER_HTTP:
        pytest.skip("gRPC takes protobuf alone")
    body = {**OVER_BOTH, **OVER_HTTP}[name]()
    costs_s: list[float] = []
    while len(costs_s) < TRIES and min(costs_s, default=1e9) > TIMES * costs.of_text_s:
        costs_s.append(costs.cost_s(body))
    assert min(costs_s) <= TIMES * costs.of_text_s
    assert not costs.ended


def test_an_honest_body_is_answered_while_bad_ones_are_read(tmp_path: Path) -> None:
    """How fast, `python -m tests.fault.worst_bytes` measures."""
    with GatewayProcess(tmp_path, config=CONFIG, upstream=NOWHERE, settle="10m") as gateway:
        posts = Posts(gateway, "http")
        with LargeSender(gateway, "http") as honest:
            for name in ("unknown fields of a scope", "attributes", "points between other fields"):
                posts.post(OVER_BOTH[name]())
        assert honest.sent
        assert not honest.others
