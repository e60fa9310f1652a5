"""One span reported again while its first report settles: what the reports know together is one
record; nothing is added.
"""

from itertools import permutations
from pathlib import Path

import pytest

from gateway.counting.calls.versions import MAX_VERSIONS
from tests.support.calls import call, link
from tests.support.spool_rig import Rig

pytestmark = pytest.mark.usefixtures("each_ledger")

BARE = (None, None)


@pytest.mark.parametrize("restart", [False, True])
async def test_the_more_complete_report_wins_under_the_first_ones_id(rig: Rig, *, restart: bool) -> None:
    await rig.send(call("a", tokens=BARE, team="blue"))
    rig.clock.now_ms += 4_000
    await rig.send(call("a", tokens=(100, 20), cache_read=30, cost="0.01"))
    if restart:
        await rig.reopen()
    await rig.settle()
    (record,) = await rig.records()
    usage = record["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (100, 20, 30)
    assert (usage["status"], record["cost"]["amount"], record["attribution"]["team"]) == ("reported", "0.01", "blue")
    assert record["record_id"] == call("a").record["record_id"]
    assert record["flags"] == []
    assert (rig.spool.edge()["kept"], rig.spool.reasons()["duplicate.same_span"]) == (1, 1)
    await rig.settle()
    assert await rig.records() == []


async def test_halves_in_one_payload_are_one_whole(rig: Rig) -> None:
    await rig.send(
        call("a", tokens=(100, None)), call("b"), call("a", tokens=(None, 20)), call("a", tokens=(100, None))
    )
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    assert rig.spool.edge()["duplicate"] == 2


async def test_the_order_of_the_reports_says_nothing(tmp_path: Path) -> None:
    versions = [call("a", tokens=BARE), call("a", tokens=(100, None)), call("a", tokens=(100, 20), at=(0, 1500))]
    for n, order in enumerate(permutations(versions)):
        rig = await Rig.opened(tmp_path / str(n))
        for report in order:
            await rig.send(report)
            rig.clock.now_ms += 1_000
        await rig.settle()
        (record,) = await rig.records()
        assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (100, 20), n
        assert record["duration_ms"] == 1500, n
        await rig.close()


async def test_after_the_settle_time_the_first_report_stays(rig: Rig) -> None:
    await rig.send(call("a", tokens=BARE))
    await rig.settle()
    await rig.send(call("a", tokens=(100, 20)))
    await rig.settle()
    assert await rig.totals() == (1, 0, 0)
    assert rig.spool.edge()["duplicate"] == 1


async def test_a_report_that_comes_while_the_first_is_let_go_is_its_duplicate(rig: Rig) -> None:
    await rig.send(call("a", tokens=BARE))
    rig.clock.now_ms += 10_000
    verdict = rig.append(call("a", tokens=(100, 20)))
    await rig.settle(after_ms=0)
    await verdict
    await rig.settle()
    records = await rig.records()
    assert len(records) == 1, "the one record of the span, with or without what came in the same moment"


async def test_a_gateways_report_agrees_with_the_last_word_of_a_span(rig: Rig) -> None:
    await rig.send(call("a", tokens=(100, 3), response="r"))
    await rig.send(call("a", tokens=(100, 20), at=(0, 1200), response="r", cache_read=10))
    await rig.send(
        call("g", trace="u", tokens=(100, 20), response="r", service="gateway", scope="litellm", cost="0.01")
    )
    await rig.settle()
    (record,) = await rig.records()
    assert (record["usage"]["output_tokens"], record["cost"]["amount"], record["flags"]) == (20, "0.01", [])


async def test_a_parent_is_covered_by_what_its_child_said_last(rig: Rig) -> None:
    await rig.send(call("c", parent="tool", tokens=BARE), call("d", parent="tool"), links=[link("t", "tool", "root")])
    await rig.send(call("root", at=(0, 3000), tokens=(200, 40), scope="framework"))
    await rig.send(call("c", parent="tool"))
    await rig.settle()
    records = await rig.records()
    assert {record["record_id"] for record in records} == {call(x).record["record_id"] for x in ("c", "d")}
    assert sum(record["usage"]["input_tokens"] for record in records) == 200
    assert all(record["flags"] == [] for record in records)


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=lambda order: "".join(map(str, order)))
@pytest.mark.parametrize("together", [True, False])
async def test_a_response_that_only_one_telling_states_covers_the_span_and_its_parent(
    rig: Rig,
    order: tuple[int, ...],
    together: bool,  # noqa: FBT001 a parameter of the test
) -> None:
    """The first telling states neither tokens nor response; the gateway's report has the
    tokens, and so has the parent.
    """
    reports = [
        call("c", trace="t", parent="p", tokens=BARE),
        call("c", trace="t", parent="p", response="r", tokens=BARE),
        call("g", trace="g", response="r", service="gateway", cost="0.01", tokens=(130, 20)),
        call("p", trace="t", scope="langchain", at=(0, 2600), tokens=(130, 20)),
    ]
    payloads = [order] if together else [(n,) for n in order]
    for payload in payloads:
        await rig.send(*(reports[n] for n in payload))
    await rig.settle()
    assert await rig.totals() == (1, 130, 20)


async def test_a_suppressed_span_stays_suppressed_however_often_it_is_reported(rig: Rig) -> None:
    await rig.send(call("root", at=(0, 3000), tokens=BARE, scope="framework"))
    await rig.send(call("c", parent="root"), call("d", parent="root"))
    await rig.send(call("root", at=(0, 3000), tokens=(200, 40), scope="framework"))
    await rig.settle()
    assert await rig.totals() == (2, 200, 40)
    assert rig.spool.reasons()["suppressed.ancestor"] == 1
    assert rig.spool.reasons()["duplicate.same_span"] == 1


async def test_a_failure_that_was_reported_too_early_leaves_no_error_behind(rig: Rig) -> None:
    await rig.send(call("a", tokens=BARE, failed=True))
    await rig.send(call("a"))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["status"], record.get("error_type")) == ("ok", None)


async def test_versions_beyond_reason_are_duplicates_at_once(rig: Rig) -> None:
    for i in range(MAX_VERSIONS + 5):
        await rig.send(call("a", at=(0, 1000 + i)))
    assert rig.spool.edge()["duplicate"] == 5
    await rig.settle()
    assert await rig.totals() == (1, 100, 20)
    rig.counting.ledger.prune()
    assert rig.counting.ledger.sizes()["versions"] == 0


async def test_the_last_word_of_a_span_says_when_it_was(rig: Rig) -> None:
    """The first report of a stream ends where it began; its gateway saw the end of it."""
    await rig.send(call("a", at=(0, 0), tokens=BARE, response="r"))
    await rig.send(call("a", at=(0, 5000), response="r"))
    await rig.send(call("g", trace="u", at=(4000, 5000), response="r", service="gateway", scope="litellm", cost="0.01"))
    await rig.settle()
    (record,) = await rig.records()
    assert (record["cost"]["amount"], record["usage"]["input_tokens"], record["flags"]) == ("0.01", 100, [])
