"""Billing drops of senders at the running gateway: checked, on disk, and forwarded to a real local
service under the gateway's own key.
"""

import asyncio
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.common.contract.scopes import (
    DROP_SCOPE,
    INGEST_SCOPE,
    SEND_BILLING_DATA,
    VALIDATE_DROP_SCOPE,
    Fixed,
    Managed,
)
from gateway.common.storage.database import Database
from gateway.config.values import TcpAddress
from gateway.local_service.misbehave import Misbehave
from gateway.observability.metrics import relay_metric
from gateway.operate.site import delivery
from gateway.stores.sql.billing import relayed
from gateway.usage.billing import relay
from tests.support.billing_lane import CONNECTION, homes_in, lane_to
from tests.support.commands import run_telemetry_gateway
from tests.support.findings import texts_of, wrong_with
from tests.support.running_gateway import running_gateway
from tests.support.shown import shown as shown_page
from tests.support.shown import text_of
from tests.support.upstream import Reply, Upstream, running_upstream
from tests.unit.local_service.test_billing import at, body, charge, day_of, row
from tests.unit.usage.billing.rig import TOMORROW_MS, Far, call, count, far_end, none_due, until

BY: Final = "ops@example.com"
BASE: Final = "/v2/connections/billing/external"
DROPS: Final = f"{BASE}/{CONNECTION}/billing_drops"
VALIDATE: Final = f"{BASE}/validate_billing_drop"
Headers = Mapping[str, str]


class Sender(NamedTuple):
    gateway: Gateway
    session: aiohttp.ClientSession
    secret: str

    async def post(self, path: str, content: object, headers: Headers | None = None) -> tuple[int, Any]:
        assert isinstance(self.gateway.ports.http, TcpAddress)
        url = f"http://127.0.0.1:{self.gateway.ports.http.port}{path}"
        sent = {"Authorization": self.secret, "Content-Type": "application/json", **(headers or {})}
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        async with self.session.post(url, data=io.BytesIO(data), headers=sent) as response:
            return response.status, await response.json(content_type=None)

    async def drop(self, content: object, headers: Headers | None = None, path: str = DROPS) -> Any:
        status, answer = await self.post(path, content, headers)
        assert status == 200, answer
        return answer["connection"]

    @property
    def control(self) -> Database:
        files = self.gateway._stores.files
        assert files is not None
        return files.control

    async def states(self) -> list[tuple[str, str | None]]:
        """State of each drop and why it was refused, the oldest first."""
        return [
            (str(state), refused)
            for state, refused in await self.control.read(
                lambda c: c.execute("SELECT state, refused FROM billing_relayed ORDER BY drop_no").fetchall()
            )
        ]

    async def all_are(self, *states: str) -> bool:
        return {state for state, _ in await self.states()} <= set(states)

    def with_secret(self, secret: str) -> "Sender":
        return self._replace(secret=secret)


def upstream_of(port: int, secret: str) -> dict[str, object]:
    key = {"name": "billing", "secret": secret, "managed": [SEND_BILLING_DATA]}
    return {"base_url": f"http://127.0.0.1:{port}", "keys": [key]}


@asynccontextmanager
async def sending(folder: Path, **options: object) -> AsyncIterator[Sender]:
    async with running_gateway(folder, **options) as gateway, aiohttp.ClientSession() as session:
        grant = Managed(frozenset({SEND_BILLING_DATA}))
        secret_file = folder / "sender.key"
        if not secret_file.exists():
            secret_file.write_text((await gateway.keys.create("billing sender", grant, by=BY)).secret.reveal())
        yield Sender(gateway, session, secret_file.read_text())


@pytest.fixture
def misbehave() -> Misbehave | None:
    return None


@pytest.fixture
async def far(tmp_path: Path, misbehave: Misbehave | None) -> AsyncIterator[Far]:
    async with far_end(tmp_path / "far", misbehave) as opened:
        yield opened


