"""A device's gateway from end to end: an SDK, the edge, the hub, the service; and a hub that
cannot or will not take more.
"""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from benchmarks.bodies import Shape, Template
from tests.support.commands import run_command, run_telemetry_gateway
from tests.support.gateway_pair import EDGE_KEY, GatewayPair, gateway_pair, until_empty
from tests.support.gateway_process import GatewayProcess, Status, broken_identities
from tests.support.polling import HANGS_S, until_true
from tests.support.sdk_application import Application, send_spans

CALLS = 20
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.usage.input_tokens": 1000,
    "gen_ai.usage.output_tokens": 10,
    "gen_ai.input.messages": "CANARY-7Q-device",
}


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[GatewayPair]:
    async with gateway_pair(tmp_path) as pair:
        await asyncio.to_thread(pair.hub.start)
        yield pair


def chat(application: Application, number: int) -> None:
    application.span(
        "chat gpt-4o-mini", {**CHAT, "gen_ai.response.id": f"chatcmpl-{number}"}, at=(number, number + 500)
    )


async def post(url: str, content: object) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.post(url, json=content) as answer:
        assert answer.status == 202, await answer.text()
        told: dict[str, Any] = await answer.json()
        return told


@contextmanager
def started(gateway: GatewayProcess) -> Iterator[GatewayProcess]:
    with gateway:
        yield gateway
        assert broken_identities(gateway.status()) == []


async def test_what_two_devices_send_arrives_once_with_who_sent_it(pair: GatewayPair) -> None:
    applications = {name: Application("notes") for name in ("ana", "ben")}
    with started(pair.edge("ana")) as ana, started(pair.edge("ben", devices={"own_id": "serial-7"})) as ben:
        for name, edge in (("ana", ana), ("ben", ben)):
            for number in range(CALLS):
                chat(applications[name], number + CALLS * (name == "ben"))
            await asyncio.to_thread(send_spans, edge.intake_url, applications[name].spans())
            event = {"title": "report", "source": "notes", "metadata": {"event_id": f"of-{name}"}}
            metered = {"event_id": f"m-{name}", "stream": "pages", "value": "4"}
            await post(edge.intake_url + "/v1/events", event)
            await post(edge.intake_url + "/v1/events", {**event, "route": "both", "metadata": metered})
            await post(edge.intake_url + "/v1/devices/watch-1/heartbeat", {"instance_id": name, "sequence": 1})
        for gateway in (ana, ben, pair.hub):
            await until_empty(gateway)
        ana_id = own_device(ana)
        await until_true(lambda: {ana_id, "serial-7", "watch-1"} <= set(service_devices(pair)), what="enrolled")
        assert own_device(ben) == "serial-7"
    records = pair.service.records()
    assert len(records) == 2 * CALLS
    assert sum(record["usage"]["input_tokens"] for record in records) == 2 * CALLS * 1000
    assert {(record["attribution"]["device_id"], record["attribution"]["key"]) for record in records} == {
        (ana_id, EDGE_KEY), ("serial-7", EDGE_KEY)
    }  # fmt: skip
    assert {record["cost"]["source"] for record in records} == {"estimated"}, "priced by the hub"
    assert all("unpriced" not in record["flags"] for record in records)
    assert sorted(pair.service.event_ids()) == ["m-ana", "m-ben", "of-ana", "of-ben"]
    assert unit_cost(pair) == {"pages": "8"}, "the devices' totals add up"
    assert {service_devices(pair)[device] for device in (ana_id, "serial-7")} == {"workstation"}
    assert "CANARY" not in json.dumps(records)


async def test_a_hub_shows_the_gateways_that_forward_to_it_with_what_waits_there(pair: GatewayPair) -> None:
    def edges() -> dict[str, dict[str, Any]]:
        answer = run_command(pair.hub, "devices", "list", "--kind", "gateway", "--json").json
        return {each["device_id"]: each for each in answer["devices"] if each["first_contact"] == "enrolment"}

    with started(pair.edge("one", profile="server", devices={"own_id": "edge-1"})):
        await until_true(lambda: bool(edges().get("edge-1", {}).get("counters")), what="its heartbeat")
        doctor = await asyncio.to_thread(run_command, pair.hub, "doctor", "--json")
    assert edges()["edge-1"]["counters"] == {"pending_records": 0, "oldest_pending_s": 0}
    (found,) = (each for each in doctor.json["findings"] if each["what"] == "edges")
    assert found["level"] == "ok"
    assert found["text"] == f"1 gateway forwards to this one; version {version('ai-telemetry-gateway')}"


