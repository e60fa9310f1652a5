"""Metrics through the intake and a real spool: what is billed of them, whenever the
sender or the gateway starts again.
"""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.common.contract.intake import Sender
from gateway.config.model import Config
from gateway.counting.metrics.grouping import Folded
from gateway.pipeline import metrics as aggregates
from gateway.pipeline.assembly import metrics_settings
from gateway.pipeline.metrics import Settings
from spool.errors import SpoolError, SpoolFull
from spool.record import AI_TELEMETRY
from tests.support.metrics import LABELS, RESOURCE, Export, export
from tests.support.metrics_rig import METRICS_SETTLE_MS, SETTLE_MS, MetricsRig
from tests.support.spans import call_span
from tests.support.spool_rig import assert_balanced

ARCHIVE = "archive"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    rig = await MetricsRig(tmp_path / "data").open()
    yield rig
    await rig.close()


# ---- temporality


async def test_a_source_of_nothing_but_metrics_is_billed_from_them(rig: MetricsRig) -> None:
    await rig.metrics(export(100, 20, at=60))
    await rig.metrics(export(250, 50, at=120))
    await rig.settle()
    first, second = await rig.records()
    assert (first["usage"]["input_tokens"], second["usage"]["input_tokens"]) == (100, 150)
    assert second["period"] == {"start": first["period"]["end"], "end": "2026-01-05T10:02:00.000Z"}
    edge = rig.spool.edge()
    assert (edge["received"], edge["kept"], edge["duplicate"]) == (4, 2, 2)


async def test_an_export_that_comes_again_or_without_news_adds_nothing(rig: MetricsRig) -> None:
    await rig.metrics(export(100, 20, at=60))
    await rig.metrics(export(100, 20, at=60))
    await rig.metrics(export(100, 20, at=120))
    await rig.settle()
    assert await rig.used() == (100, 20)
    assert rig.spool.reasons()["duplicate.repeated"] == 4


async def test_a_sender_that_restarts_begins_again(rig: MetricsRig) -> None:
    await rig.metrics(export(100, 20, at=60))
    await rig.metrics(export(30, 5, start=70, at=80))
    await rig.metrics(export(130, 25, start=70, at=140))
    await rig.settle()
    assert await rig.used() == (230, 45)


async def test_processes_that_share_all_labels_do_not_mix(rig: MetricsRig) -> None:
    for n in range(1, 5):
        await rig.metrics(export(100 * n, 10 * n, start=0, at=60 * n), export(7 * n, n, start=0.5, at=60 * n))
    await rig.settle()
    assert await rig.used() == (428, 44)


async def test_a_gateway_that_restarts_goes_on_from_the_disk(rig: MetricsRig) -> None:
    await rig.metrics(export(100, 20, at=60))
    await rig.reopen()
    await rig.metrics(export(100, 20, at=60))
    await rig.metrics(export(170, 30, at=120))
    await rig.reopen()
    await rig.settle()
    assert await rig.used() == (170, 30)


async def test_a_kill_at_any_moment_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rig = await MetricsRig(tmp_path / "0").open()
    for n in range(1, 8):
        await rig.metrics(export(100 * n, 10 * n, at=60 * n))
        if n % 3 == 0:
            await rig.settle(METRICS_SETTLE_MS)  # what is due is in a chunk, which still settles
        survivor = await rig.killed(tmp_path / str(n))
        await rig.spool.close()
        rig = survivor
        await assert_balanced(rig.spool)
        await rig.metrics(export(100 * n, 10 * n, at=60 * n))  # the sender heard nothing and sends again
    await rig.settle()
    assert await rig.used() == (700, 70)
    await rig.close()


async def test_delta_points_count_once_each(rig: MetricsRig) -> None:
    def delta(value: float, at: float) -> Export:
        return Export(start=at - 60, at=at).point(value, temporality="delta")

    await rig.metrics(delta(100, 60), delta(50, 120))
    await rig.metrics(delta(100, 60))
    await rig.reopen()
    await rig.metrics(delta(50, 120), delta(7, 180))
    await rig.settle()
    assert (await rig.used())[0] == 157