async def test_a_key_for_send_billing_data_drops_to_a_connection_of_the_upstream(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        taken = await sender.drop(body(at(1), at(2)))
        assert taken == {"drop_id": taken["drop_id"], "month": "2026-01", "row_count": 2, "state": "waiting"}
        await sender.drop(day_of(charge("4")))
        await until(lambda: sender.all_are("delivered"))
        assert [drop["format"] for drop in await far.drops()] == ["cbf", "focus"]
        assert len(await far.rows()) == 3


async def test_drops_go_out_in_order_and_each_once(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        for cost in range(1, 21):
            await sender.drop(body(at(2, str(cost)), operation="replace_hourly"))
        await until(lambda: sender.all_are("delivered"))
        assert [each["cost/cost"] for each in await far.rows()] == ["20"]
        assert len(await far.drops()) == 20


async def test_a_repeat_of_a_request_is_one_drop(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        added = body(at(2), operation="sum")
        first = await sender.drop(added, {"Idempotency-Key": "k1"})
        assert await sender.drop(added, {"Idempotency-Key": "k1"}) == first
        status, answer = await sender.post(DROPS, body(at(3), operation="sum"), {"Idempotency-Key": "k1"})
        assert (status, answer["error"]["type"]) == (422, "idempotency_key_reused")
        forwarded = {"X-Gateway-Id": "gw-edge", "X-Batch-Id": "b1"}
        second = await sender.drop(added, {**forwarded, "Idempotency-Key": "other generation 0"})
        assert await sender.drop(added, {**forwarded, "Idempotency-Key": "other generation 1"}) == second != first
        await until(lambda: sender.all_are("delivered"))
        assert await sender.drop(added, {"Idempotency-Key": "k1"}) == first, "known after its delivery too"
        assert len(await far.drops()) == 2


BAD: Final[dict[str, tuple[object, int, str]]] = {
    "no JSON": (b"{", 400, "invalid_json"),
    "no rows": (body(), 400, "invalid_data"),
    "another month": (body(at(1)) | {"month": "2026-02"}, 400, "invalid_time/usage_start"),
    "a number that is no text": (body(row(**{"cost/cost": 1.5})), 400, "invalid_cost/cost"),
    "sums that are not those of the manifest": (day_of(charge(), costs={"USD": "9"}), 400, "manifest_mismatch"),
    "a currency that is none": (day_of(charge(BillingCurrency="ABC")), 400, "invalid_BillingCurrency"),
    "too large": (b" " * (relay.MAX_DROP_BYTES + 1), 413, "too_large"),
}


@pytest.mark.parametrize(("content", "status", "code"), BAD.values(), ids=BAD)
async def test_what_the_upstream_would_refuse_is_refused_at_once(
    tmp_path: Path, far: Far, content: object, status: int, code: str
) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        for path in (DROPS, VALIDATE):
            found, answer = await sender.post(path, content)
            assert (found, answer["error"]["type"]) == (status, code)
        assert await sender.states() == []


async def test_a_validation_keeps_nothing(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        assert await sender.post(VALIDATE, body(at(1))) == (200, {"connection": {"month": "2026-01", "row_count": 1}})
        assert await sender.states() == []


async def test_each_path_needs_its_own_scope(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        for scope, open_path in ((DROP_SCOPE, DROPS), (VALIDATE_DROP_SCOPE, VALIDATE), (INGEST_SCOPE, None)):
            made = await sender.gateway.keys.create(scope, Fixed(frozenset({scope})), by=BY)
            other = sender.with_secret(made.secret.reveal())
            found = {path: (await other.post(path, body(at(1))))[0] for path in (DROPS, VALIDATE)}
            assert found == {path: 200 if path == open_path else 403 for path in (DROPS, VALIDATE)}


async def test_the_connection_that_the_gateway_fills_itself_takes_no_drop_of_a_sender(tmp_path: Path, far: Far) -> None:
    options: dict[str, Any] = {
        "upstream": upstream_of(far.port, far.secret), "billing": {"connection": CONNECTION},
    }  # fmt: skip
    async with sending(tmp_path, **options) as sender:
        status, answer = await sender.post(DROPS, day_of(charge()))
        assert (status, answer["error"]["type"]) == (409, "connection_in_use")
        assert "billing.connection" in answer["error"]["message"]
        assert await sender.states() == []


async def test_what_waits_for_a_connection_is_held_once_the_gateway_fills_that_itself(tmp_path: Path, far: Far) -> None:
    keys: dict[str, Any] = upstream_of(far.port, far.secret)
    without: dict[str, Any] = {**keys, "keys": [{**keys["keys"][0], "managed": ["send-ai-telemetry"]}]}
    async with sending(tmp_path, upstream=without) as sender:
        await sender.drop(day_of(charge()))
    async with sending(tmp_path, upstream=keys, billing={"connection": CONNECTION}) as sender:
        await until(lambda: held(sender))
        assert "this gateway drops to the connection itself" in str(shown(sender)["reason"])
        assert await far.drops() == []


async def test_drops_are_held_while_no_key_grants_them_and_status_and_doctor_state_it(tmp_path: Path, far: Far) -> None:
    upstream: dict[str, Any] = upstream_of(far.port, far.secret)
    upstream["keys"][0]["managed"] = ["send-ai-telemetry"]
    async with sending(tmp_path, upstream=upstream) as sender:
        await sender.drop(body(at(1)))
        await until(lambda: held(sender))
        assert shown(sender)["waiting"] == 1
        (finding,) = [
            each for each in wrong_with(sender.gateway.status()) if each.what.startswith("billing connection")
        ]
        assert (finding.level, DROP_SCOPE in finding.whole) == ("fault", True)
        assert finding.remedy == f"add a key with {DROP_SCOPE} under upstream.keys, and restart"
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        await until(lambda: sender.all_are("delivered"))
    assert len(await far.drops()) == 1


async def held(sender: Sender) -> bool:
    return bool(sender.gateway.status()["billing_relay"]) and shown(sender)["state"] == "held"


def shown(sender: Sender, connection: str = CONNECTION) -> Mapping[str, object]:
    return next(each for each in sender.gateway.status()["billing_relay"] if each["connection"] == connection)


async def test_a_connection_that_is_not_established_holds_up_no_other(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        await sender.drop(body(at(1)), path=f"{BASE}/no-such/billing_drops")
        await sender.drop(body(at(1)))
        await until(lambda: any_is(sender, "delivered"))
        await until(lambda: is_held(sender, "no-such"))
        assert "connection_unknown" in str(shown(sender, "no-such")["reason"])
        await far.service.establish_connection("no-such")
        sender.gateway.relay.wake()
        await until(lambda: sender.all_are("delivered"))


async def any_is(sender: Sender, state: str) -> bool:
    return state in {each for each, _ in await sender.states()}


async def is_held(sender: Sender, connection: str) -> bool:
    found = [each for each in sender.gateway.status()["billing_relay"] if each["connection"] == connection]
    return bool(found) and found[0]["state"] == "held"


async def test_a_day_in_parts_is_forwarded_whole_also_where_the_upstream_lost_a_part(tmp_path: Path, far: Far) -> None:
    whole = {"parts": 3, "row_count": 3, "costs": {"USD": "7"}}
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        for part, cost in ((1, "1"), (2, "2")):
            await sender.drop(day_of(charge(cost), part=part, **whole))
        await until(lambda: sender.all_are("sent"))
        await far.service.database.write(lambda c: c.execute("DELETE FROM billing_parts"))
        await sender.drop(day_of(charge("4"), part=3, **whole))
        await until(lambda: sender.all_are("delivered"))
        assert await far.costs() == ["1", "2", "4"]


async def test_a_newer_revision_of_a_day_ends_the_parts_of_an_older_one(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        await sender.drop(day_of(charge("1"), parts=2, row_count=2, costs={"USD": "3"}))
        await until(lambda: sender.all_are("sent"))
        await sender.drop(day_of(charge("8"), revision="b" * 64))
        await until(lambda: sender.all_are("delivered"))
        assert await far.costs() == ["8"]


REFUSAL: Final = Reply(422, {"Content-Type": "application/json"}, b'{"error":{"type":"bad_row","message":"data[0]"}}')


@asynccontextmanager
async def refusing(folder: Path, reply: Reply) -> AsyncIterator[tuple[Sender, Upstream]]:
    async with running_upstream() as upstream:
        upstream.respond = lambda seen: reply if "billing_drops" in seen.path else Reply(200)
        async with sending(folder, upstream=upstream_of(int(upstream.base_url.rpartition(":")[2]), "key")) as sender:
            yield sender, upstream


async def test_a_drop_that_the_upstream_refuses_is_kept_and_goes_again_when_an_operator_says_so(
    tmp_path: Path,
) -> None:
    async with refusing(tmp_path, REFUSAL) as (sender, upstream):
        first = await sender.drop(body(at(1)))
        second = await sender.drop(body(at(2)))
        await until(lambda: sender.all_are("refused"))
        assert await sender.states() == [("refused", "bad_row: data[0]")] * 2
        await until(lambda: refused_are(sender, 2))
        findings = [each for each in wrong_with(sender.gateway.status()) if each.what.startswith("billing connection")]
        assert [each.level for each in findings] == ["fault"]
        upstream.respond = lambda seen: Reply(200)
        assert await sender.gateway.relay.retry(first["drop_id"])
        await until(lambda: any_is(sender, "delivered"))
        assert [state for state, _ in await sender.states()] == ["delivered", "refused"]
        assert not await sender.gateway.relay.retry(first["drop_id"]), "it is delivered"
        assert second["drop_id"] != first["drop_id"]


async def test_what_waits_or_was_refused_is_on_the_page_in_the_verdict_and_in_the_metrics(tmp_path: Path) -> None:
    async with refusing(tmp_path, REFUSAL) as (sender, _):
        await sender.drop(body(at(1)))
        await until(lambda: refused_are(sender, 1))
        status = sender.gateway.status()
        page = text_of(shown_page(delivery.VIEW, delivery.delivery(status)))
        assert f"{CONNECTION} ok 0 0 1" in page
        assert f"billing connection {CONNECTION}: 1 drop of senders was refused" in texts_of(status)
        samples = {each.labels["state"]: each.value for each in relay_metric(status["billing_relay"]).samples}
        assert samples == {"waiting": 0, "refused": 1}
        assert sender.gateway.status.logged_lanes()[f"billing_relay {CONNECTION}"]["state"] == "ok"


async def test_an_edge_drops_its_days_through_a_hub(tmp_path: Path, far: Far) -> None:
    """Each edge keeps its own `source`, and a day of several parts arrives whole."""
    database = await Database.open(tmp_path / "edge.db")
    homes = await homes_in(database)
    calls = [call(f"0.{team:03}", attribution={"team": f"team {team}"}) for team in range(1, 9)]
    await count(homes, *calls)
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as hub:
        assert isinstance(hub.gateway.ports.http, TcpAddress)
        async with lane_to(hub.gateway.ports.http.port, hub.secret, homes, now_ms=lambda: TOMORROW_MS) as lane:
            await until(lambda: none_due(lane))
        await until(lambda: hub.all_are("delivered"))
    await database.close()
    assert [(drop["source"], drop["row_count"]) for drop in await far.drops()] == [("gw-1", 8)]


def test_a_stopped_gateway_lists_its_drops_and_changes_them(tmp_path: Path) -> None:
    """By the command, on its files."""

    async def two_refused() -> list[str]:
        async with refusing(tmp_path, REFUSAL) as (sender, _):
            taken = [(await sender.drop(body(at(hour))))["drop_id"] for hour in (1, 2)]
            await until(lambda: sender.all_are("refused"))
            return taken

    first, second = asyncio.run(two_refused())
    relayed = partial(run_telemetry_gateway, "billing", "relayed", "--data-dir", str(tmp_path / "data"))
    listed = relayed("--state", "refused", "--json")
    assert (listed.code, [drop["refused"] for drop in listed.json["relayed"]]) == (1, ["bad_row: data[0]"] * 2)
    assert f"drop {first} goes out again" in relayed("--retry", first).out
    assert f"drop {second} is given up" in relayed("--remove", second).out
    assert relayed("--remove", second).code == 1
    shown = relayed()
    assert (shown.code, first in shown.out, "waiting" in shown.out, second in shown.out) == (0, True, True, False)


async def refused_are(sender: Sender, drops: int) -> bool:
    return sum(each["refused"] for each in sender.gateway.status()["billing_relay"]) == drops


async def test_a_sum_that_may_have_been_carried_out_is_not_sent_again_unasked(tmp_path: Path) -> None:
    async with refusing(tmp_path, Reply(500)) as (sender, upstream):
        await sender.drop(body(at(1), operation="sum"))
        await until(lambda: sender.all_are("refused"))
        assert sum("billing_drops" in seen.path for seen in upstream.seen) == 1


async def test_what_waits_is_bounded_and_the_sender_is_asked_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = body(at(1))
    monkeypatch.setattr(relayed, "MAX_WAITING_BYTES", 2 * len(json.dumps(drop)))
    async with refusing(tmp_path, Reply(503)) as (sender, _):
        for _ in range(2):
            await sender.drop(drop)
        status, answer = await sender.post(DROPS, drop)
        assert (status, "wait for the upstream already" in answer["error"]["message"]) == (503, True)


async def test_drops_that_come_at_once_open_no_more_connections_than_may_be(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        paths = [f"{BASE}/c{n}/billing_drops" for n in range(relay.MAX_CONNECTIONS + 8)]
        answers = await asyncio.gather(*(sender.post(path, body(at(1))) for path in paths))
        assert Counter(status for status, _ in answers) == {200: relay.MAX_CONNECTIONS, 503: 8}
        known = next(path for path, (status, _) in zip(paths, answers, strict=True) if status == 200)
        assert (await sender.post(known, body(at(2))))[0] == 200, "a known connection goes on"


async def test_refused_drops_are_bounded_and_the_oldest_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = body(at(1))
    monkeypatch.setattr(relayed, "MAX_REFUSED_BYTES", 2 * len(json.dumps(drop)))
    async with refusing(tmp_path, REFUSAL) as (sender, _):
        for _ in range(3):
            await sender.drop(drop)
        await until(lambda: sender.all_are("refused", "expired"))
        assert [state for state, _ in await sender.states()] == ["expired", "refused", "refused"]


@pytest.mark.parametrize("misbehave", [Misbehave(((500, 0.2),), reset=0.2)])
async def test_every_drop_arrives_over_an_upstream_that_fails(tmp_path: Path, far: Far) -> None:
    async with sending(tmp_path, upstream=upstream_of(far.port, far.secret)) as sender:
        for hour in range(6):
            await sender.drop(body(at(hour, str(hour)), operation="replace_hourly"))
        await until(lambda: sender.all_are("delivered"), timeout_s=60)
        assert [each["cost/cost"] for each in await far.rows()] == [str(hour) for hour in range(6)]
