"""Part 4: the insights list as it is specified, and the common rules on every list."""

from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest

from gateway.local_service.insights import Insight
from gateway.local_service.routes import Route
from tests.conformance.service_interface import published
from tests.conformance.service_interface.endpoints import DROP, DROP_ROW, LISTS, Made, ask, prepared
from tests.unit.local_service.conftest import NOW_MS, Client, ai_envelope, ai_record

INSIGHTS = "/v2/insights"
every_list = pytest.mark.parametrize("route", LISTS, ids=lambda route: route.path)


async def fill(client: Client, count: int = 10) -> None:
    """Statuses, costs that sort differently as text and as numbers, ties, texts
    beyond ASCII, an unknown cost.
    """
    costs = [None, Decimal(9), Decimal("10.5"), Decimal(-2)]
    titles = ["a", "A", "é", "\U0001f600", "x" * 400]
    for n in range(count):
        status = published.INSIGHT_STATUSES[n % 5]
        title, when = titles[n % 5] + str(n // 5), NOW_MS - n // 3
        await client.service.add_insight(Insight(title, "cw"[n % 2], status, costs[n % 4], "low", when))


async def walk(client: Client, path: str, way: str, **params: str) -> list[dict[str, Any]]:
    pages = [(await client.get(path, **params)).json]
    while cursor := pages[-1]["pagination"]["cursor"][f"{way}_cursor"]:
        pages.append((await client.get(f"{path}?cursor={quote(cursor, safe='')}")).json)
    return pages


def ids(page: dict[str, Any]) -> list[str]:
    return [item["id"] for item in page["insights"]]


async def test_4_1_the_list_needs_its_scope_and_only_that(client: Client) -> None:
    assert (await (await client.with_scopes("one", "insights:read_insights")).get(INSIGHTS)).status == 200
    others = [scope for scope in published.ALL_SCOPES if scope != "insights:read_insights"]
    assert (await (await client.with_scopes("others", *others)).get(INSIGHTS)).status == 403


async def test_4_1_every_parameter_is_optional_and_the_default_sort_is_status_ascending(client: Client) -> None:
    await fill(client)
    body = (await client.get(INSIGHTS)).json
    assert [item["status"] for item in body["insights"]] == sorted(published.INSIGHT_STATUSES * 2)
    assert body["sorting"]["current"] == [{"sort_key": "status", "sort_order": "asc"}]


async def test_4_1_status_may_be_repeated_to_select_several(client: Client) -> None:
    await fill(client)
    one = (await client.get(f"{INSIGHTS}?status=on_hold")).json
    two = (await client.get(f"{INSIGHTS}?status=on_hold&status=new&status=on_hold")).json
    assert {item["status"] for item in one["insights"]} == {"on_hold"}
    assert [item["status"] for item in two["insights"]] == ["new", "new", "on_hold", "on_hold"]
    assert (one["pagination"]["total_count"], two["pagination"]["total_count"]) == (2, 4)


@pytest.mark.parametrize("key", published.INSIGHT_SORT_KEYS)
async def test_4_1_every_published_sort_key_sorts_both_ways_also_over_pages(client: Client, key: str) -> None:
    await fill(client)
    up = await walk(client, INSIGHTS, "next", sort_key=key, sort_order="asc", limit="3")
    down = await walk(client, INSIGHTS, "next", sort_key=key, sort_order="desc", limit="3")
    items = [item for page in up for item in page["insights"]]
    assert [item for page in down for item in page["insights"]] == items[::-1]
    values = [item[key] for item in items]
    if key == "cost_impact":
        values = [Decimal("-Infinity") if cost is None else Decimal(cost) for cost in values]
    assert values == sorted(values)
    assert all(page["sorting"]["current"] == [{"sort_key": key, "sort_order": "asc"}] for page in up)


@pytest.mark.parametrize("limit", [1, 3, 5, 10, 11, 500])
async def test_4_1_limit_is_the_number_of_items_of_a_page(client: Client, limit: int) -> None:
    await fill(client)
    pages = await walk(client, INSIGHTS, "next", limit=str(limit))
    counts = [page["pagination"]["item_count"] for page in pages]
    assert all(count == limit for count in counts[:-1])
    assert sum(counts) == 10
    assert {page["pagination"]["page_count"] for page in pages} == {len(pages)}
    assert {page["pagination"]["total_count"] for page in pages} == {10}


async def test_4_1_a_page_has_50_items_unless_asked(client: Client) -> None:
    await fill(client, 60)
    pages = await walk(client, INSIGHTS, "next")
    assert [page["pagination"]["item_count"] for page in pages] == [50, 10]


REFUSED = {
    "status": ["open", "NEW", "", "new,on_hold"],
    "sort_key": ["owner", "", "Status", "id"],
    "sort_order": ["up", "", "ASC"],
    "limit": ["0", "-1", "1.5", "text", "501", "", "²", "1e2"],
    "cursor": ["x", "", "\0", "é", "A" * 5000, '{"a":[1]}', "W10", "bnVsbA", "[" * 2000],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
async def test_4_1_what_is_not_valid_is_refused_by_name_with_what_is(client: Client, name: str, value: str) -> None:
    reply = await client.get(INSIGHTS, **{name: value})
    assert reply.status == 400
    error = reply.json["error"]
    assert set(error) == {"message", "type"}
    assert error["type"] == "invalid_request"
    assert error["message"].startswith(f"{name}: ")
    valid = {
        "status": "on_hold",
        "sort_key": "last_updated",
        "sort_order": "desc",
        "limit": "500",
        "cursor": "next_cursor",
    }
    assert valid[name] in error["message"]


@every_list
async def test_4_2_1_each_feature_of_a_list_works_on_it(client: Client, route: Route) -> None:
    made = await prepared(client)
    body = (await ask(client, route, made)).json
    for key in body["sorting"]["available"]:
        for order in ("asc", "desc"):
            sorted_ = (await client.get(made.path(route), sort_key=key, sort_order=order)).json
            assert sorted_["sorting"]["current"] == [{"sort_key": key, "sort_order": order}]
    for each in body.get("filtering", {"available": []})["available"]:
        found = [await client.get(made.path(route), **{each["field"]: value}) for value in each["valid_values"]]
        assert [reply.json["filtering"]["current"] for reply in found] == [
            {each["field"]: [value]} for value in each["valid_values"]
        ]
        totals = [reply.json["pagination"]["total_count"] for reply in found]
        assert sum(totals) == body["pagination"]["total_count"], "the values part the list"


@every_list
async def test_4_2_1_what_no_list_has_is_refused_with_the_valid_values(client: Client, route: Route) -> None:
    made = await prepared(client)
    for name in ("statsu", "page", "Limit", "status[]"):
        reply = await client.get(made.path(route), **{name: "1"})
        assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request")
        assert reply.json["error"]["message"].startswith("query: only ")
        assert "cursor, " in reply.json["error"]["message"]


@every_list
async def test_4_2_1_a_parameter_with_two_values_is_refused(client: Client, route: Route) -> None:
    path = (await prepared(client)).path(route)
    for query in ("limit=1&limit=2", "sort_order=asc&sort_order=desc", "cursor=a&cursor=b"):
        reply = await client.get(f"{path}?{query}")
        assert reply.status == 400
        assert "more than once" in reply.json["error"]["message"]
    assert (await client.get(f"{path}?limit=2&limit=2")).status == 200


async def test_4_2_2_pages_lead_on_and_back_by_encoded_cursors(client: Client) -> None:
    await fill(client)
    everything = ids((await client.get(INSIGHTS)).json)
    on = await walk(client, INSIGHTS, "next", limit="4")
    assert [each for page in on for each in ids(page)] == everything
    assert [page["pagination"]["cursor"]["has_previous"] for page in on] == [False, True, True]
    assert [page["pagination"]["cursor"]["has_next"] for page in on] == [True, True, False]
    back = await walk(client, INSIGHTS, "previous", cursor=on[-2]["pagination"]["cursor"]["next_cursor"])
    assert [ids(page) for page in reversed(back)] == [ids(page) for page in on]
    again = (await client.get(INSIGHTS, cursor=back[-1]["pagination"]["cursor"]["next_cursor"])).json
    assert ids(again) == ids(on[1])


async def test_4_2_2_a_cursor_carries_sorting_filters_and_limit(client: Client) -> None:
    await fill(client)
    query = "status=new&status=on_hold&sort_key=title&sort_order=desc&limit=3"
    first = (await client.get(f"{INSIGHTS}?{query}")).json
    cursor = first["pagination"]["cursor"]["next_cursor"]
    alone = (await client.get(INSIGHTS, cursor=cursor)).json
    repeated = (await client.get(f"{INSIGHTS}?{query}&cursor={cursor}")).json
    assert alone == repeated
    assert (alone["filtering"]["current"], alone["sorting"]["current"]) == (
        first["filtering"]["current"],
        first["sorting"]["current"],
    )


@pytest.mark.parametrize("other", ["status=ignored", "status=new", "sort_key=effort", "sort_order=asc", "limit=4"])
async def test_4_2_2_a_cursor_is_refused_under_anything_else_with_the_reason(client: Client, other: str) -> None:
    await fill(client)
    first = (await client.get(f"{INSIGHTS}?status=new&status=on_hold&sort_key=title&sort_order=desc&limit=3")).json
    reply = await client.get(f"{INSIGHTS}?cursor={first['pagination']['cursor']['next_cursor']}&{other}")
    assert reply.status == 400
    assert reply.json["error"]["message"].startswith(f"cursor: it was made under another {other.partition('=')[0]}")


async def cursors_of_every_list(client: Client, made: Made) -> dict[str, str]:
    for n in range(2):
        await client.post("/v2/ai-telemetry/records", ai_envelope(ai_record(f"r{n}")))
        await client.post("/events/v1/events", {"title": f"t{n}", "source": "s"})
        await client.post(f"/v2/insights/{made.insight_id}/comments", {"text": f"c{n}"})
        await client.post("/v2/insights", {"title": f"i{n}", "category": "c", "effort": "low"})
        device = {"enrollment_id": f"n{n}", "epoch": 1, "device_id": f"n{n}", "instance_id": "i", "kind": "server"}
        await client.post("/v2/ai-control-plane/devices", {**device, "first_seen_at": "2026-01-05T09:59:58Z"})
        for stream in ("allocation", "other"):
            record = {"granularity": "HOURLY", "element_name": f"e{n}", "filter": {}, "value": 1}
            record["timestamp"] = f"2026-01-05T1{n}:00:00Z"
            record["filter"] = {"custom:Product": ["chat"]}
            await client.post(f"/unit-cost/v1/telemetry/allocation/{stream}/sum", {"records": [record]})
    await client.post("/v2/connections/billing", {"name": "another connection"})
    row = {**DROP_ROW, "time/usage_start": "2026-01-05T11:00:00Z"}
    await client.post("/v2/connections/billing/external/conn-1/billing_drops", {**DROP, "data": [row]})
    paths = [made.path(route) for route in LISTS]
    paths.append("/unit-cost/v1/telemetry/other/records")
    second = (await client.post("/v2/insights", {"title": "second", "category": "c", "effort": "low"})).json["insight"][
        "id"
    ]
    for n in range(2):
        await client.post(f"/v2/insights/{second}/comments", {"text": f"c{n}"})
    paths.append(f"/v2/insights/{second}/comments")
    return {path: (await client.get(path, limit="1")).json["pagination"]["cursor"]["next_cursor"] for path in paths}


async def test_4_2_2_a_cursor_belongs_to_one_list(client: Client) -> None:
    cursors = await cursors_of_every_list(client, await prepared(client))
    assert len(cursors) == len(LISTS) + 2
    assert all(cursors.values()), "each list has two pages"
    for path in cursors:
        for made_by, cursor in cursors.items():
            is_own = path.replace("anycost", "external") == made_by.replace("anycost", "external")
            reply = await client.get(path, cursor=cursor)
            assert reply.status == (200 if is_own else 400), (path, made_by)
            if not is_own:
                assert reply.json["error"]["message"].startswith("cursor: it is no cursor of this list")


async def test_4_2_2_a_damaged_cursor_is_refused_wherever_the_damage_is(client: Client) -> None:
    await fill(client)
    cursor = (await client.get(INSIGHTS, limit="3")).json["pagination"]["cursor"]["next_cursor"]
    damaged = [cursor[:n] + ("A" if cursor[n] != "A" else "B") + cursor[n + 1 :] for n in range(len(cursor))]
    damaged += [cursor[:n] for n in range(0, len(cursor), 3)] + [cursor * 2, cursor + "=", cursor + "é"]
    for text in damaged:
        reply = await client.get(INSIGHTS, cursor=text)
        assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request"), text


async def test_4_2_3_a_filter_that_matches_nothing_gives_an_empty_list(client: Client) -> None:
    await client.service.add_insight(Insight("t", "c", "new", None, "low", NOW_MS))
    body = (await client.get(INSIGHTS, status="ignored")).json
    assert (body["insights"], body["pagination"]["page_count"]) == ([], 0)
    assert body["filtering"]["current"] == {"status": ["ignored"]}
