"""Part 2.3: the envelope of every list endpoint."""

from typing import Any

import pytest

from gateway.local_service.routes import ROUTES, Route
from tests.conformance.service_interface import published
from tests.conformance.service_interface.endpoints import HOUR, LISTS, ask, prepared
from tests.unit.local_service.conftest import Client

every_list = pytest.mark.parametrize("route", LISTS, ids=lambda route: route.path)
OWN_KEYS = {"pagination", "filtering", "sorting"}


async def empty(client: Client, route: Route) -> dict[str, Any]:
    """The list without an item; a stream is there once something was sent to it, and
    empty when that is deleted. Drops are of a connection.
    """
    if "{connection_id}" in route.path:
        await client.post("/v2/connections/billing", {"id": "c", "name": "connection"})
    insight = await client.post("/v2/insights", {"title": "t", "category": "c", "effort": "low"})
    insight_id = insight.json["insight"]["id"]
    stream = "/unit-cost/v1/telemetry/allocation/s"
    record = {name: value for name, value in HOUR.items() if name != "value"}
    await client.post(f"{stream}/sum", {"records": [HOUR]})
    await client.post(f"{stream}/delete", {"records": [record]})
    if route.path == "/unit-cost/v1/telemetry":
        await client.delete("/unit-cost/v1/telemetry/s")
    path = route.path.format_map({"stream": "s", "insight_id": insight_id, "connection_id": "c", "month": "2026-01"})
    reply = await client.get(path, **({"status": "on_hold"} if path == "/v2/insights" else {}))
    assert reply.status == 200
    body: dict[str, Any] = reply.json
    return body


@every_list
async def test_2_3_an_empty_list_has_page_count_0_and_every_key_with_nulls_and_an_empty_array(
    client: Client, route: Route
) -> None:
    body = await empty(client, route)
    assert body["pagination"] == {
        "page_count": 0,
        "item_count": 0,
        "total_count": 0,
        "cursor": {"next_cursor": None, "previous_cursor": None, "has_next": False, "has_previous": False},
    }
    (root,) = body.keys() - OWN_KEYS
    assert body[root] == []
    assert body["sorting"]["available"]


@every_list
async def test_2_3_the_root_keys_are_the_same_in_every_response(client: Client, route: Route) -> None:
    before = await empty(client, route)
    made = await prepared(client)
    for each in ROUTES:
        if (each.method, each.path) == ("POST", route.path):
            await ask(client, each, made)
    after = (await ask(client, route, made)).json
    assert set(after) == set(before), "whether asked for, empty or not"
    (root,) = after.keys() - OWN_KEYS
    assert after[root]


@every_list
async def test_2_3_every_field_has_its_published_type(client: Client, route: Route) -> None:
    made = await prepared(client)
    for body in (await empty(client, route), (await ask(client, route, made)).json):
        pagination = body["pagination"]
        assert set(pagination) == set(published_names("pagination")) | {"cursor"}
        assert all(type(pagination[name]) is int for name in ("page_count", "item_count", "total_count"))
        cursor = pagination["cursor"]
        assert set(cursor) == {"next_cursor", "previous_cursor", "has_next", "has_previous"}
        for way in ("next", "previous"):
            assert cursor[f"has_{way}"] is (cursor[f"{way}_cursor"] is not None)
        for each in body.get("filtering", {"available": []})["available"]:
            assert set(each) == {"field", "valid_values", "valid_types"}
            assert all(isinstance(value, str) for value in [each["field"], *each["valid_values"], *each["valid_types"]])
        sorting = body["sorting"]
        assert set(sorting) == set(published_names("sorting"))
        assert sorting["ordering"] == ["asc", "desc"]
        (current,) = sorting["current"]
        assert set(current) == {"sort_key", "sort_order"}
        assert current["sort_key"] in sorting["available"]
        assert current["sort_order"] in sorting["ordering"]


def published_names(feature: str) -> set[str]:
    """The field names of one of the three tables of part 2.3."""
    text = published.part("### 2.3 Response envelope of list endpoints").partition(f"\n**{feature}**\n")[2]
    table = text.split("\n**")[0]
    return {name for name in published.table_column(table) if "." not in name}


async def test_2_3_the_insights_list_offers_what_is_published(client: Client) -> None:
    body = (await client.get("/v2/insights")).json
    assert body["filtering"] == {
        "available": [{"field": "status", "valid_values": published.INSIGHT_STATUSES, "valid_types": ["string"]}],
        "current": {},
    }
    assert body["sorting"] == {
        "available": published.INSIGHT_SORT_KEYS,
        "current": [{"sort_key": "status", "sort_order": "asc"}],
        "ordering": ["asc", "desc"],
    }


async def test_2_3_filtering_current_maps_a_field_to_all_its_values(client: Client) -> None:
    body = (await client.get("/v2/insights?status=new&status=on_hold")).json
    assert body["filtering"]["current"] == {"status": ["new", "on_hold"]}
