"""Removes a user from what the gateway holds: its sums and the records in its spool.

The sums of the user become those of "forgotten", so that every total stays exact.
"""

import hmac
import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from gateway.common.storage.database import Database
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import COLUMNS, FORGOTTEN_ID, GRAINS, Grain, Ids, add_up
from gateway.usage.sums.model_versions import drop_names
from gateway.usage.sums.names import ids_asked
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.rollups import REST, add_series
from gateway.usage.sums.tally import MAX_NAME_CHARS, Sums
from spool.forgetting import Forgotten
from spool.store import DeadLetterStore

MAX_RECORD_CHARS: Final = 256
"""Texts of a record are cut there."""
_USER: Final = COLUMNS.index("user")
_OF_USER: Final = tuple(grain for grain in GRAINS if "user" in grain.dimensions)
_ROWS: Final = (
    f"SELECT span, grain, hour, {', '.join((*COLUMNS, *COUNTS))}, cost_micro, cost_rest FROM usage_rollups"  # noqa: S608 - own SQL
    " WHERE span = ? AND grain = ? AND user = ?"
)
_IS_USED: Final = (
    f"SELECT 1 FROM usage_rollups WHERE {' OR '.join(f'{name} = :id' for name in COLUMNS)}"  # noqa: S608 - own SQL
    " UNION ALL SELECT 1 FROM usage_model_versions WHERE model_id = :id LIMIT 1"
)


class Removed(NamedTuple):
    """What named the user; with a dry run, what names it."""

    usage_rows: int
    spool: Forgotten
    delivered: int = 0
    """Records in the embedded local service."""
    filters: int = 0
    """Of budgets and views."""


class Delivered(NamedTuple):
    """The records of an embedded local service."""

    database: Database
    forget: Callable[..., int]
    """(connection, users, dry_run=…) -> records."""


Named = Callable[..., Awaitable[int]]
"""(users, dry_run=…) -> how many filters of budgets or views named one."""


class UserForgetter:
    """The sums and the spool of a running gateway, or of the files of a stopped one."""

    def __init__(
        self,
        spool: DeadLetterStore,
        database: Database,
        queries: UsageQueries,
        secret_file: Path,
        delivered: Delivered | None = None,
        named_in: Sequence[Named] = (),
    ) -> None:
        """*secret_file* keys the hashes of users, where they are hashed. *named_in*: what else may
        name one.
        """
        self._named_in = named_in
        self._delivered = delivered
        self._spool = spool
        self._database = database
        self._queries = queries
        self._secret_file = secret_file

    async def forget(self, user: str, *, dry_run: bool) -> Removed:
        """Remove *user*, in the clear and hashed. Raises SpoolError, DatabaseUnavailable; what was
        removed by then stays so.
        """
        names = self._names_of(user)
        await self._queries.refresh(at_once=True)  # else a sum that is not stored yet brings the name back
        in_records = {name[:MAX_RECORD_CHARS] for name in names}
        spool = await self._spool.forget_user(in_records, dry_run=dry_run)
        delivered = await self._forget_delivered(in_records, dry_run=dry_run)
        cut = {name[:MAX_NAME_CHARS] for name in names}
        if dry_run:
            rows = await self._database.read(partial(count_rows, users=cut))
        else:
            rows = await self._database.write(partial(forget_in_sums, users=cut))
        filters = sum([await forget(cut, dry_run=dry_run) for forget in self._named_in])
        return Removed(rows, spool, delivered, filters)

    async def _forget_delivered(self, users: Collection[str], *, dry_run: bool) -> int:
        if self._delivered is None:
            return 0
        database, forget = self._delivered
        ask = database.read if dry_run else database.write
        return await ask(partial(forget, users=users, dry_run=dry_run))

    def _names_of(self, user: str) -> set[str]:
        if not self._secret_file.exists():
            return {user}
        secret = self._secret_file.read_bytes()
        return {user, hmac.digest(secret, user.encode("utf-8", "replace"), "sha256")[:16].hex()}


def count_rows(connection: sqlite3.Connection, users: Collection[str]) -> int:
    return sum(1 for name in ids_asked(connection, sorted(users)) for _ in _rows_of(connection, name))


def forget_in_sums(connection: sqlite3.Connection, users: Collection[str]) -> int:
    """Fold the sums of *users* into those of "forgotten"; how many rows they had."""
    connection.execute("PRAGMA secure_delete = ON")  # what is written over is no longer in the file
    return sum(_forget_one(connection, name) for name in ids_asked(connection, sorted(users)))


def _forget_one(connection: sqlite3.Connection, name: int) -> int:
    rows = _rows_of(connection, name)
    periods: dict[tuple[int, Grain, int], dict[Ids, Sums]] = defaultdict(dict)
    grains = {grain.id: grain for grain in GRAINS}
    for span, grain_id, hour, *rest in rows:
        ids, (*counts, micro, cost_rest) = rest[: len(COLUMNS)], rest[len(COLUMNS) :]
        ids[_USER] = FORGOTTEN_ID
        add_up(periods[span, grains[grain_id], hour], tuple(ids), [*counts, micro * REST + cost_rest])
    for grain in _OF_USER:
        connection.execute("DELETE FROM usage_rollups WHERE grain = ? AND user = ?", (grain.id, name))
    for (span, of_grain, hour), series in periods.items():
        add_series(connection, span, of_grain, hour, series)
    if rows and connection.execute(_IS_USED, {"id": name}).fetchone() is None:
        drop_names(connection, [name])
    return len(rows)


def _rows_of(connection: sqlite3.Connection, name: int) -> list[tuple[int, ...]]:
    return [row for grain in _OF_USER for span in (1, 24) for row in connection.execute(_ROWS, (span, grain.id, name))]
