"""Pages of both homes against a plain model, while rows come and go between them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.common.lists.stones import Ask, Stone, each_home, pairs_of

LONG = "x" * 255
NAMES = st.sampled_from(
    [None, "", "a", "A", "é", "e\u0301", "\U0001f600", "\uffff", LONG, LONG + "y", LONG + "ya", LONG + "yb"]
)
COSTS = st.sampled_from([None, "0", "0.5", "9", "10", "-3.25", "1e3", "123456789012345678901234567890.5"])
STONES = st.tuples(st.sampled_from(["red", "green", "blue"]), st.sampled_from([None, 0, 1, -1, 2**62]), NAMES, COSTS)
STEPS = st.lists(
    st.sampled_from(["next_cursor", "previous_cursor", "next_cursor", "previous_cursor", "start"])
    | STONES.map(lambda stone: ("insert", stone))
    | st.integers(0, 30).map(lambda n: ("delete", n)),
    max_size=25,
)
Rank = tuple[str | int | float, int]


class Where(NamedTuple):
    """Where a cursor of the last page leads, as the model has it."""

    anchor: Rank
    is_after: bool
    is_inclusive: bool


class Model:
    def __init__(self, key: str, order: str, colours: set[str], limit: int) -> None:
        self.stones: dict[int, Stone] = {}
        self.made = 0
        self.key, self.is_descending, self.colours, self.limit = key, order == "desc", colours, limit

    def insert(self, row: tuple[str, int | None, str | None, str | None]) -> None:
        self.made += 1
        self.stones[self.made] = Stone(self.made, *row)

    def rank(self, stone: Stone) -> Rank:
        return stone.value(self.key), stone.number

    def listed(self) -> list[Stone]:
        kept = [stone for stone in self.stones.values() if not self.colours or stone.colour in self.colours]
        return sorted(kept, key=self.rank, reverse=self.is_descending)

    def split(self, anchor: Rank) -> tuple[list[Stone], list[Stone], list[Stone]]:
        """The rows before the place, at it, and after it."""
        before, at, after = list[Stone](), list[Stone](), list[Stone]()
        for stone in self.listed():
            rank = self.rank(stone)
            (at if rank == anchor else before if (rank < anchor) != self.is_descending else after).append(stone)
        return before, at, after

    def page(self, where: Where | None) -> list[Stone]:
        if where is None:
            return self.listed()[: self.limit]
        before, at, after = self.split(where.anchor)
        own = at if where.is_inclusive else []
        return (own + after)[: self.limit] if where.is_after else (before + own)[-self.limit :]


def check(model: Model, body: dict[str, Any], where: Where | None) -> dict[str, Where | None]:
    """Compare a page with the model's; where its cursors lead."""
    expected = model.page(where)
    assert body["stones"] == [stone.number for stone in expected]
    pagination, total = body["pagination"], len(model.listed())
    counts = (pagination["page_count"], pagination["item_count"], pagination["total_count"])
    assert counts == (math.ceil(total / model.limit), len(expected), total)
    cursor = pagination["cursor"]
    assert cursor["has_next"] is (cursor["next_cursor"] is not None)
    assert cursor["has_previous"] is (cursor["previous_cursor"] is not None)
    if expected:
        first, last = model.rank(expected[0]), model.rank(expected[-1])
        leads = {
            "previous_cursor": Where(first, is_after=False, is_inclusive=False),
            "next_cursor": Where(last, is_after=True, is_inclusive=False),
        }
    elif where is None:
        leads = {}
    else:  # nothing is left on this side: only the way back remains, and begins with the row that was there
        back = "previous_cursor" if where.is_after else "next_cursor"
        leads = {back: Where(where.anchor, is_after=not where.is_after, is_inclusive=not where.is_inclusive)}
    found: dict[str, Where | None] = {}
    for name in ("previous_cursor", "next_cursor"):
        lead = leads.get(name)
        found[name] = lead if lead is not None and model.page(lead) else None
        assert (cursor[name] is not None) is (found[name] is not None), name
    return found


@each_home
@settings(max_examples=250, deadline=None)
@given(
    rows=st.lists(STONES, max_size=14),
    limit=st.integers(1, 4),
    key=st.sampled_from(["colour", "cost", "name", "size"]),
    order=st.sampled_from(["asc", "desc"]),
    colours=st.sets(st.sampled_from(["red", "blue"])),
    steps=STEPS,
)
def test_every_page_equals_that_of_a_plain_model_whatever_changes_between(
    ask: Ask, rows: list[Any], limit: int, key: str, order: str, colours: set[str], steps: list[Any]
) -> None:
    model = Model(key, order, colours, limit)
    for row in rows:
        model.insert(row)
    start = [("limit", str(limit)), ("sort_key", key), ("sort_order", order), *(("colour", c) for c in sorted(colours))]
    body = ask(start, list(model.stones.values()))
    leads = check(model, body, None)
    for step in steps:
        match step:
            case ("insert", row):
                model.insert(row)
            case ("delete", int(n)) if model.stones:
                del model.stones[sorted(model.stones)[n % len(model.stones)]]
            case "start":
                body = ask(start, list(model.stones.values()))
                leads = check(model, body, None)
            case "next_cursor" | "previous_cursor" if leads[step] is not None:
                cursor = body["pagination"]["cursor"][step]
                where = leads[step]
                body = ask([("cursor", cursor)], list(model.stones.values()))
                leads = check(model, body, where)


@each_home
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("key", ["colour", "cost", "name", "size"])
def test_walking_on_and_back_shows_every_row_once_in_order(ask: Ask, key: str, order: str) -> None:
    colours = ("red", "green", "blue")
    stones = [Stone(n, colours[n % 3], n % 5 or None, LONG + "é" * (n % 4), f"{n % 6}.10") for n in range(1, 40)]
    expected = [s.number for s in sorted(stones, key=lambda s: (s.value(key), s.number), reverse=order == "desc")]
    pages = walk(ask, stones, f"limit=7&sort_key={key}&sort_order={order}", "next_cursor")
    assert [number for page in pages for number in page["stones"]] == expected
    assert [page["pagination"]["item_count"] for page in pages] == [7, 7, 7, 7, 7, 4]
    last = pages[-2]["pagination"]["cursor"]["next_cursor"]
    back = walk(ask, stones, f"cursor={last}", "previous_cursor")
    assert [page["stones"] for page in reversed(back)] == [page["stones"] for page in pages]


def walk(ask: Callable[..., dict[str, Any]], stones: list[Stone], query: str, lead: str) -> list[dict[str, Any]]:
    pages = [ask(pairs_of(query), stones)]
    while cursor := pages[-1]["pagination"]["cursor"][lead]:
        pages.append(ask([("cursor", cursor)], stones))
    return pages


@each_home
def test_when_the_rest_went_meanwhile_the_page_is_empty_and_leads_back(ask: Ask) -> None:
    stones = [Stone(n, size=n) for n in range(1, 7)]
    cursor = ask(pairs_of("limit=3"), stones)["pagination"]["cursor"]["next_cursor"]
    gone = ask([("cursor", cursor)], stones[:3])
    assert (gone["stones"], gone["pagination"]["total_count"], gone["pagination"]["page_count"]) == ([], 3, 1)
    back = ask([("cursor", gone["pagination"]["cursor"]["previous_cursor"])], stones[:3])
    assert back["stones"] == [1, 2, 3]
