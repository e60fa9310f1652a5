"""Parts 2.3 and 4.2 on the gateway's own lists: the real process, its admin port.

What each lists is tested beside what makes it.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from tests.conformance.service_interface import published
from tests.conformance.service_interface.endpoints import INSIGHT
from tests.support.gateway_process import GatewayProcess

LISTS = ("/v2/insights", "/v2/keys", "/v2/budgets", "/v2/views", "/v2/dead-letters")
FILLED = LISTS[:4]
ROWS = 7

every_list = pytest.mark.parametrize("path", LISTS)
filled_list = pytest.mark.parametrize("path", FILLED)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as running:
        yield running


class Admin:
    def __init__(self, gateway: GatewayProcess, session: aiohttp.ClientSession) -> None:
        self._url = gateway.admin_url
        self._token = (gateway.data_dir / "admin-token").read_text().strip()
        self._session = session

    async def ask(self, method: str, path: str, *, body: object = None) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": self._token}
        async with self._session.request(method, self._url + path, headers=headers, json=body) as response:
            answer: dict[str, Any] = await response.json()
            return response.status, answer

    async def list(self, path: str, **params: str) -> dict[str, Any]:
        status, body = await self.ask("GET", f"{path}?{urlencode(params)}")
        assert status == 200, body
        return body

    async def refused(self, path: str, query: str) -> str:
        status, body = await self.ask("GET", f"{path}?{query}")
        assert (status, set(body), body["error"]["type"]) == (400, {"error"}, "invalid_request"), query
        message: str = body["error"]["message"]
        return message

    async def fill(self) -> None:
        """Once: seven insights and seven keys."""
        if (await self.list("/v2/keys"))["pagination"]["total_count"] == 0:
            for n in range(ROWS):
                scopes = {"name": f"key {n}", "scopes": ["insights:read_insights"], "confirmed": True}
                assert (await self.ask("POST", "/v2/keys", body=scopes))[0] == 201
                budget = {"name": f"b{n}", "amount": "1", "currency": "USD", "period": "month"}
                assert (await self.ask("POST", "/v2/budgets", body=budget))[0] == 201
                assert (await self.ask("POST", "/v2/views", body={"name": f"v{n}"}))[0] == 201
                assert (await self.ask("POST", "/v2/insights", body={**INSIGHT, "title": f"t{n % 3}"}))[0] == 201


@pytest.fixture
async def admin(gateway: GatewayProcess) -> Any:
    async with aiohttp.ClientSession() as session:
        yield Admin(gateway, session)


@every_list
async def test_2_3_every_list_has_the_three_root_keys_with_their_types(admin: Admin, path: str) -> None:
    body = await admin.list(path)
    root = path.rpartition("/")[2].replace("-", "_")
    assert set(body) == {root, "pagination", "filtering", "sorting"}
    counts = body["pagination"]
    assert all(type(counts[name]) is int for name in ("page_count", "item_count", "total_count"))
    assert len(body[root]) == counts["item_count"]
    assert set(counts["cursor"]) == {"next_cursor", "previous_cursor", "has_next", "has_previous"}
    assert body["sorting"]["ordering"] == ["asc", "desc"]


async def test_2_3_the_list_of_calls_has_the_root_keys_of_what_it_offers(admin: Admin) -> None:
    body = await admin.list("/v2/calls")
    assert set(body) == {"calls", "pagination", "filtering"}
    assert body["pagination"] == {
        "page_count": 0,
        "item_count": 0,
        "total_count": 0,
        "cursor": {"next_cursor": None, "previous_cursor": None, "has_next": False, "has_previous": False},
    }
    assert body["filtering"]["available"][0] == {
        "field": "outcome",
        "valid_values": ["kept", "duplicate", "suppressed", "rejected", "ignored"],
        "valid_types": ["string"],
    }
    for query in ("limit=0", "cursor=x", "outcome=odd", "sort_key=at", "odd=1"):
        await admin.refused("/v2/calls", query)


async def test_4_1_the_gateways_insights_are_listed_as_the_services(admin: Admin) -> None:
    body = await admin.list("/v2/insights", status="new")
    assert body["filtering"] == {
        "available": [{"field": "status", "valid_values": published.INSIGHT_STATUSES, "valid_types": ["string"]}],
        "current": {"status": ["new"]},
    }
    assert body["sorting"]["available"] == published.INSIGHT_SORT_KEYS
    assert body["sorting"]["current"] == [{"sort_key": "status", "sort_order": "asc"}]


@every_list
@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "text", "501", "", "%C2%B2", "1&limit=2"])
async def test_4_2_a_limit_that_cannot_be_is_refused(admin: Admin, path: str, limit: str) -> None:
    assert (await admin.refused(path, f"limit={limit}")).startswith("limit: ")


@every_list
async def test_4_2_what_is_not_offered_is_refused_by_name_with_what_is(admin: Admin, path: str) -> None:
    offered = (await admin.list(path))["sorting"]["available"]
    assert await admin.refused(path, "sort_key=weight") == f"sort_key: one of {', '.join(offered)} is needed"
    assert await admin.refused(path, "sort_order=up") == "sort_order: one of asc, desc is needed"
    assert (await admin.refused(path, "statsu=new")).startswith("query: only c")
    for cursor in ("", "x", "%00", "%F0%9F%98%80", "A" * 6500, "W10", "bnVsbA"):
        assert (await admin.refused(path, f"cursor={cursor}")).startswith("cursor: ")


@filled_list
@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_4_2_2_every_sorting_walks_on_and_back(admin: Admin, path: str, order: str) -> None:
    await admin.fill()
    root = path.rpartition("/")[2]
    for key in (await admin.list(path))["sorting"]["available"]:
        on = [await admin.list(path, sort_key=key, sort_order=order, limit="3")]
        while cursor := on[-1]["pagination"]["cursor"]["next_cursor"]:
            on.append(await admin.list(path, cursor=cursor))
        assert [page["pagination"]["item_count"] for page in on] == [3, 3, 1]
        assert len({item["id"] for page in on for item in page[root]}) == ROWS
        back = [on[-1]]
        while cursor := back[-1]["pagination"]["cursor"]["previous_cursor"]:
            back.append(await admin.list(path, cursor=cursor))
        assert [page[root] for page in reversed(back)] == [page[root] for page in on]


async def test_4_2_2_a_cursor_of_another_list_or_of_other_parameters_is_refused(admin: Admin) -> None:
    await admin.fill()
    cursors = {path: (await admin.list(path, limit="3"))["pagination"]["cursor"]["next_cursor"] for path in FILLED}
    for path in LISTS:
        for made_by, cursor in cursors.items():
            if path != made_by:
                assert "no cursor of this list" in await admin.refused(path, f"cursor={cursor}")
    for other in ("limit=4", "sort_order=desc"):
        told = await admin.refused("/v2/keys", f"cursor={cursors['/v2/keys']}&{other}")
        assert told.startswith(f"cursor: it was made under another {other.partition('=')[0]}")


async def test_4_2_2_a_cursor_outlasts_kill_and_restart(admin: Admin, gateway: GatewayProcess) -> None:
    await admin.fill()
    first = await admin.list("/v2/insights", limit="4", sort_key="title")
    gateway.kill()
    gateway.restart()
    async with aiohttp.ClientSession() as session:
        rest = await Admin(gateway, session).list("/v2/insights", cursor=first["pagination"]["cursor"]["next_cursor"])
    assert len({item["id"] for item in first["insights"] + rest["insights"]}) == ROWS
