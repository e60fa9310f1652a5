"""Dead letters over the admin listener: the list conventions, what a request
may hold, and who may ask.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
import pytest

from exporters.secret import Secret
from gateway.config.values import TcpAddress
from gateway.observability.dead_letters import reason_figures, resend_figures
from gateway.observability.metrics import Status, StatusCollector, WebFigures
from gateway.operate.dead_letters import DeadLetterRequests
from gateway.operate.registry import AdminStores
from gateway.operate.server import admin_app
from gateway.operate.session import COOKIE, AdminAccess
from gateway.operate.site import delivery
from gateway.serve.listen import listen, runner_for
from spool.dead_letters import Chosen
from spool.record import AI_TELEMETRY, USAGE_EVENTS, Lane
from spool.sqlite.spool import SqliteSpool
from spool.store import Refusal
from tests.support.findings import texts_of
from tests.support.shown import shown
from tests.support.spool_rig import Clock, append, assert_balanced, drained, frozen, open_spool
from tests.unit.operate.test_admin import figures, pages_of

TOKEN = Secret("admin-token-of-the-test")


class Rig(NamedTuple):
    spool: SqliteSpool
    clock: Clock
    url: str
    access: AdminAccess
    client: aiohttp.ClientSession

    async def refuse(self, *names: str, lane: Lane = AI_TELEMETRY, code: str = "bad_record") -> None:
        await append(self.spool, [orjson.dumps({"record_id": name}) for name in names], lane)
        batch = await frozen(self.spool, lane)
        await self.spool.ack(batch, [Refusal(i, code, "no good") for i in range(len(names))])

    async def ask(
        self, method: str, path: str, *, expected: int = 200, headers: dict[str, str] | None = None, **sent: Any
    ) -> Any:
        headers = {"Authorization": TOKEN.reveal()} if headers is None else headers
        async with self.client.request(method, self.url + path, headers=headers, **sent) as response:
            assert response.status == expected, await response.text()
            return await response.json()

    async def pages(self, query: str) -> list[list[str]]:
        """Record ids of each page, to the end."""
        found = [await self.ask("GET", f"/v2/dead-letters?{query}")]
        while (cursor := found[-1]["pagination"]["cursor"])["has_next"]:
            found.append(await self.ask("GET", "/v2/dead-letters", params={"cursor": cursor["next_cursor"]}))
        return [names(page) for page in found]


def names(page: dict[str, Any]) -> list[str]:
    return [letter["record_id"] for letter in page["dead_letters"]]


def text_of(error: dict[str, Any]) -> str:
    message: str = error["error"]["message"]
    return message


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    clock = Clock()
    spool = open_spool(tmp_path, clock, exporters=["archive"])
    access = AdminAccess(TOKEN, lambda: 1000.0, os.urandom)
    stores = AdminStores(status=figures, dead_letters=DeadLetterRequests(spool.operator(), clock))
    app = admin_app(pages_of(access), stores, loopback=True)
    async with AsyncExitStack() as stack:
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        stack.push_async_callback(listener.close)
        client = await stack.enter_async_context(aiohttp.ClientSession())
        yield Rig(spool, clock, f"http://{listener.address}", access, client)
        await assert_balanced(spool)
        await spool.close()


async def test_the_list_follows_the_conventions(rig: Rig) -> None:
    empty = await rig.ask("GET", "/v2/dead-letters")
    assert (empty["dead_letters"], empty["pagination"]["page_count"]) == ([], 0)
    await rig.refuse("a", "b")
    await rig.refuse("c", lane=USAGE_EVENTS, code="other")
    page = await rig.ask("GET", "/v2/dead-letters")
    assert page["dead_letters"][0] == {
        "id": 1, "lane": "ai_telemetry", "reason": "bad_record", "message": "no good",
        "buried_at": "2026-01-05T10:00:00.000Z", "bytes": 17, "record_id": "a",
    }  # fmt: skip
    assert names(page) == ["a", "b", "c"]
    assert page["pagination"]["total_count"] == 3
    assert page["sorting"]["current"] == [{"sort_key": "buried_at", "sort_order": "asc"}]
    offered = {each["field"]: each["valid_values"] for each in page["filtering"]["available"]}
    assert offered == {
        "lane": ["ai_telemetry", "archive", "devices", "unit_cost", "usage_events"],
        "reason": ["bad_record", "other"],
        "since": [],
        "until": [],
    }


async def test_filters_may_be_repeated_and_go_with_the_cursor(rig: Rig) -> None:
    for n in range(5):
        await rig.refuse(f"x{n}", code=f"code{n % 3}")
        rig.clock.now_ms += 1000
    assert await rig.pages("reason=code0&reason=code1&limit=2") == [["x0", "x1"], ["x3", "x4"]]
    assert await rig.pages("lane=usage_events") == [[]]
    assert await rig.pages("since=3s&limit=1") == [["x2"], ["x3"], ["x4"]]
    assert await rig.pages("until=2026-01-05T10:00:02Z") == [["x0", "x1"]]
    assert await rig.pages("reason=never_seen") == [[]]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("key", ["buried_at", "lane", "reason"])
async def test_pages_lead_there_and_back_in_every_order(rig: Rig, key: str, order: str) -> None:
    for n in range(7):
        await rig.refuse(f"x{n}", code=f"code{n % 2}")
    query = f"sort_key={key}&sort_order={order}&limit=3"
    pages = await rig.pages(query)
    assert [len(page) for page in pages] == [3, 3, 1]
    assert sorted(name for page in pages for name in page) == [f"x{n}" for n in range(7)]
    cursor = (await rig.ask("GET", f"/v2/dead-letters?{query}"))["pagination"]["cursor"]
    assert (cursor["has_previous"], cursor["previous_cursor"]) == (False, None)
    second = await rig.ask("GET", "/v2/dead-letters", params={"cursor": cursor["next_cursor"]})
    back = await rig.ask(
        "GET", "/v2/dead-letters", params={"cursor": second["pagination"]["cursor"]["previous_cursor"]}
    )
    assert names(back) == pages[0]
    assert back["pagination"]["cursor"]["has_previous"] is False
    assert back["pagination"]["cursor"]["has_next"] is True


async def test_one_is_shown_with_its_record(rig: Rig) -> None:
    await rig.refuse("a")
    assert (await rig.ask("GET", "/v2/dead-letters/1"))["record"] == {"record_id": "a"}
    for id_ in ("2", "x", "0", "-1", "9" * 30):
        assert "no dead letter" in text_of(await rig.ask("GET", f"/v2/dead-letters/{id_}", expected=404))


async def test_replay_and_drop_take_the_same_choice(rig: Rig) -> None:
    await rig.refuse("a", "b", "c")
    await rig.refuse("d", code="other")
    answer = await rig.ask("POST", "/v2/dead-letters/replay", json={"reason": ["other"]})
    assert answer == {"replayed": {"ai_telemetry": 1}, "skipped": 0, "missing": []}
    assert await drained(rig.spool) == [b'{"record_id":"d"}']
    assert await rig.ask("POST", "/v2/dead-letters/drop", json={"id": [1, 9]}) == {
        "dropped": 1,
        "missing": [9],
    }
    assert await rig.ask("POST", "/v2/dead-letters/replay", json={"limit": 1}) == {
        "replayed": {"ai_telemetry": 1},
        "skipped": 0,
        "missing": [],
    }
    assert "all:" in text_of(await rig.ask("POST", "/v2/dead-letters/drop", expected=400))
    assert (await rig.ask("POST", "/v2/dead-letters/drop", json={"all": True}))["dropped"] == 1


async def test_delivered_records_go_again_by_lane(rig: Rig) -> None:
    await append(rig.spool, [b"1", b"2"])
    await drained(rig.spool)
    answer = await rig.ask("POST", "/v2/replay", json={"since": "1h", "dry_run": True})
    assert answer == {"would_replay": {"ai_telemetry": 2}}
    assert await drained(rig.spool) == []
    assert await rig.ask("POST", "/v2/replay", json={"since": "1h"}) == {"replayed": {"ai_telemetry": 2}}
    assert await drained(rig.spool) == [b"1", b"2"]
    answer = await rig.ask("POST", "/v2/replay", json={"since": "2020-01-01", "lane": ["archive"]})
    assert answer == {"replayed": {"archive": 0}}, "it has none behind it"


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v2/dead-letters/replay", b'{"limit": 1,}', "the body is not valid JSON (line 1, column "),
        ("/v2/dead-letters/replay", b"[]", "object"),
        ("/v2/dead-letters/replay", b'{"laen": ["x"]}', "lane"),
        ("/v2/dead-letters/replay", b'{"lane": 1}', "lane"),
        ("/v2/dead-letters/replay", b'{"reason": [1]}', "reason"),
        ("/v2/dead-letters/replay", b'{"limit": 0}', "limit"),
        ("/v2/dead-letters/replay", b'{"limit": true}', "limit"),
        ("/v2/dead-letters/replay", b'{"id": ["1"]}', "id"),
        ("/v2/dead-letters/replay", b'{"id": [99999999999999999999]}', "id"),
        ("/v2/dead-letters/drop", b'{"all": "yes"}', "all"),
        ("/v2/dead-letters/drop", b'{"since": "yesterday"}', "since"),
        ("/v2/dead-letters/drop", b'{"until": "9e999d"}', "until"),
        ("/v2/dead-letters/drop", b'{"since": "99999999999999999999d", "limit": -1}', "limit"),
        ("/v2/dead-letters/replay", b'{"lane": ["nobody"]}', "lane: one of ai_telemetry, archive, "),
        ("/v2/dead-letters/drop", b'{"lane": ["ai_telemetry", "nobody"]}', "lane: one of ai_telemetry, archive, "),
        ("/v2/replay", b"{}", "since"),
        ("/v2/replay", b'{"since": "1h", "limit": 1}', "lane"),
        ("/v2/replay", b'{"since": "1h", "lane": ["nobody"]}', "lane"),
        ("/v2/replay", b'{"since": "1h", "lane": ["devices"]}', "devices"),
    ],
)
async def test_a_request_that_cannot_be_names_the_field_and_changes_nothing(
    rig: Rig, path: str, body: bytes, named: str
) -> None:
    await rig.refuse("a")
    assert named in text_of(await rig.ask("POST", path, expected=400, data=body))
    assert names(await rig.ask("GET", "/v2/dead-letters")) == ["a"]


@pytest.mark.parametrize(
    "query", ["lane=nobody", "since=soon", "sort_key=bytes", "limit=0", "cursor=zzz", "sort_order=up"]
)
async def test_a_list_that_cannot_be_is_refused(rig: Rig, query: str) -> None:
    assert query.partition("=")[0] in text_of(await rig.ask("GET", f"/v2/dead-letters?{query}", expected=400))


async def test_only_who_has_the_token_or_a_session_of_this_very_page_may_ask(rig: Rig) -> None:
    await rig.refuse("a")
    await rig.ask("GET", "/v2/dead-letters", headers={}, expected=401)
    await rig.ask("POST", "/v2/dead-letters/drop", headers={}, json={"all": True}, expected=401)
    session = rig.access.session_for_token(TOKEN.reveal())
    cookie = {"Cookie": f"{COOKIE}={session}"}
    assert names(await rig.ask("GET", "/v2/dead-letters", headers=cookie)) == ["a"]
    for path in ("/v2/dead-letters/drop", "/v2/dead-letters/replay", "/v2/replay"):
        foreign = {**cookie, "Origin": "http://127.0.0.1:1"}
        await rig.ask("POST", path, headers=foreign, json={"all": True}, expected=401)
        await rig.ask("POST", path, headers=cookie, json={"all": True}, expected=401)
    own = {**cookie, "Origin": rig.url}
    assert (await rig.ask("POST", "/v2/dead-letters/drop", headers=own, json={"all": True}))["dropped"] == 1


async def test_the_page_and_the_metrics_show_them_by_lane_and_reason(rig: Rig) -> None:
    await rig.refuse("a", "b", code="<b>bad</b>")
    await rig.refuse("c", lane=USAGE_EVENTS)
    await rig.spool.operator().replay_dead_letters(Chosen(lanes=(USAGE_EVENTS,)))
    await rig.spool.run_maintenance()
    aside = rig.spool.dead_letter_summary()
    status: Status = {**figures(), "dead_letters": reason_figures(aside), "resends": resend_figures(aside)}
    page = shown(delivery.VIEW, delivery.delivery(status))
    assert "<h2>Dead letters</h2>" in page
    assert "&lt;b&gt;bad" in page
    assert "<b>bad" not in page
    collector = StatusCollector(lambda: status, WebFigures)
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in collector.collect()
        for sample in metric.samples
    }
    assert samples["telemetry_gateway_dead_letters", "ai_telemetry", "<b>bad</b>"] == 2
    assert samples["telemetry_gateway_dead_letter_ends_total", "usage_events", "replayed"] == 1
    await drained(rig.spool, USAGE_EVENTS)
    assert any("2 records were refused by the upstream" in text for text in texts_of(status))
    await rig.spool.operator().drop_dead_letters(Chosen())
    await rig.spool.run_maintenance()
    dealt_with: Status = {**status, "unpriced": {}, "dead_letters": reason_figures(rig.spool.dead_letter_summary())}
    assert texts_of(dealt_with) == []
    assert "<h2>Dead letters</h2>" not in shown(delivery.VIEW, delivery.delivery(dealt_with))