async def test_payloads_at_once_are_counted_upon_each_other(rig: MetricsRig) -> None:
    exports = [export(10 * n, n, at=n) for n in range(1, 60)]
    await rig.metrics(*exports, *exports)
    await rig.settle()
    assert await rig.used() == (590, 59)


async def test_an_explosion_of_labels_stays_right_and_bounded(rig: MetricsRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "MAX_CACHED", 50)

    def exported(requests: int) -> Export:
        """A gateway that makes a new series of every request and sends them all again each time."""
        made = Export(at=60.0 * requests)
        for n in range(requests):
            made.point(100 + n, more={"hidden_params": f"request {n}"})
        return made

    for requests in (100, 200, 700, 700):
        await rig.metrics(exported(requests))
        assert len(rig.counting.aggregates._cached) <= 50
    await rig.settle()
    found = await rig.records()
    assert sum(x["usage"]["input_tokens"] for x in found) == sum(100 + n for n in range(700))
    assert len(found) == 3


async def test_what_is_counted_off_the_loop_is_counted_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exported(n: int) -> Export:
        made = Export(at=60.0 * n)
        for user in range(40):
            made.point(n * user, more={"user.id": f"user {user}", "session.id": f"session {user}"})
        return made.point(n, more={"user.id": "delta"}, temporality="delta")

    found = []
    for most in (1_000, 1):
        monkeypatch.setattr(aggregates, "POINTS_HERE", most)
        monkeypatch.setattr(aggregates, "NOTE_AT_ONCE", most)
        rig = await MetricsRig(tmp_path / str(most)).open()
        await rig.metrics(exported(1), exported(2), exported(1))
        await rig.reopen()
        await rig.metrics(exported(2), exported(3))
        await rig.settle()
        found.append((sorted(map(str, await rig.records())), rig.spool.reasons()))
        await rig.close()
    assert found[0] == found[1]
    assert gc.isenabled()


