"""Usage events and unit-cost records on their way in: each is known again by its id, and what it
adds is in the same commit.

An event may go to the `usage_events` lane as it is, into a total of a unit-cost stream, or
both; then it counts as two items. A repeat within the window adds nothing, whatever it states;
the outcome states whether both are the same.
"""

from collections import Counter
from collections.abc import Sequence

from spool.counters import Counters
from spool.events import FORGET_AT_ONCE, EventOutcome, IntakeOutcome, NewEvent, RepeatKey
from spool.record import UNIT_COST, USAGE_EVENTS
from spool.sql import unit_streams, unit_totals
from spool.sql.chunks import chunk_of, insert_chunk
from spool.sql.commits import Commits
from spool.sql.connection import Connection
from spool.sql.gathering import CHUNK_RECORDS
from spool.store import ItemCounts
from spool.unit_cost import Change, Created, Metered, Mismatch, Rules, Shape, Stream, StreamState

TAKEN_BYTES = 160
"""Of a row of `taken` with its entries in indexes, about."""


class SqlEvents:
    """`spool.store.EventStore`."""

    def __init__(self, spool: Commits, rules: Rules) -> None:
        self._spool = spool
        self._rules = rules

    async def keep_events(
        self, events: Sequence[NewEvent], rejected: Counter[str], *, counts_repeats: bool = True
    ) -> list[IntakeOutcome]:
        """Keep what is new, in one commit with the count of the *rejected* (by reason); each
        event's outcome. Raises SpoolError.

        Where no one sent them (*counts_repeats* is false), only what is kept was an item at all.
        """
        rules, now_ms = self._rules, self._spool.age_ms()
        with self._spool.reserve():
            kept = sum(event.event is not None for event in events)
            seqs = [self._spool.number_chunk() for _ in range(0, kept, CHUNK_RECORDS)]

            def keep(connection: Connection, counters: Counters) -> list[IntakeOutcome]:
                outcomes = keep_events(connection, counters, events, rules, seqs, now_ms)
                counters.add(_item_counts(events, outcomes, rejected, counts_repeats=counts_repeats))
                return outcomes

            asked = self._spool.ask(keep)
        outcomes = await asked
        self._spool.wake(USAGE_EVENTS)
        self._spool.wake(UNIT_COST)
        return outcomes

    async def keep_records(self, records: Sequence[Metered], repeat_key: RepeatKey | None) -> IntakeOutcome:
        """Keep all *records* of one request or none.

        Without a *repeat_key* a repeat cannot be known. Raises SpoolError.
        """
        rules, now_ms = self._rules, self._spool.age_ms()
        outcome = await self._spool.ask(
            lambda c, counters: keep_records(c, counters, records, repeat_key, rules, now_ms)
        )
        self._spool.wake(UNIT_COST)
        return outcome

    async def create_stream(self, name: str, shape: Shape) -> Created | Mismatch:
        """Make a stream before its first record, or state that it is there. Raises SpoolError."""
        rules, now_ms = self._rules, self._spool.age_ms()
        made = await self._spool.ask(lambda c, counters: unit_streams.create(c, counters, name, shape, rules, now_ms))
        self._spool.wake(UNIT_COST)
        return made

    async def delete_stream(self, name: str, repeat_key: RepeatKey | None, *, forced: bool) -> EventOutcome | Mismatch:
        """Delete a stream with what waits in it; a repeat deletes nothing. Raises SpoolError."""
        now_ms = self._spool.age_ms()
        outcome = await self._spool.ask(
            lambda c, counters: delete_stream(c, counters, name, repeat_key, now_ms, forced=forced)
        )
        self._spool.wake(UNIT_COST)
        return outcome

    async def streams(self) -> list[StreamState]:
        """The streams in use, by name. Raises SpoolError."""
        return await self._spool.look(unit_streams.states)

    async def note_rejected(self, items: int, reason: str) -> None:
        """Count a request that was refused as a whole."""
        await self._spool.ask(lambda _, counters: counters.add(_rejected(items, reason)))

    async def forget(self, taken_before_ms: int) -> int:
        """Forget some of what was taken before then, the oldest first; how many."""
        forgotten = await self._spool.ask(lambda c, _: forget(c, taken_before_ms))
        self._spool.freed(forgotten * TAKEN_BYTES)
        return forgotten


def keep_events(
    connection: Connection,
    counters: Counters,
    events: Sequence[NewEvent],
    rules: Rules,
    seqs: Sequence[int],
    now_ms: int,
) -> list[IntakeOutcome]:
    """Keep what is new of *events* in the present commit; each one's outcome."""
    streams: dict[str, Stream] = {}
    changes: dict[str, list[Change]] = {}
    records: list[bytes] = []
    outcomes: list[IntakeOutcome] = []
    for event in events:
        outcome = _taken(connection, event, streams, rules, now_ms)
        outcomes.append(outcome)
        if outcome == "kept":
            if event.event is not None:
                records.append(event.event)
            if event.metered is not None:
                changes.setdefault(event.metered.stream, []).append(event.metered.change)
    for name, some in changes.items():
        unit_totals.apply(connection, counters, streams[name], some, now_ms)
    _insert_events(connection, counters, records, seqs, now_ms)
    return outcomes


