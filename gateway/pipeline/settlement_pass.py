"""One settlement pass: clusters of reports become verdicts, and verdicts
become changes of records.

Records of one call are merged, rows of settled chunks are read back where a late report
refers to them. A large cluster is decided in parts (`gateway.counting.calls.parts`),
whose changes are committed as they come.
"""

import time
from asyncio import sleep
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar, cast

import orjson
import structlog

from gateway.common.contract.flags import BASIS_ASSUMED, BASIS_LEARNT, UNPRICED
from gateway.common.traceback_summary import places
from gateway.counting.bases import Instrumentation, LearntBases, learnt_by
from gateway.counting.calls.digest import split_ref
from gateway.counting.calls.ledger import Assumed, ForwardedAggregate, Ledger
from gateway.counting.calls.merge import cached_of, merge
from gateway.counting.calls.parts import MAX_STANDING, Closure
from gateway.counting.calls.resolve import Verdict
from gateway.counting.metrics.sources import CALLS_REPORTED
from gateway.counting.readings import Readings
from gateway.pipeline.late_chunks import LateChunks
from gateway.pipeline.metrics import Price
from spool.clock import ms_of
from spool.errors import SpoolError
from spool.record import AI_TELEMETRY, Record
from spool.settling import MERGED, Change, Position
from spool.store import CountingStore

log = structlog.get_logger()
RefT = TypeVar("RefT")

CONFLICT = "kept.conflict"
INHERITED = "kept.inherited"
LEARNT = "kept.learnt"
"""Its input is read as other calls of its instrumentation proved it."""
LOOP_TURN_S = 0.01
"""How long clusters are decided before other tasks of the event loop run."""
READ_AT_ONCE = 500
"""Records that are read together, which are in memory at once."""
COMMIT_CHANGES = 500
"""Changes of a large cluster that are committed before its next part is decided."""


