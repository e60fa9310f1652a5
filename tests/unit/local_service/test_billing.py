"""Billing drops: the rules of both formats, what a drop replaces, and what is read back."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from pytest_asyncio import fixture

from .conftest import Client as AnyClient

CONNECTIONS = "/v2/connections/billing"
DROPS = "/v2/connections/billing/external/conn-1/billing_drops"
VALIDATE = "/v2/connections/billing/external/validate_billing_drop"


@fixture(name="client")
async def client_of_a_connection(client: AnyClient) -> AsyncIterator[AnyClient]:
    assert (await client.post(CONNECTIONS, {"id": "conn-1", "name": "AI gateway"})).status == 201
    yield client


Client = AnyClient


def row(**changes: object) -> dict[str, object]:
    return {
        "lineitem/type": "Usage",
        "time/usage_start": "2026-01-05T10:00:00Z",
        "resource/id": "ai/anthropic/m-large/acme",
        "resource/service": "anthropic",
        "usage/amount": "120",
        "usage/units": "tokens",
        "cost/cost": "0.00421",
        "resource/tag:team": "core",
        **changes,
    }


def body(*rows: object, **changes: object) -> dict[str, object]:
    return {"month": "2026-01-01T00:00:00Z", "operation": "replace_hourly", "data": rows, **changes}


async def test_a_drop_is_kept_and_a_dry_run_is_not(client: Client) -> None:
    dry = await client.post(VALIDATE, body(row(), row()))
    assert (dry.status, dry.json) == (200, {"connection": {"month": "2026-01", "row_count": 2}})
    assert await rows_of(client) == []
    dropped = await client.post(DROPS.replace("external", "anycost"), body(row(), row(), month="2026-01"))
    assert dropped.status == 200
    connection = dropped.json["connection"]
    assert (connection["month"], connection["row_count"], len(connection["drop_id"])) == ("2026-01", 2, 32)
    again = await client.post(DROPS, body(row()))
    assert again.json["connection"]["drop_id"] != connection["drop_id"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cost/cost": None}, "invalid_cost/cost"),
        ({"cost/cost": 0.1}, "invalid_cost/cost"),
        ({"cost/cost": "1e-3"}, "invalid_cost/cost"),
        ({"usage/amount": "many"}, "invalid_usage/amount"),
        ({"time/usage_start": "2026-01-05T10:30:00Z"}, "invalid_time/usage_start"),
        ({"time/usage_start": "2026-02-01T00:00:00Z"}, "invalid_time/usage_start"),
        ({"lineitem/type": "Gift"}, "invalid_lineitem/type"),
        ({"cost/free": "0"}, "unknown_column"),
    ],
)
async def test_a_row_that_breaks_a_rule_refuses_the_drop_with_its_position(
    client: Client, changes: dict[str, object], code: str
) -> None:
    for path in (VALIDATE, DROPS):
        reply = await client.post(path, body(row(), row() | changes))
        assert (reply.status, reply.json["error"]["type"]) == (400, code)
        assert reply.json["error"]["message"].startswith("data[1]: ")


@pytest.mark.parametrize("missing", ["cost/cost", "time/usage_start", "resource/id"])
async def test_a_required_column_may_not_be_left_out(client: Client, missing: str) -> None:
    kept = {name: value for name, value in row().items() if name != missing}
    assert (await client.post(DROPS, body(kept))).json["error"]["type"] == f"missing_{missing}"


@pytest.mark.parametrize("changes", [{"month": "January"}, {"month": None}, {"operation": "wipe"}, {"data": []}])
async def test_an_envelope_that_breaks_a_rule_is_refused(client: Client, changes: dict[str, object]) -> None:
    assert (await client.post(DROPS, body(row()) | changes)).status == 400


async def test_a_credit_may_be_negative(client: Client) -> None:
    credit = row(**{"lineitem/type": "Credit", "cost/cost": "-12.50"})
    assert (await client.post(DROPS, body(credit))).status == 200


async def rows_of(client: Client, month: str = "2026-01") -> list[dict[str, str]]:
    found: list[dict[str, str]] = (await client.get(f"{DROPS}/{month}")).json["rows"]
    return found


def at(hour: int, cost: str = "1") -> dict[str, object]:
    return row(**{"time/usage_start": f"2026-01-05T{hour:02}:00:00Z", "cost/cost": cost})


async def test_each_operation_replaces_what_it_states_and_no_more(client: Client) -> None:
    assert (await client.post(DROPS, body(at(1), at(2)))).status == 200
    assert (await client.post(DROPS, body(at(2, "7"), operation="replace_hourly"))).status == 200
    assert [(each["time/usage_start"][11:13], each["cost/cost"]) for each in await rows_of(client)] == [
        ("01", "1"),
        ("02", "7"),
    ]
    assert (await client.post(DROPS, body(at(2, "8"), operation="sum"))).status == 200
    assert [each["cost/cost"] for each in await rows_of(client)] == ["1", "7", "8"]
    assert (await client.post(DROPS, body(at(3, "9"), operation=None))).status == 200
    assert [each["cost/cost"] for each in await rows_of(client)] == ["9"], "the default replaces the month"
    noted = (await client.get(DROPS)).json["billing_drops"]
    assert [(drop["operation"], drop["row_count"]) for drop in noted] == [
        ("replace_hourly", 2), ("replace_hourly", 1), ("sum", 1), ("replace_drop", 1),
    ]  # fmt: skip


# ---- FOCUS


def charge(cost: str = "1.5", day: str = "2026-01-05", **changes: object) -> dict[str, object]:
    return {
        **dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"), cost),
        "BillingAccountId": "core",
        "BillingCurrency": "USD",
        "ChargeCategory": "Usage",
        "InvoiceIssuerName": "OpenAI",
        "ProviderName": "OpenAI",
        "PublisherName": "OpenAI",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": "inference",
        "BillingPeriodStart": "2026-01-01T00:00:00Z",
        "BillingPeriodEnd": "2026-02-01T00:00:00Z",
        "ChargePeriodStart": f"{day}T00:00:00Z",
        "ChargePeriodEnd": f"{day[:-2]}{int(day[-2:]) + 1:02}T00:00:00Z",
        "x_Calls": 3,
        "ResourceId": None,
        **changes,
    }


def day_of(*rows: dict[str, object], **manifest: object) -> dict[str, object]:
    costs: dict[str, Decimal] = {}
    for each in rows:
        costs[str(each["BillingCurrency"])] = costs.get(str(each["BillingCurrency"]), Decimal(0)) + Decimal(
            str(each["BilledCost"])
        )
    whole = {
        "day": "2026-01-05", "source": "gw-1", "revision": "a" * 64, "part": 1, "parts": 1, "row_count": len(rows),
        "costs": {currency: str(cost) for currency, cost in costs.items()}, **manifest,
    }  # fmt: skip
    return {
        "month": "2026-01", "operation": "replace_daily", "format": "focus", "format_version": "1.2",
        "manifest": whole, "data": rows,
    }  # fmt: skip


async def costs_of(client: Client) -> list[str]:
    return [each["BilledCost"] for each in await rows_of(client)]


async def test_a_day_replaces_itself_and_neither_other_days_nor_other_senders(client: Client) -> None:
    for drop in (
        day_of(charge("1"), charge("2")),
        day_of(charge("4", "2026-01-06"), day="2026-01-06"),
        day_of(charge("8"), source="gw-2"),
        day_of(charge("16"), revision="b" * 64),
    ):
        reply = await client.post(DROPS, drop)
        assert (reply.status, reply.json["connection"]["state"]) == (200, "complete")
    assert sorted(await costs_of(client)) == ["16", "4", "8"]
    assert (await client.post(DROPS, day_of(revision="c" * 64))).status == 200
    assert sorted(await costs_of(client)) == ["4", "8"], "a day may come to hold nothing"
    assert (await client.get(DROPS)).json["billing_drops"][-1]["day"] == "2026-01-05"


async def test_a_day_in_parts_is_in_force_when_it_is_whole_and_not_before(client: Client) -> None:
    assert (await client.post(DROPS, day_of(charge("1")))).status == 200
    whole = {"revision": "b" * 64, "parts": 2, "row_count": 2, "costs": {"USD": "5.5"}}
    second = await client.post(DROPS, day_of(charge("3.5"), part=2, **whole))
    assert second.json["connection"] == {
        "month": "2026-01", "row_count": 1, "state": "partial", "parts_received": 1,
    }  # fmt: skip
    assert (await client.post(DROPS, day_of(charge("3.5"), part=2, **whole))).json == second.json, "a repeat is none"
    assert await costs_of(client) == ["1"]
    first = await client.post(DROPS, day_of(charge("2"), part=1, **whole))
    assert first.json["connection"]["state"] == "complete"
    assert await costs_of(client) == ["2", "3.5"]
    again = await client.post(DROPS, day_of(charge("2"), part=1, **whole))
    assert again.json == first.json, "what is in force already changes nothing"
    assert [drop["row_count"] for drop in (await client.get(DROPS)).json["billing_drops"]] == [1, 2]


async def test_a_day_that_is_divided_again_is_made_of_parts_of_one_division(client: Client) -> None:
    same = {"revision": "b" * 64, "row_count": 3, "costs": {"USD": "7"}}
    for part, cost in ((1, "1"), (2, "2")):
        reply = await client.post(DROPS, day_of(charge(cost), **same, part=part, parts=3))
        assert reply.json["connection"]["state"] == "partial"
    first = await client.post(DROPS, day_of(charge("1"), charge("2"), **same, part=1, parts=2))
    assert (first.status, first.json["connection"].get("state")) == (200, "partial")
    second = await client.post(DROPS, day_of(charge("4"), **same, part=2, parts=2))
    assert second.json["connection"]["state"] == "complete"
    assert await costs_of(client) == ["1", "2", "4"]


OTHER_DAYS = {
    "another cost": day_of(charge("5")),
    "another charge of the same cost": day_of(charge(ServiceName="training")),
    "one charge more": day_of(charge(), charge("0")),
    "none": day_of(),
    "one part of two": day_of(charge("1"), parts=2, row_count=2, costs={"USD": "1.5"}),
}


@pytest.mark.parametrize("drop", OTHER_DAYS.values(), ids=OTHER_DAYS)
async def test_a_revision_that_is_in_force_with_other_rows_is_refused(client: Client, drop: dict[str, object]) -> None:
    """To answer that it is complete would lose the rows."""
    await client.post(DROPS, day_of(charge()))
    reply = await client.post(DROPS, drop)
    assert (reply.status, reply.json["error"]["type"]) in {(409, "revision_in_force"), (400, "manifest_mismatch")}
    assert await costs_of(client) == ["1.5"]
    assert len((await client.get(DROPS)).json["billing_drops"]) == 1


async def test_a_revision_that_is_in_force_may_come_divided_otherwise_and_written_otherwise(client: Client) -> None:
    await client.post(DROPS, day_of(charge("1"), charge("2")))
    turned = dict(reversed(charge("2").items()))
    again = day_of(turned, part=2, parts=2, row_count=2, costs={"USD": "3"})
    assert (await client.post(DROPS, again)).json["connection"]["state"] == "complete"
    assert await costs_of(client) == ["1", "2"]


@pytest.mark.parametrize("currency", ["ABC", "XXX", "XTS", "usd", "USDT", "€", ""])
async def test_a_currency_that_iso_4217_does_not_have_replaces_nothing(client: Client, currency: str) -> None:
    await client.post(DROPS, day_of(charge("4")))
    for drop in (
        day_of(charge(BillingCurrency=currency), revision="b" * 64),
        day_of(charge(), revision="b" * 64, costs={currency: "1.5"}),
        day_of(charge(BillingCurrency=currency), revision="b" * 64, parts=2, row_count=2),
    ):
        reply = await client.post(DROPS, drop)
        assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_BillingCurrency")
    assert await costs_of(client) == ["4"]


async def test_a_charge_on_the_last_day_of_the_calendar_is_no_fault(client: Client) -> None:
    times = {
        "BillingPeriodStart": "9999-12-01T00:00:00Z", "BillingPeriodEnd": "9999-12-31T23:00:00Z",
        "ChargePeriodStart": "9999-12-31T00:00:00Z", "ChargePeriodEnd": "9999-12-31T12:00:00Z",
    }  # fmt: skip
    reply = await client.post(DROPS, {**day_of(charge(**times), day="9999-12-31"), "month": "9999-12"})
    assert reply.status == 200


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"row_count": 2}, "manifest_mismatch"),
        ({"costs": {"USD": "1.500000000000000001"}}, "manifest_mismatch"),
        ({"costs": {"USD": 1.5}}, "invalid_costs"),
        ({"day": "2026-02-05"}, "invalid_day"),
        ({"day": "2026-01-32"}, "invalid_day"),
        ({"part": 2}, "invalid_part"),
        ({"revision": "A" * 64}, "invalid_revision"),
        ({"source": ""}, "invalid_source"),
    ],
)
async def test_a_manifest_that_is_not_of_its_rows_is_refused(
    client: Client, changes: dict[str, object], code: str
) -> None:
    reply = await client.post(DROPS, day_of(charge(), **changes))
    assert (reply.status, reply.json["error"]["type"]) == (400, code)
    assert await costs_of(client) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"BilledCost": None}, "missing_BilledCost"),
        ({"BilledCost": 1.5}, "invalid_BilledCost"),
        ({"ListCost": "1e-3"}, "invalid_ListCost"),
        ({"BillingCurrency": "dollars"}, "invalid_BillingCurrency"),
        ({"ChargePeriodStart": "2026-01-04T00:00:00Z"}, "invalid_ChargePeriodStart"),
        ({"ChargePeriodEnd": "2026-01-05T00:00:00Z"}, "invalid_ChargePeriodStart"),
        ({"BillingPeriodEnd": "2026-01-05T12:00:00Z"}, "invalid_BillingPeriodStart"),
        ({"ChargeCategory": "Gift"}, "invalid_ChargeCategory"),
        ({"Model": "m"}, "unknown_column"),
    ],
)
async def test_a_charge_that_breaks_a_rule_refuses_the_drop_with_its_position(
    client: Client, changes: dict[str, object], code: str
) -> None:
    for path in (VALIDATE, DROPS):
        drop = day_of(charge(), charge()) | {"data": [charge(), charge() | changes]}
        reply = await client.post(path, drop)
        assert (reply.status, reply.json["error"]["type"]) == (400, code)
        assert reply.json["error"]["message"].startswith("data[1]: ")


# ---- connections


async def test_a_drop_goes_to_an_established_connection_only(client: Client) -> None:
    unknown = DROPS.replace("conn-1", "conn-2")
    for reply in (
        await client.post(unknown, body(row())),
        await client.post(unknown, day_of(charge())),
        await client.get(unknown),
        await client.get(f"{unknown}/2026-01"),
    ):
        assert (reply.status, reply.json["error"]["type"]) == (404, "connection_unknown")
    assert (await client.get(f"{DROPS}/January")).json["error"]["type"] == "invalid_month"


async def test_a_connection_is_established_renamed_paused_and_removed(client: Client) -> None:
    one = f"{CONNECTIONS}/conn-1"
    made = (await client.post(CONNECTIONS, {"name": "chosen id"})).json["connection"]
    assert (made["status"], len(made["id"]), made["created_by"]) == ("active", 32, "everything")
    for content, status in (
        ({"id": "conn-1", "name": "other"}, 409),
        ({"name": "AI gateway"}, 409),
        ({"id": "anycost", "name": "reserved"}, 400),
        ({"id": "a/b", "name": "a path"}, 400),
        ({"name": "ab"}, 400),
        ({"name": "odd", "kind": "x"}, 400),
    ):
        assert (await client.post(CONNECTIONS, content)).status == status, content
    assert (await client.patch(one, {"name": "chosen id"})).status == 409
    assert (await client.patch(one, {})).status == 400
    paused = (await client.patch(one, {"status": "paused", "name": "gateway"})).json["connection"]
    assert (paused["name"], paused["status"]) == ("gateway", "paused")
    assert (await client.post(DROPS, day_of(charge()))).status == 423
    assert (await client.patch(one, {"status": "active"})).status == 200
    assert (await client.post(DROPS, day_of(charge()))).status == 200
    listed = await client.get(CONNECTIONS, sort_key="name", sort_order="desc", status="active")
    assert [each["name"] for each in listed.json["connections"]] == ["gateway", "chosen id"]
    assert (await client.delete(one)).status == 204
    assert [(await client.get(one)).status, (await client.delete(one)).status] == [404, 404]
    await client.post(CONNECTIONS, {"id": "conn-1", "name": "AI gateway"})
    assert (await rows_of(client), (await client.get(DROPS)).json["billing_drops"]) == ([], [])
