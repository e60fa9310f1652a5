"""What the detectors find: in histories made by hand, and in how things stand."""

import pytest

from gateway.counting.metrics.gaps import Gap
from gateway.usage.insights.detect import MAX_FINDINGS, Figures, detect
from gateway.usage.insights.finding import Finding
from gateway.usage.insights.operations import DeadLetters, Device, LaneWaits, StuckLane
from gateway.usage.insights.thresholds import ERROR_LEAST_FAILED, HELD_LANE_S, RETRYING_LANE_S
from gateway.usage.sums.history import History, Model, Usage
from gateway.usage.sums.tally import HOUR_MS, OTHER
from tests.support.usage_history import NOW_HOUR, days, history, used

DAY_MS = 24 * HOUR_MS


def gap(**fields: object) -> Gap:
    made: Gap = {
        "sender": "key:prod", "service_name": "app", "model": "gpt-4o", "tokens_by_calls": 80, "tokens_by_metrics": 100,
    }  # fmt: skip
    return {**made, **fields}  # type: ignore[typeddict-item]  # the test's own keywords


def only(figures: Figures) -> Finding:
    (finding,) = detect(figures)
    return finding


def found(past: History) -> list[Finding]:
    return detect(Figures(history=past))


def causes(past: History) -> list[str]:
    return [finding.cause for finding in found(past)]


def of(cause: str, past: History) -> Finding:
    (finding,) = [finding for finding in found(past) if finding.cause == cause]
    return finding


def test_nothing_is_found_where_nothing_is_known() -> None:
    assert detect(Figures()) == []
    assert detect(Figures(1_767_607_200_000, history())) == []


# ---- spikes


def test_a_day_of_three_times_the_usual_spend_is_found_with_what_it_costs() -> None:
    finding = only(Figures(history=history(days(8, 1, cost=1), days(0, 0, cost=3))))
    assert (finding.cause, finding.category, finding.cost_impact, finding.model) == (
        "spend_spike",
        "spend",
        "48",
        "gpt-4o",
    )
    assert finding.title == "gpt-4o: spend of the last 24 hours is 3 times the usual; 48 USD more than expected"


def test_steady_spend_and_a_little_more_are_no_spike() -> None:
    assert causes(history(days(8, 0, cost=1))) == []
    assert causes(history(days(8, 1, cost=1), days(0, 0, cost=1.9))) == []


def test_a_spike_of_one_hour_is_found_at_once_and_stays_for_a_day() -> None:
    usual = days(8, 0, cost=1)
    for ago in (0, 5, 23):
        finding = only(Figures(history=history(usual, used(ago, cost=20))))
        assert finding.cost_impact == "20"
        assert "spend in the hour of " in finding.title
        assert "is 21 times the usual" in finding.title
    assert causes(history(days(9, 0, cost=1), used(24, cost=20))) == [], "it was yesterday"


def test_the_text_of_an_hour_stays_while_the_hours_go_on() -> None:
    before = history(days(8, 0, cost=1), used(0, cost=20))
    after = before._replace(now_hour=NOW_HOUR + 1, usage=[*before.usage, used(-1, cost=0.5)])
    assert found(before) == found(after)


def test_a_beginning_hour_adds_and_never_lacks() -> None:
    whole = days(8, 1, cost=1) + [used(ago, cost=3) for ago in range(1, 24)]
    assert causes(history(whole)) == ["spend_spike"], "the current hour has nothing yet"


def test_a_smaller_extra_than_anybody_should_be_called_for_is_no_spike() -> None:
    assert causes(history(days(8, 1, cost=0.001), days(0, 0, cost=0.02))) == []


def test_without_days_to_compare_with_nothing_is_a_spike() -> None:
    assert causes(history(days(0, 0, cost=100))) == []
    assert causes(history(days(2, 1, cost=1), days(0, 0, cost=100))) == []
    assert causes(history(days(3, 1, cost=1), days(0, 0, cost=100))) == ["spend_spike"]


def test_days_without_any_report_are_skipped() -> None:
    before = days(7, 7, cost=0.01) + days(6, 5, cost=1)
    assert causes(history(before, days(0, 0, cost=1.5))) == [], "the gateway was off for four days"
    assert causes(history(before, days(0, 0, cost=3))) == ["spend_spike"]


