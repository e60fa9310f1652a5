"""Billing drops: the Common Bill Format's rules, and the count that is kept."""

import pytest

from .conftest import Client

DROPS = "/v2/connections/billing/external/conn-1/billing_drops"
VALIDATE = "/v2/connections/billing/external/validate_billing_drop"


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


async def test_a_drop_is_counted_and_a_dry_run_is_not(client: Client) -> None:
    dry = await client.post(VALIDATE, body(row(), row()))
    assert (dry.status, dry.json) == (200, {"connection": {"month": "2026-01", "row_count": 2}})
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
