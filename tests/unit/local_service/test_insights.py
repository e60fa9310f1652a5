"""`GET /v2/insights`, exactly as service-interface parts 2.2, 2.3, 4.1 and 4.2 say."""

import re
from decimal import Decimal
from typing import get_args
from urllib.parse import quote

from gateway.local_service.insights import Insight, Status

from .conftest import NOW_MS, Client

INSIGHTS = "/v2/insights"
STATUSES = ["new", "in_progress", "on_hold", "addressed", "ignored"]
SORT_KEYS = ["category", "cost_impact", "effort", "last_updated", "status", "title"]


async def fill(client: Client) -> None:
    """Ten insights: two of each status, costs that sort differently as text and as numbers."""
    for number in range(10):
        await client.service.add_insight(
            Insight(
                title=f"insight {number}",
                category="anomaly" if number % 2 else "waste",
                status=get_args(Status)[number % 5],
                cost_impact=Decimal(number * 7) + Decimal("0.10"),
                effort="low",
                last_updated_ms=NOW_MS - number * 1000,
            )
        )


async def test_the_empty_list_is_the_published_envelope(client: Client) -> None:
    reply = await client.get(INSIGHTS)
    assert reply.status == 200
    assert reply.headers["Content-Type"].startswith("application/json")
    assert reply.json == {
        "insights": [],
        "pagination": {
            "page_count": 0,
            "item_count": 0,
            "total_count": 0,
            "cursor": {"next_cursor": None, "previous_cursor": None, "has_next": False, "has_previous": False},
        },
        "filtering": {
            "available": [{"field": "status", "valid_values": STATUSES, "valid_types": ["string"]}],
            "current": {},
        },
        "sorting": {
            "available": SORT_KEYS,
            "current": [{"sort_key": "status", "sort_order": "asc"}],
            "ordering": ["asc", "desc"],
        },
    }


async def test_an_item_has_the_six_published_fields_and_an_id(client: Client) -> None:
    await fill(client)
    (item,) = (await client.get(INSIGHTS, sort_key="title", limit="1")).json["insights"]
    assert re.fullmatch(r"[0-9a-f]{32}", item.pop("id"))
    assert item == {
        "title": "insight 0",
        "category": "waste",
        "status": "new",
        "cost_impact": "0.1",
        "effort": "low",
        "last_updated": "2026-01-05T10:00:00.000Z",
    }


async def test_without_sorting_the_list_is_by_status_ascending(client: Client) -> None:
    await fill(client)
    found = [item["status"] for item in (await client.get(INSIGHTS)).json["insights"]]
    assert found == sorted(STATUSES * 2)


async def test_pages_go_on_and_back_by_encoded_cursors(client: Client) -> None:
    await fill(client)
    everything = [item["title"] for item in (await client.get(INSIGHTS)).json["insights"]]
    pages = [(await client.get(INSIGHTS, limit="4")).json]
    while cursor := pages[-1]["pagination"]["cursor"]["next_cursor"]:
        pages.append((await client.get(f"{INSIGHTS}?cursor={quote(cursor, safe='')}")).json)
    assert [page["pagination"]["item_count"] for page in pages] == [4, 4, 2]
    assert all(page["pagination"]["page_count"] == 3 for page in pages)
    assert all(page["pagination"]["total_count"] == 10 for page in pages)
    assert [item["title"] for page in pages for item in page["insights"]] == everything
    assert [page["pagination"]["cursor"]["has_previous"] for page in pages] == [False, True, True]
    back = pages[-1]["pagination"]["cursor"]["previous_cursor"]
    middle = (await client.get(f"{INSIGHTS}?cursor={quote(back, safe='')}")).json
    assert middle["insights"] == pages[1]["insights"]
    assert middle["pagination"]["cursor"]["has_next"]
    first = (await client.get(INSIGHTS, cursor=middle["pagination"]["cursor"]["previous_cursor"])).json
    assert first["insights"] == pages[0]["insights"]
    assert first["pagination"]["cursor"]["previous_cursor"] is None


async def test_a_repeated_status_selects_several_and_pages_keep_it(client: Client) -> None:
    await fill(client)
    page = (await client.get(f"{INSIGHTS}?status=new&status=on_hold&limit=3")).json
    assert page["filtering"]["current"] == {"status": ["new", "on_hold"]}
    assert page["pagination"]["total_count"] == 4
    rest = (await client.get(INSIGHTS, cursor=page["pagination"]["cursor"]["next_cursor"])).json
    assert rest["filtering"]["current"] == {"status": ["new", "on_hold"]}
    assert [item["status"] for item in page["insights"] + rest["insights"]] == ["new", "new", "on_hold", "on_hold"]


async def test_every_published_sort_key_sorts_both_ways(client: Client) -> None:
    await fill(client)
    for key in SORT_KEYS:
        up = (await client.get(INSIGHTS, sort_key=key, sort_order="asc")).json
        down = (await client.get(INSIGHTS, sort_key=key, sort_order="desc")).json
        assert up["sorting"]["current"] == [{"sort_key": key, "sort_order": "asc"}]
        assert down["insights"] == up["insights"][::-1]
        values = [Decimal(item[key]) if key == "cost_impact" else item[key] for item in up["insights"]]
        assert values == sorted(values)


async def test_what_is_not_offered_is_refused_with_the_parameters_name(client: Client) -> None:
    for name, value in {"status": "open", "sort_key": "owner", "sort_order": "up", "limit": "0", "cursor": "x"}.items():
        reply = await client.get(INSIGHTS, **{name: value})
        assert reply.status == 400
        assert reply.json["error"]["message"].startswith(f"{name}: ")
