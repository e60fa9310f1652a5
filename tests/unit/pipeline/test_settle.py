"""Counting over a real spool: what the upstream gets of reports that come in pieces,
late, or around a restart.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.counting.calls.rows import MAX_LATE_CHUNKS
from gateway.pipeline import settle as settling
from gateway.rules.call import Call
from tests.support.calls import call, link
from tests.support.polling import HANGS_S
from tests.support.spool_rig import SETTLE_MS, Rig


async def test_a_resend_within_and_after_the_settle_time_is_a_duplicate(rig: Rig) -> None:
    await rig.send(call("a"))
    await rig.send(call("a"))
    await rig.settle()
    await rig.send(call("a"))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    assert rig.spool.edge()["duplicate"] == 2


async def test_the_first_of_two_reports_in_two_commits_waits_for_what_the_second_one_knows(rig: Rig) -> None:
    await rig.send(call("a", response="r", tokens=(None, None)))
    rig.clock.now_ms += 5_000
    await rig.send(call("b", trace="other", response="r", service="gateway", cost="0.01", team="blue"))
    await rig.settle(after_ms=5_000)
    (record,) = await rig.records()
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (100, 20)
    assert (record["cost"]["amount"], record["attribution"]["team"]) == ("0.01", "blue")
    assert record["record_id"] == call("a").record["record_id"], "the first report's id is kept"
    await rig.settle()
    assert await rig.records() == []


async def test_a_backlog_is_settled_in_passes_of_a_bounded_size(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where reports of one call stand in chunks of different passes."""
    monkeypatch.setattr(settling, "PASS_REPORTS", 4)
    passes: list[int] = []
    settle = rig.spool.settle

    def noted(lane: str, through_seq: int, *changes: Any, **named: Any) -> Any:
        passes.append(through_seq)
        return settle(lane, through_seq, *changes, **named)

    monkeypatch.setattr(rig.spool, "settle", noted)
    for n in range(10):
        await rig.send(call(f"a{n}", response=f"r{n}", trace=f"{n}"), call(f"x{n}", trace=f"x{n}"))
        if n:
            await rig.send(call(f"b{n}", response=f"r{n - 1}", trace=f"b{n}", service="gateway", cost="0.01"))
    assert await rig.settle() == 19
    assert len(passes) >= 29 // (4 + 2)
    assert sorted(passes) == passes
    assert await rig.totals() == (20, 2000, 400)


async def test_a_late_parent_of_a_forwarded_call_is_suppressed(rig: Rig) -> None:
    await rig.send(call("c1", parent="tool"), call("c2", parent="tool"), links=[link("t", "tool", "root")])
    await rig.settle()
    assert len(await rig.records()) == 2
    await rig.send(call("root", at=(0, 3000), tokens=(200, 40), scope="framework"))
    await rig.settle()
    assert await rig.records() == []
    assert rig.spool.reasons()["suppressed.ancestor"] == 1


async def test_a_late_report_that_names_a_forwarded_response_is_a_duplicate_also_after_a_restart(rig: Rig) -> None:
    await rig.send(call("a", response="r"))
    await rig.settle()
    assert len(await rig.records()) == 1
    await rig.reopen()
    await rig.send(call("b", trace="u", response="r", service="gateway"))
    await rig.settle()
    assert await rig.records() == []


