"""Unit-cost streams over a running gateway and its embedded service: each route under its scope."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
import pytest

from gateway.app import Gateway
from gateway.common.contract.scopes import (
    CREATE_STREAM_SCOPE,
    DELETE_STREAM_SCOPE,
    READ_UNIT_COST_SCOPE,
    UNIT_COST_SCOPE,
    Fixed,
)
from gateway.config.model import Config
from spool.record import UNIT_COST
from tests.support.keys_beside import BY
from tests.support.polling import HANGS_S

ANY_PORT = "127.0.0.1:0"
OWN, SERVICE = "/v1/unit-cost", "/unit-cost/v1/telemetry"
both = pytest.mark.parametrize("base", [OWN, SERVICE])
SHAPE = {"kind": "metric", "granularity": "MONTHLY", "dimensions": []}
DAY = {"timestamp": "2026-01-05", "value": "3"}
HOUR = {"timestamp": "2026-01-05T10:00:00Z", "granularity": "HOURLY", "element-name": "a", "filter": {}, "value": 1}


class Reply(NamedTuple):
    status: int
    json: Any


class Sender:
    def __init__(self, gateway: Gateway, session: aiohttp.ClientSession, keys: dict[str, str]) -> None:
        self.gateway = gateway
        self._session = session
        self._keys = keys

    async def ask(self, method: str, path: str, body: object = None, scope: str | None = None, **headers: str) -> Reply:
        sent = {"Content-Type": "application/json", **headers}
        if scope is not None:
            sent["Authorization"] = self._keys[scope]
        data = None if body is None else orjson.dumps(body)
        url = f"http://{self.gateway.ports.http}{path}"
        async with self._session.request(method, url, data=data, headers=sent) as answer:
            text = await answer.read()
            return Reply(answer.status, orjson.loads(text) if text else None)

    async def at_the_service(self, path: str) -> Reply:
        service = self.gateway.service
        assert service is not None
        key = (self.gateway.config.data_dir / "service-key").read_text().strip()
        async with self._session.get(
            f"http://127.0.0.1:{service.port}{SERVICE}{path}", headers={"Authorization": key}
        ) as answer:
            return Reply(answer.status, await answer.json())

    async def sent(self) -> None:
        """Nothing waits any more."""
        async with asyncio.timeout(HANGS_S):
            while self.gateway.spool.depth(UNIT_COST).pending:
                await self.gateway.spool.wait_ready(UNIT_COST, 0.05)


@pytest.fixture
async def sender(tmp_path: Path) -> AsyncIterator[Sender]:
    listen = {"http": ANY_PORT, "grpc": "off", "admin": ANY_PORT, "service": ANY_PORT}
    config = Config.model_validate({"data_dir": tmp_path / "data", "listen": listen})
    gateway = await Gateway.start(config)
    gateway.spool.settings = replace(gateway.spool.settings, linger_ms=0)
    keys = {}
    for scope in (CREATE_STREAM_SCOPE, DELETE_STREAM_SCOPE, READ_UNIT_COST_SCOPE, UNIT_COST_SCOPE):
        created = await gateway.keys.create(f"key {scope}", Fixed(frozenset({scope})), by=BY)
        keys[scope] = created.secret.reveal()
    async with aiohttp.ClientSession() as session:
        yield Sender(gateway, session, keys)
    await gateway.stop()


@both
async def test_each_route_takes_its_own_scope_alone(sender: Sender, base: str) -> None:
    one, records = f"{base}/answers", {"records": [DAY]}
    asked = {
        ("GET", base): (READ_UNIT_COST_SCOPE, None),
        ("PUT", one): (CREATE_STREAM_SCOPE, {"kind": "metric"}),
        ("GET", one): (READ_UNIT_COST_SCOPE, None),
        ("POST", f"{base}/metric/answers"): (UNIT_COST_SCOPE, records),
        ("POST", f"{base}/metric/answers/sum"): (UNIT_COST_SCOPE, records),
        ("POST", base): (UNIT_COST_SCOPE, {"records": [DAY | {"telemetry-stream": "answers"}]}),
        ("DELETE", f"{one}?force=true"): (DELETE_STREAM_SCOPE, None),
    }
    scopes = {scope for scope, _ in asked.values()}
    for (method, path), (scope, body) in asked.items():
        assert (await sender.ask(method, path, body)).status == 401
        for other in scopes - {scope}:
            assert (await sender.ask(method, path, body, other)).status == 403
        assert (await sender.ask(method, path, body, scope)).status in (200, 202), (method, path)
    assert (await sender.ask("PATCH", one, None, DELETE_STREAM_SCOPE)).status == 405


async def test_a_stream_is_made_here_and_at_the_service_and_deleted_in_both(sender: Sender) -> None:
    made = await sender.ask("PUT", f"{OWN}/months", SHAPE, CREATE_STREAM_SCOPE)
    assert (made.status, made.json["duplicate"]) == (202, 0)
    assert (await sender.ask("PUT", f"{OWN}/months", SHAPE, CREATE_STREAM_SCOPE)).json["duplicate"] == 1
    other = await sender.ask("PUT", f"{OWN}/months", SHAPE | {"granularity": "DAILY"}, CREATE_STREAM_SCOPE)
    assert (other.status, other.json["error"]["type"]) == (409, "stream_granularity")
    await sender.sent()
    assert (await sender.at_the_service("/months")).json["stream"] == {"name": "months", **SHAPE, "records": 0}
    refused = await sender.ask("POST", f"{OWN}/metric/months", {"records": [DAY]}, UNIT_COST_SCOPE)
    assert (refused.status, refused.json["error"]["type"]) == (422, "stream_granularity")
    listed = (await sender.ask("GET", f"{OWN}?kind=metric", None, READ_UNIT_COST_SCOPE)).json
    assert listed["streams"] == [{"name": "months", **SHAPE, "pending": 0}]
    assert (await sender.ask("DELETE", f"{OWN}/months", None, DELETE_STREAM_SCOPE)).status == 202
    assert (await sender.ask("GET", f"{OWN}/months", None, READ_UNIT_COST_SCOPE)).status == 404
    assert (await sender.ask("DELETE", f"{OWN}/months", None, DELETE_STREAM_SCOPE)).status == 404
    await sender.sent()
    assert (await sender.at_the_service("/months")).status == 404


async def test_a_post_counts_as_a_sum_and_is_kept_whole_or_not_at_all(sender: Sender) -> None:
    both = [HOUR | {"telemetry-stream": "hours"}, DAY | {"telemetry-stream": "days"}]
    assert (await sender.ask("POST", OWN, {"records": both}, UNIT_COST_SCOPE)).json["accepted"] == 2
    assert (await sender.ask("POST", f"{OWN}/metric/days", {"records": [DAY]}, UNIT_COST_SCOPE)).status == 202
    wrong = [DAY | {"telemetry-stream": "days"}, DAY | {"telemetry-stream": "days", "granularity": "MONTHLY"}]
    refused = await sender.ask("POST", OWN, {"records": wrong}, UNIT_COST_SCOPE)
    assert refused.status == 422
    assert refused.json["error"]["message"].startswith("records[1]: granularity")
    nameless = await sender.ask("POST", OWN, {"records": [DAY]}, UNIT_COST_SCOPE)
    assert (nameless.status, nameless.json["error"]["type"]) == (400, "invalid_stream")
    await sender.sent()
    assert [each["value"] for each in (await sender.at_the_service("/days/records")).json["records"]] == ["6"]
    assert [each["value"] for each in (await sender.at_the_service("/hours/records")).json["records"]] == ["1"]


async def test_a_shape_that_no_record_could_have_is_refused(sender: Sender) -> None:
    for body, code in (
        ([], "invalid_shape"),
        (SHAPE | {"more": 1}, "invalid_shape"),
        ({}, "invalid_kind"),
        ({"kind": "allocation"}, "missing_granularity"),
        (SHAPE | {"granularity": "HOURLY"}, "invalid_granularity"),
        (SHAPE | {"dimensions": ["Weather"]}, "unrecognized_filter"),
        (SHAPE | {"dimensions": ["custom:a", "custom:a"]}, "invalid_dimensions"),
    ):
        refused = await sender.ask("PUT", f"{OWN}/months", body, CREATE_STREAM_SCOPE)
        assert (refused.status, refused.json["error"]["type"]) == (400, code)
    assert (await sender.ask("PUT", f"{OWN}/a%20b", SHAPE, CREATE_STREAM_SCOPE)).json["error"][
        "type"
    ] == "invalid_stream"


async def test_records_are_deleted_with_their_stream_only_by_force_and_once_for_a_repeat(sender: Sender) -> None:
    repeated = {"Idempotency-Key": "once"}
    days, one = f"{OWN}/metric/days/sum", f"{OWN}/days"
    await sender.ask("POST", days, {"records": [DAY]}, UNIT_COST_SCOPE)
    await sender.sent()
    kept = await sender.ask("DELETE", one, None, DELETE_STREAM_SCOPE)
    assert (kept.status, kept.json["error"]["type"]) == (409, "stream_holds_records")
    assert (await sender.ask("DELETE", f"{one}?force=1", None, DELETE_STREAM_SCOPE)).status == 400
    deleted = await sender.ask("DELETE", f"{one}?force=true", None, DELETE_STREAM_SCOPE, **repeated)
    assert (deleted.status, deleted.json["duplicate"]) == (202, 0)
    await sender.sent()
    assert (await sender.at_the_service("/days")).status == 404
    await sender.ask("POST", days, {"records": [DAY]}, UNIT_COST_SCOPE)
    again = await sender.ask("DELETE", f"{one}?force=true", None, DELETE_STREAM_SCOPE, **repeated)
    assert (again.status, again.json["duplicate"]) == (202, 1)
    waits = (await sender.ask("GET", one, None, READ_UNIT_COST_SCOPE)).json["stream"]
    assert waits["pending"] == 1, "until its name is no longer blocked"


async def test_where_no_key_grants_the_deletion_the_lane_states_the_scope(sender: Sender) -> None:
    await sender.ask("POST", f"{OWN}/metric/days/sum", {"records": [DAY]}, UNIT_COST_SCOPE)
    await sender.sent()
    keyring = sender.gateway.lanes._keyring
    keyring.use([slot.setting for slot in keyring._slots if not slot.setting.grants(DELETE_STREAM_SCOPE)])
    await sender.ask("DELETE", f"{OWN}/days?force=true", None, DELETE_STREAM_SCOPE)
    async with asyncio.timeout(HANGS_S):
        while not sender.gateway.lanes.unit_cost.keeps_deletions:
            await sender.gateway.spool.wait_ready(UNIT_COST, 0.05)
    lane = sender.gateway.lanes.status(0)[UNIT_COST]
    assert (lane["state"], lane["reason"]) == ("held", f"no configured key grants {DELETE_STREAM_SCOPE}")
