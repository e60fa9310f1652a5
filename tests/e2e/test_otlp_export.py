"""Records on their way out as OTLP: to the service by `upstream.encoding: otlp`, and by exporters
over HTTP and gRPC to another gateway, all processes, through a kill of the sender.
"""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from benchmarks.bodies import Shape, Template
from tests.support.corpus import scenarios
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.service_process import ServiceProcess

SHAPE = Shape(spans=50, attributes=15)
REQUESTS = 8
OVER_HTTP, OVER_GRPC = "over_http", "over_grpc"


def load(url: str) -> int:
    """Post what every collection of the corpus has first, and unlike calls; how many requests."""
    collections = {scenario.name.partition("/")[0]: scenario for scenario in scenarios("traces")}
    template = Template(SHAPE)
    with httpx.Client() as client:
        for scenario in collections.values():
            for payload in scenario.payloads:
                kind = "json" if payload.is_json else "x-protobuf"
                headers = {"Content-Type": f"application/{kind}"}
                assert client.post(f"{url}/v1/traces", content=payload.body, headers=headers).status_code == 200
        for number in range(REQUESTS):
            body = template.body(number * SHAPE.spans)
            headers = {"Content-Type": "application/x-protobuf"}
            assert client.post(f"{url}/v1/traces", content=body, headers=headers).status_code == 200
    return len(collections) + REQUESTS


def groups(totals: dict[str, Any]) -> list[Any]:
    return sorted(totals["summary"], key=lambda row: (row["provider"] or "", row["model"] or ""))


async def test_the_service_and_another_gateway_get_every_record_once_through_a_kill(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    await asyncio.to_thread(service.start, "--fail", "503:0.2")
    (tmp_path / "far").mkdir()
    try:
        listen = dict.fromkeys(("http", "grpc", "admin", "service"), "127.0.0.1:0")
        with GatewayProcess(tmp_path / "far", config={"listen": listen}) as far:
            await asyncio.to_thread(through_a_kill, tmp_path, service, far)
    finally:
        service.kill()


def through_a_kill(folder: Path, service: ServiceProcess, far: GatewayProcess) -> None:
    assert service.port is not None
    config = {
        "upstream": service.upstream(service.port) | {"encoding": "otlp"},
        "exporters": {
            OVER_HTTP: {"type": "otlp", "endpoint": far.intake_url},
            OVER_GRPC: {"type": "otlp", "endpoint": f"http://{far.grpc_target}", "protocol": "grpc"},
        },
        "devices": {"enroll": "off"},
    }
    (folder / "near").mkdir()
    with GatewayProcess(folder / "near", config=config) as near:
        load(near.intake_url)
        near.kill()
        near.restart()
        load(near.intake_url)  # all of it again: the same calls
        kept = near.wait_until_delivered()["lanes"]["ai_telemetry"]
        near.wait_until_delivered(OVER_HTTP, at_least=kept["kept"])
        lanes = near.wait_until_delivered(OVER_GRPC, at_least=kept["kept"])["lanes"]
        assert {
            name: (lanes[name]["dead_lettered"], lanes[name]["unnamed_refusals"]) for name in lanes
        } == dict.fromkeys(lanes, (0, 0))
        assert broken_identities(near.status()) == []
        far.wait_until_delivered()
        stored = service.records()
        assert len(stored) == len({record["record_id"] for record in stored}) == kept["delivered"]
        assert REQUESTS * SHAPE.spans <= kept["delivered"]
        there = httpx.get(
            f"http://127.0.0.1:{service.port}/v2/ai-telemetry/summary", headers={"Authorization": service.read_key()}
        ).json()
        assert groups(there) == groups(far.summary())
        before = far.status()["edge"]["kept"]
        load(far.intake_url)  # from the applications themselves: known by their spans
        far.wait_until_delivered()
        assert far.status()["edge"]["kept"] == before
        assert broken_identities(far.status()) == []
