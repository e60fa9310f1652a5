"""Telemetry of devices through the whole intake: who is enrolled by it, and what a
blocked one's data becomes.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from exporters.otlp.encode import encode_spans
from gateway.common.contract.errors import DeviceBlocked, TooManyDevices
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.devices.backfill import add_named
from gateway.fleet.devices.intake import DeviceIntake
from gateway.fleet.devices.store import DeviceStore
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.intake import GatewayIntake
from gateway.pipeline.metrics import Settings
from gateway.pipeline.parsing.parse import ParseRules
from gateway.pipeline.parsing.parser import Parser
from gateway.pipeline.settle import Settler
from gateway.rules.context import Context, Machines
from gateway.stores.sql.devices import SqlDevices
from gateway.usage.pricing.prices import Prices
from spool.record import AI_TELEMETRY
from spool.sqlite.spool import SqliteSpool
from tests.conformance.exporters.test_otlp import FULL
from tests.support.device_senders import attributes, heartbeat, resource_spans, telemetry
from tests.support.spool_rig import Clock, metering, open_spool
from tests.unit.fleet.devices.conftest import GATEWAY_ID
from tests.unit.products.test_langfuse import batch, create, trace, update

ANYONE = Sender(key=None, peer="192.0.2.1")


class Whole:
    """An intake with its spool and its devices."""

    def __init__(
        self,
        spool: SqliteSpool,
        counting: Settler,
        store: DeviceStore,
        database: Database,
        *,
        enrolls: bool,
        clock: Clock,
    ) -> None:
        self.spool, self.counting, self.store, self.database = spool, counting, store, database
        self.clock, self.enrolls = clock, enrolls
        self.open()

    def open(self, *, needs_row: bool = False, own_device: str | None = None) -> None:
        devices = DeviceIntake(self.store, telemetry_enrolls=self.enrolls, needs_row=needs_row)
        front = Front(
            self.spool,
            Core(self.spool, self.counting),
            Parser(ParseRules(Prices())),
            now_ms=self.clock,
            context=Context(
                0, "", machines=Machines(b"secret" * 4) if self.enrolls else Machines(), own_device=own_device
            ),
            devices=devices,
        )
        self.intake = GatewayIntake(self.spool, front, metering(self.spool, self.clock), devices)

    async def send(self, *resources: dict[str, Any]) -> Receipt:
        return await self.intake.traces(telemetry(*resources).body, json=True, sender=ANYONE)

    async def states(self) -> dict[str, str]:
        return {device.device_id: device.state for device in await self.store.read(lambda kept: kept.not_in(()))}

    async def block(self, device_id: str) -> None:
        device = await self.store.find(device_id)
        await self.store.change(lambda kept: kept.save(device, state="blocked"))

    async def records(self) -> list[dict[str, Any]]:
        await self.counting.settle_due(1 << 60)
        batch = await self.spool.freeze(AI_TELEMETRY, max_records=1000, max_bytes=1 << 22)
        return [] if batch is None else [json.loads(record) for record in batch.records]


@pytest.fixture(params=[True])
async def whole(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Whole]:
    clock = Clock()
    spool = open_spool(tmp_path, clock, settling=(AI_TELEMETRY,))
    counting = Settler(
        spool, settle_ms=1, window_ms=600_000, max_keys=10_000, now_ms=spool.age_ms, metrics=Settings(settle_ms=1),
        price=Prices().price,
    )  # fmt: skip
    database = await Database.open(tmp_path / "control.db")
    store = await DeviceStore.open(
        await SqlDevices.open(database),
        gateway_id=GATEWAY_ID,
        max_new_per_hour=10,
        interval_ms=60_000,
        now_ms=spool.age_ms,
        wall_ms=clock,
    )
    yield Whole(spool, counting, store, database, enrolls=request.param, clock=clock)
    await counting.aggregates.close()
    await store.close()
    await database.close()
    await spool.close()


async def test_device_id_and_host_id_enrol_and_names_of_pods_and_hosts_do_not(whole: Whole) -> None:
    await whole.send(
        resource_spans({"service.name": "a", "device.id": "d", "host.id": "h"}),
        resource_spans({"service.name": "b", "host.id": "h2"}),
        resource_spans({"service.name": "c", "k8s.pod.name": "pod-1", "host.name": "node-1", "container.id": "c-1"}),
        resource_spans({"service.name": "checkout", "host.name": "mbp", "user.id": "ann"}),
    )
    assert await whole.states() == {"d": "pending", "h2": "pending"}


async def test_resources_without_a_call_enrol_nobody(whole: Whole) -> None:
    await whole.send({"resource": {"attributes": attributes({"host.id": "collector"})}, "scopeSpans": []})
    other = json.loads(telemetry(resource_spans({"host.id": "web"})).body)
    other["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = attributes({"http.request.method": "GET"})
    receipt = await whole.intake.traces(json.dumps(other).encode(), json=True, sender=ANYONE)
    assert receipt.items == 1
    assert await whole.states() == {}


async def test_a_coding_assistants_machine_is_named_by_host_and_user_and_shows_neither(whole: Whole) -> None:
    assistant: dict[str, str | int] = {"service.name": "claude-code", "host.name": "mbp-of-ann"}
    await whole.send(
        resource_spans({**assistant, "user.id": "ann"}),
        resource_spans({**assistant, "user.id": "ann"}),
        resource_spans({**assistant, "user.id": "bob"}),
        resource_spans({**assistant}),
        resource_spans({**assistant, "user.id": "ann", "device.id": "said"}),
    )
    states = await whole.states()
    named = [name for name in states if name.startswith("machine-")]
    assert len(named) == 2
    assert set(states) == {*named, "said"}
    assert "ann" not in "".join(named)
    devices = [record["attribution"].get("device_id") for record in await whole.records()]
    assert devices == [devices[0], devices[0], devices[2], None, "said"]
    rows = await whole.store.read(lambda kept: kept.not_in(()))
    assert "mbp" not in repr(rows)


async def test_an_assistant_that_names_its_user_with_each_log_names_its_machine(whole: Whole) -> None:
    said = {
        "event.name": "api_request", "model": "claude-sonnet-4-5-20250929", "input_tokens": 12, "output_tokens": 3,
        "cost_usd": "0.1", "request_id": "req_1", "user.email": "ann@example.com",
    }  # fmt: skip
    log = {"timeUnixNano": "1767607200000000000", "body": {"stringValue": "claude_code.api_request"}}
    body = {
        "resourceLogs": [{
            "resource": {"attributes": attributes({"service.name": "claude-code", "host.name": "mbp"})},
            "scopeLogs": [{"scope": {"name": "com.anthropic.claude_code.events"},
                           "logRecords": [{**log, "attributes": attributes(said)}]}],
        }]
    }  # fmt: skip
    await whole.intake.logs(json.dumps(body).encode(), json=True, sender=ANYONE)
    (name,) = await whole.states()
    assert name.startswith("machine-")
    (record,) = await whole.records()
    assert (record["attribution"]["device_id"], record["attribution"]["user"]) == (name, "ann@example.com")


@pytest.mark.parametrize("whole", [False], indirect=True)
async def test_where_telemetry_enrols_nobody_a_posted_device_is_known_and_no_machine_is_named(whole: Whole) -> None:
    await whole.send(
        resource_spans({"device.id": "d"}),
        resource_spans({"service.name": "claude-code", "host.name": "mbp", "user.id": "ann"}),
    )
    assert await whole.states() == {}
    beat = heartbeat("d")
    await whole.intake.heartbeat("d", beat.body, sender=ANYONE)
    assert await whole.states() == {"d": "pending"}
    assert [record["attribution"].get("device_id") for record in await whole.records()] == ["d", None]


async def test_a_blocked_devices_calls_are_rejected_and_those_of_others_are_kept(whole: Whole) -> None:
    await whole.send(resource_spans({"device.id": "bad"}), resource_spans({"device.id": "good"}))
    await whole.block("bad")
    receipt = await whole.send(resource_spans({"device.id": "bad"}, calls=2), resource_spans({"device.id": "good"}))
    assert (receipt.items, [rejection.reason for rejection in receipt.rejected]) == (3, ["device_blocked"] * 2)
    edge = whole.spool.edge()
    assert (edge["received"], edge["kept"], edge["rejected"]) == (5, 3, 2)
    assert whole.spool.reasons() == {"rejected.device_blocked": 2}
    assert len(await whole.records()) == 3


async def test_a_payload_of_blocked_devices_alone_is_refused_and_counted(whole: Whole) -> None:
    await whole.send(resource_spans({"device.id": "bad"}))
    await whole.block("bad")
    with pytest.raises(DeviceBlocked, match="the device is blocked"):
        await whole.send(resource_spans({"device.id": "bad"}))
    edge = whole.spool.edge()
    assert (edge["received"], edge["kept"], edge["rejected"]) == (2, 1, 1)


def metrics_of(*device_ids: str) -> bytes:
    points = {"asDouble": 5, "timeUnixNano": "1767607200000000000", "startTimeUnixNano": "1767607100000000000"}
    said = {"type": "input", "model": "claude-sonnet-4-5"}
    metric = {
        "name": "claude_code.token.usage",
        "sum": {"aggregationTemporality": 1, "isMonotonic": True, "dataPoints": [{**points, "attributes": attributes(said)}]},
    }  # fmt: skip
    return json.dumps(
        {
            "resourceMetrics": [
                {
                    "resource": {"attributes": attributes({"service.name": "claude-code", "device.id": device_id})},
                    "scopeMetrics": [{"scope": {"name": "com.anthropic.claude_code"}, "metrics": [metric]}],
                }
                for device_id in device_ids
            ]
        }
    ).encode()


OTHERS: dict[str, Any] = {**FULL, "trace": None, "request_id": None}
"""A record that nothing relates to another."""


async def test_another_gateways_spans_of_a_blocked_device_are_rejected_one_by_one(whole: Whole) -> None:
    """A 403 would hold all that the other gateway has to send."""

    def spans(*devices: str) -> bytes:
        records = [
            {**OTHERS, "record_id": f"{n:032x}", "response_id": device, "attribution": {"device_id": device}}
            for n, device in enumerate(devices, start=len(devices))
        ]
        return encode_spans([json.dumps(each).encode() for each in records], packs=False).body

    await whole.intake.traces(spans("bad"), json=False, sender=ANYONE)
    await whole.block("bad")
    alone = await whole.intake.traces(spans("bad"), json=False, sender=ANYONE)
    beside = await whole.intake.traces(spans("good", "bad"), json=False, sender=ANYONE)
    for receipt, position in ((alone, "resourceSpans[0]"), (beside, "resourceSpans[1]")):
        assert [(x.reason, x.position) for x in receipt.rejected] == [
            ("device_blocked", f"{position}.scopeSpans[0].spans[0]")
        ]
    assert [record["attribution"]["device_id"] for record in await whole.records()] == ["bad", "good"]


async def test_metrics_enrol_and_a_blocked_devices_points_are_rejected(whole: Whole) -> None:
    await whole.intake.metrics(metrics_of("bad", "good"), json=True, sender=ANYONE)
    assert await whole.states() == {"bad": "pending", "good": "pending"}
    await whole.block("bad")
    receipt = await whole.intake.metrics(metrics_of("bad", "other"), json=True, sender=ANYONE)
    assert [(x.reason, x.position) for x in receipt.rejected] == [("device_blocked", "resourceMetrics[0]")]
    with pytest.raises(DeviceBlocked):
        await whole.intake.metrics(metrics_of("bad"), json=True, sender=ANYONE)
    edge = whole.spool.edge()
    assert (edge["received"], edge["rejected"]) == (5, 2)
    assert edge["received"] == sum(n for outcome, n in edge.items() if outcome != "received")


async def test_a_pushed_body_of_a_blocked_device_reports_its_calls_as_rejected(whole: Whole) -> None:
    await whole.send(resource_spans({"device.id": "bad"}))
    (record,) = await whole.records()
    await whole.block("bad")
    body = json.dumps({**record, "record_id": "0" * 32}).encode()
    receipt = await whole.intake.source("records", body, sender=ANYONE)
    assert [rejection.reason for rejection in receipt.rejected] == ["device_blocked"]


async def test_another_gateways_sums_name_a_device_too(whole: Whole) -> None:
    def sum_of(record_id: str) -> bytes:
        return json.dumps({
            "schema": "inference/1", "record_id": record_id * 32, "kind": "aggregate", "started_at": "2026-01-05T10:00:00Z",
            "period": {"start": "2026-01-05T10:00:00Z", "end": "2026-01-05T11:00:00Z"}, "calls": 3, "status": "ok",
            "operation": "chat", "provider": "openai", "request_model": "gpt-4o-mini",
            "usage": {"status": "aggregate", "input_tokens": 120, "output_tokens": 17},
            "attribution": {"service_name": "s", "device_id": "d"},
        }).encode()  # fmt: skip

    receipt = await whole.intake.source("records", sum_of("a"), sender=ANYONE)
    assert (receipt.items, receipt.rejected) == (1, ())
    assert await whole.states() == {"d": "pending"}
    await whole.block("d")
    receipt = await whole.intake.source("records", sum_of("b"), sender=ANYONE)
    assert [rejection.reason for rejection in receipt.rejected] == ["device_blocked"]
    edge = whole.spool.edge()
    assert (edge["received"], edge["kept"], edge["rejected"]) == (2, 1, 1)


async def test_more_devices_than_an_hour_may_bring_are_kept_and_not_enrolled(whole: Whole) -> None:
    receipt = await whole.send(*(resource_spans({"device.id": f"d{n}"}) for n in range(13)))
    assert (receipt.items, receipt.rejected) == (13, ())
    assert len(await whole.states()) == 10
    assert whole.spool.edge()["kept"] == 13
    with pytest.raises(TooManyDevices) as caught:
        await whole.intake.heartbeat("new", heartbeat("new").body, sender=ANYONE)
    assert caught.value.retry_after_s == 361


async def test_an_id_that_nobody_could_type_stays_in_the_record_and_enrols_nobody(whole: Whole) -> None:
    await whole.send(resource_spans({"device.id": "x" * 200}), resource_spans({"device.id": "a\nb"}))
    assert await whole.states() == {}
    assert len(await whole.records()) == 2


async def test_who_the_spool_names_and_control_db_lacks_is_added(whole: Whole, tmp_path: Path) -> None:
    names = [f"d{n}" for n in range(4)]
    for name in [*names, 'a "quoted" näme', "x" * 200]:
        await whole.send(resource_spans({"device.id": name}))
    for name in (await whole.states()).keys() - {"d0"}:
        await whole.store.forget(name)
    await whole.counting.settle_due(1 << 60)
    frozen = await whole.spool.freeze(AI_TELEMETRY, max_records=2, max_bytes=1 << 22)
    assert frozen is not None
    await add_named(whole.spool, whole.store)
    assert sorted(await whole.states()) == ['a "quoted" näme', *names]


async def test_telemetry_is_kept_while_devices_cannot_be_written_down(whole: Whole) -> None:
    await whole.database.write(lambda c: c.execute("ALTER TABLE enrolments RENAME TO gone"))
    await whole.send(resource_spans({"device.id": "d"}))
    assert len(await whole.records()) == 1


async def test_where_telemetry_waits_for_its_device_it_is_refused_while_that_cannot_be_written_down(
    whole: Whole,
) -> None:
    whole.open(needs_row=True)
    await whole.send(resource_spans({"device.id": "known"}))
    await whole.database.write(lambda c: c.execute("ALTER TABLE enrolments RENAME TO gone"))
    await whole.send(resource_spans({"device.id": "known"}))
    with pytest.raises(DatabaseUnavailable):
        await whole.send(resource_spans({"device.id": "new"}))
    assert len(await whole.records()) == 2
    edge = whole.spool.edge()
    assert (edge["received"], edge["kept"]) == (2, 2)
    await whole.database.write(lambda c: c.execute("ALTER TABLE gone RENAME TO enrolments"))


LABELLED = {
    "instance_id": "one", "sequence": 1,
    "labels": {"team": "search", "user": "ann", "cost_center": "c-7", "a name of no label": "x"},
}  # fmt: skip


async def labelled(whole: Whole, device_id: str) -> None:
    await whole.intake.heartbeat(device_id, json.dumps(LABELLED).encode(), sender=ANYONE)


async def test_a_devices_labels_reach_its_calls_where_nothing_else_states_them(whole: Whole) -> None:
    await labelled(whole, "laptop")
    await whole.send(
        resource_spans({"device.id": "laptop"}),
        resource_spans({"device.id": "laptop", "team.id": "own", "cost_center": "own"}),
        resource_spans({"device.id": "other"}),
        resource_spans({"service.name": "no device"}),
    )
    plain, own, other, none = [record["attribution"] for record in await whole.records()]
    assert (plain["team"], plain["user"], plain["labels"]) == ("search", "ann", {"cost_center": "c-7"})
    assert (own["team"], own["user"], own["labels"]) == ("own", "ann", {"cost_center": "own"})
    assert other == {"device_id": "other"}
    assert none == {"service_name": "no device"}


async def test_what_is_stated_of_a_trace_goes_before_a_devices_labels(whole: Whole) -> None:
    """In one payload with the call, and before it."""
    await labelled(whole, "laptop")
    whole.open(own_device="laptop")
    for events in (
        [[trace(id="t1", userId="ana"), create("g1", traceId="t1"), update("g1", traceId="t1")]],
        [[trace(id="t2", userId="bo")], [create("g2", traceId="t2"), update("g2", traceId="t2")]],
    ):
        for each in events:
            await whole.intake.source("langfuse", json.dumps(batch(*each)).encode(), sender=ANYONE)
    said = [record["attribution"] for record in await whole.records()]
    assert [(x["user"], x["team"]) for x in said] == [("ana", "search"), ("bo", "search")]


async def test_what_the_key_fixes_overrides_a_devices_labels(whole: Whole) -> None:
    await labelled(whole, "laptop")
    fixed = ANYONE._replace(key="k", fixes=(("team", "fixed"), ("user", "unknown"), ("label.cost_center", "fixed")))
    body = telemetry(resource_spans({"device.id": "laptop"})).body
    await whole.intake.traces(body, json=True, sender=fixed)
    (record,) = await whole.records()
    said = record["attribution"]
    assert (said["team"], said.get("user"), said["labels"]) == ("fixed", None, {"cost_center": "fixed"})


async def test_a_devices_labels_reach_its_calls_after_a_restart_and_change_with_its_heartbeats(whole: Whole) -> None:
    await labelled(whole, "laptop")
    await whole.store.change(lambda _: None)  # as at a start, memory knows no device
    await whole.send(resource_spans({"device.id": "laptop"}))
    changed = {**LABELLED, "sequence": 2, "labels": {"team": "ads"}}
    await whole.intake.heartbeat("laptop", json.dumps(changed).encode(), sender=ANYONE)
    await whole.send(resource_spans({"device.id": "laptop"}))
    assert [record["attribution"]["team"] for record in await whole.records()] == ["search", "ads"]


async def test_a_devices_labels_reach_its_metrics_and_stay_with_it(whole: Whole) -> None:
    await labelled(whole, "laptop")
    await whole.intake.metrics(metrics_of("laptop", "other"), json=True, sender=ANYONE)
    whole.clock.now_ms += 10_000
    await whole.counting.settle_due(whole.spool.age_ms())
    said = [record["attribution"] for record in await whole.records()]
    assert {each["device_id"]: each.get("team") for each in said} == {"laptop": "search", "other": None}
