"""The table of dead letters: found, counted, requeued, dropped, expired.

A dead letter that is requeued becomes pending again, in one commit: its bytes move into a chunk of
`rows.again_lane`, and a *stretch* (`spool.sql.replay.ranges`) states that the lane should send
them. One that is dropped or expires stays counted dead_lettered, for that is how its way ended;
only its bytes go, counted beside the counters. Every function runs inside the writer's transaction.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from spool.counters import Counters
from spool.dead_letters import Chosen, DeadLetter, LetterPage, Place, ReasonCount, SortKey, place_of
from spool.record import UNIT_COST, Lane
from spool.sql import rows, unit_streams
from spool.sql.chunks import chunk_of
from spool.sql.connection import Connection
from spool.sql.replay import ranges, side_counts

PAGE_RECORDS = 500
"""Dead letters that one commit moves or deletes: keeps the wait of an append behind it short."""
PAGE_BYTES = 4 << 20
MAX_REASONS = 100
"""Called for one lane; the upstream makes the codes, so there may be any number."""
OTHER = "other"

_COLUMNS = "id, lane, buried_ms, code, message, bytes, record"
_SORTED_BY: dict[SortKey, str] = {"buried_at": "buried_ms", "lane": "lane", "reason": "code"}


def where(chosen: Chosen) -> tuple[str, list[object]]:
    """SQL condition and its parameters."""
    sql, params = ["TRUE"], list[object]()
    for column, values in (("lane", chosen.lanes), ("code", chosen.reasons), ("id", chosen.ids)):
        if values:
            sql.append(f"{column} IN ({', '.join('?' * len(values))})")
            params += values
    if chosen.since_ms is not None:
        sql.append("buried_ms>=?")
        params.append(chosen.since_ms)
    if chosen.until_ms is not None:
        sql.append("buried_ms<?")
        params.append(chosen.until_ms)
    return " AND ".join(sql), params


def count(connection: Connection, chosen: Chosen) -> int:
    condition, params = where(chosen)
    (n,) = connection.execute(f"SELECT count(*) FROM dead_letter WHERE {condition}", params).fetchone()  # noqa: S608 - own SQL
    return int(n)


def find(
    connection: Connection,
    chosen: Chosen,
    *,
    sort: SortKey = "buried_at",
    descending: bool = False,
    beyond: Place | None = None,
    most: int,
) -> list[DeadLetter]:
    """Up to *most* of the *chosen*, in order, from the first one *beyond* a place on."""
    condition, params = where(chosen)
    column, order = _SORTED_BY[sort], "DESC" if descending else "ASC"
    if beyond is not None:
        condition += f" AND ({column}, id) {'<' if descending else '>'} (?, ?)"
        params += beyond
    # Sorted by id alone first: the records of the others stay unread.
    page = f"SELECT id FROM dead_letter WHERE {condition} ORDER BY {column} {order}, id {order} LIMIT ?"  # noqa: S608 - own SQL
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM dead_letter WHERE id IN ({page}) ORDER BY {column} {order}, id {order}",  # noqa: S608 - own SQL
        (*params, most),
    )
    return [DeadLetter(*row) for row in found]


def page(
    connection: Connection,
    chosen: Chosen,
    *,
    sort: SortKey,
    descending: bool,
    beyond: Place | None,
    most: int,
) -> LetterPage:
    """As `spool.store.DeadLetterStore.page`."""
    found = find(connection, chosen, sort=sort, descending=descending, beyond=beyond, most=most)
    first = beyond
    if beyond is not None:  # the one at *beyond* may be gone, and else it is before the page
        first = place_of(found[0], sort) if found else Place(beyond.value, beyond.id + (-1 if descending else 1))
    before = first and find(connection, chosen, sort=sort, descending=not descending, beyond=first, most=1)
    return LetterPage(found, not before, count(connection, chosen))


def missing(connection: Connection, ids: Sequence[int]) -> list[int]:
    """Those of *ids* that no dead letter has, each once."""
    condition, params = where(Chosen(ids=tuple(ids)))
    there = {id_ for (id_,) in connection.execute(f"SELECT id FROM dead_letter WHERE {condition}", params)}  # noqa: S608 - own SQL
    return [id_ for id_ in dict.fromkeys(ids) if id_ not in there]


def lanes(connection: Connection) -> list[Lane]:
    """Those that dead letters are of; some may not be set up any more."""
    return [lane for (lane,) in connection.execute("SELECT DISTINCT lane FROM dead_letter")]


def by_reason(connection: Connection) -> list[ReasonCount]:
    """Counts by lane and reason, the most frequent of a lane first; what is beyond
    `MAX_REASONS` stands under `OTHER`.
    """
    counts: list[ReasonCount] = []
    listed: dict[Lane, int] = {}
    for lane, reason, records, size, oldest, newest in connection.execute(
        "SELECT lane, code, sum(records), sum(bytes), min(buried_ms), max(buried_ms) FROM dead_letter GROUP BY lane, code"
        " ORDER BY lane, sum(records) DESC, code"
    ):
        listed[lane] = listed.get(lane, 0) + 1
        if listed[lane] <= MAX_REASONS:
            counts.append(ReasonCount(lane, reason, records, size, oldest, newest))
        elif listed[lane] == MAX_REASONS + 1:
            counts.append(ReasonCount(lane, OTHER, records, size, oldest, newest))
        else:
            _, _, n, sizes, first, last = counts.pop()
            counts.append(ReasonCount(lane, OTHER, n + records, sizes + size, min(first, oldest), max(last, newest)))
    return counts


class Tried(NamedTuple):
    """A page of dead letters that were to be pending again."""

    requeued: int
    last_id: int | None
    """None where none was left to try."""


def requeue(
    connection: Connection,
    counters: Counters,
    chosen: Chosen,
    lane: Lane,
    seq: int,
    now_ms: int,
    *,
    most: int,
    after_id: int,
    through_id: int,
) -> Tried:
    """Make a page of *lane*'s *chosen* dead letters behind *after_id* pending again, as chunk
    *seq*.

    Those of unit cost go back into the totals that they were part of.
    """
    if lane == UNIT_COST:
        return _put_back_totals(
            connection, counters, chosen, now_ms, most=most, after_id=after_id, through_id=through_id
        )
    condition, params = where(chosen)
    found = connection.execute(
        f"SELECT id, length(record) FROM dead_letter WHERE {condition} AND lane=? AND code!=? AND bytes>0 AND id>? AND id<=? ORDER BY id LIMIT ?",  # noqa: S608 - own SQL
        (*params, lane, rows.UNREADABLE, after_id, through_id, min(most, PAGE_RECORDS)),
    ).fetchall()
    ids = _within_page(found)
    records = [_record(connection, id_) for id_ in ids]
    if records:
        ranges.insert_requeued(connection, lane, chunk_of(seq, rows.replay_lane(lane), now_ms, records))
        delete(connection, ids)
        counters.lane(lane).dead_lettered -= len(ids)
        counters.lane(lane).pending += len(ids)
        side_counts.add(connection, lane, "dead_letters.replayed", len(ids))
    return Tried(len(ids), ids[-1] if ids else None)


def _within_page(found: Sequence[tuple[int, int]]) -> list[int]:
    """The first ids of *found* (id, bytes), up to `PAGE_BYTES`; at least one."""
    sizes = accumulate(size for _, size in found)
    return [id_ for at, ((id_, _), size) in enumerate(zip(found, sizes, strict=True)) if not at or size <= PAGE_BYTES]


def _record(connection: Connection, id_: int) -> bytes:
    found: bytes = connection.execute("SELECT record FROM dead_letter WHERE id=?", (id_,)).fetchone()[0]
    return found


def _put_back_totals(
    connection: Connection,
    counters: Counters,
    chosen: Chosen,
    now_ms: int,
    *,
    most: int,
    after_id: int,
    through_id: int,
) -> Tried:
    """Some must stay dead letters, so a page may put back fewer than it tries."""
    condition, params = where(chosen)
    found = connection.execute(
        f"SELECT id, record, records, buried_ms FROM dead_letter WHERE {condition} AND lane=? AND code!=? AND bytes>0 AND id>? AND id<=?"  # noqa: S608 - own SQL
        " ORDER BY id LIMIT ?",
        (*params, UNIT_COST, rows.UNREADABLE, after_id, through_id, min(most, PAGE_RECORDS)),
    ).fetchall()
    back = [
        (id_, n) for id_, body, n, buried_ms in found if unit_streams.requeue(connection, body, n, buried_ms, now_ms)
    ]
    records = sum(n for _, n in back)
    delete(connection, [id_ for id_, _ in back])
    counters.lane(UNIT_COST).dead_lettered -= records
    counters.lane(UNIT_COST).pending += records
    side_counts.add(connection, UNIT_COST, "dead_letters.replayed", records)
    return Tried(len(back), found[-1][0] if found else None)


def delete(connection: Connection, ids: Sequence[int]) -> None:
    connection.executemany("DELETE FROM dead_letter WHERE id=?", [(id_,) for id_ in ids])


def count_left(connection: Connection, chosen: Chosen, lanes: Sequence[Lane], through_id: int) -> int:
    """The *chosen* that can never be requeued: of none of the *lanes*, or set aside by the spool,
    which could not read them.
    """
    condition, params = where(chosen)
    marks = ", ".join("?" * (len(lanes) + 1))
    (n,) = connection.execute(
        f"SELECT count(*) FROM dead_letter WHERE {condition} AND id<=? AND (code=? OR bytes=0 OR lane NOT IN ({marks}))",  # noqa: S608 - own SQL
        (*params, through_id, rows.UNREADABLE, "", *lanes),
    ).fetchone()
    return int(n)


def drop(connection: Connection, chosen: Chosen, *, most: int, through_id: int) -> int:
    """Delete a page of the *chosen* for good; how many. They stay counted as dead_lettered."""
    condition, params = where(chosen)
    return _delete_counted(
        connection,
        f"SELECT id, lane, bytes, records FROM dead_letter WHERE {condition} AND id<=? ORDER BY id LIMIT ?",  # noqa: S608 - own SQL
        (*params, through_id, min(most, PAGE_RECORDS)),
        "dead_letters.dropped",
    )


def expire(connection: Connection, buried_before_ms: int) -> int:
    """The same for a page of those that were set aside before that time."""
    return _delete_counted(
        connection,
        "SELECT id, lane, bytes, records FROM dead_letter WHERE buried_ms<? ORDER BY buried_ms LIMIT ?",
        (buried_before_ms, PAGE_RECORDS),
        "dead_letters.expired",
    )


def make_room(connection: Connection, excess_bytes: int) -> int:
    """The same for a page of the oldest, until *excess_bytes* are gone."""
    return _delete_counted(
        connection,
        "SELECT id, lane, bytes, records FROM dead_letter ORDER BY id LIMIT ?",
        (PAGE_RECORDS,),
        "dead_letters.expired",
        enough_bytes=excess_bytes,
    )


def _delete_counted(
    connection: Connection,
    select: str,
    params: Sequence[object],
    name: side_counts.Name,
    *,
    enough_bytes: int | None = None,
) -> int:
    ids: list[int] = []
    lanes: dict[Lane, int] = {}
    size = 0
    for id_, lane, bytes_, records in connection.execute(select, params):
        if enough_bytes is not None and size >= enough_bytes:
            break
        ids.append(id_)
        lanes[lane] = lanes.get(lane, 0) + records
        size += bytes_
    delete(connection, ids)
    for lane, n in lanes.items():
        side_counts.add(connection, lane, name, n)
    return len(ids)
