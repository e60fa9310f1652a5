"""How long calls took, by period. Functions run in the caller's transaction.

A commit adds a part to each of its hours. When an hour is over its parts become one, and its day
gets that too. So a commit costs one row, and a question reads one of each period that is over.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.usage.sums import bounds
from gateway.usage.sums.buckets import Buckets
from gateway.usage.sums.grains import DAY, HOUR
from gateway.usage.sums.latency import (
    MAX_LATENCY_SERIES,
    AskedLatency,
    KeptGroup,
    LatencyGroup,
    Names,
    add_period,
    add_series,
    decoded,
    encoded,
    groups_of,
    opened,
)
from gateway.usage.sums.tally import LatencyKey
from gateway.usage.sums.timespan import Segment
from spool.sql.connection import Connection
from spool.sql.packing import pack, unpack

_MAX_PARTS: Final = 64
"""Of one period: with more they become one at once."""
_READ: Final = "SELECT hour, body FROM usage_latency WHERE span = ? AND hour >= ? AND hour < ? ORDER BY hour, part"


def add_latencies(
    connection: Connection, latencies: Mapping[LatencyKey, Buckets], *, now_hour: int, kept_hour: int
) -> None:
    """Add what a commit counted, and delete what is too old at *kept_hour*."""
    by_hour: dict[int, dict[Names, Buckets]] = defaultdict(dict)
    for (hour, *names), buckets in latencies.items():
        if buckets:
            by_hour[hour][tuple(names)] = buckets
    summed_to = _summed_to(connection)
    for hour, series in by_hour.items():
        body = pack(encoded(series))
        if hour > kept_hour - bounds.KEPT_HOURS:
            _add(connection, HOUR, hour, body)
        if hour < summed_to and hour > kept_hour - bounds.KEPT_DAYS * DAY:
            _add(connection, DAY, hour // DAY * DAY, body)
    if summed_to < min(now_hour, kept_hour):
        _sum_up(connection, summed_to, min(now_hour, kept_hour))
        _delete_old(connection, kept_hour)


def latencies_of(connection: Connection, parts: Sequence[Segment], asked: AskedLatency) -> dict[LatencyGroup, Buckets]:
    kept: dict[KeptGroup, Buckets] = {}
    summed_to = _summed_to(connection)
    for part in parts:
        first, end = part.first_hour, part.end_hour
        stretches = (
            [(HOUR, first, end)] if part.span == HOUR else [(DAY, first, end), (HOUR, max(first, summed_to), end)]
        )
        for span, start, stop in stretches:
            for hour, body in _bodies(connection, span, start, stop):
                add_period(kept, hour, opened(body), asked)
    return groups_of(kept, asked)


def _summed_to(connection: Connection) -> int:
    (summed_to,) = connection.execute("SELECT latency_to FROM usage_rollup_state").fetchone()
    return int(summed_to)


def _bodies(connection: Connection, span: int, first: int, end: int) -> Iterator[tuple[int, bytes]]:
    for hour, body in connection.execute(_READ, (span, first, end)):
        yield hour, unpack(bytes(body)) if body[:1] != b"[" else bytes(body)


def _add(connection: Connection, span: int, hour: int, body: bytes) -> None:
    (part,) = connection.execute(
        "SELECT coalesce(max(part), 0) FROM usage_latency WHERE span = ? AND hour = ?", (span, hour)
    ).fetchone()
    connection.execute(
        "INSERT INTO usage_latency (span, hour, part, body) VALUES (?, ?, ?, ?)", (span, hour, part + 1, body)
    )
    if part >= _MAX_PARTS:
        _join(connection, span, hour)


def _join(connection: Connection, span: int, hour: int) -> bytes | None:
    """The parts of a period as one; None where it has none."""
    series: dict[Names, Buckets] = {}
    for _, body in _bodies(connection, span, hour, hour + 1):
        add_series(series, decoded(body), MAX_LATENCY_SERIES[span])
    if not series:
        return None
    joined = pack(encoded(series))
    connection.execute("DELETE FROM usage_latency WHERE span = ? AND hour = ?", (span, hour))
    connection.execute("INSERT INTO usage_latency (span, hour, part, body) VALUES (?, ?, 1, ?)", (span, hour, joined))
    return joined


def _sum_up(connection: Connection, first: int, end: int) -> None:
    """Hours from *first* to before *end* are over: their days get them. Other periods with several
    parts become one.
    """
    hours = connection.execute(
        "SELECT DISTINCT hour FROM usage_latency WHERE span = ? AND hour >= ? AND hour < ?", (HOUR, first, end)
    ).fetchall()
    for (hour,) in hours:
        if (joined := _join(connection, HOUR, hour)) is not None:
            _add(connection, DAY, hour // DAY * DAY, joined)
    several = connection.execute(
        "SELECT span, hour FROM usage_latency WHERE span = ? OR hour < ? GROUP BY span, hour HAVING count(*) > 1",
        (DAY, end),
    ).fetchall()
    for span, hour in several:
        _join(connection, span, hour)
    connection.execute("UPDATE usage_rollup_state SET latency_to = ?", (end,))


def _delete_old(connection: Connection, kept_hour: int) -> None:
    oldest = ((HOUR, kept_hour - bounds.KEPT_HOURS), (DAY, kept_hour - bounds.KEPT_DAYS * DAY - DAY))
    connection.executemany("DELETE FROM usage_latency WHERE span = ? AND hour <= ?", oldest)
