"""What a home keeps of relayed drops, on both homes: order, repeats, room, and days in parts."""

import hashlib
from collections.abc import Callable

import pytest

from gateway.common.lists.conventions import read_request
from gateway.stores.sql.billing import relayed
from gateway.usage.billing import relay_home
from gateway.usage.billing.relay_home import (
    KNOWN_MS,
    RELAYED_LIST,
    Kept,
    NewDrop,
    Queue,
    RelayHome,
    RelayRows,
    Waiting,
)
from tests.support.stores import Home

NOW_MS = 1_767_607_200_000


@pytest.fixture
async def drops(home: Home) -> RelayHome:
    return await home.relayed()


def drop(name: str, *, to: str = "conn-1", repeat: str | None = None, day: str | None = None, **more: str) -> NewDrop:
    """*day*: `day/revision/parts`, of a part of a FOCUS day."""
    body = more.get("body", name).encode()
    source_day, _, division = (None, "", None) if day is None else day.partition("/")
    key = None if repeat is None else repeat.encode()
    return NewDrop(
        name, to, body, hashlib.sha256(body).digest(), key, "2026-01", 1, "replace_daily", source_day, division, "key"
    )


async def keep(drops: RelayHome, *new: NewDrop, now_ms: int = NOW_MS) -> list[Kept]:
    return [await drops.commit(lambda kept, each=each: kept.keep(each, now_ms)) for each in new]


async def states(drops: RelayHome) -> dict[str, str]:
    page = await drops.read(lambda kept: kept.page(read_request(RELAYED_LIST, ())))
    return {item["id"]: item["state"] for item in page.items}


async def waiting(drops: RelayHome, to: str = "conn-1") -> Waiting | None:
    return await drops.read(lambda kept: kept.next_waiting(to))


async def test_drops_of_a_connection_go_out_in_the_order_in_which_they_came(drops: RelayHome) -> None:
    await keep(drops, drop("a"), drop("x", to="conn-2"), drop("b"))
    assert await drops.read(lambda kept: sorted(kept.connections())) == ["conn-1", "conn-2"]
    assert await waiting(drops) == Waiting("a", b"a", "replace_daily", NOW_MS, 0, 0)
    await drops.commit(lambda kept: kept.delivered("a", is_partial=False, now_ms=NOW_MS))
    found = await waiting(drops)
    assert found is not None
    assert found.drop_id == "b"
    assert await states(drops) == {"a": "delivered", "x": "waiting", "b": "waiting"}


async def test_a_repeat_is_known_for_a_week_and_its_key_is_no_other_drops(drops: RelayHome) -> None:
    await keep(drops, drop("a", repeat="k"))
    again, other = drop("b", repeat="k", body="a"), drop("c", repeat="k")
    assert await keep(drops, again, other) == [Kept("duplicate", "a"), Kept("reused")]
    await drops.commit(lambda kept: kept.delivered("a", is_partial=False, now_ms=NOW_MS))
    assert await keep(drops, again, now_ms=NOW_MS + KNOWN_MS) == [Kept("duplicate", "a")]
    assert await keep(drops, other, now_ms=NOW_MS + KNOWN_MS + 1) == [Kept("kept", "c")]
    assert await states(drops) == {"c": "waiting"}


