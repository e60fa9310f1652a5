"""Insights by their id: made, read, changed, deleted, commented on, over a real socket, and kept
over restarts.
"""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

from gateway.common.contract.scopes import Fixed
from gateway.common.storage.database import Database
from gateway.local_service.routes import ROUTES
from gateway.local_service.service import DATABASE_NAME, Service
from gateway.operate.insights import OPERATIONS
from gateway.stores.sql.insights import SqlInsightRows
from gateway.usage.insights.finding import STATUSES, Finding
from gateway.usage.insights.kept import note_findings
from tests.support.operations import scopes_of

from .conftest import ADMIN, Client, Clock

INSIGHTS = "/v2/insights"
SCOPES = scopes_of(OPERATIONS)
WHOLE = {"title": "Idle cluster", "category": "waste", "effort": "low"}
UNKNOWN = {"error": {"message": "no insight has this id", "type": "insight_unknown"}}
HOSTILE = "<script>alert('x')</script>\" OR 1=1; DROP TABLE insights; -- \x00\u202e\r\n{{7*7}} ${env:HOME} 🙂"


@pytest.mark.parametrize(
    "sides", [SCOPES, {(each.method, each.path): each.scope for each in ROUTES}], ids=["admin", "service"]
)
def test_each_operation_has_the_scope_of_its_name(sides: dict[tuple[str, str], str]) -> None:
    one, comments = f"{INSIGHTS}/{{insight_id}}", f"{INSIGHTS}/{{insight_id}}/comments"
    assert {place: scope for place, scope in sides.items() if place[1].startswith(INSIGHTS)} == {
        ("GET", INSIGHTS): "insights:read_insights",
        ("POST", INSIGHTS): "insights:create_insight",
        ("GET", one): "insights:read_insight",
        ("PATCH", one): "insights:update_insight",
        ("DELETE", one): "insights:delete_insight",
        ("GET", comments): "insights:read_insight_comments",
        ("POST", comments): "insights:create_insight_comment",
        ("PATCH", f"{comments}/{{comment_id}}"): "insights:update_insight_comment",
    }


async def made(client: Client, **fields: object) -> Any:
    reply = await client.post(INSIGHTS, {**WHOLE, **fields})
    assert reply.status == 201, reply.body
    return reply.json["insight"]


async def test_what_was_made_is_read_listed_changed_and_deleted(client: Client, clock: Clock) -> None:
    insight = await made(client, cost_impact="12.50")
    path = f"{INSIGHTS}/{insight['id']}"
    assert insight == {
        "id": insight["id"],
        **WHOLE,
        "status": "new",
        "cost_impact": "12.50",
        "last_updated": "2026-01-05T10:00:00.000Z",
        "cause": None,
        "status_set_by": None,
        "status_set_at": None,
        "history": [{"status": "new", "at": "2026-01-05T10:00:00.000Z", "by": None}],
    }
    assert (await client.get(path)).json == {"insight": insight}
    (item,) = (await client.get(INSIGHTS)).json["insights"]
    assert item.items() <= insight.items()
    clock.time_ms += 1000
    reply = await client.patch(path, {"status": "in_progress", "cost_impact": None})
    later = "2026-01-05T10:00:01.000Z"
    changed = {**insight, "status": "in_progress", "cost_impact": None, "last_updated": later}
    changed["history"] = [*insight["history"], {"status": "in_progress", "at": later, "by": "everything"}]
    assert reply.json == {"insight": {**changed, "status_set_by": "everything", "status_set_at": later}}
    gone = await client.delete(path)
    assert (gone.status, gone.body) == (204, b"")
    for reply in (await client.get(path), await client.delete(path), await client.patch(path, {"status": "new"})):
        assert (reply.status, reply.json) == (404, UNKNOWN)


async def test_any_status_may_follow_any(client: Client) -> None:
    path = f"{INSIGHTS}/{(await made(client))['id']}"
    for before in STATUSES:
        for after in STATUSES:
            await client.patch(path, {"status": before})
            assert (await client.patch(path, {"status": after})).json["insight"]["status"] == after
    assert (await client.get(INSIGHTS, status=STATUSES[-1])).json["pagination"]["total_count"] == 1


async def test_an_unknown_cost_is_null_and_sorts_below_all(client: Client) -> None:
    for impact in ("9", None, "-2", "10"):
        await made(client, cost_impact=impact)
    for order, costs in (("asc", [None, "-2", "9", "10"]), ("desc", ["10", "9", "-2", None])):
        pages = [(await client.get(INSIGHTS, sort_key="cost_impact", sort_order=order, limit="1")).json]
        while cursor := pages[-1]["pagination"]["cursor"]["next_cursor"]:
            pages.append((await client.get(INSIGHTS, cursor=cursor)).json)
        assert [item["cost_impact"] for page in pages for item in page["insights"]] == costs