def _taken(
    connection: Connection, event: NewEvent, streams: dict[str, Stream], rules: Rules, now_ms: int
) -> IntakeOutcome:
    """What becomes of one event; its id is noted only when it is kept.

    A repeat changes nothing, so it makes no stream, and is one whatever its stream has become.
    """
    metered = event.metered
    known = None if metered is None else streams.get(metered.stream)
    if metered is not None and (known is None or known.shape != metered.shape):
        if repeat := known_repeat(connection, event.repeat_key):
            return repeat
        fits = unit_totals.fitting(connection, metered, rules)
        if isinstance(fits, Mismatch):
            return fits
        streams[metered.stream] = fits
    return take_repeat_key(connection, event.repeat_key, now_ms)


def take_repeat_key(connection: Connection, repeat_key: RepeatKey, now_ms: int) -> EventOutcome:
    """Note that *repeat_key* was taken, unless it was before."""
    noted = connection.execute(
        "INSERT INTO taken (key, content, taken_ms) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING",
        (*repeat_key, now_ms),
    )
    if noted.rowcount:
        return "kept"
    return known_repeat(connection, repeat_key) or "conflict"


def known_repeat(connection: Connection, repeat_key: RepeatKey) -> EventOutcome | None:
    """What *repeat_key* is of what was taken; None where it is new."""
    row = connection.execute("SELECT content FROM taken WHERE key=?", (repeat_key.key,)).fetchone()
    if row is None:
        return None
    return "duplicate" if row[0] == repeat_key.content else "conflict"


def _insert_events(
    connection: Connection, counters: Counters, records: Sequence[bytes], seqs: Sequence[int], now_ms: int
) -> None:
    for seq, start in zip(seqs, range(0, len(records), CHUNK_RECORDS), strict=False):
        some = records[start : start + CHUNK_RECORDS]
        insert_chunk(connection, chunk_of(seq, USAGE_EVENTS, now_ms, some))
    counters.keep(USAGE_EVENTS, len(records))


def _item_counts(
    events: Sequence[NewEvent], outcomes: Sequence[IntakeOutcome], rejected: Counter[str], *, counts_repeats: bool
) -> ItemCounts:
    counts = ItemCounts(received=rejected.total(), rejected=rejected.total())
    reasons = Counter({f"rejected.{reason}": n for reason, n in rejected.items()})
    for event, outcome in zip(events, outcomes, strict=True):
        if outcome != "kept" and not counts_repeats:
            continue
        counts.received += event.items
        if outcome == "kept":
            counts.kept += event.items
        elif isinstance(outcome, Mismatch):
            counts.rejected += event.items
            reasons[f"rejected.{outcome.code}"] += event.items
        else:
            counts.duplicate += event.items
            reasons[f"duplicate.{'event_id' if outcome == 'duplicate' else 'event_id_of_another'}"] += event.items
    counts.reasons = dict(reasons)
    return counts


def keep_records(
    connection: Connection,
    counters: Counters,
    records: Sequence[Metered],
    repeat_key: RepeatKey | None,
    rules: Rules,
    now_ms: int,
) -> IntakeOutcome:
    """All of one request or nothing. The records, one or more, may be of several streams."""
    count = len(records)
    if repeat_key is not None and (repeat := known_repeat(connection, repeat_key)):
        counters.add(_repeated(repeat, count))
        return repeat
    by_stream: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        by_stream.setdefault(record.stream, []).append(number)
    for numbers in by_stream.values():
        found = unit_totals.why_not(connection, [records[number] for number in numbers])
        if found is not None:
            counters.add(_rejected(count, found.code))
            return found._replace(number=numbers[found.number])
    if found := unit_totals.why_no_room(connection, by_stream, rules):
        counters.add(_rejected(count, found.code))
        return found
    for numbers in by_stream.values():
        stream = unit_totals.stream_for(connection, records[numbers[0]], rules)
        changes = (records[number].change for number in numbers)
        unit_totals.apply(connection, counters, stream, changes, now_ms)
    counters.add(ItemCounts(received=count, kept=count))
    return "kept" if repeat_key is None else take_repeat_key(connection, repeat_key, now_ms)


def delete_stream(
    connection: Connection,
    counters: Counters,
    name: str,
    repeat_key: RepeatKey | None,
    now_ms: int,
    *,
    forced: bool,
) -> EventOutcome | Mismatch:
    """Delete the stream, unless this is the repeat of a deletion."""
    if repeat_key is not None and (known := known_repeat(connection, repeat_key)):
        counters.add(_repeated(known, 1))
        return known
    found = unit_streams.delete(connection, counters, name, now_ms, forced=forced)
    if found is not None:
        return found
    return "kept" if repeat_key is None else take_repeat_key(connection, repeat_key, now_ms)


def _repeated(repeat: EventOutcome, items: int) -> ItemCounts:
    """Of a request whose key is known: the same again, or another one, which is refused."""
    if repeat == "conflict":
        return _rejected(items, "idempotency_key_reused")
    return ItemCounts(received=items, duplicate=items, reasons={"duplicate.idempotency_key": items})


def _rejected(items: int, reason: str) -> ItemCounts:
    """Of a request that was refused as a whole."""
    return ItemCounts(received=items, rejected=items, reasons={f"rejected.{reason}": items})


def forget(connection: Connection, taken_before_ms: int) -> int:
    return connection.execute(
        "DELETE FROM taken WHERE key IN (SELECT key FROM taken WHERE taken_ms<? ORDER BY taken_ms LIMIT ?)",
        (taken_before_ms, FORGET_AT_ONCE),
    ).rowcount
