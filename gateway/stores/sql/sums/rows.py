"""Rows of `usage_rollups` that answer a question, as SQL; used within the caller's snapshot."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from gateway.stores.sql.one_of import one_of
from gateway.stores.sql.sums.columns import quoted
from gateway.stores.sql.sums.model_versions import TO_MODEL, and_versions
from gateway.stores.sql.sums.names import ids_asked, names_of
from gateway.usage.sums.figures import COUNTS, Cells, money
from gateway.usage.sums.grains import COLUMNS, OTHER_ID, UNKNOWN_ID, Dimension, grain_for
from gateway.usage.sums.names import Filters
from gateway.usage.sums.timespan import Segment
from spool.sql.connection import Connection, Cursor

_NUMBERS: Final = (*COUNTS, "cost_micro", "cost_rest")
_MONEY: Final = ("cost_micro / 1000000", "cost_micro % 1000000", "cost_rest")
"""In parts, so that no sum exceeds 64 bits."""
_SUMS: Final = ", ".join(f"CAST(sum({name}) AS BIGINT)" for name in (*COUNTS, *_MONEY))
_NO_ROWS: Final = (
    f"SELECT hour, {', '.join((*quoted(COLUMNS), *_NUMBERS))}, model AS version FROM usage_rollups WHERE FALSE"  # noqa: S608 - own SQL
)
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
        table = f"usage_rollups{TO_MODEL if folds_versions else ''}"
        ids = {name: ids_asked(connection, names) for name, names in where.items()}
        if _MODEL in ids:
            ids[_MODEL] = and_versions(connection, ids[_MODEL])
        among = {name: _among(connection, found) for name, found in ids.items()}
        kept = "".join(
            f" AND {column} IN {sql}" for column, (sql, _) in zip(quoted(among), among.values(), strict=True)
        )
        given = [each for _, values in among.values() for each in values]
        selects = []
        for part in parts:
            grain = grain_for({*dimensions, *where}, has_all=part.has_all)
            selects.append(
                f"SELECT {columns} FROM {table} WHERE span = ? AND grain = ? AND hour >= ? AND hour < ?{kept}"  # noqa: S608 - own SQL
            )
            self._parameters += [part.span, grain.id, part.first_hour, part.end_hour]
            self._parameters += given
        self._from = f"FROM ({' UNION ALL '.join(selects) or _NO_ROWS}) AS kept"

    def select(self, what: str, rest: str, parameters: Iterable[Any] = ()) -> Cursor:
        """*rest* begins after FROM, and holds *parameters*."""
        return self._connection.execute(f"SELECT {what} {self._from} {rest}", (*self._parameters, *parameters))

    def summed(
        self, *group_by: str, where: str = "", parameters: Iterable[Any] = ()
    ) -> Iterator[tuple[tuple[int, ...], Cells]]:
        """The sums by the expressions *group_by* and by currency; *where* holds *parameters*."""
        width = len(group_by)
        columns = "".join(f"{expression}, " for expression in group_by)
        positions = ", ".join(str(n + 1) for n in range(width + 2))
        found = self.select(
            f"{columns}currency, cost_source, {_SUMS}", f"{where} GROUP BY {positions}", parameters
        ).fetchall()
        names = names_of(self._connection, {each for row in found for each in row[width : width + 2]})
        for row in found:
            currency, source = row[width : width + 2]
            *counts, whole, micro, rest = row[width + 2 :]
            known = None if currency in {UNKNOWN_ID, OTHER_ID} else str(names[currency])
            yield row[:width], Cells(counts, known, money(whole * 1_000_000 + micro, rest), names[source] == _ESTIMATED)


def _among(connection: Connection, ids: Sequence[int]) -> tuple[str, Sequence[Any]]:
    """What stands behind IN, and its parameters; of a long list that is one."""
    return (f"({marks(len(ids))})", ids) if len(ids) <= _MAX_LISTED else one_of(connection, ids, "BIGINT")


def marks(count: int) -> str:
    """That many parameters of SQL."""
    return ", ".join("?" * count)
