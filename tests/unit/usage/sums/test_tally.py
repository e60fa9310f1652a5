"""Usage by the hour: what is counted of a record, and what the tables keep of it, on a real
file.
"""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from gateway.usage.sums import bounds, tally
from gateway.usage.sums.history import History, Usage
from gateway.usage.sums.home import Counted, SumHome
from gateway.usage.sums.tally import HOUR_MS, MAX_NAME_CHARS, OTHER, PICO, Tally
from spool.clock import rfc3339_ms
from tests.support.calls import EPOCH_MS
from tests.support.native import IMPLEMENTATIONS
from tests.support.stores import only_sql

NOW_MS = EPOCH_MS + HOUR_MS // 2
NOW_HOUR = NOW_MS // HOUR_MS


def record(*, ago_h: float = 0, **changes: Any) -> dict[str, Any]:
    """A billed call, *ago_h* hours before the current one began."""
    return {
        "kind": "call",
        "billed": True,
        "operation": "chat",
        "provider": "openai",
        "request_model": "gpt-4o",
        "response_model": "gpt-4o-2024-08-06",
        "started_at": rfc3339_ms(EPOCH_MS - int(ago_h * HOUR_MS)),
        "usage": {"status": "reported", "input_tokens": 100, "cache_read_input_tokens": 40, "output_tokens": 20},
        "cost": {"amount": "0.000450", "currency": "USD", "source": "estimated", "price_version": "x"},
        "status": "ok",
        "attribution": {"team": "core", "service_name": "app"},
        "flags": [],
        **changes,
    }


