"""Streams whose beginning and end are reported apart: one call each, in whatever order, split and
time they come.
"""

import random

import pytest

from gateway.counting.calls.digest import call_ref, digest_rows, unpack_fact
from gateway.counting.calls.stream_parts import MAX_NEAR, StreamParts
from gateway.pipeline.settle import UNFINISHED_SETTLES
from gateway.rules.call import Call
from spool.clock import rfc3339_ms
from tests.support.calls import EPOCH_MS, call, link, stream_begin, stream_end
from tests.support.spool_rig import Rig

pytestmark = pytest.mark.usefixtures("each_ledger")

BEGIN = stream_begin("begin", trace="one", at=(0, 300))
END = stream_end("end", trace="other", at=(301, 2500))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_beginning_and_end_are_one_call_in_either_order(rig: Rig, order: tuple[int, ...]) -> None:
    for at in order:
        await rig.send((BEGIN, END)[at])
    await rig.settle()
    (record,) = await rig.records()
    assert (record["started_at"], record["duration_ms"]) == (rfc3339_ms(EPOCH_MS), 2500)
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (100, 20)
    assert record["flags"] == []
    assert (rig.spool.edge()["kept"], rig.spool.edge()["duplicate"]) == (1, 1)


@pytest.mark.parametrize("restart", [False, True])
async def test_the_end_of_a_long_stream_completes_its_beginning(rig: Rig, *, restart: bool) -> None:
    await rig.send(BEGIN)
    for _ in range(3):
        await rig.settle()
        if restart:
            await rig.reopen()
    assert await rig.records() == []
    await rig.send(stream_end("end", trace="other", at=(301, 31_000)))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["duration_ms"], record["usage"]["output_tokens"], record["flags"]) == (31_000, 20, [])


@pytest.mark.parametrize("restart_after", ["begin", "end"])
async def test_a_restart_within_the_settle_time_keeps_the_pair(rig: Rig, restart_after: str) -> None:
    await rig.send(BEGIN)
    if restart_after == "begin":
        await rig.reopen()
    await rig.send(END)
    if restart_after == "end":
        await rig.reopen()
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_an_end_alone_is_a_call(rig: Rig) -> None:
    await rig.send(END)
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_a_beginning_alone_is_a_call_with_unknown_usage(rig: Rig) -> None:
    await rig.send(BEGIN)
    for _ in range(UNFINISHED_SETTLES + 1):
        await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["status"], record["flags"]) == ("missing", ["unfinished"])


async def test_an_end_before_its_beginning_in_time_belongs_to_another_call(rig: Rig) -> None:
    await rig.send(stream_end("end", trace="other", at=(0, 200)))
    await rig.send(stream_begin("begin", trace="one", at=(300, 600)))
    for _ in range(UNFINISHED_SETTLES + 1):
        await rig.settle()
    assert len(await rig.records()) == 2


@pytest.mark.parametrize(
    "other",
    [
        stream_end("end", trace="other", at=(301, 2500), asked="temperature 1"),
        stream_end("end", trace="other", at=(301, 2500), model="gpt-5"),
        stream_end("end", trace="other", at=(301, 2500), service="another"),
        stream_end("end", trace="other", at=(301, 2500), scope="another"),
    ],
    ids=["request", "model", "service", "scope"],
)
async def test_what_states_another_request_is_another_call(rig: Rig, other: Call) -> None:
    await rig.send(BEGIN, other)
    for _ in range(UNFINISHED_SETTLES + 1):
        await rig.settle()
    assert len(await rig.records()) == 2


async def test_a_counterpart_in_the_same_trace_goes_before_a_nearer_one(rig: Rig) -> None:
    begins = [stream_begin(f"b{i}", trace=f"t{i}", at=(i, 300 + i), team=f"team {i}") for i in range(2)]
    ends = [stream_end(f"e{i}", trace=f"t{i}", at=(400 - i, 900), tokens=(100 + i, 20)) for i in range(2)]
    await rig.send(*begins, *ends)
    await rig.settle()
    found = {(r["usage"]["input_tokens"], r["attribution"]["team"]) for r in await rig.records()}
    assert found == {(100, "team 0"), (101, "team 1")}


async def test_both_below_one_span_are_one_call_below_it(rig: Rig) -> None:
    parts = [
        stream_begin("b", parent="app", at=(10, 300)),
        stream_end("e", parent="app", at=(301, 900)),
    ]
    await rig.send(call("root", at=(0, 1000), scope="framework"), *parts, links=[link("t", "app", "root")])
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)


async def test_hundreds_of_equal_streams_at_once_are_as_many_calls(rig: Rig) -> None:
    n = 400
    parts = [stream_begin(f"b{i}", trace=f"b{i}", at=(i, 300 + i * 2)) for i in range(n)]
    parts += [stream_end(f"e{i}", trace=f"e{i}", at=(300 + i * 2, 30_000 - i)) for i in range(n)]
    random.Random(5).shuffle(parts)
    for start in range(0, len(parts), 97):
        await rig.send(*parts[start : start + 97])
    await rig.settle()
    records = await rig.records()
    assert len(records) == n
    assert not any(record["flags"] for record in records)


async def test_streams_that_are_opened_first_and_read_later_are_paired_too(rig: Rig) -> None:
    n = MAX_NEAR // 2
    opened = [stream_begin(f"b{i}", trace=f"b{i}", at=(i, i + 10)) for i in range(n)]
    read = [stream_end(f"e{i}", trace=f"e{i}", at=(5000 + i * 10, 5009 + i * 10)) for i in range(n)]
    await rig.send(*opened, *read)
    await rig.settle()
    assert await rig.totals() == (n, 100 * n, 20 * n)


async def test_a_part_that_is_sent_twice_is_a_duplicate(rig: Rig) -> None:
    await rig.send(BEGIN, END, BEGIN, END)
    await rig.settle()
    await rig.send(BEGIN, END)
    await rig.settle()
    assert (rig.spool.edge()["kept"], rig.spool.edge()["duplicate"]) == (1, 5)


async def test_what_settled_is_forgotten(rig: Rig) -> None:
    await rig.send(BEGIN, END)
    await rig.settle()
    rig.counting.ledger.prune()
    assert rig.counting.ledger.sizes()["stream_parts"] == 0


@pytest.mark.parametrize("trace", ["one", None], ids=["one trace", "traces of their own"])
def test_a_counterpart_is_looked_for_among_a_bounded_number(trace: str | None) -> None:
    """Beginnings of one request without an end: the worst that a sender can do."""
    facts = [
        unpack_fact(digest_rows([stream_begin(f"b{i}", trace=trace or f"b{i}", at=(0, i))]), 0)
        for i in range(4 * MAX_NEAR)
    ]
    parts = StreamParts()
    for i, fact in enumerate(facts):
        parts.add(fact, call_ref(1, i))
    looked: list[int] = []

    def is_open(ref: int) -> bool:
        looked.append(ref)
        return True

    for i in (0, MAX_NEAR, 4 * MAX_NEAR - 1):
        looked.clear()
        assert parts.counterpart(facts[i], call_ref(1, i), is_open) == 0
        assert len(looked) <= MAX_NEAR + 1


def test_more_than_are_remembered_are_counted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.counting.calls.stream_parts.MAX_PARTS", 1)
    parts = StreamParts()
    begin, end = (unpack_fact(digest_rows([part]), 0) for part in (BEGIN, END))
    parts.add(begin, call_ref(1, 0))
    parts.add(end, call_ref(1, 1))
    assert len(parts) == 1
    assert parts.counterpart(begin, call_ref(1, 0), lambda _: True) == 0