async def test_the_loop_goes_on_while_a_large_payload_is_counted(
    rig: MetricsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting waits for a turn of the loop, which would never come if it were done in it."""
    loop, turned = asyncio.get_running_loop(), threading.Event()
    counted = aggregates.fold

    def fold(*given: Any) -> Folded:
        loop.call_soon_threadsafe(turned.set)
        assert turned.wait(10)
        return counted(*given)

    monkeypatch.setattr(aggregates, "fold", fold)
    made = Export()
    for n in range(aggregates.POINTS_HERE + 1):
        made.point(1, more={"n": n})
    await rig.metrics(made)
    await rig.settle()
    assert (await rig.used())[0] == aggregates.POINTS_HERE + 1


async def test_series_that_nobody_repeats_are_forgotten_and_those_that_are_stay(tmp_path: Path) -> None:
    day_ms = 86_400_000
    rig = await MetricsRig(tmp_path, metrics=Settings(settle_ms=0, max_age_ms=7 * day_ms)).open()
    await rig.metrics(export(100, 20, at=60), Export(start=0, at=60).point(5, temporality="delta"))
    for day in range(1, 20):
        rig.clock.now_ms += day_ms
        await rig.metrics(export(100, 20, at=60 + day))
        await rig.counting.aggregates.run_maintenance()
    await rig.reopen()
    await rig.metrics(export(101, 20, at=100))
    assert await series_rows(rig) == 2, "the delta point was forgotten"
    rig.clock.now_ms += 8 * day_ms
    await rig.counting.aggregates.run_maintenance()
    assert await series_rows(rig) == 0
    await rig.settle(SETTLE_MS)
    assert await rig.used() == (106, 20)
    await rig.close()


async def series_rows(rig: MetricsRig) -> int:
    (n,) = await rig.spool.ask(lambda connection, _: connection.execute("SELECT count(*) FROM series").fetchone())
    return int(n)


# ---- beside calls


@pytest.mark.parametrize("calls_first", [True, False])
async def test_metrics_of_a_source_that_reports_calls_are_suppressed_in_any_order(
    rig: MetricsRig, *, calls_first: bool
) -> None:
    span = call_span("a", (100, 20))
    if calls_first:
        await rig.traces(span)
    await rig.metrics(export(100, 20))
    if not calls_first:
        rig.clock.now_ms += METRICS_SETTLE_MS - 1
        await rig.traces(span)
    await rig.settle()
    (record,) = await rig.records()
    assert record["kind"] == "call"
    assert rig.spool.reasons()["suppressed.calls_reported"] == 1


async def test_held_aggregates_keep_no_call_waiting(rig: MetricsRig) -> None:
    await rig.metrics(Export(resource={"service.name": "other"}).point(9))
    await rig.traces(call_span("a", (100, 20)))
    await rig.settle(SETTLE_MS)
    (record,) = await rig.records()
    assert record["kind"] == "call"
    depth = rig.spool.depth(AI_TELEMETRY)
    assert (depth.kept, depth.delivered, depth.pending) == (2, 1, 1)
    await rig.settle()
    (record,) = await rig.records()
    assert record["kind"] == "aggregate"


async def test_calls_seen_before_a_restart_still_suppress(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (100, 20)))
    await rig.metrics(export(100, 20))
    await rig.reopen()
    await rig.settle()
    assert {record["kind"] for record in await rig.records()} == {"call"}


async def test_what_comes_while_it_is_read_what_is_held_is_settled_in_time(
    rig: MetricsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost append makes it be read again; payloads that were admitted go on."""
    held_count = rig.spool.series.held_count

    async def after_a_payload() -> int:
        await rig.metrics(export(100, 20))
        return await held_count()

    monkeypatch.setattr(rig.spool.series, "held_count", after_a_payload)
    await rig.counting.aggregates.load()
    assert rig.counting.aggregates.n_held == 1
    await rig.settle()
    assert await rig.used() == (100, 20)


async def test_another_key_instance_or_session_is_another_source(rig: MetricsRig) -> None:
    await rig.traces(
        call_span("a", (1, 1), resource={**RESOURCE, "service.instance.id": "i"}, more={"session.id": "s"})
    )
    await rig.metrics(Export(resource={**RESOURCE, "service.instance.id": "j"}).point(10))
    await rig.metrics(Export().point(20, more={"session.id": "t"}))
    await rig.metrics(Export().point(40), sender=Sender(key="other", peer="192.0.2.1"))
    await rig.metrics(Export(resource={**RESOURCE, "service.instance.id": "i"}).point(80, at=61, start=7))
    await rig.settle()
    found = [record["usage"]["input_tokens"] for record in await rig.records() if record["kind"] == "aggregate"]
    assert sorted(found) == [10, 20, 40]


async def test_calls_of_long_ago_suppress_nothing(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (1, 1)))
    rig.clock.now_ms += 3_600_000
    await rig.metrics(export(100, 20, start=3_540, at=3_600))
    await rig.settle()
    assert [record["kind"] for record in await rig.records()] == ["call", "aggregate"]


async def test_a_service_that_prefers_metrics_is_billed_by_them_and_its_calls_are_suppressed(tmp_path: Path) -> None:
    settings = Settings(settle_ms=METRICS_SETTLE_MS, prefer_metrics=frozenset({"app"}))
    rig = await MetricsRig(tmp_path, metrics=settings).open()
    await rig.traces(call_span("a", (100, 20)))
    await rig.traces(call_span("b", (7, 7), resource={"service.name": "other"}))
    await rig.metrics(export(150, 30))
    await rig.settle()
    found = {(x["kind"], x["attribution"]["service_name"], x["usage"]["input_tokens"]) for x in await rig.records()}
    assert found == {("aggregate", "app", 150), ("call", "other", 7)}
    assert rig.spool.reasons()["suppressed.metrics_preferred"] == 1
    await rig.close()


def test_preferences_and_times_come_from_the_configuration() -> None:
    counting = {"metrics_settle": "5s", "window": "1m", "prefer": [{"service": "app", "prefer": "metrics"}]}
    config = Config.model_validate({"counting": counting, "spool": {"max_age": "2d"}})
    assert metrics_settings(config) == Settings(5_000, 60_000, 2 * 86_400_000, frozenset({"app"}))
    with pytest.raises(ValidationError):
        Config.model_validate({"counting": {"prefer": [{"service": "app", "prefer": "calls"}]}})


