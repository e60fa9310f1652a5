"""Looking on while payloads are counted: the ledger and the aggregates as they are,
that also note what they decide.

Nothing is decided here, so an explanation cannot differ from the count; nothing is noted
where no one asks for one.
"""

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import NamedTuple, cast

import orjson

from gateway.common.native import NATIVE
from gateway.counting.calls.cluster import Cluster
from gateway.counting.calls.digest import REF_STEP, CallDigest, call_ref, keys_of
from gateway.counting.calls.ledger import Counted, Ledger
from gateway.counting.calls.resolve import Verdict
from gateway.counting.metrics.pending import Facts
from gateway.counting.metrics.series import State
from gateway.pipeline.metrics import CountedPoints, MetricsPipeline, Price, Settings, Waiting
from gateway.pipeline.settle import Settler
from gateway.rules.points import UsagePoints
from spool.record import Record
from spool.series import Ending, Held
from spool.store import CountingStore


class CountedReport(NamedTuple):
    """One call as the ledger took it."""

    identity: bytes
    ref: int
    """Its reference; of a duplicate that of the first report with its identity."""
    is_duplicate: bool


class Outcome(NamedTuple):
    """What settling dropped a report for."""

    reason: str
    """`duplicate.<reason>` or `suppressed.<reason>`."""
    by: tuple[int, ...]
    """References of the reports that stand for it, or that stand above or below it."""
    rank: int = 0
    """Of `suppressed.other_report`: the rank that counts."""


class WatchedLedger(Ledger):
    def __init__(self, max_keys: int, *, native: ModuleType | None = NATIVE) -> None:
        super().__init__(max_keys, native=native)
        self.reports: list[CountedReport] = []
        self.outcomes: dict[int, Outcome] = {}
        self.merged: dict[int, list[int]] = {}
        """Reference that stands -> the references of its call, fullest first."""
        self._first: dict[bytes, int] = {}

    def count_rows(self, rows: bytes, links: bytes, seq: int, first: int, received_ms: int) -> Counted:
        """As `Ledger.count`, noting the outcome of each row."""
        counted = super().count_rows(rows, links, seq, first, received_ms)
        ref = call_ref(seq, first)
        for i, (identity, *_) in enumerate(keys_of(rows)):
            if i in counted.duplicates:
                self.reports.append(CountedReport(identity, self._first.get(identity, 0), is_duplicate=True))
            else:
                self._first[identity] = ref
                self.reports.append(CountedReport(identity, ref, is_duplicate=False))
                ref += REF_STEP
        return counted

    def decide(self, cluster: Cluster) -> Verdict:
        verdict = super().decide(cluster)
        self.merged.update(verdict.merged)
        for ref, reason in verdict.dropped.items():
            member = cluster.members.get(ref)
            rank = self._counted_rank(member.fact) if member is not None else 0
            self.outcomes[ref] = Outcome(reason, tuple(self._by(ref, reason, cluster, verdict)), rank)
        return verdict

    def _by(self, ref: int, reason: str, cluster: Cluster, verdict: Verdict) -> Iterator[int]:
        """The references that *ref* was dropped for."""
        if reason == "suppressed.ancestor":
            yield from (below for below, above in cluster.parents.items() if ref in above)
        elif reason in {"suppressed.parent_forwarded", "suppressed.part"}:
            yield from cluster.parents.get(ref, ())
        elif ref in cluster.inside_dropped:
            yield self._ref_of(cluster.inside_dropped[ref])
        else:
            yield from (slot for slot, refs in verdict.merged.items() if ref in refs)

    def _ref_of(self, fact: CallDigest) -> int:
        return self._first.get(fact.trace_id + fact.span_id, 0)

    def standing(self, ref: int, seen: frozenset[int] = frozenset()) -> set[int]:
        """References of the reports that stand for the one at *ref*:
        itself, unless it was dropped.
        """
        outcome = self.outcomes.get(ref)
        if outcome is None or ref in seen:
            return {ref} - {0}
        return {found for by in outcome.by for found in self.standing(by, seen | {ref})} - {ref}


class WatchedAggregates(MetricsPipeline):
    def __init__(self, spool: CountingStore, settings: Settings, *, price: Price, now_ms: Callable[[], int]) -> None:
        super().__init__(spool, settings, price=price, now_ms=now_ms)
        self.counted: list[tuple[UsagePoints, CountedPoints]] = []
        """Each payload of metrics, in its turn."""
        self.endings: dict[str, str | None] = {}
        """Record id -> `suppressed.<reason>`; None for what went on."""

    def count(self, payload: Waiting, known: Mapping[bytes, State], now_ms: int) -> CountedPoints:
        counted = super().count(payload, known, now_ms)
        self.counted.append((payload.measured, counted))
        return counted

    def decided(self, held: Held, facts: Facts) -> tuple[Ending, Facts | None]:
        ending, said = super().decided(held, facts)
        self.endings[cast("Record", orjson.loads(held.record))["record_id"]] = ending.outcome
        return ending, said


class WatchedCounting(Settler):
    """`Settler` with both of them in place."""

    ledger: WatchedLedger
    aggregates: WatchedAggregates
    ledger_type = WatchedLedger
    aggregates_type = WatchedAggregates
