"""What every contract test of an exporter gets: an upstream, a clock, a spool,
and the exporter with its lane.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporters.base import Exporter
from exporters.clock import SystemClock
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.devices import SCOPES, DeviceCalls
from exporters.cost_service.lanes import (
    AI_TELEMETRY_SCOPE,
    EVENTS_SCOPE,
    AiTelemetryExporter,
    OtlpTelemetryExporter,
    UsageEventsExporter,
)
from exporters.cost_service.unit_cost import (
    CREATE_SCOPE,
    DELETE_SCOPE,
    MANAGE_SCOPE,
    READ_SCOPE,
    UnitCostExporter,
    UnitCostSettings,
)
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.pump import BatchLimits
from exporters.secret import Secret
from spool.span_form import RECORD_ID
from spool.store import LaneStore
from spool.unit_cost import BaseRecord
from tests.support.durable_spool import DurableSpool
from tests.support.manual_clock import ManualClock
from tests.support.memory_spool import MemorySpool
from tests.support.upstream import Seen, Upstream, running_upstream

KEY = "upstream-key-4711-hush"
NOW_UNIX_S = 1_767_607_200.0  # 2026-01-05T10:00:00Z


@dataclass(frozen=True, slots=True)
class Case:
    """One exporter under the contract, and how its lane looks."""

    name: str
    lane: str
    limits: BatchLimits
    path: str
    make_record: Callable[[int], bytes]
    numbers_in: Callable[[Seen], list[int]]
    """Which records a request held."""
    content_type: str = "application/json"
    content_encoding: str | None = None


def ai_record(number: int) -> bytes:
    return orjson.dumps({"schema": "inference/1", "record_id": f"{number:032x}", "kind": "call"})


def spans_in(seen: Seen) -> list[tuple[str, Span]]:
    """Each span of a request, with its position; the upstream has unpacked its body."""
    request = ExportTraceServiceRequest.FromString(seen.body)
    return [
        (f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]", span)
        for i, resource in enumerate(request.resource_spans)
        for j, scope in enumerate(resource.scope_spans)
        for k, span in enumerate(scope.spans)
    ]


def number_of(span: Span) -> int:
    (record_id,) = (each.value.string_value for each in span.attributes if each.key == RECORD_ID)
    return int(record_id, 16)


def span_ids_in(seen: Seen) -> list[bytes]:
    return [span.span_id for _, span in spans_in(seen)]


def event_record(number: int) -> bytes:
    return orjson.dumps({"title": "tokens.used", "source": "s", "metadata": {"event_id": f"evt-{number}"}})


def unit_record(number: int) -> bytes:
    record = {"timestamp": "2026-01-05T10:00:00Z", "granularity": "HOURLY", "element_name": f"e{number}", "filter": {}}
    item = {"stream": "tokens", "kind": "allocation", "operation": "replace", "record": record | {"value": "7"}}
    return orjson.dumps(item)


async def learn_no_base(stream: str, base: Sequence[BaseRecord] | None) -> None:
    raise AssertionError("nothing was to be read")


async def block_nothing(stream: str, for_s: float) -> None:
    raise AssertionError("no name was blocked")


CASES = {
    "ai_telemetry": Case(
        "ai_telemetry",
        "ai_telemetry",
        BatchLimits(),
        "/v2/ai-telemetry/records",
        ai_record,
        lambda seen: [int(record["record_id"], 16) for record in orjson.loads(seen.body)["records"]],
    ),
    "ai_telemetry_otlp": Case(
        "ai_telemetry_otlp",
        "ai_telemetry",
        BatchLimits(),
        "/v2/ai-telemetry/otlp/v1/traces",
        ai_record,
        lambda seen: [number_of(span) for _, span in spans_in(seen)],
        "application/x-protobuf",
        "gzip",
    ),
    "usage_events": Case(
        "usage_events",
        "usage_events",
        BatchLimits(max_records=1, in_flight=8),
        "/events/v1/events",
        event_record,
        lambda seen: [int(orjson.loads(seen.body)["metadata"]["event_id"].removeprefix("evt-"))],
    ),
    "unit_cost": Case(
        "unit_cost",
        "unit_cost",
        BatchLimits(max_records=3000),
        "/unit-cost/v1/telemetry/allocation/tokens/replace",
        unit_record,
        lambda seen: [int(record["element_name"].removeprefix("e")) for record in orjson.loads(seen.body)["records"]],
    ),
}


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with running_upstream() as running:
        yield running


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class SpoolUnderTest(LaneStore, Protocol):
    """A lane store that tests can put records in and look into; the contract
    holds on each home of the spool.
    """

    async def put(self, lane: str, records: Sequence[bytes]) -> None: ...

    def dead_letters(self, lane: str) -> list[tuple[bytes, str, str]]: ...

    def leased(self, lane: str) -> int: ...


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path) -> AsyncIterator[SpoolUnderTest]:
    if request.param == "memory":
        yield MemorySpool(clock)
    else:
        durable = DurableSpool(tmp_path / "data")
        yield durable
        await durable.close()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "upstream.key"
    path.write_text(KEY)
    return path


@pytest.fixture
def keyring(key_file: Path) -> Keyring:
    everything = {
        AI_TELEMETRY_SCOPE,
        EVENTS_SCOPE,
        *SCOPES.values(),
        "insights:read_insights",
        MANAGE_SCOPE,
        READ_SCOPE,
        CREATE_SCOPE,
        DELETE_SCOPE,
    }
    return Keyring([KeySetting("all", Secret(f"${{file:{key_file}}}"), everything.__contains__)])


@pytest.fixture
async def client(upstream: Upstream, keyring: Keyring) -> AsyncIterator[CostServiceClient]:
    made = CostServiceClient(Endpoint(upstream.base_url), keyring, "gw-7f3a", now_unix_s=lambda: NOW_UNIX_S)
    yield made
    await made.close()


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    name: str = request.param
    return CASES[name]


@pytest.fixture
def device_calls(client: CostServiceClient) -> DeviceCalls:
    return DeviceCalls(client)


@pytest.fixture
def exporter(case: Case, client: CostServiceClient) -> Exporter:
    match case.name:
        case "ai_telemetry":
            return AiTelemetryExporter(client)
        case "ai_telemetry_otlp":
            return OtlpTelemetryExporter(client)
        case "unit_cost":
            return UnitCostExporter(client, UnitCostSettings(learn_no_base, block_nothing), SystemClock())
        case _:
            return UsageEventsExporter(client, repeatable=True)