async def test_more_tokens_by_metrics_than_by_calls_are_shown_as_a_gap(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (100, 20)))
    await rig.metrics(export(1000, 200, start=1))
    await rig.settle()
    (gap,) = rig.counting.aggregates.gaps()
    assert (gap["service_name"], gap["model"]) == ("app", "gpt-4o")
    assert (gap["tokens_by_calls"], gap["tokens_by_metrics"]) == (120, 1200)


async def test_a_model_whose_spans_are_all_lost_is_a_gap(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (100, 20)))
    await rig.metrics(export(100, 20, start=1).point(700, labels={**LABELS, "gen_ai.request.model": "lost-model"}))
    await rig.settle()
    assert {record["kind"] for record in await rig.records()} == {"call"}, "it is in no bill"
    (gap,) = rig.counting.aggregates.gaps()
    assert (gap["model"], gap["tokens_by_calls"], gap["tokens_by_metrics"]) == ("lost-model", 0, 700)


async def test_one_metric_under_two_names_is_compared_once(rig: MetricsRig) -> None:
    own = {"name": "gemini_cli.token.usage", "kind": "sum", "type_name": "type"}
    labels = {"model": "gpt-4o"}
    await rig.traces(call_span("a", (100, 20)))
    await rig.metrics(Export(scope="gemini-cli", start=1).point(100, "input").point(20, "output"))
    await rig.metrics(
        Export(scope="gemini-cli", start=1)
        .point(100, "input", labels=labels, **own)  # type: ignore[arg-type] # of each its own type
        .point(20, "output", labels=labels, **own)  # type: ignore[arg-type] # as above
    )
    await rig.settle()
    assert rig.counting.aggregates.gaps() == []


async def test_a_source_whose_metrics_say_what_its_calls_say_has_no_gap(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (100, 20)))
    await rig.metrics(export(103, 20, start=1))
    await rig.settle()
    assert rig.counting.aggregates.gaps() == []


async def test_a_worse_metric_that_comes_in_another_payload_is_suppressed(rig: MetricsRig) -> None:
    own = {
        "name": "gemini_cli.token.usage",
        "kind": "sum",
        "labels": {"model": "gemini-2.5-flash"},
        "type_name": "type",
    }
    await rig.metrics(Export(scope="gemini-cli").point(1800, "input").point(150, "output"))
    await rig.metrics(Export(scope="gemini-cli").point(1800, "input", **own).point(150, "output", **own))  # type: ignore[arg-type] # of each its own type
    await rig.settle()
    assert await rig.used() == (1800, 150)
    assert rig.spool.reasons()["suppressed.repeated_metric"] == 1


# ---- metrics that no table knows


def by_shape(tokens: int, **times: float) -> Export:
    labels = {"model": "gpt-4o", "user.id": "ana"}
    return Export(scope="acme", **times).point(  # type: ignore[arg-type]  # times are start and at
        tokens, "input", name="acme.tokens", kind="sum", labels=labels, type_name="acme.token.type"
    )


async def test_a_metric_that_has_the_shape_of_usage_is_billed_and_says_so(rig: MetricsRig) -> None:
    await rig.metrics(by_shape(120))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["input_tokens"], record["source"]["convention"]) == (120, "shape")
    assert record["flags"] == ["unknown_convention"]
    assert (record["request_model"], record["provider"], record["attribution"]["user"]) == ("gpt-4o", "openai", "ana")


@pytest.mark.parametrize("known_first", [True, False])
async def test_a_metric_that_a_table_knows_goes_before_one_that_has_the_shape(
    rig: MetricsRig, *, known_first: bool
) -> None:
    for is_known in (known_first, not known_first):
        await rig.metrics(export(100, 20) if is_known else by_shape(999))
    await rig.settle()
    assert await rig.used() == (100, 20)
    assert rig.spool.reasons()["suppressed.repeated_metric"] == 1


async def test_calls_go_before_a_metric_that_has_the_shape(rig: MetricsRig) -> None:
    await rig.traces(call_span("a", (100, 20)))
    await rig.metrics(by_shape(999))
    await rig.settle()
    assert await rig.used() == (100, 20)