def test_a_model_that_others_used_first_is_no_spike_while_it_spreads() -> None:
    others = days(8, 0, cost=1, model="other")
    assert causes(history(others, days(2, 1, cost=1), days(0, 0, cost=100))) == []


def test_a_job_of_once_a_week_is_no_spike() -> None:
    others = days(8, 0, cost=1, model="other")
    weekly = [used(ago, cost=50) for ago in (7 * 24 + 3, 3)]
    assert causes(history(others, weekly)) == []
    assert causes(history(others, weekly[1:], used(8 * 24 + 3, cost=1))) == ["spend_spike"]


def test_a_working_week_makes_no_spike_of_its_monday() -> None:
    weekdays = [usage for day in (7, 6, 5, 4, 3, 0) for usage in days(day, day, cost=2)]
    assert causes(history(weekdays, days(8, 0, cost=1, model="always on"))) == []


@pytest.mark.parametrize("began", range(3, 8))
def test_a_first_weekend_makes_no_spike_of_the_days_after_it(began: int) -> None:
    weekend = [usage for day in (2, 3) for usage in days(day, day, cost=0.1)]
    before = [usage for day in (1, *range(4, began + 1)) for usage in days(day, day, cost=5)]
    assert causes(history(weekend, before, days(0, 0, cost=5))) == []
    assert causes(history(weekend, before, days(0, 0, cost=15))) == ["spend_spike"]


def test_a_first_monday_is_no_spike_where_the_days_before_it_were_a_weekend() -> None:
    weekend, friday = days(2, 1, cost=0.1), days(3, 3, cost=5)
    assert causes(history(weekend, friday, days(0, 0, cost=5))) == []


def test_a_week_in_which_credits_outweighed_the_spend_counts_as_one_without_any() -> None:
    refunded = days(8, 1, cost=-1)
    assert causes(history(refunded, used(0, cost=5))) == []
    finding = of("spend_spike", history(refunded, used(0, cost=50)))
    assert finding.title == "gpt-4o: spend of the last 24 hours, where there usually is none; 50 USD more than expected"


def test_a_nightly_job_that_comes_an_hour_later_is_no_spike() -> None:
    nightly = [used(day * 24 + 10, cost=100) for day in range(1, 9)]
    quiet = days(8, 0, cost=0.1)
    assert causes(history(nightly, quiet, used(9, cost=100))) == []
    assert causes(history(nightly, quiet, used(9, cost=190))) == ["spend_spike"]


def test_what_is_usually_nothing_must_be_much() -> None:
    others, once = days(8, 0, cost=1, model="other"), used(8 * 24, cost=0.1)
    assert causes(history(others, once, used(0, cost=5))) == []
    finding = of("spend_spike", history(others, once, used(0, cost=50)))
    assert finding.title == "gpt-4o: spend of the last 24 hours, where there usually is none; 50 USD more than expected"


def test_teams_and_models_have_findings_of_their_own() -> None:
    usual = days(8, 1, cost=1, team="search") + days(8, 0, cost=20, team="core")
    finding = only(Figures(history=history(usual, days(0, 0, cost=5, team="search"))))
    assert (finding.title.split(":")[0], finding.model, finding.cost_impact) == ("team search", "", "96")


def test_currencies_are_never_added_and_a_foreign_one_is_named() -> None:
    usual = days(8, 1, cost=1, currency="EUR") + days(8, 0, cost=1)
    finding = only(Figures(history=history(usual, days(0, 0, cost=3, currency="EUR"))))
    assert finding.title.endswith("; 48 EUR more than expected")
    dollars = only(Figures(history=history(days(8, 1, cost=1), days(0, 0, cost=3))))
    assert finding.insight_id != dollars.insight_id


def test_tokens_without_a_price_are_a_token_spike() -> None:
    usual = days(8, 1, input_tokens=10_000) + days(0, 0, input_tokens=20_000, output_tokens=20_000)
    finding = only(Figures(history=history(usual)))
    assert (finding.cause, finding.cost_impact) == ("token_spike", None)
    assert finding.title == (
        "gpt-4o: use of tokens of the last 24 hours is 4 times the usual; 720000 tokens more than expected"
    )


