"""Usage by the hour as the detectors of insights read it: in control.db of the gateway, service.db
of the local service. Functions run in the caller's transaction. The usage that answers questions
about cost has more dimensions and stands in `rollups.py`. At worst some 10 MiB.
"""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql import database as tables
from gateway.stores.sql.one_of import one_of
from gateway.usage.sums import bounds
from gateway.usage.sums.history import History, Model, Usage
from gateway.usage.sums.tally import (
    ATTO,
    CACHEABLE,
    CACHED,
    CALLS,
    COST,
    FAILED,
    HOUR_MS,
    INPUT,
    MISSING_USAGE,
    OTHER,
    OUTPUT,
    PICO,
    WITHOUT_PRICE,
    Key,
    Sums,
    Tally,
)
from spool.sql.connection import Connection

_SUMS = (
    "calls", "failed_calls", "calls_without_usage", "calls_without_price",
    "input_tokens", "output_tokens", "cacheable_tokens", "cache_read_tokens", "cost_whole", "cost_pico",
)  # fmt: skip
_COUNTED = (CALLS, FAILED, MISSING_USAGE, WITHOUT_PRICE, INPUT, OUTPUT, CACHEABLE, CACHED)
_COST = len(_COUNTED)


class HourKey(NamedTuple):
    """Hour and series of the detectors. Unknown names are ""."""

    hour: int
    provider: str
    model: str
    team: str
    service_name: str
    currency: str
    cost_source: str

    def as_other(self) -> "HourKey":
        return HourKey(self.hour, OTHER, OTHER, OTHER, OTHER, self.currency, self.cost_source)


_NAMES = HourKey._fields
_FIND = f"SELECT {', '.join((*_NAMES, *_SUMS))} FROM usage_hours WHERE hour IN "  # noqa: S608 - own SQL
_NOTHING = (0,) * len(_SUMS)
_WRITE = (
    f"INSERT INTO usage_hours ({', '.join((*_NAMES, *_SUMS))})"  # noqa: S608 - own SQL
    f" VALUES ({', '.join('?' * len((*_NAMES, *_SUMS)))}) ON CONFLICT ({', '.join(_NAMES)}) DO UPDATE SET"
    f" {', '.join(f'{name} = excluded.{name}' for name in _SUMS)}"
)
_NOTE_MODEL = (
    "INSERT INTO usage_models (provider, model, first_hour, last_hour) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (provider, model) DO UPDATE SET"
    " first_hour = CASE WHEN excluded.first_hour < usage_models.first_hour THEN excluded.first_hour ELSE usage_models.first_hour END,"
    " last_hour = CASE WHEN excluded.last_hour > usage_models.last_hour THEN excluded.last_hour ELSE usage_models.last_hour END"
)
_NOTE_COUNTED = (
    "INSERT INTO usage_counted (source, through_no, began_hour) VALUES (?, ?, ?)"
    " ON CONFLICT (source) DO UPDATE SET through_no = excluded.through_no"
)
_INT64 = 2**63 - 1


async def make_tables(database: SqlDatabase[Any]) -> None:
    """Raises DatabaseUnavailable."""
    await tables.make_tables(database, "usage")


def through_no(connection: Connection, source: str) -> int:
    """The last counted chunk or row of *source*; 0 when none was."""
    found = connection.execute("SELECT through_no FROM usage_counted WHERE source=?", (source,)).fetchone()
    return int(found[0]) if found else 0


def write(
    connection: Connection,
    tally: Tally,
    *,
    source: str,
    through_no: int,
    now_ms: int,
    kept_ms: int | None = None,
) -> None:
    """Add *tally*, which covers *source* through that number; and delete what is too old at
    *kept_ms*, by default *now_ms*.
    """
    now_hour = now_ms // HOUR_MS
    kept_hour = now_hour if kept_ms is None else kept_ms // HOUR_MS
    added = _by_series(tally.sums, now_hour, kept_hour)
    connection.executemany(_WRITE, _summed(connection, added))
    _note_models(connection, tally.models(), kept_hour)
    connection.execute(_NOTE_COUNTED, (source, through_no, kept_hour))
    connection.execute(
        "DELETE FROM usage_hours WHERE hour<=? OR hour>?", (kept_hour - bounds.KEPT_HISTORY_HOURS, now_hour + 24)
    )
    connection.execute("DELETE FROM usage_models WHERE last_hour<=?", (kept_hour - bounds.MODEL_HOURS,))


