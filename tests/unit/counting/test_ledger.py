"""What the ledger remembers: duplicates, chains over chunks, settled rows that are read back, and
the same after a restart.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.counting.calls.digest import DIGEST_BYTES, LINK_ROW_BYTES, call_ref, link_ref, split_ref
from gateway.counting.calls.ledger import Ledger
from gateway.counting.calls.resolve import Verdict
from gateway.counting.calls.rows import MAX_LATE_CHUNKS, LateChunk
from gateway.rules.call import Call
from tests.support.calls import call, link
from tests.support.growth import assert_linear
from tests.support.scenarios import ALL
from tests.support.spool_rig import Rig

pytestmark = pytest.mark.usefixtures("each_ledger")


def count(ledger: Ledger, seq: int, *calls: Call, links: Sequence[bytes] = (), first: int = 0) -> set[int]:
    """The indexes of duplicates."""
    return ledger.count(calls, links, seq, first, received_ms=seq).duplicates


def verdict(ledger: Ledger, ref: int, late: dict[int, LateChunk | None] | None = None) -> Verdict:
    cluster, missing = ledger.cluster(ref, late or {})
    assert missing == set()
    return ledger.decide(cluster)


def test_references_hold_chunk_index_and_kind() -> None:
    for seq in (0, 1, 12_345, 1 << 40):
        for idx in (0, 1, (1 << 21) - 1):
            assert split_ref(call_ref(seq, idx)) == (seq, idx, False)
            assert split_ref(link_ref(seq, idx)) == (seq, idx, True)


def test_rows_are_those_of_the_kept_calls_in_their_order() -> None:
    ledger = Ledger(1000)
    counted = ledger.count([call("a"), call("b"), call("a"), call("c")], [link("t", "x", "p"), link("t", "y")], 1, 0, 0)
    assert counted.duplicates == {2}
    assert len(counted.facts) == 3 * DIGEST_BYTES
    assert len(counted.links) == LINK_ROW_BYTES, "a root's link leads nowhere"
    assert ledger.sizes() == {
        "spans": 3,
        "parents": 1,
        "responses": 0,
        "requests": 0,
        "versions": 0,
        "stream_parts": 0,
        "bearers": 0,
        "settling": 3,
        "evicted": 0,
    }


def test_a_report_is_known_by_its_span_or_its_own_id() -> None:
    ledger = Ledger(1000)
    assert count(ledger, 1, call("a"), call("", event="e"), call("", trace="", event="f")) == set()
    again = [
        call("a"),
        call("", event="e"),
        call("", trace="", event="f"),
        call("a", trace="other"),
        call("", event="g"),
    ]
    assert count(ledger, 2, *again) == {0, 1, 2}


def test_evicted_reports_are_new_again_and_counted() -> None:
    ledger = Ledger(384)
    for n in range(1000):
        assert count(ledger, n + 1, call(f"{n}")) == set()
    assert ledger.sizes()["evicted"] > 0
    assert ledger.sizes()["spans"] <= 384
    assert count(ledger, 2000, call("999"), call("0")) == {0}


def test_one_parents_children_in_several_chunks_and_payloads_are_all_found() -> None:
    ledger = Ledger(1000)
    count(ledger, 1, call("c0", parent="p"), call("x", trace="u"))
    count(ledger, 1, call("c1", parent="tool"), links=[link("t", "tool", "p")], first=2)
    count(ledger, 3, call("c2", parent="deep"), links=[link("t", "deep", "tool2"), link("t", "tool2", "p")])
    count(ledger, 4, call("p", at=(0, 9000), tokens=(300, 60)))
    assert ledger.roots(4) == [call_ref(4, 0)]
    cluster, missing = ledger.cluster(call_ref(4, 0), {})
    assert missing == set()
    assert set(cluster.members) == {call_ref(4, 0), call_ref(1, 0), call_ref(1, 2), call_ref(3, 0)}
    assert ledger.decide(cluster).dropped == {call_ref(4, 0): "suppressed.ancestor"}
    assert not ledger.is_open(call_ref(4, 0))


def test_spans_that_are_their_own_ancestors_end() -> None:
    ledger = Ledger(1000)
    links = [link("t", "a", "b"), link("t", "b", "a"), link("t", "p", "p")]
    count(ledger, 1, call("p", parent="p"), call("c", parent="a", trace="t"), call("d", parent="b"), links=links)
    for ref in ledger.roots(1):
        ledger.cluster(ref, {})
    count(ledger, 2, call("a", tokens=(999, 1)))
    assert verdict(ledger, call_ref(2, 0)).conflicts == {call_ref(2, 0), call_ref(1, 1), call_ref(1, 2)}


def test_settled_rows_are_asked_for_and_what_they_say_counts() -> None:
    ledger = Ledger(1000)
    kept = ledger.count([call("c1", parent="p"), call("c2", parent="p")], [], 1, 0, 0)
    ledger.settled(1)
    count(ledger, 2, call("p", at=(0, 9000), tokens=(200, 40)))
    _, missing = ledger.cluster(call_ref(2, 0), {})
    assert missing == {1}
    late: dict[int, LateChunk | None] = {1: LateChunk(bytes(kept.facts), b"", frozenset())}
    assert verdict(ledger, call_ref(2, 0), late).dropped == {call_ref(2, 0): "suppressed.ancestor"}


def test_a_dropped_row_of_a_settled_chunk_covers_nothing() -> None:
    ledger = Ledger(1000)
    kept = ledger.count([call("c1", parent="p"), call("c2", parent="p")], [], 1, 0, 0)
    ledger.settled(1)
    count(ledger, 2, call("p", at=(0, 9000), tokens=(200, 40)))
    late: dict[int, LateChunk | None] = {1: LateChunk(bytes(kept.facts), b"", frozenset({1}))}
    assert verdict(ledger, call_ref(2, 0), late).conflicts == {call_ref(2, 0), call_ref(1, 0)}


def test_below_rows_that_are_gone_the_call_above_is_taken_as_covered() -> None:
    ledger = Ledger(1000)
    count(ledger, 1, call("c0", parent="p"))
    ledger.settled(1)
    count(ledger, 2, call("c1", parent="p"), call("p", tokens=(200, 40)))
    assert verdict(ledger, call_ref(2, 1), {1: None}).dropped == {call_ref(2, 1): "suppressed.ancestor"}


def test_a_cluster_asks_for_no_more_chunks_than_it_may() -> None:
    ledger = Ledger(10_000)
    for seq in range(1, MAX_LATE_CHUNKS + 50):
        count(ledger, seq, call(f"c{seq}", parent="p"), call(f"r{seq}", trace=f"{seq}", response="r"))
        ledger.settled(seq)
    count(ledger, 1000, call("p", tokens=(200, 40), response="r"))
    late: dict[int, LateChunk | None] = {}
    while True:
        cluster, missing = ledger.cluster(call_ref(1000, 0), late)
        if not missing:
            break
        late.update(dict.fromkeys(missing))
    assert len(late) <= MAX_LATE_CHUNKS
    assert ledger.decide(cluster).dropped == {}, "nothing is known but the call itself"


async def test_children_of_more_chunks_than_are_read_back_still_cover_their_parent(tmp_path: Path) -> None:
    rig = await Rig.opened(tmp_path / "data")
    for n in range(MAX_LATE_CHUNKS + 20):
        await rig.send(call(f"c{n}", parent="p"))
        await rig.settle()
    assert (await rig.totals())[0] == MAX_LATE_CHUNKS + 20
    n = MAX_LATE_CHUNKS + 20
    await rig.send(call("p", at=(0, 9000), tokens=(100 * n, 20 * n)))
    await rig.settle()
    assert await rig.records() == []
    await rig.close()


def test_co_instrumented_spans_are_found_when_the_second_scope_comes_after_thousands_of_reports() -> None:
    ledger = Ledger(100_000)
    many = [call(f"a{n}", at=(n * 2000, n * 2000 + 900), tokens=(10, n % 50)) for n in range(3000)]
    for start in range(0, 3000, 500):
        count(ledger, start // 500 + 1, *many[start : start + 500])
    late_scope = call("b", trace="u", scope="x", at=(2999 * 2000, 2999 * 2000 + 900), tokens=(10, 2999 % 50))
    count(ledger, 7, late_scope)
    assert verdict(ledger, call_ref(7, 0)).dropped == {call_ref(7, 0): "duplicate.twin"}


def test_looking_for_co_instrumented_spans_among_thousands_of_equal_calls_stays_quick() -> None:
    """Equal calls of two scopes in the settle time: each is compared with its neighbours in time
    only.
    """

    def work(n: int) -> None:
        ledger = Ledger(100_000)
        calls = [
            call(f"{scope}{i}", trace=f"{scope}{i}", scope=scope, at=(i, i + 30), tokens=(9, 1))
            for i in range(n)
            for scope in ("x", "y")
        ]
        for start in range(0, len(calls), 500):
            count(ledger, start // 500 + 1, *calls[start : start + 500])

    assert_linear(work, 1000)


def sources_of(ledger: Ledger) -> int:
    return len(ledger._sources)


def test_settled_chunks_and_silent_sources_are_forgotten() -> None:
    ledger = Ledger(1000)
    count(ledger, 1, call("a"), call("b", scope="x", at=(0, 5000)))
    count(ledger, 2, call("c", service="other"))
    ledger.prune()
    assert sources_of(ledger) == 2
    ledger.settled(1)
    ledger.prune()
    assert sources_of(ledger) == 1
    assert ledger.oldest_ms() == 2
    ledger.settled(2)
    ledger.prune()
    assert (sources_of(ledger), ledger.oldest_ms(), ledger.sizes()["settling"]) == (0, None, 0)


def test_chunks_fall_due_in_their_order_and_only_when_they_are_sealed() -> None:
    ledger = Ledger(1000)
    for seq in (3, 5, 6):
        count(ledger, seq, call(f"{seq}"))
    due = partial(ledger.due, max_reports=100)
    assert due(5, 6) == [3, 5]
    assert due(9, 5) == [3, 5]
    assert due(2, 9) == []
    ledger.turn_back(4)
    assert due(4, 9) == [3, 5, 6], "a clock that jumped back makes no chunk wait for the time to come again"


def test_what_is_due_at_once_ends_with_the_chunk_that_makes_it_enough() -> None:
    ledger = Ledger(1000)
    for seq in (1, 2, 3):
        count(ledger, seq, call(f"{seq}"), call(f"{seq} too"))
    assert [ledger.due(9, 9, max_reports=n) for n in (1, 2, 3, 4, 5)] == [[1], [1], [1, 2], [1, 2], [1, 2, 3]]


def test_a_verdict_that_was_not_written_is_open_again() -> None:
    ledger = Ledger(1000)
    count(ledger, 1, call("a"), call("b", trace="u", scope="x"))
    made = verdict(ledger, call_ref(1, 0))
    assert not ledger.is_open(call_ref(1, 0))
    assert not ledger.is_open(call_ref(1, 1))
    ledger.undecide(made)
    assert verdict(ledger, call_ref(1, 1)) == made


def everything(ledger: Ledger, seqs: Sequence[int]) -> list[Verdict]:
    return [verdict(ledger, ref) for seq in seqs for ref in ledger.roots(seq) if ledger.is_open(ref)]


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_ledger_read_back_from_its_rows_decides_the_same(data: st.DataObject) -> None:
    scenarios = [build(n) for n, build in enumerate(data.draw(st.lists(st.sampled_from(ALL), min_size=1, max_size=4)))]
    items = data.draw(st.permutations([item for s in scenarios for item in s.items]))
    chunks = data.draw(st.lists(st.integers(1, 4), min_size=len(items), max_size=len(items)))
    first, again = Ledger(10_000), Ledger(10_000)
    rows: dict[int, tuple[bytearray, bytearray]] = {}
    filled: dict[int, int] = {}
    for item, seq in sorted(zip(items, chunks, strict=True), key=lambda x: x[1]):
        calls = [item] if isinstance(item, Call) else []
        links = [] if isinstance(item, Call) else [item]
        counted = first.count(calls, links, seq, filled.get(seq, 0), seq)
        facts, link_rows = rows.setdefault(seq, (bytearray(), bytearray()))
        facts += counted.facts
        link_rows += counted.links
        filled[seq] = len(facts) // DIGEST_BYTES
    for seq, (facts, link_rows) in rows.items():
        again.restore(seq, seq, bytes(facts), bytes(link_rows), {}, settled=False)
    assert again.sizes() == first.sizes()
    for item in items:
        if isinstance(item, Call):
            assert count(first, 9, item) == count(again, 9, item) == {0}
    assert everything(again, sorted(rows)) == everything(first, sorted(rows))


@pytest.mark.parametrize("settled", [True, False])
def test_what_was_dropped_before_a_restart_stays_dropped(*, settled: bool) -> None:
    before, after = Ledger(1000), Ledger(1000)
    counted = before.count([call("a"), call("b", trace="u", scope="x")], [], 1, 0, 0)
    after.restore(1, 0, bytes(counted.facts), b"", {1: "duplicate.twin"}, settled=settled)
    assert not after.is_open(call_ref(1, 1))
    assert after.is_open(call_ref(1, 0)) != settled
    assert count(after, 2, call("a"), call("b", trace="u")) == {0, 1}