def test_a_token_spike_is_not_raised_with_its_spend_spike() -> None:
    usual = days(8, 1, input_tokens=10_000, cost=1)
    assert causes(history(usual, days(0, 0, input_tokens=40_000, cost=4))) == ["spend_spike"]


# ---- models


def test_a_model_is_new_for_a_week() -> None:
    model = Model("openai", "gpt-6", NOW_HOUR - 5)
    finding = only(Figures(history=history(models=[model])))
    assert (finding.cause, finding.model, finding.source) == ("new_model", "gpt-6", "openai")
    assert finding.title.startswith("gpt-6: a new model of openai is in use, first called on 20")
    assert causes(history(models=[model._replace(first_hour=NOW_HOUR - 7 * 24)])) == []


def test_no_model_is_new_in_the_first_week() -> None:
    models = [Model("openai", "gpt-4o", NOW_HOUR - 10), Model("openai", "o3", NOW_HOUR)]
    assert causes(history(models=models, began_ago=7 * 24)) == []
    assert causes(history(models=models, began_ago=7 * 24 + 1)) == ["new_model"]


def test_models_without_a_price_are_found_with_their_calls() -> None:
    past = history(used(0, model="new-model", calls_without_price=1), used(30, model="newer", calls_without_price=1234))
    first, second = found(past)
    assert [first.model, second.model] == ["newer", "new-model"]
    assert "about 1200 calls without a cost" in first.title
    assert "; 1 call without a cost" in second.title
    assert {first.cost_impact, second.cost_impact} == {None}, "nobody knows it, so it is not 0"


def test_where_no_price_list_is_no_model_lacks_a_price() -> None:
    past = history(used(0, model="new-model", calls_without_price=1))
    assert detect(Figures(history=past, has_prices=False)) == []


def test_a_price_is_missed_no_more_once_an_hour_passed_in_which_all_calls_had_one() -> None:
    unpriced = used(3, calls_without_price=5)
    assert causes(history(unpriced, used(3))) == ["no_price"]
    assert causes(history(unpriced, used(2, model="other"))) == ["no_price"]
    assert causes(history(unpriced, used(2))) == []
    assert causes(history(used(7 * 24, calls_without_price=5))) == [], "a week without such a call"


def test_a_cache_that_is_read_half_as_much_is_found() -> None:
    before = days(7, 1, cacheable_tokens=10_000, cache_read_tokens=6_000)
    finding = only(Figures(history=history(before, days(0, 0, cacheable_tokens=10_000, cache_read_tokens=2_000))))
    assert finding.title == "gpt-4o: 20 % of its input is read from a cache, after 60 % in the week before"
    assert causes(history(before, days(0, 0, cacheable_tokens=10_000, cache_read_tokens=4_000))) == []
    assert causes(history(before, used(0, cacheable_tokens=10_000))) == [], "too little to say"
    assert causes(history(before, days(0, 0, input_tokens=10_000))) == [], "unknown is not none"
    assert causes(history(days(0, 0, cacheable_tokens=10_000))) == [], "nothing to compare with"


# ---- calls


def test_usage_that_is_missing_more_than_before_is_found_by_service() -> None:
    before = days(7, 1, calls=10)
    finding = only(Figures(history=history(before, days(0, 0, calls=10, calls_without_usage=3))))
    assert finding.title == "app: 30 % of the calls come without their usage, after 0 % in the week before"
    assert causes(history(before, used(0, calls=49, calls_without_usage=49))) == [], "too few calls to say"
    assert causes(history(before, days(0, 0, calls=100, calls_without_usage=9))) == []
    as_ever = days(7, 0, calls=10, calls_without_usage=3)
    assert causes(history(as_ever)) == []


def test_usage_that_is_mostly_missing_needs_no_week_before() -> None:
    finding = only(Figures(history=history(used(0, calls=60, calls_without_usage=40))))
    assert finding.title == "app: 70 % of the calls come without their usage"
    assert causes(history(used(0, calls=60, calls_without_usage=20))) == []