def _by_series(sums: Mapping[Key, Sums], now_hour: int, kept_hour: int) -> dict[HourKey, list[int]]:
    """The sums of the hours that are kept, by the series of the detectors; the cost in 1e-12."""
    added: dict[HourKey, list[int]] = {}
    for key, numbers in sums.items():
        if any(numbers) and kept_hour - bounds.KEPT_HISTORY_HOURS < key.hour <= now_hour:
            names = HourKey(
                key.hour, key.provider, key.model, key.team, key.service_name, key.currency, key.cost_source
            )
            mine = added.setdefault(names, [0] * (_COST + 1))
            for column, of_key in enumerate((*_COUNTED, COST)):
                mine[column] += numbers[of_key] or 0
    for mine in added.values():
        mine[_COST] = round(Fraction(mine[_COST], ATTO // PICO))
    return added


def _summed(connection: Connection, added: Mapping[HourKey, list[int]]) -> list[tuple[str | int, ...]]:
    """The rows of *added* with what their series hold already; series beyond the bound of an hour
    are one, "(other)".
    """
    rows: dict[HourKey, tuple[int, ...]] = {}
    series: Counter[int] = Counter()
    among, parameters = one_of(connection, sorted({key.hour for key in added}), "BIGINT")
    for row in connection.execute(f"{_FIND}{among}", parameters):
        rows[HourKey(*row[: len(_NAMES)])] = row[len(_NAMES) :]
        series[row[0]] += 1
    changed: set[HourKey] = set()
    for new, sums in added.items():
        key = new if new in rows or series[new.hour] < bounds.MAX_SERIES else new.as_other()
        series[key.hour] += key not in rows
        before = rows.get(key, _NOTHING)
        counts = [min(mine + theirs, _INT64) for mine, theirs in zip(before[:_COST], sums[:_COST], strict=True)]
        whole, pico = divmod(before[_COST] * PICO + before[_COST + 1] + sums[_COST], PICO)
        rows[key] = (*counts, min(whole, _INT64), pico)
        changed.add(key)
    return [(*key, *rows[key]) for key in changed]


def _note_models(connection: Connection, models: Mapping[tuple[str, str], tuple[int, int]], kept_hour: int) -> None:
    (known,) = connection.execute("SELECT count(*) FROM usage_models").fetchone()
    current = [(*name, first, last) for name, (first, last) in models.items() if last > kept_hour - bounds.MODEL_HOURS]
    connection.executemany(
        _NOTE_MODEL, current[: max(0, bounds.MAX_MODELS - known)]
    )  # some of them may be there already


def read(connection: Connection, now_ms: int) -> History:
    """The hourly usage that is kept, and the models of the last 30 days."""
    now_hour = now_ms // HOUR_MS
    rows = connection.execute(
        f"SELECT {', '.join((*_NAMES, *_SUMS))} FROM usage_hours WHERE hour>? AND hour<=?",  # noqa: S608 - own SQL
        (now_hour - bounds.KEPT_HISTORY_HOURS, now_hour),
    )
    width = len(_NAMES) + _COST + 1
    usage = [Usage._make((*row[: width - 1], row[width - 1] * PICO + row[width])) for row in rows]
    models = [Model._make(row) for row in connection.execute("SELECT provider, model, first_hour FROM usage_models")]
    (began_hour,) = connection.execute("SELECT min(began_hour) FROM usage_counted").fetchone()
    return History(now_hour, usage, models, now_hour if began_hour is None else began_hour)
