"""Which of a product's ways to report counts, and what becomes of logs and spans of one call that
come in any order, late, or around a restart.
"""

import pytest

from gateway.counting.calls.order import HOLD_MS, SignalPrecedence
from gateway.counting.calls.resolve import Fixed, resolve
from gateway.rules.call import Call
from tests.support.calls import call
from tests.support.spool_rig import Rig
from tests.unit.counting.test_resolve import members, told

NOW_MS = 1_767_607_200_000


class TestOrder:
    def test_the_lowest_rank_seen_counts_whatever_came_first(self) -> None:
        order = SignalPrecedence(1000)
        assert order.counted(1, 7) == 0
        order.see(1, 7, 3, NOW_MS)
        assert order.counted(1, 7) == 3
        order.see(1, 7, 1, NOW_MS)
        order.see(1, 7, 2, NOW_MS)
        assert order.counted(1, 7) == 1

    def test_a_rank_that_was_taken_stays(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 7, 3, NOW_MS)
        order.fix(1, 7, 3)
        order.see(1, 7, 1, NOW_MS)
        order.fix(1, 7, 1)
        assert order.counted(1, 7) == 3

    def test_what_came_to_nothing_fixes_nothing(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 7, 3, NOW_MS)
        keys = order.fix(1, 7, 3)
        assert order.fix(1, 7, 3) == [], "the keys are the first one's to undo"
        order.unfix(keys)
        order.see(1, 7, 2, NOW_MS)
        assert order.counted(1, 7) == 2

    def test_groups_and_sessions_are_apart(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 7, 1, NOW_MS)
        order.see(1, 8, 3, NOW_MS)
        order.see(2, 7, 2, NOW_MS)
        assert [order.counted(1, 7), order.counted(1, 8), order.counted(2, 7)] == [1, 3, 2]

    def test_a_report_without_a_session_meets_all_sessions(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 0, 2, NOW_MS)
        assert order.counted(1, 7) == 2
        order.see(1, 8, 1, NOW_MS)
        assert order.counted(1, 0) == 1
        assert order.counted(1, 7) == 2, "another session's reports say nothing about this one"

    def test_a_report_without_a_place_meets_all_places(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 7, 1, NOW_MS, place=5)
        order.fix(1, 7, 1, place=5)
        order.see(1, 0, 2, NOW_MS)
        assert order.counted(1, 0) == 1, "neither states what the other does"
        assert order.counted(1, 0, place=5) == 1
        assert order.counted(1, 0, place=6) == 2, "another place's reports say nothing about this one"
        assert order.counted(1, 8, place=5) == 2

    def test_when_the_way_that_counts_falls_silent_the_others_are_weighed_again(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 7, 1, NOW_MS)
        order.fix(1, 7, 1)
        for passed_ms in range(0, HOLD_MS + 1, HOLD_MS // 4):
            order.see(1, 7, 3, NOW_MS + passed_ms)
            assert order.counted(1, 7) == 1
        order.see(1, 7, 3, NOW_MS + HOLD_MS + 1_000)
        assert order.counted(1, 7) == 3

    def test_a_way_that_goes_on_counts_on(self) -> None:
        order = SignalPrecedence(1000)
        for passed_ms in range(0, 5 * HOLD_MS, HOLD_MS // 2):
            order.see(1, 7, 3, NOW_MS + passed_ms)
            order.fix(1, 7, 3)
            order.see(1, 7, 1, NOW_MS + passed_ms)
            assert order.counted(1, 7) == 3

    def test_what_other_sessions_said_long_ago_says_nothing(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 0, 1, NOW_MS)
        order.fix(1, 0, 1)
        order.see(1, 7, 2, NOW_MS + HOLD_MS + 1_000)
        assert order.counted(1, 7) == 2

    def test_a_clock_that_was_far_ahead_holds_nothing_up(self) -> None:
        order = SignalPrecedence(1000)
        order.see(1, 7, 3, NOW_MS + 10**9)
        order.fix(1, 7, 3)
        order.see(1, 7, 1, NOW_MS)
        assert order.counted(1, 7) == 1

    def test_its_memory_is_bounded(self) -> None:
        order = SignalPrecedence(1000)
        for session in range(1, 20_000):
            order.see(1, session, 1, NOW_MS)
        assert len(order) <= 1000


def ways(*ranks: int) -> list[Call]:
    return [
        call(f"s{i}", product="p", session="s", rank=rank, at=(i * 2000, i * 2000 + 900))
        for i, rank in enumerate(ranks)
    ]


class TestSuperseded:
    def test_ways_that_do_not_count_are_suppressed(self) -> None:
        verdict = resolve(members(ways(1, 2, 3)), {}, counted_rank=lambda _: 2)
        assert told(verdict)[0] == {0: "suppressed.other_report", 2: "suppressed.other_report"}
        assert [taken[2] for taken in verdict.taken] == [2]

    def test_what_was_forwarded_stays_in_any_way(self) -> None:
        assert resolve(members(ways(3), {0: Fixed.KEPT}), {}, counted_rank=lambda _: 1).dropped == {}

    def test_a_call_that_the_counted_way_reports_too_stays_whole(self) -> None:
        calls = [
            call("a", response="r", product="p", rank=1),
            call("b", response="r", scope="other", product="p", rank=2),
        ]
        verdict = resolve(members(calls), {}, counted_rank=lambda _: 1)
        assert told(verdict)[0] == {1: "duplicate.response_id"}


async def test_a_late_log_of_a_forwarded_span_is_a_duplicate_also_after_a_restart(rig: Rig) -> None:
    await rig.send(call("s"))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    await rig.reopen()
    await rig.send(call("", parent="s", event="l", log=True, at=(1000, 1000)))
    await rig.settle()
    assert await rig.records() == []
    assert rig.spool.reasons()["duplicate.same_span"] == 1


@pytest.mark.parametrize("late_at", [(0, 1000), (60_000, 61_000)], ids=["of that time", "of another time"])
async def test_a_late_report_of_a_response_that_only_a_dropped_one_named_is_dropped_too_also_after_a_restart(
    rig: Rig, late_at: tuple[int, int]
) -> None:
    await rig.send(call("s", response="own"), call("raw", parent="s", response="r", repeats=True))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    await rig.reopen()
    await rig.send(call("a", trace="u", service="shop", response="r", at=late_at))
    await rig.send(call("b", trace="v", service="proxy", response="r", at=late_at))
    await rig.settle()
    assert len(await rig.records()) == (late_at != (0, 1000))


async def test_a_late_log_of_a_span_that_was_itself_a_duplicate_is_one_too(rig: Rig) -> None:
    await rig.send(call("a", response="r"), call("b", trace="u", response="r", scope="other"))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    await rig.send(call("", trace="u", parent="b", event="l", log=True, at=(1000, 1000)))
    await rig.settle()
    assert await rig.records() == []


async def test_a_late_log_in_a_forwarded_span_of_other_usage_is_a_call_of_its_own(rig: Rig) -> None:
    await rig.send(call("s"))
    await rig.settle()
    await rig.records()
    await rig.send(call("", parent="s", event="l", log=True, at=(1000, 1000), tokens=(7, 3)))
    await rig.settle()
    assert await rig.totals() == (1, 7, 3)


async def test_a_late_span_around_a_forwarded_log_is_suppressed(rig: Rig) -> None:
    await rig.send(call("", parent="s", event="l", log=True, at=(1000, 1000)))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    await rig.send(call("s"))
    await rig.settle()
    assert await rig.records() == []


@pytest.mark.parametrize("first", ["span", "log"])
async def test_log_and_span_of_one_call_complete_each_other_in_either_order(rig: Rig, first: str) -> None:
    reports = [
        call("s", reasoning=5, response="r"),
        call("", parent="s", event="l", log=True, at=(1000, 1000), cache_read=40, team="blue"),
    ]
    if first == "log":
        reports.reverse()
    for report in reports:
        await rig.send(report)
        rig.clock.now_ms += 3_000
    await rig.settle(after_ms=4_000)
    (record,) = await rig.records()
    assert record["usage"]["cache_read_input_tokens"] == 40
    assert record["usage"]["reasoning_output_tokens"] == 5
    assert (record["response_id"], record["attribution"]["team"]) == ("r", "blue")
    assert record["record_id"] == reports[0].record["record_id"]
    await rig.settle()
    assert await rig.records() == []


async def test_the_way_that_was_forwarded_stays_for_its_session_also_after_a_restart(rig: Rig) -> None:
    def span(n: int) -> Call:
        return call(f"s{n}", at=(n, n + 500), product="p", session="s", rank=3)

    def log(n: int) -> Call:
        at = (n + 500, n + 500)
        return call("", trace="", event=f"l{n}", log=True, at=at, tokens=(100, 30), product="p", session="s", rank=1)

    await rig.send(span(1))
    await rig.settle()
    assert (await rig.totals())[0] == 1
    await rig.reopen()
    await rig.send(log(1), span(2), log(2))
    await rig.settle()
    (record,) = await rig.records()
    assert record["record_id"] == span(2).record["record_id"]
    assert rig.spool.reasons()["suppressed.other_report"] == 2


@pytest.mark.parametrize("spans_place", [0, 5, 6])
async def test_a_late_span_is_suppressed_unless_it_states_another_place_also_after_a_restart(
    rig: Rig, spans_place: int
) -> None:
    log = call("", trace="", event="l", log=True, at=(500, 500), product="p", session="s", rank=1)
    span = call("s", at=(0, 500), product="p", rank=2)
    await rig.send(log._replace(place=5))
    await rig.settle()
    assert (await rig.totals())[0] == 1
    await rig.reopen()
    await rig.send(span._replace(place=spans_place))
    await rig.settle()
    assert len(await rig.records()) == (spans_place == 6)


async def test_a_call_reported_in_two_ways_leaves_the_better_one_counting_after_a_restart(rig: Rig) -> None:
    span = call("s", response="r", at=(0, 500), product="p", session="s", rank=3)
    log = call("", event="l", parent="s", log=True, response="r", at=(500, 500), product="p", session="s", rank=1)
    await rig.send(span)
    await rig.send(log)
    await rig.settle()
    assert (await rig.totals())[0] == 1
    await rig.reopen()
    await rig.send(call("", event="m", log=True, response="q", at=(900, 900), product="p", session="s", rank=1))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_better_way_that_comes_within_the_settle_time_is_the_one_that_counts(rig: Rig) -> None:
    await rig.send(call("s", at=(0, 500), product="p", session="s", rank=3))
    rig.clock.now_ms += 9_000
    log = call("", trace="", event="l", log=True, at=(5, 5), product="p", session="s", rank=1, tokens=(100, 30))
    await rig.send(log)
    await rig.settle(after_ms=1_000)
    assert await rig.records() == []
    await rig.settle()
    (record,) = await rig.records()
    assert record["record_id"] == log.record["record_id"]


async def test_a_single_call_is_completed_by_the_one_above_it(rig: Rig) -> None:
    await rig.send(
        call("gateway", at=(0, 1200), response="own", cost="0.5", team="blue"),
        call("leaf", parent="gateway", at=(10, 1100), scope="sdk", tokens=(100, 25)),
    )
    await rig.settle()
    (record,) = await rig.records()
    assert record["usage"]["output_tokens"] == 25, "its own usage stays"
    assert (record["cost"]["amount"], record["attribution"]["team"]) == ("0.5", "blue")
    assert (record["response_id"], record["status"]) == ("own", "ok")


async def test_a_failure_above_a_call_that_worked_completes_nothing(rig: Rig) -> None:
    await rig.send(
        call("above", at=(0, 1200), tokens=(None, None), failed=True, team="blue"),
        call("leaf", parent="above", at=(10, 1100), scope="sdk"),
    )
    await rig.settle()
    (record,) = await rig.records()
    assert (record["status"], record["attribution"].get("team")) == ("ok", None)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
async def test_what_a_gateway_knows_of_a_call_reaches_the_way_that_counts(rig: Rig, order: tuple[int, ...]) -> None:
    """Gemini CLI's details log names the response, and so meets the gateway's report;
    its own answer event names none.
    """
    reports = [
        call("", trace="", event="answer", log=True, scope="cli 1", product="p", session="s", rank=1, cache_read=40),
        call("", trace="", event="details", log=True, scope="cli 2", product="p", session="s", rank=2, response="r"),
        call("g", trace="u", response="r", service="gateway", scope="litellm", cost="0.01", team="blue"),
    ]
    for n in order:
        await rig.send(reports[n])
    await rig.settle()
    (record,) = await rig.records()
    assert (record["cost"]["amount"], record["attribution"]["team"], record["response_id"]) == ("0.01", "blue", "r")
    assert record["usage"]["cache_read_input_tokens"] == 40
    assert record["record_id"] == reports[order[0]].record["record_id"]


async def test_a_gateways_report_of_a_way_that_does_not_count_and_agrees_with_none_is_dropped_with_it(rig: Rig) -> None:
    """The way that counts has the tokens already: a second record of them would be billed twice."""
    await rig.send(
        call("", trace="", event="answer", log=True, scope="cli 1", product="p", session="s", rank=1, tokens=(100, 50)),
        call("", trace="", event="details", log=True, scope="cli 2", product="p", session="s", rank=2, response="r"),
        call("g", trace="u", response="r", service="gateway", scope="litellm", cost="0.01"),
    )
    await rig.settle()
    assert await rig.totals() == (1, 100, 50)
    assert rig.spool.reasons()["suppressed.other_report"] == 2