class SettlementPass:
    """Decides the calls of the chunks *due*; after a failure `undo` opens
    again what was not committed.
    """

    def __init__(
        self,
        ledger: Ledger,
        spool: CountingStore,
        price: Price,
        late: LateChunks,
        due: Sequence[int],
        waiting: AbstractSet[int],
        lost_appends: int,
        end: int,
        bases: LearntBases,
        readable_seq: int,
        is_covered: Callable[[Record, ForwardedAggregate], bool],
    ) -> None:
        """*waiting*: references of unfinished calls, which get no verdict of their own yet.

        *lost_appends*: how many the spool had lost when the pass began
        (`CountingStore.settle`).

        *end*: the reference from which on payloads may not be counted whole.

        *readable_seq*: chunks up to this one are whole.

        *is_covered*: whether calls cover an aggregate of another gateway.
        """
        self.changes: dict[Position, Change] = {}
        """What is to be written with the settled chunks."""
        self.readings: dict[Instrumentation, Readings] = {}
        """How inputs were read of which no table knows what they hold."""
        self._ledger = ledger
        self._spool = spool
        self._price = price
        self._due = due
        self._waiting = waiting
        self._lost_appends = lost_appends
        self._end = end
        self._bases = bases
        self._readable_seq = readable_seq
        self._is_covered = is_covered
        self._committed: set[Position] = set()
        self._verdicts: list[Verdict] = []
        self._late = late
        self._decided: set[int] = set()
        self._turn_ends = time.monotonic() + LOOP_TURN_S

    async def decide(self) -> None:
        """Decide each cluster once.

        Raises SpoolError when the spool cannot be read or written.
        """
        for seq in self._due:
            for ref in self._ledger.roots(seq):
                if ref not in self._waiting and ref not in self._decided and self._ledger.is_due(ref):
                    await self._yield_in_time()
                    try:
                        await self._decide_around(ref)
                        self._late.prune()
                    except SpoolError:
                        raise
                    except Exception as error:  # noqa: BLE001 one cluster that we cannot decide must not keep all others
                        log.error("a cluster stays undecided", error=type(error).__name__, at=places(error))  # noqa: TRY400 the text may quote data
        await self._drop_covered()
        await self._learn()
        if len(self._ledger.inheritance):
            await self._inherit()

    async def _drop_covered(self) -> None:
        """Drop the aggregates of other gateways that calls cover."""
        aggregates = [each for seq in self._due for each in self._ledger.aggregates(seq)]
        for part in parts_of([each for each in aggregates if each.ref not in self._waiting]):
            for each, record in zip(part, await self._records([each.ref for each in part]), strict=True):
                if record is not None and self._is_covered(record, each):
                    at = position(each.ref)
                    self.changes[at] = Change(*at, CALLS_REPORTED, None)
            await self._yield_in_time()

    async def _learn(self) -> None:
        """Note what calls prove of their inputs, also calls that settle later; then read those of
        which nothing shows it.
        """
        proving = self._ledger.proving(self._readable_seq)
        for shown, record in zip(proving, await self._records([each.ref for each in proving]), strict=True):
            if record is not None:
                self._prove(record, shown.scope, excludes=shown.excludes)
                self._see(record, Readings(proved=shown.calls))
        self._ledger.proved(self._readable_seq)
        slots = {ref: slot for verdict in self._verdicts for slot, refs in verdict.merged.items() for ref in refs}
        assumed = [each for seq in self._due for each in self._ledger.assumed(seq)]
        for part in parts_of([each for each in assumed if each.ref in slots]):
            for each, own in zip(part, await self._records([each.ref for each in part]), strict=True):
                merged = _record(self.changes, position(slots[each.ref]))
                if own is not None and merged is not None and BASIS_ASSUMED not in merged["flags"]:
                    self._prove_by_merge(own, merged, each.scope)
            await self._yield_in_time()
        learnt = dict.fromkeys(slots.get(each.ref, each.ref) for each in assumed if self._bases.knows(each.scope))
        for refs in parts_of(list(learnt)):
            for ref, record in zip(refs, await self._standing(refs), strict=True):
                if record is not None and BASIS_ASSUMED in record["flags"]:
                    self._read_as_learnt(ref, record)
                    await self._yield_in_time()
        rest = {slots.get(each.ref, each.ref): each for each in reversed(assumed)}
        await self._see_assumed({slot: each for slot, each in rest.items() if slot not in learnt})

    async def _see_assumed(self, assumed: Mapping[int, Assumed]) -> None:
        """Note calls of instrumentations of which nothing is known, each by where its record is;
        one of those alike is read.
        """
        alike: dict[tuple[int, int, int], list[int]] = {}
        for ref, each in assumed.items():
            change = self.changes.get(position(ref))
            if self._ledger.settles(ref) and not (change is not None and change.record is None):
                alike.setdefault((each.source, each.scope, each.model), []).append(ref)
        for part in parts_of(list(alike.values())):
            for refs, record in zip(part, await self._standing([refs[0] for refs in part]), strict=True):
                if record is not None and BASIS_ASSUMED in record["flags"]:
                    tokens = sum(assumed[ref].input_tokens for ref in refs)
                    self._see(record, Readings(assumed=len(refs), tokens=tokens))

    def _see(self, record: Record, readings: Readings) -> None:
        by = learnt_by(record)
        if by is not None:
            self.readings.setdefault(by.instrumentation, Readings()).add(readings)

    async def _standing(self, refs: Sequence[int]) -> list[Record | None]:
        """The record at each reference as it will stand; None where it does not, or waits."""
        unread = [
            ref
            for ref in refs
            if not (ref in self._waiting or position(ref) in self._committed or position(ref) in self.changes)
            and self._ledger.settles(ref)
        ]
        read = dict(zip(unread, await self._records(unread), strict=True)) if unread else {}
        return [_record(self.changes, position(ref)) or read.get(ref) for ref in refs]

    def _prove(self, record: Record, scope: int, *, excludes: bool) -> None:
        by = learnt_by(record)
        if by is not None:
            self._bases.note(by, scope, excludes=excludes, now_ms=self._spool.wall_ms())

    def _prove_by_merge(self, own: Record, merged: Record, scope: int) -> None:
        """Other reports of the call, *merged* with it, show what the input of *own* holds."""
        stated, whole = own["usage"].get("input_tokens"), merged["usage"].get("input_tokens")
        if stated is not None and whole in {stated, stated + cached_of(own["usage"])}:
            self._prove(own, scope, excludes=whole != stated)
            self._see(own, Readings(proved=1))

    def _read_as_learnt(self, ref: int, record: Record) -> None:
        by = learnt_by(record)
        excludes = None if by is None else self._bases.excludes(by)
        if excludes is None:
            self._see(record, Readings(assumed=1, tokens=record["usage"].get("input_tokens") or 0))
            return
        self._see(record, Readings(learnt=1))
        record["flags"] = [BASIS_LEARNT if flag == BASIS_ASSUMED else flag for flag in record["flags"]]
        if excludes:
            usage = record["usage"]
            usage["input_tokens"] = (usage.get("input_tokens") or 0) + cached_of(usage)
            self._estimate_anew(record)
        at = position(ref)
        self._change(ref, self.changes[at].outcome if at in self.changes else LEARNT, record)

    async def _inherit(self) -> None:
        """Complete the calls that stand by what spans above them state."""
        merged = {slot: refs for verdict in self._verdicts for slot, refs in verdict.merged.items()}
        heirs: dict[int, dict[str, str]] = {}
        for seq in self._due:
            for ref in self._ledger.heirs(seq):
                await self._yield_in_time()
                stated = self._stated_above(merged.get(ref, (ref,)))
                if stated and ref not in self._waiting and position(ref) not in self._committed:
                    heirs[ref] = stated
        unread = [ref for ref in heirs if position(ref) not in self.changes]
        read = dict(zip(unread, await self._records(unread), strict=True)) if unread else {}
        for ref, stated in heirs.items():
            at = position(ref)
            record = _record(self.changes, at) or read.get(ref)
            if record is not None and record["kind"] == "call" and _completed(record, stated):
                self._change(ref, self.changes[at].outcome if at in self.changes else INHERITED, record)

    def _stated_above(self, refs: Sequence[int]) -> dict[str, str]:
        """What the reports of one call inherit, of several the first that inherits a field."""
        found: dict[str, str] = {}
        for ref in refs:
            found = {**self._ledger.inherited(ref), **found}
        return found

    def undo(self) -> None:
        """The changes could not be written: what their verdicts fixed is open again."""
        for verdict in self._verdicts:
            self._ledger.undecide(verdict)
        self._ledger.unwritten()

    def waits(self, ref: int) -> bool:
        """Whether no verdict of this pass concerns the report at *ref*."""
        at = position(ref)
        return self._ledger.is_open(ref) and at not in self.changes and at not in self._committed

    async def _yield_in_time(self) -> None:
        if time.monotonic() > self._turn_ends:
            await sleep(0)
            self._turn_ends = time.monotonic() + LOOP_TURN_S

    async def _decide_around(self, ref: int) -> None:
        """Decide the cluster around *ref*; no other cluster shares its reports."""
        while True:
            cluster, missing = self._ledger.cluster(ref, self._late)
            if cluster.is_large:
                await self._decide_parts(ref)
                return
            if not missing:
                self._decided.update(cluster.members)
                self._verdicts.append(self._ledger.decide(cluster))
                await self._note(self._verdicts[-1], self._due[-1])
                return
            await self._late.read(missing)

    async def _decide_parts(self, ref: int) -> None:
        """Decide the large cluster around *ref*, each of its reports once."""
        if self._ledger.is_parted(ref):  # a call that came in below it since
            await self._decide_part([ref], (), flagged=False)
            return
        closure = Closure()
        for _ in self._ledger.closure(ref, self._late, closure, self._end):
            await self._yield_in_time()
        parts = closure.parts()
        standing: list[int] = []
        for part in parts:
            await self._yield_in_time()
            beside = [*standing, *(entry.ref for entry in part if entry.stands)]
            refs = [entry.ref for entry in part if not entry.stands]
            if refs:
                verdict = await self._decide_part(refs, beside, flagged=len(parts) > 1)
                beside = [at for at in (*beside, *refs) if at not in verdict.dropped]
            standing = self._last(beside)
            if len(self.changes) >= COMMIT_CHANGES:
                await self._commit()

    def _last(self, refs: Sequence[int]) -> list[int]:
        """The last of *refs* that stand alone, and the last that stand for several reports."""
        alone = [ref for ref in refs if self._ledger.is_open(ref)]
        merged = [ref for ref in refs if not self._ledger.is_open(ref)]
        return [*alone[-MAX_STANDING:], *merged[-MAX_STANDING:]]

    async def _decide_part(self, refs: Sequence[int], standing: Sequence[int], *, flagged: bool) -> Verdict:
        cluster, missing = self._ledger.part(refs, standing, self._late)
        while missing:
            await self._late.read(missing)
            cluster, missing = self._ledger.part(refs, standing, self._late)
        verdict = self._ledger.decide_part(cluster, refs, flagged=flagged)
        self._verdicts.append(verdict)
        # Its calls get no other verdict when they fall due, so all of them are flagged now.
        await self._note(verdict, max(split_ref(at).seq for at in (*refs, *cluster.members)))
        return verdict

    async def _commit(self) -> None:
        """Write the changes so far; no chunk is released."""
        await self._spool.settle(AI_TELEMETRY, 0, list(self.changes.values()), lost_appends=self._lost_appends)
        self._ledger.written()
        self._committed.update(self.changes)
        self.changes.clear()
        self._verdicts.clear()

    async def _note(self, verdict: Verdict, flag_through_seq: int) -> None:
        """Turn a verdict into changes of records that are still in the spool.

        *flag_through_seq*: the last chunk whose records get the flag `conflict`; those of
        later chunks get it when due.
        """
        changes = self.changes
        for ref, outcome in verdict.dropped.items():
            if self._ledger.settles(ref):
                at = position(ref)
                changes[at] = Change(*at, outcome, None)
        wanted = list(dict.fromkeys(ref for slot, refs in verdict.merged.items() for ref in (slot, *refs)))
        found = dict(zip(wanted, await self._records(wanted), strict=True)) if wanted else {}
        for slot, refs in verdict.merged.items():
            own = found[slot]
            known = [report for ref in refs if (report := found[ref]) is not None]
            if own is not None:
                stamped = next((report for ref in refs if ref in verdict.stamped and (report := found[ref])), None)
                merged = merge(known, own["record_id"], stamped=stamped)
                self._estimate_anew(merged)
                self._change(slot, MERGED, merged)
        flagged = [
            ref for ref in verdict.conflicts if self._ledger.settles(ref) and position(ref).seq <= flag_through_seq
        ]
        unread = [ref for ref in flagged if position(ref) not in changes]
        read = dict(zip(unread, await self._records(unread), strict=True)) if unread else {}
        for ref in flagged:
            at = position(ref)
            if at not in changes or changes[at].record is not None:
                record = _record(changes, at) or read.get(ref)
                if record is not None and "conflict" not in record["flags"]:
                    outcome = CONFLICT if self._ledger.is_open(ref) else MERGED
                    self._change(ref, outcome, {**record, "flags": [*record["flags"], "conflict"]})

    def _estimate_anew(self, record: Record) -> None:
        """Estimate the cost of a merged record again, from all its counts."""
        cost = record.get("cost")
        if record["billed"] and (cost is None or cost["source"] == "estimated"):
            record.pop("cost", None)
            record["flags"] = [flag for flag in record["flags"] if flag != UNPRICED]
            self._price(record, ms_of(record["started_at"]))

    async def _records(self, refs: Sequence[int]) -> list[Record | None]:
        """The record of each reference; None where it is gone or damaged."""
        found = await self._spool.read(AI_TELEMETRY, [position(ref) for ref in refs])
        return [None if record is None else loaded(record) for record in found]

    def _change(self, ref: int, outcome: str, record: Record) -> None:
        at = position(ref)
        self.changes[at] = Change(*at, outcome, orjson.dumps(record))


def parts_of(refs: Sequence[RefT]) -> Iterator[Sequence[RefT]]:
    """*refs*, as many together as are read at once."""
    return (refs[at : at + READ_AT_ONCE] for at in range(0, len(refs), READ_AT_ONCE))


def _record(changes: dict[Position, Change], at: Position) -> Record | None:
    change = changes.get(at)
    return None if change is None or change.record is None else cast("Record", orjson.loads(change.record))


def _completed(record: Record, stated: Mapping[str, str]) -> bool:
    """Whether *record* lacked something that is *stated*, which it has now."""
    attribution = cast("dict[str, str | None]", record["attribution"])
    news = {field: value for field, value in stated.items() if attribution.get(field) is None}
    attribution.update(news)
    return bool(news)


def loaded(record: bytes) -> Record | None:
    """The record; None for damaged bytes."""
    try:
        return cast("Record", orjson.loads(record))
    except orjson.JSONDecodeError:
        log.warning("a record in the spool cannot be read")
        return None


def position(ref: int) -> Position:
    where = split_ref(ref)
    return Position(where.seq, where.idx)