async def test_what_has_no_room_is_not_kept(drops: RelayHome, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(monkeypatch, "MAX_WAITING_BYTES", 3)
    assert await keep(drops, drop("aa"), drop("bb"), drop("c")) == [Kept("kept", "aa"), Kept("full"), Kept("kept", "c")]
    await drops.commit(lambda kept: kept.refuse("aa", "invalid: no", NOW_MS))
    assert await keep(drops, drop("bb")) == [Kept("kept", "bb")], "a refused one takes none of this room"


def bound(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    for module in (relay_home, relayed):
        monkeypatch.setattr(module, name, most)


async def test_parts_of_a_day_are_in_force_together(drops: RelayHome) -> None:
    parts = [drop(f"p{n}", day="d1/r1/3") for n in range(3)]
    await keep(drops, *parts, drop("other", day="d2/r1/3"))
    found = []
    for part in parts:
        found.append(await drops.read(lambda kept, part=part: kept.has_other_parts(part.drop_id)))
        is_last = part is parts[-1]
        end: Callable[[RelayRows], None] = lambda kept, part=part, is_last=is_last: kept.delivered(  # noqa: E731
            part.drop_id, is_partial=not is_last, now_ms=NOW_MS
        )
        await drops.commit(end)
    assert found == [False, False, True]
    assert await states(drops) == {"p0": "delivered", "p1": "delivered", "p2": "delivered", "other": "waiting"}
    assert not await drops.read(lambda kept: kept.has_other_parts("no such"))


async def test_parts_that_the_upstream_lost_go_out_again(drops: RelayHome) -> None:
    await keep(drops, drop("p0", day="d1/r1/2"), drop("p1", day="d1/r1/2"))
    await drops.commit(lambda kept: kept.delivered("p0", is_partial=True, now_ms=NOW_MS))
    assert await states(drops) == {"p0": "sent", "p1": "waiting"}
    await drops.commit(lambda kept: kept.give_back("p1", answered=True, all_parts=True))
    found = await waiting(drops)
    assert found is not None
    assert (found.drop_id, found.generation, found.attempts) == ("p0", 1, 0)
    await drops.commit(lambda kept: kept.remove("p0"))
    found = await waiting(drops)
    assert found is not None
    assert (found.drop_id, found.generation, found.attempts) == ("p1", 1, 1)


async def test_another_revision_of_a_day_ends_the_parts_that_were_sent(drops: RelayHome) -> None:
    await keep(drops, drop("old", day="d1/r1/2"), drop("same", day="d2/r1/2"))
    for name in ("old", "same"):
        await drops.commit(lambda kept, name=name: kept.delivered(name, is_partial=True, now_ms=NOW_MS))
    await keep(drops, drop("new", day="d1/r2/2"), drop("more", day="d2/r1/2"))
    assert await states(drops) == {"old": "delivered", "same": "sent", "new": "waiting", "more": "waiting"}


async def test_refused_drops_stand_until_they_are_retried_removed_or_out_of_room(
    drops: RelayHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, "MAX_REFUSED_BYTES", 2)
    await keep(drops, *map(drop, "abc"))
    given_up = []
    for n, name in enumerate("abc"):
        given_up.append(await drops.commit(lambda kept, n=n, name=name: kept.refuse(name, "bad: no", NOW_MS + n)))
    assert given_up == [0, 0, 1], "the oldest"
    assert await states(drops) == {"a": "expired", "b": "refused", "c": "refused"}
    assert await drops.read(lambda kept: list(kept.queues())) == [Queue("conn-1", 0, 0, 2)]
    assert await drops.commit(lambda kept: kept.retry("b")) == "conn-1"
    assert await drops.commit(lambda kept: kept.retry("a")) is None
    assert await drops.read(lambda kept: list(kept.queues())) == [Queue("conn-1", 1, 1, 1)]
    assert [await drops.commit(lambda kept, name=name: kept.remove(name)) for name in "abc"] == [False, True, True]
    assert await drops.read(lambda kept: list(kept.queues())) == []


async def test_a_page_is_filtered_and_sorted_as_asked(drops: RelayHome) -> None:
    await keep(drops, drop("a"), drop("b", to="conn-0"), now_ms=NOW_MS)
    await keep(drops, drop("c"), now_ms=NOW_MS + 1)
    await drops.commit(lambda kept: kept.refuse("c", "bad: no", NOW_MS + 2))
    page = await drops.read(lambda kept: kept.page(read_request(RELAYED_LIST, [("state", "refused")])))
    assert [(item["id"], item["refused"], item["bytes"]) for item in page.items] == [("c", "bad: no", 1)]
    asked = read_request(RELAYED_LIST, [("sort_key", "connection"), ("sort_order", "asc")])
    page = await drops.read(lambda kept: kept.page(asked))
    assert [item["id"] for item in page.items] == ["b", "a", "c"]
