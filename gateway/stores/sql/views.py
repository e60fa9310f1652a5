"""`Views` in a database."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

from gateway.common.contract.errors import NameInUse, NotFound, TooManyKept
from gateway.common.lists.conventions import ListRequest, Page
from gateway.common.lists.table import ListTable, fetch_page
from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import make_tables
from gateway.usage.sums.saved_filter import filter_of, filter_text, without_users
from gateway.usage.views.body import NewView, ViewChange, fields_of
from gateway.usage.views.store import MAX_VIEWS, NAME_TAKEN, NO_SUCH_VIEW, TOO_MANY, VIEW_LIST, checked, typed
from gateway.usage.views.view import View, view_item
from spool.sql.connection import Connection

_COLUMNS: Final = (
    "view_id", "view_no", "name", "filter", "group_by", "interval", "sort_key", "sort_order", "range",
    "created_at_ms", "created_by", "updated_at_ms", "updated_by", "time_zone", "compare", "search",
)  # fmt: skip
_ALL: Final = ", ".join(_COLUMNS)
_PUT: Final = (
    f"INSERT INTO views ({_ALL}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - own SQL
    f" ON CONFLICT (view_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[2:])}"
)
_TABLE: Final = ListTable(
    shape=VIEW_LIST,
    source="views",
    row_id="view_no",
    expressions={"created_at": "created_at_ms", "name": "name", "updated_at": "updated_at_ms"},
    select=_ALL,
    item_of=lambda row: view_item(_view(row)),
    numbers=("created_at", "updated_at"),
)


class SqlViews:
    """Open with `SqlViews.open`."""

    def __init__(
        self,
        database: SqlDatabase[Connection],
        now_ms: Callable[[], int],
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self.now_ms = now_ms
        self._database = database
        self._random_bytes = random_bytes

    @classmethod
    async def open(cls, database: SqlDatabase[Connection], *, now_ms: Callable[[], int]) -> Self:
        """The views in *database*; missing tables are created."""
        await make_tables(database, "views")
        return cls(database, now_ms)

    async def every(self) -> list[View]:
        return await self._database.read(_every)

    async def page(self, request: ListRequest) -> Page:
        return await self._database.read(partial(fetch_page, table=_TABLE, request=request))

    async def read(self, view_id: str) -> View:
        return await self._database.read(partial(_find, view_id=view_id))

    async def create(self, body: NewView, *, by: str) -> View:
        change = partial(_create, fields=fields_of(body), view_id=self._random_bytes(16).hex(), by=by)
        return await self._database.write(partial(change, now_ms=self.now_ms()))

    async def change(self, view_id: str, body: ViewChange, *, by: str) -> View:
        change = partial(_change, view_id=view_id, fields=fields_of(body), by=by)
        return await self._database.write(partial(change, now_ms=self.now_ms()))

    async def delete(self, view_id: str) -> None:
        await self._database.write(partial(_delete, view_id=view_id))

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        change = partial(_forget_users, users=users, dry_run=dry_run)
        return await (self._database.read(change) if dry_run else self._database.write(change))


def _view(row: Sequence[Any]) -> View:
    fields: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    decoded: dict[str, Any] = {"filter": filter_of(fields["filter"]), "group_by": tuple(fields["group_by"].split(","))}
    return View(**{**fields, **decoded})


def _find(connection: Connection, view_id: str) -> View:
    row = connection.execute(f"SELECT {_ALL} FROM views WHERE view_id = ?", (view_id,)).fetchone()  # noqa: S608 - own SQL
    if row is None:
        raise NotFound(NO_SUCH_VIEW)
    return _view(row)


def _every(connection: Connection) -> list[View]:
    return [_view(row) for row in connection.execute(f"SELECT {_ALL} FROM views ORDER BY view_no")]  # noqa: S608 - own SQL


def _create(connection: Connection, fields: Mapping[str, Any], *, view_id: str, by: str, now_ms: int) -> View:
    held, last = connection.execute("SELECT count(*), coalesce(max(view_no), 0) FROM views").fetchone()
    if held >= MAX_VIEWS:
        raise TooManyKept(TOO_MANY)
    who: dict[str, Any] = {"created_at_ms": now_ms, "created_by": by, "updated_at_ms": now_ms, "updated_by": by}
    return _put(connection, View(view_id=view_id, view_no=last + 1, **typed(fields), **who))


def _change(connection: Connection, view_id: str, fields: Mapping[str, Any], *, by: str, now_ms: int) -> View:
    changed = replace(_find(connection, view_id), **typed(fields), updated_at_ms=now_ms, updated_by=by)
    return _put(connection, changed)


def _put(connection: Connection, view: View) -> View:
    """Store *view*, in place of the one with its id if there is one."""
    checked(view)
    if connection.execute("SELECT 1 FROM views WHERE name = ? AND view_id <> ?", (view.name, view.view_id)).fetchone():
        raise NameInUse(NAME_TAKEN)
    encoded = {"filter": filter_text(view.filter), "group_by": ",".join(view.group_by)}
    connection.execute(_PUT, [encoded.get(name, getattr(view, name)) for name in _COLUMNS])
    return view


def _delete(connection: Connection, view_id: str) -> None:
    if not connection.execute("DELETE FROM views WHERE view_id = ?", (view_id,)).rowcount:
        raise NotFound(NO_SUCH_VIEW)


def _forget_users(connection: Connection, users: Collection[str], *, dry_run: bool) -> int:
    rows = connection.execute(f"SELECT {_ALL} FROM views")  # noqa: S608 - own SQL
    named = without_users(map(_view, rows), users)
    for view, left in () if dry_run else named:
        if left is None:
            _delete(connection, view.view_id)
        else:
            _put(connection, replace(view, filter=left))
    return len(named)
