"""Rows of `usage_rollups` that answer a question, as SQL; used within the caller's snapshot."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.common.contract.tags import is_tag, tag_of
from gateway.stores.sql.one_of import one_of
from gateway.stores.sql.sums.columns import quoted
from gateway.stores.sql.sums.group_keys import Column, GroupKeys
from gateway.stores.sql.sums.model_versions import TO_MODEL, and_versions
from gateway.stores.sql.sums.names import ids_asked, largest_id, names_of
from gateway.stores.sql.sums.tags import has_values, numbers_of, value_sql
from gateway.usage.sums.figures import COUNTS, Cells, money
from gateway.usage.sums.grains import (
    COLUMNS,
    DAY,
    DIMENSIONS,
    FORGOTTEN_ID,
    OTHER_ID,
    TAGGED,
    TAGS,
    UNKNOWN_ID,
    Dimension,
    Grain,
    grain_for,
    tag_grain,
)
from gateway.usage.sums.names import NO_FILTERS, Filters
from gateway.usage.sums.tally import INPUT
from gateway.usage.sums.timespan import Segment
from spool.sql.connection import Connection, Cursor

_NUMBERS: Final = (*COUNTS, "cost_micro", "cost_rest")
_MONEY: Final = ("cost_micro / 1000000", "cost_micro % 1000000", "cost_rest")
"""In parts, so that no sum exceeds 64 bits."""
_SUMMED: Final = (*COUNTS, *_MONEY)
_ESTIMATED: Final = "estimated"
_MODEL: Final = "model"
_MAX_LISTED: Final = 500
"""Names of one filter, in all parts, that are a parameter each: SQLite bounds them."""
_HOUR_BITS: Final = 32
_MAX_STEPS: Final = 6


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
        only: Grain | None = None,
    ) -> None:
        """*folds_versions*: `model` is the model that a dated name is a version of, and `version`
        that name. *only*: the grain; None takes the coarsest that answers.
        """
        self._connection = connection
        self._parts = parts
        self._parameters: list[Any] = []
        folded = {"model": "coalesce(model_id, model) AS model, model AS version"} if folds_versions else {}
        columns = ", ".join(("hour", *(folded.get(name, name) for name in quoted(COLUMNS)), *_NUMBERS))
        wanted = {*dimensions, *where}
        read = of_tags(connection, wanted)
        table = f"{read.table}{TO_MODEL if folds_versions else ''}"
        ids = {name: ids_asked(connection, names) for name, names in where.items()}
        if _MODEL in ids:
            ids[_MODEL] = and_versions(connection, ids[_MODEL])
        max_listed = _MAX_LISTED // max(1, len(parts))
        among = {name: _among(connection, found, max_listed) for name, found in ids.items()}
        given = [each for _, values in among.values() for each in values]
        selects = []
        for part in parts:
            grain = only or read.grain(wanted, part)
            values = {name: read.value(name, grain) for name in wanted if name == TAGS or is_tag(name)}
            kept = "".join(f" AND {values.get(name) or quoted([name])[0]} IN {sql}" for name, (sql, _) in among.items())
            more = "".join(f', {sql} AS "{name}"' for name, sql in sorted(values.items()))
            selects.append(
                f"SELECT {columns}{more} FROM {table} WHERE span = ? AND grain = ? AND hour >= ? AND hour < ?{kept}"  # noqa: S608 - own SQL
            )
            self._parameters += [part.span, grain.id, part.first_hour, part.end_hour]
            self._parameters += given
        self._selects = selects or [_no_rows(wanted)]
        self._from = f"FROM ({' UNION ALL '.join(self._selects)}) AS kept"
        is_of_sets = len(wanted) > 1  # the sums by one tag may have values that no set has any more
        self._without_values = {name for name in wanted if is_of_sets and is_tag(name)} - {*read.valued}
        self._id_bits = largest_id(connection).bit_length()

    def select(self, what: str, rest: str, parameters: Iterable[Any] = ()) -> Cursor:
        """*rest* begins after FROM, and holds *parameters*."""
        return self._connection.execute(f"SELECT {what} {self._from} {rest}", (*self._parameters, *parameters))

    def summed(
        self,
        *group_by: Column,
        where: str = "",
        parameters: Sequence[Any] = (),
    ) -> Iterator[tuple[tuple[int, ...], Cells]]:
        """The sums by *group_by*, by currency, and by whether they are estimated. *where* holds
        *parameters*.
        """
        keys = self._keys(group_by, self._id_bits)
        sql = f"{self._all(keys)} {where}{_grouped(keys)}"
        return self._cells(keys, self._connection.execute(sql, (*self._parameters, *parameters)).fetchall())

    def summed_by_part(self, *group_by: Column, most: int) -> Iterator[tuple[tuple[int, ...], Cells]]:
        """The same, *most* of them: the groups of each part first, and then their sums. SQLite
        sorts several short lists in less time than a long one.
        """
        totals = totals_of(self._connection, self._parts)
        keys = self._keys(group_by, totals.largest_currency.bit_length() or self._id_bits)
        sql = f"{self._by_part(keys, totals.nothing)} LIMIT {most}"
        return self._cells(keys, self._connection.execute(sql, self._parameters).fetchall())

    def _keys(self, group_by: Sequence[Column], currency_bits: int) -> GroupKeys:
        (estimated,) = ids_asked(self._connection, [_ESTIMATED])
        is_estimated = f"CASE WHEN cost_source = {estimated} THEN 1 ELSE 0 END"
        return GroupKeys((*group_by, Column("currency", currency_bits), Column(is_estimated, 1)))

    def _cells(self, keys: GroupKeys, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[tuple[int, ...], Cells]]:
        width = len(keys.sql)
        groups = [keys.values(row[:width]) for row in rows]
        names = names_of(self._connection, {currency for *_, currency, _ in groups})
        for (*ids, currency, is_estimated), row in zip(groups, rows, strict=True):
            *counts, whole, micro, rest = row[width:]
            known = None if currency in {UNKNOWN_ID, OTHER_ID} else str(names[currency])
            yield tuple(ids), Cells(counts, known, money(whole * 1_000_000 + micro, rest), bool(is_estimated))

    def columns(self, names: Collection[str]) -> list[Column]:
        """Those of ids of names: dimensions, or `version`."""
        few = FORGOTTEN_ID.bit_length()
        return [
            Column(sql, few if name in self._without_values else self._id_bits)
            for name, sql in zip(names, quoted(names), strict=True)
        ]

    def _all(self, keys: GroupKeys) -> str:
        sums = [f"CAST(sum({each}) AS BIGINT)" for each in _SUMMED]
        return f"SELECT {', '.join((*keys.sql, *sums))} {self._from}"

    def _by_part(self, keys: GroupKeys, nothing: Mapping[str, str]) -> str:
        read = [each for each in _SUMMED if each not in nothing]
        names = {each: f"sum_{at}" for at, each in enumerate(read)}
        columns = [f"key_{at}" for at in range(len(keys.sql))]
        named = [f"{sql} AS {name}" for sql, name in zip(keys.sql, columns, strict=True)]
        named += [f"sum({each}) AS {name}" for each, name in names.items()]
        of_parts = " UNION ALL ".join(
            f"SELECT {', '.join(named)} FROM ({select}) AS part{_grouped(keys)}"  # noqa: S608 - own SQL
            for select in self._selects
        )
        columns += [nothing.get(each) or f"CAST(sum({names[each]}) AS BIGINT)" for each in _SUMMED]
        return f"SELECT {', '.join(columns)} FROM ({of_parts}) AS parts{_grouped(keys)}"  # noqa: S608 - own SQL


class Totals(NamedTuple):
    """What every row of some parts has, by those that sum over all dimensions. What is known so is
    not sorted: that saves a tenth of the time for three columns.
    """

    nothing: Mapping[str, str]
    """Columns that have the same in every row, and that as SQL: 0 calls, or tokens that no call
    states."""
    largest_currency: int
    """Of the ids; 0 where currencies beyond the bound on series are "other" in the totals."""


def totals_of(connection: Connection, parts: Sequence[Segment]) -> Totals:
    sums = ", ".join(f"sum({name})" for name in COUNTS)
    of_all = Rows(connection, parts, NO_FILTERS).select(
        f"coalesce(sum(CASE WHEN currency = {OTHER_ID} THEN 1 END), 0), coalesce(max(currency), 0), {sums}", ""
    )
    others, largest, *found = of_all.fetchone()
    states = dict(zip(COUNTS, found, strict=True))
    nothing = {name: "0" for name in COUNTS[:INPUT] if states[name] == 0}
    nothing |= {name: "CAST(NULL AS BIGINT)" for name in COUNTS[INPUT:] if states[name] is None}
    return Totals(nothing, 0 if others else max(int(largest), OTHER_ID))


def _grouped(keys: GroupKeys) -> str:
    return f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys.sql)))}"


def start_column(span: int) -> Column:
    """The first hour of the period of *span* hours that an hour is in."""
    return Column(f"hour / {span} * {span}", _HOUR_BITS)


def in_steps(parts: Sequence[Segment]) -> list[Segment]:
    """*parts* in shorter ones, `_MAX_STEPS` each at most."""
    return [step for part in parts for step in _steps(part)]


def _steps(part: Segment) -> Iterator[Segment]:
    hours = max(DAY, -(-(part.end_hour - part.first_hour) // _MAX_STEPS // DAY) * DAY)
    for first in range(part.first_hour, part.end_hour, hours):
        yield part._replace(first_hour=first, end_hour=min(first + hours, part.end_hour))


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
    valued: Collection[Dimension]
    """Those that any set of tags has a value of."""

    def grain(self, wanted: Collection[Dimension], part: Segment) -> Grain:
        if not self.has_tags:
            return grain_for([name for name in wanted if name in DIMENSIONS], has_all=part.has_all)
        only = tag_of(next(iter(wanted))) if len(wanted) == 1 else ""
        return tag_grain(self.numbers[only]) if only in self.numbers and part.span == DAY else TAGGED

    def value(self, dimension: Dimension, grain: Grain) -> str:
        """The id of its name, as SQL."""
        if not self.has_tags or (dimension != TAGS and tag_of(dimension) not in self.numbers):
            return str(UNKNOWN_ID)
        return (
            "tags"
            if dimension == TAGS or grain != TAGGED
            else value_sql(dimension, has_values=dimension in self.valued)
        )


def of_tags(connection: Connection, wanted: Collection[Dimension]) -> _Read:
    """Where no tag that is asked for was ever kept, the rows without tags answer."""
    numbers = numbers_of(connection) if any(name == TAGS or is_tag(name) for name in wanted) else {}
    asked = {tag_of(name) for name in wanted if is_tag(name)}
    has_tags = bool(numbers) and (TAGS in wanted or not asked.isdisjoint(numbers))
    valued = {name for name in wanted if has_tags and is_tag(name) and has_values(connection, tag_of(name))}
    return _Read("usage_tag_rollups" if has_tags else "usage_rollups", numbers, has_tags, valued)


def _among(connection: Connection, ids: Sequence[int], max_listed: int) -> tuple[str, Sequence[Any]]:
    """What stands behind IN, and its parameters; of a long list that is one."""
    return (f"({marks(len(ids))})", ids) if len(ids) <= max_listed else one_of(connection, ids, "BIGINT")


def marks(count: int) -> str:
    """That many parameters of SQL."""
    return ", ".join("?" * count)