def test_a_burst_of_errors_is_found_while_it_lasts() -> None:
    calm = days(7, 0, calls=50)
    finding = only(Figures(history=history(calm, used(0, calls=50, failed_calls=50))))
    assert (finding.category, finding.title) == (
        "reliability", "provider openai: 30 % of the calls of the last hours fail",
    )  # fmt: skip
    assert causes(history(calm, used(2, calls=50, failed_calls=50))) == [], "over"


@pytest.mark.parametrize("failed", [0, ERROR_LEAST_FAILED - 1])
def test_few_errors_are_no_burst(failed: int) -> None:
    assert causes(history(used(0, calls=failed or 1, failed_calls=failed))) == []


def test_what_always_fails_is_no_burst() -> None:
    assert causes(history(days(7, 0, calls=50, failed_calls=20))) == []


def test_a_service_that_fails_alone_is_found_and_one_whose_provider_fails_is_not() -> None:
    others = days(7, 0, calls=500, service_name="other")
    failing = used(0, calls=50, failed_calls=50)
    assert only(Figures(history=history(others, failing))).title.startswith("service app: 100 %")
    assert only(Figures(history=history(failing))).title.startswith("provider openai: 100 %")


def test_a_provider_that_answers_others_is_not_found_for_one_service_that_fails() -> None:
    failing, others = used(0, calls=12, failed_calls=12), used(0, calls=25, service_name="other")
    assert only(Figures(history=history(failing, others))).title.startswith("service app: 100 %")
    few = others._replace(calls=ERROR_LEAST_FAILED - 1)
    assert only(Figures(history=history(failing, few))).title.startswith("provider openai: ")
    second = failing._replace(service_name="second")
    assert only(Figures(history=history(failing, second, others))).title.startswith("provider openai: ")


def test_a_burst_keeps_its_text_while_its_share_moves_a_little() -> None:
    one, other = (only(Figures(history=history(used(0, calls=100, failed_calls=n)))) for n in (98, 96))
    assert one == other


# ---- the gateway's own work


def test_a_lane_that_is_held_for_longer_than_a_few_minutes_is_found_with_its_reason() -> None:
    lane = StuckLane("ai_telemetry", "held", "the key is refused (401)", HELD_LANE_S)
    finding = only(Figures(stuck_lanes=[lane]))
    assert finding.title == "lane ai_telemetry is held and sends nothing: the key is refused (401)"
    assert detect(Figures(stuck_lanes=[lane._replace(for_s=HELD_LANE_S - 1)])) == []
    down = lane._replace(state="retrying")
    assert detect(Figures(stuck_lanes=[down])) == []
    assert only(Figures(stuck_lanes=[down._replace(for_s=RETRYING_LANE_S)])).insight_id == finding.insight_id


def test_a_lane_waits_since_it_was_first_seen_to() -> None:
    waits = LaneWaits()
    assert waits.seen({"a": ("held", "x")}, 100.0) == [StuckLane("a", "held", "x", 0.0)]
    assert waits.seen({"a": ("retrying", "y")}, 130.0) == [StuckLane("a", "retrying", "y", 30.0)]
    assert waits.seen({}, 140.0) == []
    assert waits.seen({"a": ("held", "x")}, 150.0) == [StuckLane("a", "held", "x", 0.0)]


def test_dead_letters_are_found_by_lane_and_reason() -> None:
    refused = [DeadLetters("usage_events", "invalid_title", 1), DeadLetters("ai_telemetry", "invalid_amount", 2345)]
    first, second = detect(Figures(dead_letters=refused))
    assert first.title == "lane ai_telemetry: about 2300 records refused as invalid_amount; kept as dead letters"
    assert second.title == "lane usage_events: 1 record refused as invalid_title; kept as dead letters"
    assert detect(Figures(dead_letters=[DeadLetters("ai_telemetry", "gone", 0)])) == []


def test_what_the_spool_lost_is_not_called_refused() -> None:
    (lost,) = detect(Figures(dead_letters=[DeadLetters("ai_telemetry", "quarantined", 200)]))
    assert lost.title == "lane ai_telemetry: 200 records lost by the spool as quarantined; kept as dead letters"


