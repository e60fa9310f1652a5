"""`doctor` names a scope that is missing: of the gateway's keys in its configuration or at the
service, and of senders' keys. Keys that the local service makes for a gateway lack none.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from exporters.cost_service.liveness import LIVENESS_SCOPE
from gateway.app import Gateway
from gateway.common.contract.scopes import ENROLL_SCOPE, EVENT_SCOPE, HEARTBEAT_SCOPE, INGEST_SCOPE, PING_SCOPE, Fixed
from gateway.config.model import Upstream, UpstreamKey
from gateway.config.values import TcpAddress
from gateway.local_service.service import Service
from gateway.operate.findings.lanes import of_lane
from gateway.operate.findings.senders import refusal_remedy
from gateway.operate.findings.status import of_liveness, of_status
from gateway.pipeline.delivery.embedded import CONTROL_SCOPES, MADE_BY
from gateway.pipeline.delivery.lanes import FURTHER_NEEDS, LANE_NEEDS, further_without_scope, lanes_without_scope
from tests.support.polling import until_true
from tests.support.running_gateway import running_gateway


def upstream_with(*scopes: str) -> Upstream:
    key = UpstreamKey.model_validate({"name": "control", "secret": "not-asked", "scopes": list(scopes)})
    return Upstream(base_url="http://127.0.0.1:9", keys=(key,))


def test_each_scope_that_no_key_grants_is_named_with_what_follows() -> None:
    upstream = upstream_with("access-control:read_role")
    found = {**lanes_without_scope(upstream), **further_without_scope(upstream)}
    needed = [scope for scopes in LANE_NEEDS.values() for scope in scopes]
    needed += [scope for scope, _ in FURTHER_NEEDS.values()]
    assert [scope for scope in needed if not any(scope in text for text in found.values())] == []
    assert further_without_scope(upstream_with(*needed)) == {}


async def test_the_keys_that_the_local_service_makes_may_ask_whether_it_is_there(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        await gateway.lanes.liveness.look()
        assert gateway.lanes.liveness.status()["liveness"] == "ok"


async def test_keys_that_an_earlier_release_made_get_the_scope_and_keep_their_secret(tmp_path: Path) -> None:
    path = tmp_path / "data" / "service" / "control.key"
    async with running_gateway(tmp_path) as gateway:
        service = gateway.service
        assert service is not None
        earlier = Fixed(frozenset(CONTROL_SCOPES) - {LIVENESS_SCOPE})
        await service.keys.edit("gateway control", by=MADE_BY, grant=earlier)
        secret = path.read_text()
    async with running_gateway(tmp_path) as gateway:
        await gateway.lanes.liveness.look()
        assert gateway.lanes.liveness.status()["liveness"] == "ok"
    assert path.read_text() == secret


async def post_event(gateway: Gateway, session: aiohttp.ClientSession) -> None:
    assert isinstance(gateway.ports.http, TcpAddress)
    url = f"http://127.0.0.1:{gateway.ports.http.port}/v1/events"
    async with session.post(url, json={"title": "a", "source": "b"}) as response:
        assert response.status == 202


async def test_a_scope_that_the_key_lacks_at_the_service_is_named_and_what_to_do(tmp_path: Path) -> None:
    """Its configuration states that the key has it."""
    service = Service(tmp_path / "upstream")
    port = await service.start()
    made = await service.keys.create("control", Fixed(frozenset({"access-control:read_role"})), by=MADE_BY)
    key = {"name": "control", "secret": made.secret.reveal(), "scopes": [EVENT_SCOPE, LIVENESS_SCOPE]}
    upstream = {"base_url": f"http://127.0.0.1:{port}", "keys": [key]}
    async with running_gateway(tmp_path, upstream=upstream) as gateway, aiohttp.ClientSession() as session:
        await post_event(gateway, session)
        await until_true(lambda: lane(gateway)["state"] == "held", timeout_s=30, what="the key is refused")
        found = of_lane("usage_events", lane(gateway))
        assert found.level == "fault"
        assert f"the key 'control' is refused or lacks the scope {EVENT_SCOPE}" in found.whole
        assert found.remedy is not None
        assert f"given {EVENT_SCOPE} at the service" in found.remedy
        await gateway.lanes.liveness.look()
        asked = of_liveness(gateway.lanes.liveness.status())
        assert (asked.level, LIVENESS_SCOPE in asked.text) == ("warning", True)
    await service.stop()


def lane(gateway: Gateway) -> Any:
    return gateway.status()["lanes"]["usage_events"]


def test_an_upstream_that_no_key_may_ask_is_named_with_the_scope() -> None:
    found = of_liveness({"liveness": "no_key", "checked_at": None, "last_success_at": None})
    assert found.text.startswith(f"not asked, since no configured key grants {LIVENESS_SCOPE}; ")


ROUTES = {
    "/v1/events": [EVENT_SCOPE],
    "/v1/traces": [INGEST_SCOPE],
    "/v1/sources/litellm": [INGEST_SCOPE],
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": [INGEST_SCOPE],
    "/v1/devices/{device_id}/ping": [PING_SCOPE],
    "/v1/devices/{device_id}/heartbeat": [ENROLL_SCOPE, HEARTBEAT_SCOPE],
}


@pytest.mark.parametrize(("route", "scopes"), ROUTES.items(), ids=ROUTES)
def test_a_senders_key_that_was_refused_is_named_with_the_scope_and_the_command(route: str, scopes: list[str]) -> None:
    refused = {"reason": "scope_missing", "route": route, "last_key": "checkout"}
    options = " ".join(f"--scope {scope}" for scope in scopes)
    assert (
        refusal_remedy(refused)
        == f"`telemetry-gateway keys edit {options} checkout`, with the scopes that it has already"
    )


async def test_a_refused_sender_is_a_finding_of_doctor(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway, aiohttp.ClientSession() as session:
        made = await gateway.keys.create("checkout", Fixed(frozenset({EVENT_SCOPE})), by="ops@example.com")
        assert isinstance(gateway.ports.http, TcpAddress)
        headers = {"Authorization": made.secret.reveal(), "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{gateway.ports.http.port}/v1/traces"
        async with session.post(url, data=b"{}", headers=headers) as response:
            assert response.status == 403
        status: Mapping[str, Any] = json.loads(json.dumps(gateway.status()))
    remedies = [finding.remedy for finding in of_status(status)]
    assert (
        f"`telemetry-gateway keys edit --scope {INGEST_SCOPE} checkout`, with the scopes that it has already"
        in remedies
    )
