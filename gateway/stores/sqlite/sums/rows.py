"""Rows of `usage_rollups` that answer a question, as SQL; used within the caller's snapshot."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from gateway.stores.sqlite.sums.model_versions import TO_MODEL, and_versions
from gateway.stores.sqlite.sums.names import ids_asked, names_of
from gateway.usage.sums.figures import COUNTS, Cells, money
from gateway.usage.sums.grains import COLUMNS, OTHER_ID, UNKNOWN_ID, Dimension, grain_for
from gateway.usage.sums.names import Filters
from gateway.usage.sums.timespan import Segment

Value = int | str | None

_NUMBERS: Final = (*COUNTS, "cost_micro", "cost_rest")
_MONEY: Final = ("cost_micro / 1000000", "cost_micro % 1000000", "cost_rest")
"""In parts, so that no sum exceeds 64 bits."""
_SUMS: Final = ", ".join(f"sum({name})" for name in (*COUNTS, *_MONEY))
_NO_ROWS: Final = f"SELECT hour, {', '.join((*COLUMNS, *_NUMBERS))}, model AS version FROM usage_rollups WHERE 0"  # noqa: S608 - own SQL
_ESTIMATED: Final = "estimated"
_MODEL: Final = "model"
_MAX_LISTED: Final = 500
"""Names of one filter that are a parameter each: SQLite bounds them."""


class Rows:
    """The rows of *parts* that *where* keeps, separated by *dimensions* at least."""

    def __init__(
        self,
        connection: sqlite3.Connection,
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
        self._parameters: list[Value] = []
        folded = {"model": "ifnull(model_id, model) AS model, model AS version"} if folds_versions else {}
        columns = ", ".join(("hour", *(folded.get(name, name) for name in COLUMNS), *_NUMBERS))
        table = f"usage_rollups{TO_MODEL if folds_versions else ''}"
        ids = {name: ids_asked(connection, names) for name, names in where.items()}
        if _MODEL in ids:
            ids[_MODEL] = and_versions(connection, ids[_MODEL])
        kept = "".join(f" AND {name} IN ({_listed(found)})" for name, found in ids.items())
        given = [
            each for found in ids.values() for each in (found if len(found) <= _MAX_LISTED else [json.dumps(found)])
        ]
        selects = []
        for part in parts:
            grain = grain_for({*dimensions, *where}, part.span)
            selects.append(
                f"SELECT {columns} FROM {table} WHERE span = ? AND grain = ? AND hour >= ? AND hour < ?{kept}"  # noqa: S608 - own SQL
            )
            self._parameters += [part.span, grain.id, part.first_hour, part.end_hour]
            self._parameters += given
        self._from = f"FROM ({' UNION ALL '.join(selects) or _NO_ROWS})"

    def select(self, what: str, rest: str, parameters: Iterable[Value] = ()) -> sqlite3.Cursor:
        """*rest* begins after FROM, and holds *parameters*."""
        return self._connection.execute(f"SELECT {what} {self._from} {rest}", (*self._parameters, *parameters))

    def summed(
        self, *group_by: str, where: str = "", parameters: Iterable[Value] = ()
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


def _listed(ids: Sequence[int]) -> str:
    """The parameters of a list of *ids*; of a long one, one parameter with its JSON."""
    return marks(len(ids)) if len(ids) <= _MAX_LISTED else "SELECT value FROM json_each(?)"


def marks(count: int) -> str:
    """That many parameters of SQL."""
    return ", ".join("?" * count)
