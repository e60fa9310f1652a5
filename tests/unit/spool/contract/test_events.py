"""Usage events and records on their way in: kept with the ids by which a repeat is known, in one
commit.
"""

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from spool.errors import SpoolError
from spool.events import IntakeOutcome, NewEvent, RepeatKey
from spool.record import UNIT_COST, USAGE_EVENTS
from spool.store import EventStore, Spool
from spool.unit_cost import Metered, Mismatch, Rules
from tests.support.spool_homes import SpoolHome
from tests.support.spool_rig import drained
from tests.support.unit_streams import METRIC, SHAPE, STREAM, metered

Begun = Callable[[EventStore], Awaitable[object]]


@pytest.fixture
def store(spool: Spool) -> EventStore:
    return spool.events(Rules(max_streams=2))


def key(name: str, says: str = "") -> RepeatKey:
    return RepeatKey(name.encode().ljust(16), says.encode().ljust(8))


def event(name: str, *, says: str = "", adds: Metered | None = None, is_event: bool = True) -> NewEvent:
    return NewEvent(key(name, says), name.encode() if is_event else None, adds)


async def keep(store: EventStore, *events: NewEvent, **rejected: int) -> list[IntakeOutcome]:
    return await store.keep_events(events, Counter(rejected))


async def test_an_event_goes_to_its_lane_and_into_its_stream_and_is_then_two_items(
    spool: Spool, store: EventStore
) -> None:
    sent = [event("a"), event("b", adds=metered(1)), event("c", adds=metered(2), is_event=False)]
    assert await keep(store, *sent, too_odd=3) == ["kept"] * 3
    edge = spool.edge()
    assert (edge["received"], edge["kept"], edge["rejected"]) == (7, 4, 3)
    assert spool.reasons() == {"rejected.too_odd": 3}
    assert (spool.depth(USAGE_EVENTS).kept, spool.depth(UNIT_COST).kept) == (2, 2)
    assert await drained(spool, USAGE_EVENTS) == [b"a", b"b"]


async def test_a_repeat_adds_nothing_whatever_it_says(spool: Spool, store: EventStore) -> None:
    sent = event("a", adds=metered(1))
    assert await keep(store, sent, sent, event("a", says="else")) == ["kept", "duplicate", "conflict"]
    assert await store.keep_events([sent, event("b")], Counter(), counts_repeats=False) == ["duplicate", "kept"]
    assert spool.edge()["received"] == 6
    assert spool.reasons() == {"duplicate.event_id": 2, "duplicate.event_id_of_another": 1}
    assert spool.depth(USAGE_EVENTS).kept == 2


async def test_a_repeat_of_an_event_whose_stream_was_deleted_makes_no_stream(spool: Spool, store: EventStore) -> None:
    await keep(store, event("a", adds=metered(1)))
    await store.delete_stream(STREAM, None, forced=True)
    assert await keep(store, event("a", adds=metered(1))) == ["duplicate"]
    assert await store.streams() == []
    assert await store.create_stream(STREAM, METRIC) == "made"
    assert await keep(store, event("a", adds=metered(1))) == ["duplicate"], "whatever the new stream takes"


async def test_a_repeat_of_a_request_is_one_also_where_its_stream_was_deleted(spool: Spool, store: EventStore) -> None:
    for mark, record in ((key("a"), metered(1)), (key("b"), metered(operation="delete"))):
        assert await store.keep_records([record], mark) == "kept"
    await store.delete_stream(STREAM, None, forced=True)
    for mark, record in ((key("a"), metered(1)), (key("b"), metered(operation="delete"))):
        assert await store.keep_records([record], mark) == "duplicate"
        assert await store.keep_records([record], mark._replace(content=b"other...")) == "conflict"
    assert spool.reasons() == {"duplicate.idempotency_key": 2, "rejected.idempotency_key_reused": 2}


async def test_a_key_of_another_deletion_is_refused_and_counted_so(spool: Spool, store: EventStore) -> None:
    await store.keep_records([metered(1)], None)
    assert await store.delete_stream(STREAM, key("d", "force"), forced=True) == "kept"
    assert await store.delete_stream(STREAM, key("d"), forced=False) == "conflict"
    edge = spool.edge()
    assert (edge["kept"], edge["duplicate"], edge["rejected"]) == (2, 0, 1)
    assert spool.reasons() == {"rejected.idempotency_key_reused": 1}


async def test_no_more_streams_are_made_than_there_may_be(spool: Spool, store: EventStore) -> None:
    full = Mismatch("too_many_streams", "2")
    assert await store.keep_records([metered(1, stream=name) for name in "abc"], None) == full
    assert await store.streams() == [], "all of a request or nothing"
    some = [event(name, adds=metered(1, stream=name)) for name in "abc"]
    assert await keep(store, *some) == ["kept", "kept", full]
    assert await store.create_stream("d", SHAPE) == full
    assert spool.reasons() == {"rejected.too_many_streams": 6}
    await store.delete_stream("a", None, forced=True)
    assert await store.create_stream("d", SHAPE) == "made"


BEGUN: dict[str, Begun] = {
    "events": lambda store: keep(store, event("a", adds=metered(1))),
    "records": lambda store: store.keep_records([metered(1)], key("a")),
    "a deletion": lambda store: store.delete_stream("before", key("a"), forced=True),
}


@pytest.mark.parametrize("what", BEGUN)
@pytest.mark.parametrize("after", [False, True])
async def test_a_kill_at_the_commit_keeps_all_of_it_with_its_id_or_nothing(
    home: SpoolHome,
    what: str,
    after: bool,  # noqa: FBT001 - a parameter
) -> None:
    spool = home.open()
    await spool.events(Rules()).keep_records([metered(1, stream="before")], None)
    before = dict(spool.edge())
    begun = BEGUN[what]
    await home.kill_at_commit(lambda: begun(spool.events(Rules())), after=after)
    await spool.close()
    spool = home.open()
    await home.check()
    assert (spool.edge() == before) is not after
    await begun(spool.events(Rules()))
    assert bool(spool.edge()["duplicate"]) is after, "what was kept is known again, and nothing else is"
    await home.check()
    await spool.close()


async def test_events_that_could_not_be_kept_are_no_repeats_when_they_come_again(
    home: SpoolHome, spool: Spool, store: EventStore
) -> None:
    await home.break_appends()
    with pytest.raises(SpoolError):
        await keep(store, event("a", adds=metered(1)))
    await home.mend_appends()
    assert spool.edge()["received"] == 0
    assert await keep(store, event("a", adds=metered(1))) == ["kept"]