# ---- money


async def test_an_aggregate_without_a_cost_gets_an_estimate_by_the_tier_of_its_calls(rig: MetricsRig) -> None:
    labels = {**LABELS, "gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "gemini-2.5-pro"}
    await rig.metrics(
        Export().point(1_000_000, "input", calls=100, labels=labels).point(1000, "output", calls=100, labels=labels)
    )
    await rig.settle()
    (record,) = await rig.records()
    assert record["cost"]["source"] == "estimated"
    assert float(record["cost"]["amount"]) == pytest.approx(1.25 + 0.01), (
        "the price of short calls, not of a million tokens at once"
    )


async def test_a_cost_that_comes_in_another_payload_replaces_the_estimate(rig: MetricsRig) -> None:
    await rig.metrics(export(1000, 100))
    await rig.metrics(Export().point(0.5, None, name="gen_ai.usage.cost", unit="USD"))
    await rig.settle()
    found = await rig.records()
    assert [record.get("cost") and record["cost"]["amount"] for record in found] == [None, "0.5"]


# ---- the spool


async def test_every_exporters_lane_gets_each_aggregate_once(tmp_path: Path) -> None:
    rig = await MetricsRig(tmp_path, exporters=[ARCHIVE]).open()
    await rig.metrics(export(100, 20))
    await rig.settle()
    assert await rig.used() == await rig.used(ARCHIVE) == (100, 20)
    await rig.close()


@pytest.mark.parametrize("suppressed", [True, False])
async def test_lanes_that_come_and_go_while_an_aggregate_waits_keep_their_balance(
    tmp_path: Path, *, suppressed: bool
) -> None:
    rig = await MetricsRig(tmp_path, exporters=["old"]).open()
    await rig.metrics(export(100, 20))
    if suppressed:
        await rig.traces(call_span("a", (100, 20)))
    await rig.reopen(exporters=[ARCHIVE])
    await assert_balanced(rig.spool)
    await rig.settle()
    assert await rig.used(ARCHIVE) == ((0, 0) if suppressed else (100, 20))
    assert await rig.used() == (100, 20)
    await rig.close()


async def test_a_full_spool_keeps_nothing_of_a_payload_and_counts_it_when_it_comes_again(rig: MetricsRig) -> None:
    rig.spool.writer.is_disk_full = True
    with pytest.raises(SpoolFull):
        await rig.metrics(export(100, 20))
    rig.spool.writer.is_disk_full = False
    await rig.metrics(export(100, 20))
    await rig.settle()
    assert await rig.used() == (100, 20)


async def test_a_write_that_fails_is_reported_and_leaves_no_trace(rig: MetricsRig) -> None:
    await rig.spool.ask(
        lambda c, _: c.execute("CREATE TRIGGER broken BEFORE INSERT ON held BEGIN SELECT raise(ABORT, 'x'); END")
    )
    results = await asyncio.gather(
        rig.metrics(export(100, 20)), rig.metrics(export(200, 40, at=70)), return_exceptions=True
    )
    assert [type(result) for result in results] == [SpoolError, SpoolError]
    assert rig.spool.edge()["received"] == 0
    await rig.spool.ask(lambda c, _: c.execute("DROP TRIGGER broken"))
    await rig.metrics(export(200, 40, at=70))
    await rig.settle()
    assert await rig.used() == (200, 40)


async def test_a_damaged_row_holds_nobody_up(rig: MetricsRig) -> None:
    await rig.metrics(export(100, 20))
    await rig.spool.ask(lambda c, _: c.execute("UPDATE held SET facts=x'00'").rowcount)
    await rig.metrics(Export(resource={"service.name": "other"}).point(5))
    await rig.settle()
    assert await rig.used() == (105, 20)


async def test_a_clock_that_jumps_back_holds_aggregates_no_longer_than_they_wait(rig: MetricsRig) -> None:
    await rig.metrics(export(100, 20))
    rig.clock.now_ms -= 3_600_000
    await rig.counting.aggregates._turn_back(rig.clock.now_ms)
    await rig.settle()
    assert len(await rig.records()) == 1