@pytest.mark.parametrize(
    ("body", "message", "kind"),
    [
        (b"{", "the body is not JSON", "invalid_json"),
        ([WHOLE], "body: an object is needed", "invalid_body"),
        (
            {**WHOLE, "status": "open"},
            "status: one of new, in_progress, on_hold, addressed, ignored is needed",
            "invalid_status",
        ),
        ({"title": "t", "effort": "e"}, "category: text of 1 to 100 characters is needed", "missing_category"),
        ({**WHOLE, "id": "x"}, "body: only title, category, effort, status, cost_impact can be given", "invalid_body"),
    ],
)
async def test_a_wrong_body_makes_nothing_and_the_error_names_the_field(
    client: Client, body: object, message: str, kind: str
) -> None:
    reply = await client.post(INSIGHTS, body)
    assert (reply.status, reply.json) == (400, {"error": {"message": message, "type": kind}})
    assert (await client.get(INSIGHTS)).json["insights"] == []


async def test_comments_have_author_and_times_and_their_author_stays(client: Client, clock: Clock) -> None:
    path = f"{INSIGHTS}/{(await made(client))['id']}/comments"
    writer = await client.with_scopes("writer", "insights:create_insight_comment")
    comment = (await writer.post(path, {"text": "looking at it"})).json["comment"]
    assert comment == {
        "id": comment["id"],
        "author": "writer",
        "text": "looking at it",
        "created_at": "2026-01-05T10:00:00.000Z",
        "updated_by": None,
        "updated_at": "2026-01-05T10:00:00.000Z",
    }
    clock.time_ms += 5000
    changed = {**comment, "text": "done", "updated_by": "everything", "updated_at": "2026-01-05T10:00:05.000Z"}
    assert (await client.patch(f"{path}/{comment['id']}", {"text": "done"})).json == {"comment": changed}
    assert (await client.get(path)).json["comments"] == [changed]


async def test_comments_follow_the_list_conventions(client: Client) -> None:
    path = f"{INSIGHTS}/{(await made(client))['id']}/comments"
    other = f"{INSIGHTS}/{(await made(client))['id']}/comments"
    assert (await client.get(path)).json == {
        "comments": [],
        "pagination": {
            "page_count": 0,
            "item_count": 0,
            "total_count": 0,
            "cursor": {"next_cursor": None, "previous_cursor": None, "has_next": False, "has_previous": False},
        },
        "sorting": {
            "available": ["created_at"],
            "current": [{"sort_key": "created_at", "sort_order": "asc"}],
            "ordering": ["asc", "desc"],
        },
    }
    for number in range(5):
        assert (await client.post(path, {"text": str(number)})).status == 201
    await client.post(other, {"text": "of another"})
    first = (await client.get(path, limit="3")).json
    cursor = first["pagination"]["cursor"]["next_cursor"]
    rest = (await client.get(f"{path}?cursor={quote(cursor, safe='')}")).json
    assert [each["text"] for each in first["comments"] + rest["comments"]] == ["0", "1", "2", "3", "4"]
    assert (first["pagination"]["total_count"], first["pagination"]["page_count"]) == (5, 2)
    refused = await client.get(f"{other}?cursor={quote(cursor, safe='')}")
    assert refused.status == 400, "a cursor is of its own list"


async def test_text_of_any_kind_comes_back_as_it_was_written(client: Client) -> None:
    insight = await made(client, title=HOSTILE, category=HOSTILE[:90])
    path = f"{INSIGHTS}/{insight['id']}"
    assert (insight["title"], insight["category"]) == (HOSTILE, HOSTILE[:90])
    await client.post(f"{path}/comments", {"text": HOSTILE})
    (comment,) = (await client.get(f"{path}/comments")).json["comments"]
    assert comment["text"] == HOSTILE
    assert (await client.get(f"{INSIGHTS}/{quote(HOSTILE, safe='')}")).status == 404
    assert (await client.get(f"{INSIGHTS}/' OR 1=1 --")).status == 404


async def test_comments_go_with_their_insight_and_are_found_under_no_other(client: Client) -> None:
    first, second = (await made(client))["id"], (await made(client))["id"]
    comment = (await client.post(f"{INSIGHTS}/{first}/comments", {"text": "x"})).json["comment"]["id"]
    elsewhere = await client.patch(f"{INSIGHTS}/{second}/comments/{comment}", {"text": "y"})
    assert (elsewhere.status, elsewhere.json["error"]["type"]) == (404, "comment_unknown")
    assert (await client.delete(f"{INSIGHTS}/{first}")).status == 204
    assert (await client.get(f"{INSIGHTS}/{first}/comments")).json == UNKNOWN
    assert (await client.post(f"{INSIGHTS}/{first}/comments", {"text": "x"})).json == UNKNOWN
    assert (await client.get(f"{INSIGHTS}/{second}/comments")).json["comments"] == []


