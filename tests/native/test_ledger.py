"""The ledger with the native extension, held to the one without: the same rows, duplicates, roots,
verdicts and tables after any sequence of payloads, settling, and restarts.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.common.native import NATIVE
from gateway.counting.calls.digest import DIGEST_BYTES, LINK_ROW_BYTES, digest_rows
from gateway.counting.calls.ledger import Counted, Ledger
from gateway.counting.calls.resolve import Verdict
from gateway.counting.calls.rows import SPAN_KEYS, LateChunk, span_key
from gateway.rules.call import Call
from tests.support.calls import call, link, stream_begin, stream_end
from tests.support.growth import assert_linear
from tests.support.native import needs_native
from tests.support.scenarios import ALL

pytestmark = needs_native

SPANS = ("a", "b", "c", "d")
few = st.sampled_from
calls = st.builds(
    call,
    few(SPANS),
    trace=few(("t", "u")),
    parent=few(("", *SPANS, "x", "y")),
    at=few(((0, 1000), (100, 900), (60_000, 61_000))),
    tokens=few(((100, 20), (100, 21), (None, None))),
    response=few((None, None, "r1", "r2")),
    request=few((None, None, "q1", "q2")),
    service=few(("app", "other")),
    scope=few(("openai", "openai", "langchain")),
    failed=st.booleans(),
    log=few((False, False, True)),
    repeats=few((False, False, True)),
    product=few(("", "", "codex")),
    session=few((None, "s")),
    rank=few((1, 2)),
)
events = st.builds(call, st.just(""), trace=few(("", "t")), event=few(("e", "f")))
parts = st.builds(stream_begin, few(SPANS)) | st.builds(stream_end, few(SPANS), response=few((None, "r1")))
links = st.builds(link, few(("t", "u")), few(("x", "y", "a")), few(("", "x", "y", "a", "b")))
payload = st.tuples(st.just("count"), st.lists(calls | events | parts, max_size=12), st.lists(links, max_size=6))
many = st.tuples(
    st.just("count"),
    st.integers(0, 3).map(lambda n: [call(f"{n}-{i}", parent=f"p{i}", response=f"{n}-{i}") for i in range(150)]),
    st.just([]),
)
step = payload | payload | many | st.sampled_from(["settle", "prune", "restart", "bear"]).map(lambda name: (name,))


class Pair:
    """The same done to a ledger of each kind, and compared."""

    def __init__(self, max_keys: int) -> None:
        self.max_keys = max_keys
        self.chunks: dict[int, Counted] = {}
        """As the spool has them: of several payloads each."""
        self.dropped: dict[int, dict[int, str]] = {}
        self.merged: dict[int, set[int]] = {}
        self.settled = 0
        self.seq = 1
        self._open()

    def _open(self) -> None:
        self.ledgers = Ledger(self.max_keys, native=None), Ledger(self.max_keys, native=NATIVE)

    def count(self, calls: Sequence[Call], links: Sequence[bytes]) -> None:
        chunk = self.chunks.setdefault(self.seq, Counted())
        first = len(chunk.facts) // DIGEST_BYTES
        python, native = (x.count(calls, links, self.seq, first, self.seq) for x in self.ledgers)
        assert python == native
        chunk.facts += native.facts
        chunk.links += native.links
        self.seq += len(self.chunks[self.seq].facts) // DIGEST_BYTES > 20

    def settle(self) -> None:
        """The oldest chunk, as a settlement pass does."""
        self.settled += self.settled < self.seq
        seq = self.settled
        self.seq = max(self.seq, seq + 1)
        if seq not in self.chunks:
            return
        late = {at: self._late(at) for at in self.chunks if at < seq}
        roots, native_roots = (x.roots(seq) for x in self.ledgers)
        assert roots == native_roots
        for ref in roots:
            if self.ledgers[0].is_due(ref):
                (python, missing), (native, native_missing) = (x.cluster(ref, late) for x in self.ledgers)
                assert (python, missing) == (native, native_missing)
                verdict, native_verdict = self.ledgers[0].decide(python), self.ledgers[1].decide(native)
                assert verdict == native_verdict
                self._write(verdict)
        for ledger in self.ledgers:
            ledger.settled(seq)

    def _write(self, verdict: Verdict) -> None:
        for ref, reason in verdict.dropped.items():
            self.dropped.setdefault(ref >> 22, {})[ref >> 1 & (1 << 21) - 1] = reason
        for ref in verdict.merged:
            self.merged.setdefault(ref >> 22, set()).add(ref >> 1 & (1 << 21) - 1)

    def _late(self, seq: int) -> LateChunk:
        chunk = self.chunks[seq]
        return LateChunk(chunk.facts, chunk.links, frozenset(self.dropped.get(seq, ())))

    def prune(self) -> None:
        for ledger in self.ledgers:
            ledger.prune()

    def bear(self) -> None:
        for ledger in self.ledgers:
            ledger.bear([(link("t", "x")[:24], {"user": "u"})])

    def restart(self) -> None:
        """Read back from the rows that either implementation wrote."""
        self._open()
        for seq, chunk in self.chunks.items():
            for ledger in self.ledgers:
                ledger.restore(
                    seq, seq, chunk.facts, chunk.links, self.dropped.get(seq, {}),
                    settled=seq <= self.settled, merged=self.merged.get(seq, set()),
                )  # fmt: skip

    def compare(self) -> None:
        python, native = map(state_of, self.ledgers)
        assert python == native


def state_of(thing: Any) -> Any:
    """All that *thing* remembers, as plain values; of a table what it holds, whatever its order."""
    if callable(items := getattr(thing, "items", None)):
        return {key: state_of(value) for key, value in items()}
    if isinstance(thing, list | tuple | deque):
        return [state_of(value) for value in thing]
    names = {*getattr(thing, "__dict__", ()), *(name for kind in type(thing).__mro__ for name in slots_of(kind))}
    return {name: state_of(getattr(thing, name)) for name in names - {"_native"}} or thing


def slots_of(kind: type) -> Sequence[str]:
    return () if kind.__module__ == "builtins" else getattr(kind, "__slots__", ())


@given(st.lists(step, max_size=14), st.sampled_from([384, 2000]))
@settings(max_examples=100)
def test_both_count_and_decide_alike(steps: list[tuple[Any, ...]], max_keys: int) -> None:
    pair = Pair(max_keys)
    for name, *arguments in steps:
        getattr(pair, name)(*arguments)
        pair.compare()


@pytest.mark.parametrize("build", ALL)
def test_both_decide_each_situation_alike(build: Any) -> None:
    scenario = build(1)
    pair = Pair(2000)
    for each in scenario.calls:
        pair.count([each], scenario.links)
    pair.restart()
    pair.compare()
    for _ in range(pair.seq):
        pair.settle()
        pair.compare()


def test_the_rows_are_those_of_the_payload_where_nothing_relates_them() -> None:
    """No copy is made of what stands as it came."""
    rows = digest_rows([call(str(n), parent=f"p{n}") for n in range(10)])
    assert Ledger(1000, native=NATIVE).count_rows(rows, b"", 1, 0, 0).facts is rows


@pytest.mark.parametrize("rows", [b"x", bytes(DIGEST_BYTES - 1)])
def test_cut_rows_are_refused_and_nothing_is_counted(rows: bytes) -> None:
    ledger = Ledger(1000, native=NATIVE)
    with pytest.raises(ValueError, match="not whole rows"):
        ledger.count_rows(rows, b"", 1, 0, 0)
    with pytest.raises(ValueError, match="not whole rows"):
        ledger.count_rows(b"", b"x", 1, 0, 0)
    assert ledger.sizes()["spans"] == 0


def test_the_keys_of_spans_are_of_one_process() -> None:
    """One definition for both, which no sender can compute."""
    assert NATIVE is not None
    assert SPAN_KEYS is not None
    identity = link("t", "x")[:24]
    assert span_key(identity) == SPAN_KEYS.key(identity)
    assert span_key(identity) != NATIVE.SpanKeys().key(identity)
    assert 0 < span_key(identity) < 1 << 63


def test_counting_is_linear_also_where_every_row_is_rare() -> None:
    def count(n: int) -> None:
        ledger = Ledger(1_000_000, native=NATIVE)
        repeated = [call("same", tokens=(i, 1)) for i in range(8)] * (n // 8)
        counted = ledger.count(repeated, [link("t", f"{i}", "x") for i in range(n)], 1, 0, 0)
        assert len(counted.links) == n * LINK_ROW_BYTES

    assert_linear(count, 2000)