def test_a_device_that_was_in_touch_and_fell_silent_is_found_for_a_month() -> None:
    now_ms = NOW_HOUR * HOUR_MS
    device = Device("laptop-1", now_ms - 40 * DAY_MS, now_ms - 3 * DAY_MS)
    assert only(Figures(now_ms, devices=[device])).title.startswith("device laptop-1: silent since 20")
    for other in (
        device._replace(last_contact_ms=now_ms - 2 * DAY_MS),
        device._replace(last_contact_ms=now_ms - 30 * DAY_MS),
        device._replace(first_contact_ms=device.last_contact_ms),
    ):
        assert detect(Figures(now_ms, devices=[other])) == []


def test_a_gap_is_found_by_its_share_of_the_tokens() -> None:
    finding = only(Figures(gaps=[gap()]))
    assert finding.title.startswith("app (key prod): 20 % of the tokens of gpt-4o ")
    assert (finding.category, finding.effort, finding.cost_impact) == ("data quality", "medium", None)


def test_a_model_without_any_call_is_found_as_lost_wholly() -> None:
    finding = only(Figures(gaps=[gap(tokens_by_calls=0, service_name="", sender="peer:192.0.2.1")]))
    assert finding.title.startswith("peer 192.0.2.1: no call of gpt-4o arrives")


def test_a_service_that_is_billed_by_its_metrics_loses_nothing() -> None:
    assert detect(Figures(gaps=[gap()], prefer_metrics=frozenset({"app"}))) == []


# ---- of all


def test_one_cause_has_one_id_whatever_its_text() -> None:
    one = only(Figures(gaps=[gap()]))
    assert only(Figures(gaps=[gap(tokens_by_calls=10)])).insight_id == one.insight_id
    others = [
        gap(model="m"),
        gap(sender="key:b"),
        gap(service_name="other"),
        gap(sender="key:prod\x00app", service_name=""),
    ]
    ids = {only(Figures(gaps=[other])).insight_id for other in others}
    ids.add(only(Figures(history=history(used(0, calls_without_price=1)))).insight_id)
    assert len(ids) == 5
    assert one.insight_id not in ids


def everything(name: str) -> list[Finding]:
    """Findings of every kind, of whatever is called *name*."""
    called = {"model": name, "team": name, "service_name": name, "provider": name}
    usage: list[Usage] = [
        *days(8, 1, cost=1, cacheable_tokens=9_000, cache_read_tokens=9_000, **called),
        *days(0, 0, cost=9, cacheable_tokens=9_000, failed_calls=10, calls_without_usage=9, **called),
        *days(0, 0, calls_without_price=9, calls=0, input_tokens=90_000, **called),
        *days(8, 1, input_tokens=100, **{**called, "provider": "p"}),
        *days(0, 0, input_tokens=90_000, **{**called, "provider": "p"}),
    ]
    figures = Figures(
        NOW_HOUR * HOUR_MS,
        history(usage, models=[Model(name, name, NOW_HOUR)]),
        gaps=[gap(sender=name, service_name=name, model=name)],
        stuck_lanes=[StuckLane(name, "held", name, 9_999)],
        dead_letters=[DeadLetters(name, name, 3)],
        devices=[Device(name, 0, NOW_HOUR * HOUR_MS - 5 * DAY_MS)],
    )
    return detect(figures)


ALL_CAUSES = {
    "spend_spike", "token_spike", "new_model", "no_price", "missing_usage_rising", "cache_share_falling", "error_burst",
    "calls_lost", "held_lane", "dead_letters", "silent_device",
}  # fmt: skip


def test_names_of_payloads_are_cut_and_printed_on_one_line() -> None:
    findings = everything("evil\r\n\x1b[31m\u202e" + "x" * 5_000)
    assert {finding.cause for finding in findings} == ALL_CAUSES
    for finding in findings:
        assert finding.title.isprintable(), finding.cause
        assert len(finding.title) < 350


def test_what_is_beyond_the_bound_of_series_is_no_name() -> None:
    assert [x.cause for x in everything(OTHER) if OTHER in x.title and x.cause in {"spend_spike", "error_burst"}] == []


def test_no_detector_reports_more_than_anybody_reads() -> None:
    usage = [used(0, model=f"m{n}", calls_without_price=1) for n in range(MAX_FINDINGS + 10)]
    assert len(found(history(usage))) == MAX_FINDINGS