async def test_chunks_after_a_run_of_duplicates_and_a_restart_still_settle_before_they_are_forwarded(rig: Rig) -> None:
    await rig.send(call("a"))
    await rig.settle()
    for _ in range(5):
        await rig.send(call("a"))
        await rig.settle()
    assert len(await rig.records()) == 1
    await rig.reopen()
    await rig.send(call("root", trace="u", at=(0, 2000), scope="framework"))
    assert await rig.records() == [], "forwarded before its evidence could come"
    await rig.send(call("child", trace="u", parent="root", model=None))
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_children_parents_and_links_in_three_requests_in_any_order_are_one_call(tmp_path: Path) -> None:
    parts: list[tuple[list[Call], list[bytes]]] = [
        ([call("c1", parent="http"), call("c2", parent="http")], []),
        ([], [link("t", "http", "root")]),
        ([call("root", at=(0, 1100), tokens=(200, 40), scope="framework")], []),
    ]
    expected = {call(child).record["record_id"] for child in ("c1", "c2")}
    for n, order in enumerate([(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]):
        rig = await Rig.opened(tmp_path / str(n))
        for i in order:
            calls, links = parts[i]
            await rig.send(*calls, links=links)
            await rig.settle(after_ms=3_000)
        await rig.reopen()
        await rig.settle()
        assert {record["record_id"] for record in await rig.records()} == expected, order
        await rig.close()


async def test_a_report_without_a_span_is_still_found_below_its_parent_after_a_restart(rig: Rig) -> None:
    await rig.send(call("", event="e1", parent="root"), call("", event="e2", parent="root"))
    await rig.reopen()
    await rig.send(call("root", at=(0, 1100), tokens=(200, 40), scope="framework"))
    await rig.settle()
    assert {record["record_id"] for record in await rig.records()} == {
        call("", event=event).record["record_id"] for event in ("e1", "e2")
    }


async def test_a_clock_that_jumps_back_holds_records_no_longer_than_they_settle(rig: Rig) -> None:
    await rig.send(call("a"))
    rig.clock.wrong_ms = -3_600_000
    await rig.reopen()
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_damaged_record_stops_no_settling(rig: Rig) -> None:
    await rig.send(call("a", response="r"))
    await rig.send(call("b", trace="u", response="r", service="gateway"), call("c", trace="w"))
    await rig.spool.ask(
        lambda connection, _: connection.execute(
            "UPDATE chunk SET body=cast(zeroblob(length(body)) AS BLOB) WHERE seq=1"
        )
    )
    await rig.settle()
    assert {record["record_id"] for record in await rig.records()} == {call("c", trace="w").record["record_id"]}, (
        "of the damaged one nothing is left but a dead letter"
    )


@pytest.mark.parametrize("damage", ["facts='text'||facts||facts", "links=7.5", "received_ms='text'"])
async def test_damaged_evidence_stops_neither_the_start_nor_the_lane(tmp_path: Path, damage: str) -> None:
    rig = await Rig.opened(tmp_path / "data")
    await rig.send(call("a"))
    await rig.send(call("b", trace="u"))
    await rig.spool.ask(lambda connection, _: connection.execute(f"UPDATE chunk SET {damage} WHERE seq=1"))
    await rig.reopen()
    await rig.spool.run_maintenance()
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    await rig.close()


async def test_a_cluster_that_cannot_be_decided_keeps_no_other_record_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("what nobody foresaw")

    monkeypatch.setattr("gateway.pipeline.settlement_pass.merge", broken)
    await rig.send(call("a", response="r"))
    await rig.send(call("b", trace="u", response="r", service="gateway"), call("c", trace="w"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)


async def test_settling_outlives_what_nobody_foresaw(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures, settled = rig.spool.settle, iter([ZeroDivisionError("what nobody foresaw")]), asyncio.Event()

    async def fails_once(*args: object, **named: object) -> None:
        for failure in failures:
            raise failure
        await real(*args, **named)  # type: ignore[arg-type]  # passed on
        settled.set()

    monkeypatch.setattr(rig.spool, "settle", fails_once)
    monkeypatch.setattr("gateway.pipeline.settle.RETRY_S", 0.0)
    await rig.send(call("a"))
    rig.clock.now_ms += SETTLE_MS
    settling = asyncio.create_task(rig.counting.run())
    await asyncio.wait_for(settled.wait(), HANGS_S)
    settling.cancel()
    await asyncio.gather(settling, return_exceptions=True)
    assert await rig.totals() == (1, 100, 20)


async def test_local_servers_that_reuse_one_id_lose_no_call(rig: Rig) -> None:
    for n in range(5):
        await rig.send(call(f"s{n}", trace=f"t{n}", response="chatcmpl-1", at=(n * 110, n * 110 + 100), tokens=(7, 3)))
    await rig.settle()
    records = await rig.records()
    assert len(records) == 5
    assert all("conflict" in record["flags"] for record in records)


@pytest.mark.parametrize("first_states", [True, False])
async def test_embeddings_whose_output_one_library_leaves_out_are_one_call(rig: Rig, *, first_states: bool) -> None:
    outputs = (0, None) if first_states else (None, 0)
    await rig.send(call("a", tokens=(50, outputs[0])), call("b", trace="u", tokens=(50, outputs[1]), scope="other"))
    await rig.settle()
    assert await rig.totals() == (1, 50, 0)


async def test_a_stream_that_a_library_is_known_to_overcount_is_one_call_with_the_true_count(rig: Rig) -> None:
    scope = "opentelemetry.instrumentation.anthropic"
    await rig.send(
        call("a", tokens=(100, 25), response="r", scope=scope),
        call("b", trace="u", tokens=(100, 20), response="r", scope="other"),
    )
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


class TestLateChildren:
    """What was forwarded stands; a call that comes after the call above it is suppressed
    where that accounts for it.
    """

    async def test_a_late_child_of_a_forwarded_call_is_suppressed(self, rig: Rig) -> None:
        await rig.send(call("outer", tokens=(100, 20)))
        await rig.settle()
        await rig.send(call("inner", parent="outer", at=(100, 900), tokens=(100, 20)))
        await rig.settle()
        assert await rig.totals() == (1, 100, 20)
        assert rig.spool.reasons()["suppressed.parent_forwarded"] == 1

    async def test_so_are_several_that_it_accounts_for_together(self, rig: Rig) -> None:
        await rig.send(call("outer", tokens=(300, 60), scope="framework"))
        await rig.settle()
        children = [call(f"inner{n}", parent="outer", at=(n, 900), tokens=(100, 20)) for n in range(3)]
        await rig.send(*children)
        await rig.settle()
        assert await rig.totals() == (1, 300, 60)

    async def test_a_late_child_that_used_more_stays_and_both_are_reported(self, rig: Rig) -> None:
        await rig.send(call("outer", tokens=(100, 20), scope="framework"))
        await rig.settle()
        await rig.send(call("inner", parent="outer", at=(100, 900), tokens=(500, 20)))
        await rig.settle()
        records = await rig.records()
        assert sorted(record["usage"]["input_tokens"] for record in records) == [100, 500]
        assert [record["flags"] for record in records if record["usage"]["input_tokens"] == 500] == [["conflict"]]

    async def test_a_late_guardrail_below_a_forwarded_call_stays(self, rig: Rig) -> None:
        await rig.send(call("outer", tokens=(100, 20), scope="gateway"))
        await rig.settle()
        await rig.send(call("guard", parent="outer", at=(1, 50), tokens=(10, 1), model="a-guardrail"))
        await rig.settle()
        assert await rig.totals() == (2, 110, 21)


class TestWhatWasForwarded:
    """After the settle time what was forwarded stands, and what names it (response id, span id,
    direct parent) is dropped.
    """

    @pytest.mark.parametrize("restart", [False, True])
    async def test_a_late_report_of_its_response_is_a_duplicate(self, rig: Rig, *, restart: bool) -> None:
        await rig.send(call("a", response="r"))
        await self._let_go(rig, restart=restart)
        await rig.send(call("b", trace="u", response="r", service="gateway", cost="0.01"))
        await rig.settle()
        assert await rig.records() == []
        assert rig.spool.reasons()["duplicate.response_id"] == 1

    @pytest.mark.parametrize("restart", [False, True])
    async def test_a_late_report_of_its_span_is_a_duplicate_whatever_it_says(self, rig: Rig, *, restart: bool) -> None:
        await rig.send(call("a", tokens=(None, None)))
        await self._let_go(rig, restart=restart)
        await rig.send(call("a", tokens=(100, 20)))
        await rig.settle()
        assert await rig.records() == []
        assert rig.spool.reasons()["duplicate.same_span"] == 1

    @pytest.mark.parametrize("restart", [False, True])
    async def test_a_late_call_directly_below_it_is_suppressed(self, rig: Rig, *, restart: bool) -> None:
        await rig.send(call("root", at=(0, 2000), scope="litellm", service="gateway"))
        await self._let_go(rig, restart=restart)
        await rig.send(call("child", parent="root"))
        await rig.settle()
        assert await rig.records() == []
        assert rig.spool.reasons()["suppressed.parent_forwarded"] == 1

    @pytest.mark.parametrize("restart", [False, True])
    async def test_a_late_call_directly_above_it_is_suppressed(self, rig: Rig, *, restart: bool) -> None:
        await rig.send(call("child", parent="root"))
        await self._let_go(rig, restart=restart)
        await rig.send(call("root", at=(0, 2000), scope="litellm", service="gateway"))
        await rig.settle()
        assert await rig.records() == []
        assert rig.spool.reasons()["suppressed.ancestor"] == 1

    @pytest.mark.parametrize("restart", [False, True])
    async def test_what_a_merged_record_took_from_others_covers_a_late_call_above_it(
        self, rig: Rig, *, restart: bool
    ) -> None:
        await rig.send(call("child", parent="root", tokens=(None, None), response="r"))
        await rig.send(call("g", trace="u", response="r", service="gateway"))
        await self._let_go(rig, restart=restart)
        await rig.send(call("root", at=(0, 2000), scope="litellm", service="gateway"))
        await rig.settle()
        assert await rig.records() == []
        assert rig.spool.reasons()["suppressed.ancestor"] == 1

    async def test_what_names_it_in_no_such_way_is_counted(self, rig: Rig) -> None:
        """The limits: a co-instrumented span, and a call further below, are only recognised while
        the first report settles.
        """
        await rig.send(call("root", at=(0, 2000), scope="framework"))
        await self._let_go(rig, restart=False)
        await rig.send(call("deep", parent="tool"), links=[link("t", "tool", "root")])
        await rig.send(call("beside", trace="u", at=(0, 2000)))
        await rig.settle()
        assert await rig.totals() == (2, 200, 40)

    @staticmethod
    async def _let_go(rig: Rig, *, restart: bool) -> None:
        await rig.settle()
        assert len(await rig.records()) == 1
        if restart:
            await rig.reopen()


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
async def test_of_several_repeats_below_a_call_without_an_id_one_repeats_it(rig: Rig, order: tuple[int, ...]) -> None:
    """LiteLLM's raw spans in requests of their own, below an application's span that
    holds the first call only.
    """
    reports = [
        call("above", at=(0, 3000), tokens=(120, 30), scope="app"),
        call("r1", parent="above", at=(100, 900), tokens=(120, 30), response="c-1", scope="litellm", repeats=True),
        call("r2", parent="above", at=(1000, 2000), tokens=(300, 70), response="c-2", scope="litellm", repeats=True),
    ]
    for n in order:
        await rig.send(reports[n])
    await rig.settle()
    assert await rig.totals() == (2, 420, 100)


async def test_a_call_above_one_that_its_gateway_reported_first_is_still_covered(rig: Rig) -> None:
    await rig.send(call("g", trace="u", response="r", service="gateway", scope="litellm"))
    await rig.send(call("a", response="r", parent="root"))
    await rig.send(call("b", parent="root"))
    await rig.send(call("root", at=(0, 3000), tokens=(200, 40), scope="framework"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)


async def test_late_reports_of_calls_in_many_settled_chunks_are_no_second_calls(rig: Rig) -> None:
    n = 2 * MAX_LATE_CHUNKS
    for i in range(n):
        await rig.send(call(f"a{i}", trace=f"t{i}", response=f"r{i}"))
        await rig.settle()
    assert (await rig.totals())[0] == n
    await rig.send(*(call(f"b{i}", trace=f"u{i}", response=f"r{i}", service="gateway") for i in range(n)))
    await rig.settle()
    assert (await rig.totals())[0] == 0
