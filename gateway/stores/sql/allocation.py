"""`AllocationHome` in a database."""

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import SqlHome, make_tables
from gateway.usage.allocation.home import AllocationHome
from gateway.usage.allocation.rules_json import rules_in, rules_text
from gateway.usage.sums.allocation import Definition
from spool.sql.connection import Connection


async def open_allocation(database: SqlDatabase[Connection]) -> AllocationHome:
    """The versions in *database*; missing tables are created. Raises DatabaseUnavailable."""
    await make_tables(database, "allocation")
    return SqlHome(database, SqlAllocationRows)


class SqlAllocationRows:
    """`AllocationRows` in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def every(self) -> list[Definition]:
        rows = self._connection.execute(
            "SELECT target, version, rules, note, created_at_ms, created_by FROM allocation_versions"
            " ORDER BY target, version"
        ).fetchall()
        return [Definition(target, version, rules_in(rules), *rest) for target, version, rules, *rest in rows]

    def put(self, definition: Definition) -> None:
        self._connection.execute(
            "INSERT INTO allocation_versions (target, version, rules, note, created_at_ms, created_by)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (target, version) DO UPDATE SET rules = excluded.rules",
            (definition.target, definition.version, rules_text(definition.rules), *definition[3:]),
        )

    def drop(self, target: str, through_version: int) -> None:
        self._connection.execute(
            "DELETE FROM allocation_versions WHERE target = ? AND version <= ?", (target, through_version)
        )
