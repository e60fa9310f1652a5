"""A month whose waste is known: all of it is found, each amount within 1 %, and nothing else."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import NotFound
from gateway.common.lists.conventions import read_request
from gateway.usage.pricing.prices import Prices
from gateway.usage.recommendations.book import FRESH_S, Recommendations
from gateway.usage.recommendations.listing import RECOMMENDATION_LIST
from gateway.usage.recommendations.tariffs import price_of
from gateway.usage.recommendations.waste import LEAST_CALLS
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import HOUR_MS, Tally
from spool.clock import rfc3339_ms
from tests.support.stores import Home, PostgresHome, SqliteHome, only_sql
from tests.unit.usage.sums.test_tally import store

DAY_MS = 24 * HOUR_MS
NOW_MS = int(datetime(2026, 11, 24, 10, 30, tzinfo=UTC).timestamp()) * 1000
"""When the price list has batch prices."""
TODAY_MS = NOW_MS // DAY_MS * DAY_MS
PRICES = Prices()
OPENAI, ANTHROPIC = "openai", "anthropic"
PER_DAY = 12
"""Calls of each service."""
Json = dict[str, Any]


def call(service: str | None, provider: str, model: str, at_ms: int, usage: Json, *, batch: bool = False) -> Json:
    """A priced call."""
    record = {
        "kind": "call", "billed": True, "status": "ok", "operation": "chat", "started_at": rfc3339_ms(at_ms),
        "provider": provider, "response_model": model, "request_model": model, "batch": batch, "flags": [],
        "usage": {"status": "reported", **usage}, "attribution": {"service_name": service, "team": "core"},
        "source": {"format": "otlp.traces"},
    }  # fmt: skip
    PRICES.price(record, at_ms)  # type: ignore[arg-type]  # a record of the test's own
    assert record.get("cost"), model
    return record


def failed(record: Json, *, is_paid: bool) -> Json:
    """The same call that failed; one that is not paid for states no tokens."""
    if is_paid:
        return {**record, "status": "error"}
    return {**record, "status": "error", "cost": None, "usage": {"status": "missing"}}


def otherwise(record: Json, **changes: Any) -> Decimal:
    """What the call would have cost with other tokens or another model."""
    changed = deepcopy(record) | {"cost": None}
    changed["usage"] |= changes.pop("usage", {})
    changed |= changes
    PRICES.price(changed, NOW_MS)  # type: ignore[arg-type]
    return Decimal(changed["cost"]["amount"])


def plain(chance: random.Random, output: tuple[int, int], inputs: tuple[int, int] = (300, 900)) -> Json:
    return {"input_tokens": chance.randint(*inputs), "output_tokens": chance.randint(*output)}


def reasoned(chance: random.Random, times: float) -> Json:
    answer = chance.randint(300, 500)
    return {
        "input_tokens": 500,
        "output_tokens": answer + int(answer * times),
        "reasoning_output_tokens": int(answer * times),
    }


def cached(chance: random.Random, *, is_read: bool) -> Json:
    """A prompt of 10,000 tokens that is written to a cache in one call of four or in each."""
    prompt = chance.randint(9_000, 11_000)
    part = "cache_read_input_tokens" if is_read else "cache_creation_input_tokens"
    return {"input_tokens": prompt + 500, part: prompt, "output_tokens": chance.randint(400, 600)}


def made(day_ms: int, chance: random.Random) -> Iterator[tuple[str, Json, Decimal | None]]:
    """The calls of one day: kind of waste, the call, and what it would have cost without."""
    for n in range(PER_DAY):
        at_ms = day_ms + n * 100 * 60_000
        night_ms = day_ms + HOUR_MS + n * 9 * 60_000
        triage = call("triage", OPENAI, "gpt-4o-2024-08-06", at_ms, plain(chance, (20, 60)))
        yield "cheaper_model", triage, otherwise(triage, response_model="gpt-4o-mini", request_model="gpt-4o-mini")
        search = call("search", ANTHROPIC, "claude-sonnet-4-5", at_ms, cached(chance, is_read=n % 12 == 0))
        gone = {"cache_creation_input_tokens": None, "cache_read_input_tokens": None}
        yield "cache_unread", search, otherwise(search, usage=gone)
        planner = call("planner", OPENAI, "gpt-5", at_ms, reasoned(chance, 4.0))
        answer = planner["usage"]["output_tokens"] - planner["usage"]["reasoning_output_tokens"]
        yield (
            "reasoning",
            planner,
            otherwise(planner, usage={"output_tokens": 2 * answer, "reasoning_output_tokens": answer}),
        )
        nightly = call(None, OPENAI, "gpt-4o", night_ms, plain(chance, (700, 900)))
        yield "batch_price", nightly, otherwise(nightly, batch=True)
        drafts = call(
            "drafts", OPENAI, f"gpt-4o-2024-{'08-06' if n % 3 else '11-20'}", at_ms, plain(chance, (700, 900))
        )
        is_failed = n % 4 == 0
        yield "failed_calls" if is_failed else "", failed(drafts, is_paid=True) if is_failed else drafts, Decimal(0)
        # The same shapes without waste.
        yield "", call("writer", OPENAI, "gpt-4o", at_ms, plain(chance, (700, 900))), None
        yield "", call("reader", OPENAI, "gpt-4o", at_ms, plain(chance, (20, 60), (20_000, 30_000))), None
        yield "", call("small", OPENAI, "gpt-4o-mini", at_ms, plain(chance, (20, 60))), None
        yield "", call("assistant", ANTHROPIC, "claude-sonnet-4-5", at_ms, cached(chance, is_read=n % 4 != 0)), None
        yield "", call("thinker", OPENAI, "gpt-5", at_ms, reasoned(chance, 1.5)), None
        yield "", call("batches", OPENAI, "gpt-4o", night_ms, plain(chance, (700, 900)), batch=True), None
        refused = call("refused", OPENAI, "gpt-4o", at_ms, plain(chance, (700, 900)))
        yield "", failed(refused, is_paid=False) if n % 2 else refused, None
        steady = call("steady", OPENAI, "gpt-4o", at_ms, plain(chance, (800, 810)))
        yield "", failed(steady, is_paid=True) if n == 0 and day_ms // DAY_MS % 2 else steady, None
    yield "", call("rare", OPENAI, "gpt-4o", day_ms, plain(chance, (20, 60))), None


@cache
def month() -> tuple[Tally, dict[str, Decimal]]:
    """30 whole days and today, and the saving of each kind in the whole days."""
    chance, truth, records = random.Random(7), defaultdict[str, Decimal](Decimal), []
    for ago in range(30, -1, -1):
        for kind, record, instead in made(TODAY_MS - ago * DAY_MS, chance):
            records.append(orjson.dumps(record))
            if kind and instead is not None and ago:
                truth[kind] += Decimal(record["cost"]["amount"]) - instead
    tally = Tally()
    tally.add(records, now_ms=NOW_MS)
    return tally, dict(truth)


@pytest.fixture
async def sums(home: Home) -> SumHome:
    """With the month, at a gateway that began before it."""
    sums = await home.sums()
    await store(sums, Tally(), now_ms=TODAY_MS - 31 * DAY_MS)
    await store(sums, month()[0], now_ms=NOW_MS)
    return sums


class Clock:
    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.now_ms / 1000


async def opened(home: Home, sums: SumHome, clock: Clock, least: str = "0.04") -> Recommendations:
    queries = UsageQueries(sums, now_ms=clock)
    return Recommendations(
        await home.recommendations(),
        queries,
        price_of(PRICES, clock),
        least_saving=Decimal(least),
        monotonic_s=clock.monotonic_s,
    )


async def listed(kept: Recommendations, **query: str) -> list[Json]:
    page = await kept.page(read_request(RECOMMENDATION_LIST, list({"limit": "50", **query}.items())))
    return [dict(item) for item in page.items]  # type: ignore[call-overload]  # each is a RecommendationJson


async def test_all_the_waste_is_found_within_a_percent_and_nothing_else(home: Home, sums: SumHome) -> None:
    found = await listed(await opened(home, sums, Clock()))
    truth = month()[1]
    assert {each["kind"]: each["service_name"] for each in found} == {
        "cheaper_model": "triage", "cache_unread": "search", "reasoning": "planner", "batch_price": None,
        "failed_calls": "drafts",
    }  # fmt: skip
    assert len(found) == 5
    for each in found:
        saving = Decimal(each["saving"])
        assert abs(saving - truth[each["kind"]]) <= truth[each["kind"]] / 100, each["kind"]
        assert saving == Decimal(each["cost"]) - Decimal(each["cost_instead"])
    savings = [Decimal(each["saving"]) for each in found]
    assert savings == sorted(savings, reverse=True)
    (smaller,) = [each for each in found if each["kind"] == "cheaper_model"]
    assert (smaller["model"], smaller["instead"], smaller["calls"]) == ("gpt-4o", "gpt-4o-mini", 30 * PER_DAY)
    (failing,) = [each for each in found if each["kind"] == "failed_calls"]
    assert (failing["model"], failing["calls"]) == ("gpt-4o", 30 * PER_DAY)
    assert failing["evidence"]["failed_calls_with_a_cost"] == 30 * PER_DAY // 4
    assert 23 <= failing["evidence"]["percent_of_the_cost"] <= 27
    assert Decimal(failing["saving"]) == truth["failed_calls"], "what was paid, not a price"


async def test_none_is_below_the_least_saving(home: Home, sums: SumHome) -> None:
    truth = month()[1]
    least = sorted(truth.values())[1] * Decimal("1.02")
    found = await listed(await opened(home, sums, Clock(), least=str(least)))
    assert len(found) == len(truth) - 2


@only_sql
@pytest.mark.parametrize(
    ("unknown_ago", "days"),
    [((30, 17), 16), ((9,), 8), ((1,), 0), ((31, 0), 30)],
    ids=["upgraded", "back", "yesterday", "none"],
)
async def test_days_that_an_earlier_release_counted_are_left_out(
    home: Home, sums: SumHome, unknown_ago: tuple[int, ...], days: int
) -> None:
    assert isinstance(home, SqliteHome | PostgresHome)
    earlier = [(TODAY_MS // HOUR_MS - ago * 24,) for ago in unknown_ago]
    as_it_adds = "INSERT INTO usage_days (hour, revision) VALUES (?, 1) ON CONFLICT (hour) DO UPDATE SET revision = usage_days.revision + 1"
    await home.database.write(lambda sql: sql.executemany(as_it_adds, earlier))
    kept = await opened(home, sums, Clock())
    found = await listed(kept, kind="failed_calls")
    assert [each["calls"] for each in found] == [days * PER_DAY] * (days * PER_DAY >= LEAST_CALLS)
    for each in found:
        assert each["evidence"]["failed_calls_with_a_cost"] == days * PER_DAY // 4
        accepted = await kept.change(each["id"], "accepted", by="ada")
        assert accepted.accepted_calls == days * PER_DAY, "of the days that its saving is of"


async def test_none_is_found_in_the_first_day_of_a_gateway(home: Home) -> None:
    sums, clock = await home.sums(), Clock()
    await store(sums, month()[0], now_ms=NOW_MS)
    kept = await opened(home, sums, clock)
    assert await listed(kept) == []
    clock.now_ms += DAY_MS
    assert len(await listed(kept)) == len(month()[1])


async def test_what_was_decided_stays_and_what_is_over_goes(home: Home, sums: SumHome) -> None:
    clock = Clock()
    kept = await opened(home, sums, clock)
    ids = {each["kind"]: each["id"] for each in await listed(kept)}
    accepted = await kept.change(ids["cheaper_model"], "accepted", by="ada")
    assert (accepted.state, accepted.state_by, accepted.accepted_calls) == ("accepted", "ada", 30 * PER_DAY)
    await kept.change(ids["reasoning"], "dismissed", by="ada")
    assert [each["kind"] for each in await listed(kept, state="dismissed")] == ["reasoning"]
    clock.now_ms += 40 * DAY_MS  # none of the days has a call
    later = {each["kind"]: each for each in await listed(kept)}
    assert later.keys() == {"cheaper_model", "reasoning"}
    assert not any(each["found"] for each in later.values())
    again = await opened(home, sums, clock)
    assert {each["kind"]: each for each in await listed(again)} == later, "a restart forgets nothing"
    assert (await kept.change(ids["reasoning"], "open", by="ada")).state == "open"
    clock.now_ms += int(FRESH_S * 1000) + 1
    assert {each["kind"] for each in await listed(kept)} == {"cheaper_model"}
    with pytest.raises(NotFound):
        await kept.read(ids["reasoning"])


Day = Callable[[int, random.Random], list[Json]]


def obeyed(day_ms: int, chance: random.Random) -> list[Json]:
    """60 calls a day, five times those of before, at the smaller model."""
    return [call("triage", OPENAI, "gpt-4o-mini", day_ms + n * 60_000, plain(chance, (20, 60))) for n in range(60)]


def unchanged(day_ms: int, chance: random.Random) -> list[Json]:
    return [call("triage", OPENAI, "gpt-4o", day_ms + n * 60_000, plain(chance, (20, 60))) for n in range(PER_DAY)]


def mended(day_ms: int, chance: random.Random) -> list[Json]:
    return [call("drafts", OPENAI, "gpt-4o", day_ms + n * 60_000, plain(chance, (700, 900))) for n in range(30)]


def half_mended(day_ms: int, chance: random.Random) -> list[Json]:
    return [failed(each, is_paid=True) if n % 8 == 0 else each for n, each in enumerate(mended(day_ms, chance))]


@pytest.mark.parametrize(("after", "left"), [(mended, 0), (half_mended, Decimal(4) / 30)], ids=["mended", "half"])
async def test_the_realised_saving_of_failed_calls_is_what_no_longer_fails(
    home: Home, sums: SumHome, after: Day, left: Decimal
) -> None:
    clock, chance = Clock(), random.Random(9)
    kept = await opened(home, sums, clock)
    (found,) = await listed(kept, kind="failed_calls")
    await kept.change(found["id"], "accepted", by="ada")
    records = [each for day in range(1, 11) for each in after(TODAY_MS + day * DAY_MS, chance)]
    clock.now_ms = TODAY_MS + 11 * DAY_MS
    tally = Tally()
    tally.add([orjson.dumps(each) for each in records], now_ms=clock.now_ms)
    await store(sums, tally, now_ms=clock.now_ms, number=2)
    expected = sum((Decimal(each["cost"]["amount"]) for each in records), Decimal(0)) * (Decimal("0.25") - left)
    realised = Decimal((await listed(kept, kind="failed_calls"))[0]["realised"])
    assert abs(realised - expected) <= Decimal("0.03") * expected
    if isinstance(home, SqliteHome | PostgresHome):
        forget = "UPDATE usage_days SET failed_costs_revision = NULL WHERE hour > ?"
        await home.database.write(lambda sql: sql.execute(forget, (TODAY_MS // HOUR_MS,)))
        clock.now_ms += int(FRESH_S * 1000) + 1
        assert (await listed(kept, kind="failed_calls"))[0]["realised"] is None, "an earlier release counted meanwhile"


@pytest.mark.parametrize("days", [3, 10])
@pytest.mark.parametrize(
    ("after", "share"), [(obeyed, 1), (unchanged, 0), (lambda *_: [], 0)], ids=["obeyed", "unchanged", "silent"]
)
async def test_the_realised_saving_is_what_the_calls_since_would_have_cost_more(
    home: Home, sums: SumHome, after: Day, share: int, days: int
) -> None:
    clock, chance = Clock(), random.Random(8)
    kept = await opened(home, sums, clock)
    (id_,) = [each["id"] for each in await listed(kept, kind="cheaper_model")]
    assert (await kept.change(id_, "accepted", by="ada")).realised is None
    tally, truth = Tally(), Decimal(0)
    for day in range(1, days + 1):
        records = after(TODAY_MS + day * DAY_MS, chance)
        tally.add([orjson.dumps(each) for each in records], now_ms=TODAY_MS + (day + 1) * DAY_MS)
        dearer = [otherwise(each, response_model="gpt-4o", request_model="gpt-4o") for each in records]
        truth += sum(dearer, Decimal(0)) - sum((Decimal(each["cost"]["amount"]) for each in records), Decimal(0))
    clock.now_ms = TODAY_MS + (days + 1) * DAY_MS
    await store(sums, tally, now_ms=clock.now_ms, number=2)
    realised = Decimal((await listed(kept, kind="cheaper_model"))[0]["realised"])
    assert abs(realised - truth * share) <= Decimal("0.03") * truth * share + Decimal("0.02")


async def test_what_is_realised_is_unknown_while_a_call_has_no_cost(home: Home, sums: SumHome) -> None:
    clock, chance, tally = Clock(), random.Random(8), Tally()
    kept = await opened(home, sums, clock)
    (id_,) = [each["id"] for each in await listed(kept, kind="cheaper_model")]
    await kept.change(id_, "accepted", by="ada")
    records = unchanged(TODAY_MS + DAY_MS, chance)
    records[0] |= {"cost": None}
    tally.add([orjson.dumps(each) for each in records], now_ms=TODAY_MS + 2 * DAY_MS)
    clock.now_ms = TODAY_MS + 2 * DAY_MS
    await store(sums, tally, now_ms=clock.now_ms, number=2)
    assert (await listed(kept, kind="cheaper_model"))[0]["realised"] is None