@pytest.fixture(autouse=True, params=IMPLEMENTATIONS)
def each_tally(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tallies without the native extension, and with it."""
    before, Tally.__init__.__defaults__ = Tally.__init__.__defaults__, (request.param,)
    yield
    Tally.__init__.__defaults__ = before


def counted(*records: object, now_ms: int = NOW_MS) -> Tally:
    made = Tally()
    made.add([x if isinstance(x, bytes) else orjson.dumps(x) for x in records], now_ms=now_ms)
    return made


async def store(sums: SumHome, tally: Tally, *, now_ms: int = NOW_MS, source: str = "spool", number: int = 1) -> None:
    await sums.store(Counted(tally, source, number, None, now_ms, now_ms))


async def kept(sums: SumHome, *tallies: Tally, now_ms: int = NOW_MS, source: str = "spool") -> History:
    """What *sums* hold after *tallies* were stored one after the other."""
    for n, each in enumerate(tallies):
        await store(sums, each, now_ms=now_ms, source=source, number=n + 1)
    return await sums.history(now_ms)


async def only(sums: SumHome, *records: object) -> Usage:
    (usage,) = (await kept(sums, counted(*records))).usage
    return usage


async def test_a_call_is_counted_under_its_names_in_its_hour(sums: SumHome) -> None:
    usage = await only(sums, record(ago_h=2), record(ago_h=1.5))
    assert usage == Usage(
        hour=NOW_HOUR - 2, provider="openai", model="gpt-4o-2024-08-06", team="core", service_name="app",
        currency="USD", cost_source="estimated", calls=2, input_tokens=200, output_tokens=40,
        cacheable_tokens=200, cache_read_tokens=80, cost_pico=900_000_000,
    )  # fmt: skip


async def test_unbilled_records_are_not_counted(sums: SumHome) -> None:
    assert (await kept(sums, counted(record(billed=False)))).usage == []


async def test_what_is_not_known_adds_nothing_and_is_counted_as_such(sums: SumHome) -> None:
    nothing = {"status": "missing", "input_tokens": None, "output_tokens": None}
    usage = await only(sums, record(usage=nothing, cost=None, attribution={}, provider=None))
    assert (usage.calls, usage.calls_without_usage, usage.calls_without_price) == (1, 1, 0)
    assert (usage.tokens, usage.cacheable_tokens, usage.cost_pico) == (0, 0, 0)
    assert (usage.provider, usage.team, usage.service_name, usage.currency, usage.cost_source) == ("",) * 5


async def test_only_calls_whose_tokens_are_known_lack_a_price(sums: SumHome) -> None:
    half = {"status": "partial", "input_tokens": 5}
    embedding = record(cost=None, usage=half, operation="embeddings")
    usage = await only(sums, record(cost=None), record(cost=None, usage=half), embedding)
    assert (usage.calls, usage.calls_without_price) == (3, 2)


async def test_failures_are_counted_and_name_no_new_model(sums: SumHome) -> None:
    failed = record(status="error", request_model="typo", response_model=None, usage={"status": "none"}, cost=None)
    history = await kept(sums, counted(failed, record()))
    assert sorted((x.model, x.calls, x.failed_calls) for x in history.usage) == [
        ("gpt-4o-2024-08-06", 1, 0),
        ("typo", 1, 1),
    ]
    assert [x.model for x in history.models] == ["gpt-4o-2024-08-06"]


async def test_an_aggregate_counts_its_tokens_and_its_calls_where_it_states_them(sums: SumHome) -> None:
    aggregate: dict[str, Any] = {"kind": "aggregate", "usage": {"status": "aggregate", "input_tokens": 1000}}
    usage = await only(sums, record(**aggregate, calls=7), record(**aggregate, calls=None))
    assert (usage.calls, usage.input_tokens, usage.calls_without_usage) == (7, 2000, 0)


async def test_money_is_added_exactly_and_beyond_what_an_integer_of_sqlite_holds(sums: SumHome) -> None:
    costs = ["0.1", "0.2", "123456789.000000000001"]
    records = [record(cost={"amount": x, "currency": "USD", "source": "reported"}) for x in costs]
    history = await kept(sums, counted(*records), counted(*records))
    assert sum(x.cost_pico for x in history.usage) == 2 * (123456789 * PICO + 1 + 3 * PICO // 10)


async def test_a_credit_makes_a_sum_smaller(sums: SumHome) -> None:
    usage = await only(sums, record(cost={"amount": "-0.25", "currency": "USD"}))
    assert usage.cost_pico == -PICO // 4


async def test_currencies_and_sources_of_a_cost_stay_apart(sums: SumHome) -> None:
    costs = [("1", "USD", "reported"), ("1", "USD", "estimated"), ("1", "EUR", "reported")]
    records = [record(cost={"amount": a, "currency": c, "source": s}) for a, c, s in costs]
    usage = (await kept(sums, counted(*records))).usage
    assert sorted((x.currency, x.cost_source) for x in usage) == [
        ("EUR", "reported"),
        ("USD", "estimated"),
        ("USD", "reported"),
    ]


@pytest.mark.parametrize(
    "broken",
    [
        b"no record",
        b"[]",
        b"null",
        record(started_at=None),
        record(started_at="yesterday, at noon"),
        record(usage=None),
        record(provider=7),
        record(attribution={"team": ["a"]}),
        record(cost={"amount": "NaN", "currency": "USD"}),
        record(cost={"amount": "1e300", "currency": "USD"}),
        record(cost="free"),
    ],
)
async def test_what_cannot_be_read_is_passed_over_whole(sums: SumHome, broken: object) -> None:
    usage = await only(sums, broken, record())
    assert usage.calls == 1


async def test_a_call_of_a_clock_that_goes_ahead_belongs_to_the_current_hour(sums: SumHome) -> None:
    assert (await only(sums, record(ago_h=-30))).hour == NOW_HOUR


async def test_what_is_too_old_is_neither_taken_nor_kept(sums: SumHome) -> None:
    old, young = counted(record(ago_h=bounds.KEPT_HISTORY_HOURS)), counted(record(ago_h=bounds.KEPT_HISTORY_HOURS - 1))
    history = await kept(sums, old, young)
    assert [x.hour for x in history.usage] == [NOW_HOUR - bounds.KEPT_HISTORY_HOURS + 1]
    later = await kept(sums, counted(), now_ms=NOW_MS + HOUR_MS)
    assert later.usage == []


async def test_a_model_is_known_from_its_first_call_on_until_a_month_after_its_last(sums: SumHome) -> None:
    history = await kept(sums, counted(record(ago_h=1)), counted(record(ago_h=3)), counted(record()))
    assert [(x.provider, x.first_hour) for x in history.models] == [("openai", NOW_HOUR - 3)]
    month_ms = bounds.MODEL_HOURS * HOUR_MS
    assert len((await kept(sums, counted(), now_ms=NOW_MS + month_ms - HOUR_MS)).models) == 1
    assert (await kept(sums, counted(), now_ms=NOW_MS + month_ms)).models == []


async def test_counting_began_when_it_did_whatever_the_age_of_the_calls(sums: SumHome) -> None:
    assert (await kept(sums)).began_hour == NOW_HOUR
    assert (await kept(sums, counted(record(ago_h=5)), counted(record(ago_h=7)))).began_hour == NOW_HOUR
    later_ms = NOW_MS + 9 * HOUR_MS
    assert (await kept(sums, counted(record()), now_ms=later_ms)).began_hour == NOW_HOUR
    assert (await kept(sums, counted(record()), now_ms=later_ms, source="another")).began_hour == NOW_HOUR


async def test_series_beyond_the_bound_are_summed_as_others(sums: SumHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_SERIES", 3)
    names = [counted(*(record(attribution={"team": f"team {n}"}) for n in range(k))) for k in (2, 8)]
    usage = (await kept(sums, *names, counted(record(ago_h=1)))).usage
    assert sum(x.calls for x in usage) == 11, "none is lost"
    assert sorted((x.team, x.calls) for x in usage if x.hour == NOW_HOUR) == [
        (OTHER, 5),
        ("team 0", 2),
        ("team 1", 2),
        ("team 2", 1),
    ]


async def test_models_beyond_the_bound_are_not_noted(sums: SumHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_MODELS", 2)
    models = counted(*(record(response_model=f"m{n}") for n in range(5)))
    assert len((await kept(sums, models, models)).models) == 2


async def test_long_names_are_cut_and_take_one_place(sums: SumHome) -> None:
    long = "x" * 10_000
    usage = await only(sums, *(record(response_model=long + str(n), attribution={"team": long}) for n in range(3)))
    assert (usage.calls, usage.model, usage.team) == (3, long[:MAX_NAME_CHARS], long[:MAX_NAME_CHARS])


@only_sql
async def test_sums_never_exceed_what_a_column_holds(sums: SumHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "_MAX_COUNT", 2**63)
    made = Tally(native=None)
    usage = {"status": "reported", "input_tokens": 2**62, "output_tokens": 0}
    made.add([orjson.dumps(record(usage=usage))] * 5, now_ms=NOW_MS)
    assert [x.input_tokens for x in (await kept(sums, made)).usage] == [2**63 - 1]


def test_a_clock_ahead_moves_no_later_call_into_an_earlier_hour() -> None:
    made = Tally()
    for now_ms in (NOW_MS, NOW_MS + HOUR_MS):  # the second call is of the hour that the first one claims
        made.add([orjson.dumps(record(ago_h=-1))], now_ms=now_ms)
    assert {key.hour: sums[0] for key, sums in made.sums.items()} == {NOW_HOUR: 1, NOW_HOUR + 1: 1}


def test_a_control_character_is_no_part_of_a_name() -> None:
    made = counted(record(attribution={"user": "a\x00b\x1b[31m", "team": "x\ty\x85"}))
    assert {(key.user, key.team) for key in made.sums} == {("a\ufffdb\ufffd[31m", "x\ufffdy\ufffd")}
