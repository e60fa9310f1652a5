"""`GET /v2/calls`: pages of settled calls on and back, each of which reads so much and no more."""

from pathlib import Path
from typing import Any

import pytest

from gateway.common.lists.conventions import BadListRequest
from gateway.common.lists.cursor import sealed
from gateway.observability import settled_calls
from gateway.operate.calls import CALL_LIST, listed
from gateway.operate.operation import OperationCall
from tests.support.calls import call
from tests.support.spool_rig import Rig

SENT = 9


@pytest.fixture
async def rig(tmp_path: Path) -> Any:
    """Nine calls in chunks of one, three, one and four; every second one is of team a."""
    rig = await Rig.opened(tmp_path)
    calls = [call(f"call {n}", tokens=(n, 1), team="ab"[n % 2]) for n in range(1, SENT + 1)]
    for start, stop in ((0, 1), (1, 4), (4, 5), (5, 9)):
        await rig.send(*calls[start:stop])
    await rig.settle()
    yield rig
    await rig.spool.close()


async def page(rig: Rig, **query: object) -> dict[str, Any]:
    pairs = [(name, str(value)) for name, value in query.items()]
    return await listed(rig.spool, OperationCall(None, query=pairs))


async def walked(rig: Rig, first: dict[str, Any], way: str) -> list[dict[str, Any]]:
    pages = [first]
    while cursor := pages[-1]["pagination"]["cursor"][f"{way}_cursor"]:
        pages.append(await page(rig, cursor=cursor))
    return pages


def tokens(pages: list[dict[str, Any]]) -> list[list[int]]:
    return [[each["input_tokens"] for each in page["calls"]] for page in pages]


@pytest.mark.parametrize("read_bytes", [1, 1500, 1 << 18])
@pytest.mark.parametrize("limit", [1, 2, 4, 8, 9, 20])
async def test_a_walk_on_and_back_shows_each_call_once_the_newest_first(
    rig: Rig, limit: int, read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled_calls, "READ_BYTES", read_bytes)
    on = await walked(rig, await page(rig, limit=limit), "next")
    newest_first = [*range(SENT, 0, -1)]
    assert tokens(on) == [newest_first[i : i + limit] for i in range(0, SENT, limit)]
    assert {(each["pagination"]["total_count"], each["pagination"]["page_count"]) for each in on} == {
        (SENT, -(-SENT // limit))
    }
    back = await walked(rig, on[-1], "previous")
    assert tokens(back[::-1]) == tokens(on)
    assert back[-1]["pagination"]["cursor"]["has_previous"] is False
    assert tokens(await walked(rig, back[-1], "next")) == tokens(on)


async def test_a_walk_is_of_the_calls_that_its_filters_choose(rig: Rig) -> None:
    whole = await page(rig, outcome="duplicate")
    assert (whole["calls"], whole["pagination"]["total_count"], whole["pagination"]["page_count"]) == ([], 0, 0)
    chosen = (await page(rig))["calls"][4]
    one = await page(rig, record_id=chosen["record_id"], limit=1)
    assert (one["calls"], one["pagination"]["total_count"]) == ([chosen], 1)
    assert one["pagination"]["cursor"]["has_next"] is False
    of_team = await walked(rig, await page(rig, team="b", limit=2), "next")
    assert tokens(of_team) == [[9, 7], [5, 3], [1]]
    assert tokens(await walked(rig, of_team[-1], "previous")) == [[1], [5, 3], [9, 7]]
    assert one["filtering"]["current"] == {"record_id": (chosen["record_id"],)}


async def test_calls_that_settle_meanwhile_are_on_no_page_of_a_walk(rig: Rig) -> None:
    first = await page(rig, limit=2)
    for n in range(3):
        await rig.send(call(f"late {n}", tokens=(100 + n, 1)))
    await rig.settle()
    on = await walked(rig, first, "next")
    assert [n for page in tokens(on) for n in page] == [*range(SENT, 0, -1)]
    back = await walked(rig, on[-1], "previous")
    assert tokens(back[::-1]) == tokens(on)
    assert (await page(rig))["calls"][0]["input_tokens"] == 102


async def test_a_page_that_read_its_share_states_where_to_go_on_and_counts_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled_calls, "READ_BYTES", 1)
    monkeypatch.setattr(settled_calls, "SEARCH_BYTES", 1)
    on = await walked(rig, await page(rig, team="nobody"), "next")
    chunks_and_the_end = 5
    assert tokens(on) == [[]] * chunks_and_the_end
    assert [each["pagination"]["total_count"] for each in on] == [None] * (chunks_and_the_end - 1) + [0]
    on = await walked(rig, await page(rig, limit=4), "next")
    assert [n for page in tokens(on) for n in page] == [*range(SENT, 0, -1)]
    back = await walked(rig, on[-1], "previous")
    assert [n for page in tokens(back[::-1]) for n in page] == [*range(SENT, 0, -1)]


@pytest.mark.parametrize(
    ("value", "row_id"),
    [("", 0), ("1", 0), ("1.", 0), ("1.1.1", 0), ("-1.0", 0), (7, 0), ("1.1", -1), ("9" * 19 + ".0", 0), ("².1", 0)],
)
async def test_a_cursor_that_is_no_place_is_refused(rig: Rig, value: object, row_id: int) -> None:
    forged = sealed(CALL_LIST.full_name, ["settled_at", "desc", 50, {}, value, row_id, False])
    with pytest.raises(BadListRequest, match=r"^cursor: "):
        await page(rig, cursor=forged)


@pytest.mark.parametrize("direction", ["older", "newer"])
@pytest.mark.parametrize("value", ["0.0", "5.999999999", f"{10**17}.0", f"{10**17}.999999999"])
async def test_a_forged_place_is_answered_within_the_list(rig: Rig, value: str, direction: str) -> None:
    forged = sealed(CALL_LIST.full_name, ["settled_at", "desc", 2, {}, value, 2**62, direction == "newer"])
    found = await page(rig, cursor=forged)
    assert len(found["calls"]) <= 2


@pytest.mark.parametrize("limit", ["0", "501", "000000001999", "1" * 5000, "-1", "²"])
async def test_a_limit_that_cannot_be_is_refused(rig: Rig, limit: str) -> None:
    with pytest.raises(BadListRequest, match=r"^limit: a whole number from 1 to 500 is needed"):
        await page(rig, limit=limit)


@pytest.mark.parametrize("query", [{"sort_key": "settled_at"}, {"sort_order": "asc"}, {"outcome": "good"}, {"odd": 1}])
async def test_what_the_list_does_not_offer_is_refused(rig: Rig, query: dict[str, object]) -> None:
    with pytest.raises(BadListRequest, match=r"can be asked of this list|one of kept, "):
        await page(rig, **query)
