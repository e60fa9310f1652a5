"""Aggregates in spool.db: series and their last values, records that are held back, and
who was seen to report what.

What a payload of metrics changes is written in one operation, so in one commit: the series'
new values with the aggregates that follow from them. A held aggregate is kept and pending in
every lane of AI records; when its time is up it moves into a chunk, or is dropped, in one
operation with the counters.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import itemgetter

from spool.counters import Counters
from spool.record import AI_TELEMETRY, Lane
from spool.series import FORGET_AT_ONCE, KEYS_AT_ONCE, SORT_AT_ONCE, Ending, Held, NewHeld, SeriesRow, SightingRow
from spool.sql.chunks import chunk_of, insert_chunk
from spool.sql.commits import Commits
from spool.sql.connection import INDEXED_CHARS, Connection
from spool.sql.rows import held
from spool.store import ItemCounts


class SqlSeries:
    """`spool.store.SeriesStore`."""

    def __init__(self, spool: Commits) -> None:
        self._spool = spool

    async def series(self, keys: Sequence[bytes]) -> list[SeriesRow]:
        """The rows of *keys* that are known."""
        found: list[SeriesRow] = []
        for start in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[start : start + KEYS_AT_ONCE]
            found += await self._spool.ask(partial(_read_some, some))
        return found

    def keep(
        self,
        held: Sequence[NewHeld],
        series: Sequence[SeriesRow],
        sightings: Sequence[SightingRow],
        counts: ItemCounts,
        received_ms: int,
    ) -> Awaitable[None]:
        """Write what payloads of metrics came to, in one commit; done when on disk.

        Raises SpoolError, and then nothing is kept.
        """
        lanes = self._spool.followers(AI_TELEMETRY)

        def keep(connection: Connection, counters: Counters) -> None:
            """Write series, pending aggregates and what follows from them in one commit."""
            write_series(connection, series)
            write_sightings(connection, sightings)
            connection.executemany(
                "INSERT INTO held (received_ms, facts, record) VALUES (?, ?, ?)",
                [(received_ms, new.facts, new.record) for new in held],
            )
            for lane in lanes:
                counters.keep(lane, len(held))
            counters.add(counts)

        return self._spool.ask(keep)

    def note(self, sightings: Sequence[SightingRow]) -> Awaitable[None]:
        return self._spool.ask_with_appends(lambda c, _: write_sightings(c, sightings))

    async def sightings(self, seen_after_ms: int, most: int) -> list[SightingRow]:
        """The latest *most* sightings since then, oldest first."""
        return await self._spool.ask(lambda c, _: read_sightings(c, seen_after_ms, most))

    async def oldest_held_ms(self) -> int | None:
        """When the oldest aggregate that waits was received."""
        return await self._spool.ask(lambda c, _: oldest_held_ms(c))

    async def held_count(self) -> int:
        """How many aggregates wait."""
        return await self._spool.ask(lambda c, _: held(c, AI_TELEMETRY))

    async def due(self, received_through_ms: int, most: int) -> list[Held]:
        """Up to *most* aggregates that were received up to then, oldest first."""
        return await self._spool.ask(lambda c, _: due_held(c, received_through_ms, most))

    async def turn_back(self, now_ms: int) -> None:
        """The clock was set back to *now_ms*: an aggregate received later than that waits no longer
        than one received now.
        """
        await self._spool.ask(
            lambda c, _: c.execute("UPDATE held SET received_ms=? WHERE received_ms>?", (now_ms, now_ms)).rowcount
        )

    async def end(self, endings: Sequence[Ending], now_ms: int, announce: Callable[[int], None]) -> None:
        """Let held aggregates go on, in a chunk of their own, or drop them; all of it or,
        with SpoolError, nothing.

        *announce* gets the chunk's number before anything can come after it.
        """
        lanes = self._spool.followers(AI_TELEMETRY)
        with self._spool.reserve():
            seq = 0
            if any(ending.outcome is None for ending in endings):
                seq = self._spool.number_chunk()
                announce(seq)
            ended = self._spool.ask(
                lambda connection, counters: end_held(connection, counters, lanes, endings, seq, now_ms)
            )
        await ended

    async def forget(self, now_ms: int, seen_before_ms: int) -> int:
        """Forget some of the series that no one repeated for long, and of the
        sightings before then; how many.
        """
        return await self._spool.ask(lambda c, _: forget(c, now_ms, seen_before_ms))


def _read_some(keys: Sequence[bytes], connection: Connection, _: Counters) -> list[SeriesRow]:
    return read_series(connection, keys)


def read_series(connection: Connection, keys: Sequence[bytes]) -> list[SeriesRow]:
    places = ",".join("?" * len(keys))
    found = connection.execute(
        f"SELECT key, start_ns, time_ns, value, measurements, seen_ms, until_ms FROM series WHERE key IN ({places})",  # noqa: S608 question marks only
        list(keys),
    )
    return [SeriesRow(*row) for row in found]


def write_series(connection: Connection, series: Sequence[SeriesRow]) -> None:
    """Write *series* in the order of their keys, some at a time: each page of the table is then
    changed once (measured: half the time of keys in any order).
    """
    for start in range(0, len(series), SORT_AT_ONCE):
        _write_in_order(connection, sorted(series[start : start + SORT_AT_ONCE], key=itemgetter(0)))


def _write_in_order(connection: Connection, series: Sequence[SeriesRow]) -> None:
    connection.executemany(
        "INSERT INTO series (key, start_ns, time_ns, value, measurements, seen_ms, until_ms) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (key) DO UPDATE SET start_ns=excluded.start_ns, time_ns=excluded.time_ns, value=excluded.value,"
        " measurements=excluded.measurements, seen_ms=excluded.seen_ms, until_ms=excluded.until_ms",
        series,
    )


def write_sightings(connection: Connection, sightings: Sequence[SightingRow]) -> None:
    ordered = sorted(sightings)
    connection.executemany(
        f"UPDATE sighting SET seen_ms=? WHERE {_WHOSE} AND seen_ms<?",  # noqa: S608 - own SQL
        [(seen_ms, whose, whose[:INDEXED_CHARS], seen_ms) for whose, seen_ms in ordered],
    )
    connection.executemany(
        "INSERT INTO sighting (whose, seen_ms) SELECT CAST(? AS TEXT), CAST(? AS BIGINT)"  # noqa: S608 - own SQL
        f" WHERE NOT EXISTS (SELECT 1 FROM sighting WHERE {_WHOSE})",
        [(whose, seen_ms, whose, whose[:INDEXED_CHARS]) for whose, seen_ms in ordered],
    )


_WHOSE = f"whose=? AND substr(whose, 1, {INDEXED_CHARS})=?"


def read_sightings(connection: Connection, seen_after_ms: int, most: int) -> list[SightingRow]:
    found = connection.execute(
        "SELECT whose, seen_ms FROM sighting WHERE seen_ms>? ORDER BY seen_ms DESC LIMIT ?", (seen_after_ms, most)
    ).fetchall()
    return [SightingRow(*row) for row in reversed(found)]


def due_held(connection: Connection, received_through_ms: int, most: int) -> list[Held]:
    found = connection.execute(
        "SELECT id, received_ms, facts, record FROM held WHERE received_ms<=? ORDER BY received_ms, id LIMIT ?",
        (received_through_ms, most),
    )
    return [Held(*row) for row in found]


def oldest_held_ms(connection: Connection) -> int | None:
    (found,) = connection.execute("SELECT min(received_ms) FROM held").fetchone()
    return None if found is None else int(found)


def end_held(
    connection: Connection,
    counters: Counters,
    lanes: list[Lane],
    endings: Sequence[Ending],
    seq: int,
    now_ms: int,
) -> None:
    """Delete the held rows; those that go on are chunk *seq* now, and pending as before."""
    promoted: list[bytes] = []
    for ending in endings:
        gone = connection.execute("DELETE FROM held WHERE id=?", (ending.held_id,)).rowcount
        if not gone:
            continue
        if ending.outcome is None:
            promoted.append(ending.record)
        else:
            counters.drop(lanes, ending.outcome)
    if promoted:
        insert_chunk(connection, chunk_of(seq, AI_TELEMETRY, now_ms, promoted))


def forget(connection: Connection, now_ms: int, seen_before_ms: int) -> int:
    series = connection.execute(
        "DELETE FROM series WHERE key IN (SELECT key FROM series WHERE until_ms<? LIMIT ?)", (now_ms, FORGET_AT_ONCE)
    ).rowcount
    sightings = connection.execute(
        "DELETE FROM sighting WHERE whose IN (SELECT whose FROM sighting WHERE seen_ms<? LIMIT ?)",
        (seen_before_ms, FORGET_AT_ONCE),
    ).rowcount
    return series + sightings
