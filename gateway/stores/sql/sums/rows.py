"""Rows of `usage_rollups` that answer a question, as SQL; used within the caller's snapshot."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.common.contract.tags import is_tag, tag_of
from gateway.stores.sql.one_of import one_of
from gateway.stores.sql.sums.columns import quoted
from gateway.stores.sql.sums.model_versions import TO_MODEL, and_versions
from gateway.stores.sql.sums.names import ids_asked, names_of
from gateway.stores.sql.sums.tags import numbers_of, value_sql
from gateway.usage.sums.figures import COUNTS, Cells, money
from gateway.usage.sums.grains import (
    COLUMNS,
    DAY,
    DIMENSIONS,
    OTHER_ID,
    TAGGED,
    TAGS,
    UNKNOWN_ID,
    Dimension,
    Grain,
    grain_for,
    tag_grain,
)
from gateway.usage.sums.names import Filters
from gateway.usage.sums.timespan import Segment
from spool.sql.connection import Connection, Cursor

_NUMBERS: Final = (*COUNTS, "cost_micro", "cost_rest")
_MONEY: Final = ("cost_micro / 1000000", "cost_micro % 1000000", "cost_rest")
"""In parts, so that no sum exceeds 64 bits."""
_SUMS: Final = ", ".join(f"CAST(sum({name}) AS BIGINT)" for name in (*COUNTS, *_MONEY))
_ESTIMATED: Final = "estimated"
_MODEL: Final = "model"
_MAX_LISTED: Final = 500
"""Names of one filter that are a parameter each: SQLite bounds them."""


class Rows:
    """The rows of *parts* that *where* keeps, separated by *dimensions* at least."""

    def __init__(
        self,
        connection: Connection,
        parts: Sequence[Segment],
        where: Filters,
        dimensions: Collection[Dimension] = (),
        *,
        folds_versions: bool = False,
    ) -> None:
        """*folds_versions*: `model` is the model that a dated name is a version of, and `version`
        that name.
        """
        self._connection = connection
        self._parameters: list[Any] = []
        folded = {"model": "coalesce(model_id, model) AS model, model AS version"} if folds_versions else {}
        columns = ", ".join(("hour", *(folded.get(name, name) for name in quoted(COLUMNS)), *_NUMBERS))
        wanted = {*dimensions, *where}
        read = of_tags(connection, wanted)
        table = f"{read.table}{TO_MODEL if folds_versions else ''}"
        ids = {name: ids_asked(connection, names) for name, names in where.items()}
        if _MODEL in ids:
            ids[_MODEL] = and_versions(connection, ids[_MODEL])
        among = {name: _among(connection, found) for name, found in ids.items()}
        given = [each for _, values in among.values() for each in values]
        selects = []
        for part in parts:
            grain = read.grain(wanted, part)
            values = {name: read.value(name, grain) for name in wanted if name == TAGS or is_tag(name)}
            kept = "".join(f" AND {values.get(name) or quoted([name])[0]} IN {sql}" for name, (sql, _) in among.items())
            more = "".join(f', {sql} AS "{name}"' for name, sql in sorted(values.items()))
            selects.append(
                f"SELECT {columns}{more} FROM {table} WHERE span = ? AND grain = ? AND hour >= ? AND hour < ?{kept}"  # noqa: S608 - own SQL
            )
            self._parameters += [part.span, grain.id, part.first_hour, part.end_hour]
            self._parameters += given
        self._from = f"FROM ({' UNION ALL '.join(selects) or _no_rows(wanted)}) AS kept"

    def select(self, what: str, rest: str, parameters: Iterable[Any] = ()) -> Cursor:
        """*rest* begins after FROM, and holds *parameters*."""
        return self._connection.execute(f"SELECT {what} {self._from} {rest}", (*self._parameters, *parameters))

    def summed(
        self, *group_by: str, where: str = "", parameters: Iterable[Any] = (), most: int | None = None
    ) -> Iterator[tuple[tuple[int, ...], Cells]]:
        """The sums by the expressions *group_by* and by currency, *most* of them; *where* holds
        *parameters*.
        """
        width = len(group_by)
        columns = "".join(f"{expression}, " for expression in group_by)
        limit = "" if most is None else f" LIMIT {most}"
        positions = ", ".join(str(n + 1) for n in range(width + 2))
        found = self.select(
            f"{columns}currency, cost_source, {_SUMS}", f"{where} GROUP BY {positions}{limit}", parameters
        ).fetchall()
        names = names_of(self._connection, {each for row in found for each in row[width : width + 2]})
        for row in found:
            currency, source = row[width : width + 2]
            *counts, whole, micro, rest = row[width + 2 :]
            known = None if currency in {UNKNOWN_ID, OTHER_ID} else str(names[currency])
            yield row[:width], Cells(counts, known, money(whole * 1_000_000 + micro, rest), names[source] == _ESTIMATED)


def _no_rows(wanted: Collection[Dimension]) -> str:
    columns = ", ".join((*quoted(COLUMNS), *_NUMBERS))
    more = "".join(f', 0 AS "{name}"' for name in sorted(wanted) if name == TAGS or is_tag(name))
    return f"SELECT hour, {columns}, model AS version{more} FROM usage_rollups WHERE FALSE"  # noqa: S608 - own SQL


class _Read(NamedTuple):
    """Which rows answer."""

    table: str
    numbers: Mapping[str, int]
    """Those of the tags that are asked for."""
    has_tags: bool

    def grain(self, wanted: Collection[Dimension], part: Segment) -> Grain:
        if not self.has_tags:
            return grain_for([name for name in wanted if name in DIMENSIONS], has_all=part.has_all)
        only = tag_of(next(iter(wanted))) if len(wanted) == 1 else ""
        return tag_grain(self.numbers[only]) if only in self.numbers and part.span == DAY else TAGGED

    def value(self, dimension: Dimension, grain: Grain) -> str:
        """The id of its name, as SQL."""
        if not self.has_tags or (dimension != TAGS and tag_of(dimension) not in self.numbers):
            return str(UNKNOWN_ID)
        return "tags" if dimension == TAGS or grain != TAGGED else value_sql(dimension)


def of_tags(connection: Connection, wanted: Collection[Dimension]) -> _Read:
    """Where no tag that is asked for was ever kept, the rows without tags answer."""
    numbers = numbers_of(connection) if any(name == TAGS or is_tag(name) for name in wanted) else {}
    asked = {tag_of(name) for name in wanted if is_tag(name)}
    has_tags = bool(numbers) and (TAGS in wanted or not asked.isdisjoint(numbers))
    return _Read("usage_tag_rollups" if has_tags else "usage_rollups", numbers, has_tags)


def _among(connection: Connection, ids: Sequence[int]) -> tuple[str, Sequence[Any]]:
    """What stands behind IN, and its parameters; of a long list that is one."""
    return (f"({marks(len(ids))})", ids) if len(ids) <= _MAX_LISTED else one_of(connection, ids, "BIGINT")


def marks(count: int) -> str:
    """That many parameters of SQL."""
    return ", ".join("?" * count)