async def test_changes_at_once_keep_what_each_of_them_set(client: Client) -> None:
    path = f"{INSIGHTS}/{(await made(client))['id']}"
    fields = {"title": "t", "category": "c", "effort": "e", "cost_impact": "1", "status": "ignored"}
    replies = await asyncio.gather(
        *(client.patch(path, {name: value}) for name, value in fields.items()),
        *(client.post(f"{path}/comments", {"text": str(number)}) for number in range(20)),
    )
    assert {reply.status for reply in replies} == {200, 201}
    assert fields.items() <= (await client.get(path)).json["insight"].items()
    texts = [comment["text"] for comment in (await client.get(f"{path}/comments")).json["comments"]]
    assert sorted(texts, key=int) == [str(number) for number in range(20)]


async def test_a_repeated_idempotency_key_makes_one_insight(client: Client) -> None:
    first = await client.post(INSIGHTS, WHOLE, {"Idempotency-Key": "k"})
    again = await client.post(INSIGHTS, WHOLE, {"Idempotency-Key": "k"})
    assert (first.status, first.body) == (again.status, again.body)
    assert (await client.get(INSIGHTS)).json["pagination"]["total_count"] == 1


async def test_a_round_keeps_what_a_person_set_and_brings_back_what_was_gone(client: Client, clock: Clock) -> None:
    async def found(*models: str) -> dict[str, str]:
        findings = [Finding("no_price", "", model, model, "pricing", "low") for model in models]
        database = client.service.database
        await database.write(lambda connection: note_findings(SqlInsightRows(connection), findings, clock()))
        return {item["title"]: item["status"] for item in (await client.get(INSIGHTS)).json["insights"]}

    assert await found("a", "b", "c") == {"a": "new", "b": "new", "c": "new"}
    await made(client)
    ids = {item["title"]: item["id"] for item in (await client.get(INSIGHTS)).json["insights"]}
    await client.patch(f"{INSIGHTS}/{ids['a']}", {"status": "ignored"})
    await client.patch(f"{INSIGHTS}/{ids['b']}", {"status": "addressed"})
    assert await found("a", "b", "c") == {"a": "ignored", "b": "addressed", "c": "new", "Idle cluster": "new"}
    assert await found() == {"a": "ignored", "b": "addressed", "c": "addressed", "Idle cluster": "new"}
    assert await found("a", "b", "c") == {"a": "ignored", "b": "new", "c": "new", "Idle cluster": "new"}
    refused = await client.patch(f"{INSIGHTS}/{ids['a']}", {"title": "mine"})
    assert (refused.status, refused.json["error"]["type"]) == (409, "insight_found")


async def test_all_of_it_is_kept_over_a_restart(tmp_path: Path) -> None:
    async def asked(work: Any) -> Any:
        service = Service(tmp_path / "service")
        port = await service.start()
        created = await service.keys.create(work.__name__, Fixed(frozenset(SCOPES.values())), by=ADMIN)
        async with aiohttp.ClientSession() as session:
            found = await work(Client(service, port, session, created.secret.reveal()))
        await service.stop()
        return found

    async def writes(client: Client) -> Any:
        insight = await made(client)
        await client.patch(f"{INSIGHTS}/{insight['id']}", {"status": "on_hold"})
        await client.post(f"{INSIGHTS}/{insight['id']}/comments", {"text": "kept"})
        return insight["id"]

    async def reads(client: Client) -> Any:
        detail = (await client.get(f"{INSIGHTS}/{insight_id}")).json["insight"]
        (comment,) = (await client.get(f"{INSIGHTS}/{insight_id}/comments")).json["comments"]
        return detail["status"], detail["status_set_by"], comment["text"], comment["author"]

    insight_id = await asked(writes)
    assert await asked(reads) == ("on_hold", "writes", "kept", "writes")


async def test_a_file_of_the_release_before_is_brought_along(tmp_path: Path) -> None:
    path = tmp_path / "service" / DATABASE_NAME
    old = await Database.open(path)
    script = (Path(__file__).parents[3] / "gateway/local_service/migrations/0001_service.sql").read_text()
    await old.migrate("service", [script])
    put = "INSERT INTO insights VALUES (?, 'ignored', 'waste', '7.5', 'low', 1767607200000, ?)"
    await old.write(lambda c: c.executemany(put, [(n, f"insight {n}") for n in range(1, 4)]))
    await old.close()
    for _ in range(2):
        service = Service(tmp_path / "service")
        port = await service.start()
        async with aiohttp.ClientSession() as session:
            name = f"key {len(await service.keys.list())}"
            client = await Client(service, port, session, "").with_scopes(name, *SCOPES.values())
            found = (await client.get(INSIGHTS, sort_key="title")).json["insights"]
            assert (await client.patch(f"{INSIGHTS}/{found[0]['id']}", {"status": "ignored"})).status == 200
        await service.stop()
        assert [item["title"] for item in found] == ["insight 1", "insight 2", "insight 3"]
        assert {(item["status"], item["cost_impact"]) for item in found} == {("ignored", "7.5")}
        assert len({item["id"] for item in found}) == 3
        assert all(re.fullmatch(r"[0-9a-f]{32}", item["id"]) for item in found)