async def test_a_call_that_reaches_the_hub_by_two_doors_is_one(pair: GatewayPair) -> None:
    application = Application("checkout")
    chat(application, 1)
    chat(application, 2)
    spans = application.spans()
    with started(pair.edge()) as edge:
        await asyncio.to_thread(send_spans, edge.intake_url, spans)
        await until_empty(edge)
        headers = {"Authorization": (pair.folder / "edge.key").read_text()}
        pushed = {
            "id": "chatcmpl-1", "call_type": "acompletion", "model": "gpt-4o-mini", "custom_llm_provider": "openai", "status": "success",
            "startTime": spans[0].start_time / 1e9, "endTime": spans[0].end_time / 1e9, "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,  # type: ignore[operator]  # spans that ended
            "response_cost": 0.004,
        }  # fmt: skip
        await asyncio.to_thread(send_again, pair.hub.intake_url, spans, headers["Authorization"])
        path = "/v1/sources/litellm"
        async with (
            aiohttp.ClientSession(pair.hub.intake_url, headers=headers) as session,
            session.post(path, json=[pushed]) as answer,
        ):
            assert answer.status == 200, await answer.text()
        hub = await until_empty(pair.hub)
    assert len(pair.service.records()) == 2
    assert hub["edge"]["duplicate"] >= 2
    assert broken_identities(hub) == []


@pytest.mark.slow  # as long as the hub asks for, and as a held lane waits for its first probe
async def test_a_hub_that_is_full_holds_the_lane_and_gets_everything_when_it_has_room(tmp_path: Path) -> None:
    small = {"max_bytes": "4MiB", "reserve_bytes": "16MiB"}
    async with gateway_pair(tmp_path, spool=small) as pair:
        await pair.far.cut()
        await asyncio.to_thread(pair.hub.start)
        with started(pair.edge()) as edge:
            sent = await send_until(edge, lambda: lane(edge.status())["state"] == "retrying")
            reason = lane(edge.status())["reason"]
            assert reason is not None
            assert "503" in reason
            assert lane(edge.status())["pending"] > 0
            pair.far.mend()
            status = await until_empty(edge, timeout_s=3 * HANGS_S)
            hub = await until_empty(pair.hub)
        assert lane(status)["delivered"] == lane(hub)["delivered"] == len(pair.service.records()) == sent
        assert lane(status)["dead_lettered"] == lane(status)["expired"] == 0


@pytest.mark.slow  # as above
async def test_a_key_that_the_hub_disables_holds_the_lanes_and_keeps_the_data(pair: GatewayPair) -> None:
    with started(pair.edge()) as edge:
        await command(pair, "disable")
        sent = await send_until(edge, lambda: lane(edge.status())["state"] == "held")
        assert lane(edge.status())["pending"] == sent
        assert pair.service.records() == []
        await command(pair, "enable")
        status = await until_empty(edge)
        await until_empty(pair.hub)
    assert lane(status)["delivered"] == len(pair.service.records()) == sent


def test_a_device_without_a_hub_is_refused_with_the_options_name(tmp_path: Path) -> None:
    ended = run_telemetry_gateway("run", "--profile", "device", "--data-dir", str(tmp_path / "data"))
    assert ended.code == 1
    assert "upstream.base_url" in ended.err
    assert not (tmp_path / "data").exists()


def lane(status: Status) -> dict[str, Any]:
    found: dict[str, Any] = status["lanes"]["ai_telemetry"]
    return found


async def send_until(edge: GatewayProcess, condition: Callable[[], bool]) -> int:
    """Send spans until *condition* holds; how many."""
    template, requests = Template(Shape(spans=100, attributes=15)), 0
    async with aiohttp.ClientSession() as session, asyncio.timeout(HANGS_S):
        while not await asyncio.to_thread(condition):
            body, headers = template.body(requests), template.headers()
            async with session.post(edge.intake_url + "/v1/traces", data=body, headers=headers) as answer:
                assert answer.status == 200, "the edge has room, and says yes"
            requests += 1
            await asyncio.sleep(0.02)
    return requests * 100


def send_again(url: str, spans: Sequence[ReadableSpan], key: str) -> None:
    """The same spans, straight to the hub."""
    exporter = OTLPSpanExporter(url + "/v1/traces", headers={"Authorization": key})
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    exporter.shutdown()


async def command(pair: GatewayPair, verb: str) -> None:
    ended = await asyncio.to_thread(run_command, pair.hub, "keys", verb, EDGE_KEY)
    assert ended.code == 0, ended.err


def service_devices(pair: GatewayPair) -> dict[str, str]:
    """Device -> kind."""
    return dict(rows(pair.service.data_dir / "service" / "service.db", "SELECT device_id, kind FROM devices"))


def own_device(gateway: GatewayProcess) -> str:
    """The id of the device that the gateway is itself."""
    ((device_id,),) = rows(gateway.data_dir / "control.db", "SELECT device_id FROM devices WHERE origin = 'gateway'")
    return str(device_id)


def unit_cost(pair: GatewayPair) -> dict[str, str]:
    """Stream -> value of its one place."""
    select = "SELECT name, value FROM unit_cost_records JOIN unit_cost_streams USING (stream_no)"
    return dict(rows(pair.service.data_dir / "service" / "service.db", select))


def rows(database: Path, select: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(select).fetchall()
