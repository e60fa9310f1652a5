"""What `check` and `doctor` ask the database of a cell; nothing is changed there."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import psycopg

from gateway.app.cell.databases import dsn_of, schema_of
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.config.model import Store
from gateway.stores.postgres.cell import NOBODY, Member, Owner, members_in, owner_in
from spool.postgres.connection import CONNECT, SESSION, PostgresConnection, text_of
from spool.postgres.durability import SETTINGS

_SETTINGS: Final = "SELECT name, setting FROM pg_settings WHERE name = ANY(?)"
_TIMEOUT_IS_OFF: Final = "SELECT current_setting('statement_timeout') = '0'"
_RIGHTS: Final = (
    "SELECT CASE WHEN to_regnamespace(?) IS NULL"
    " THEN has_database_privilege(current_database(), 'CREATE')"
    " ELSE has_schema_privilege(?, 'CREATE') AND has_schema_privilege(?, 'USAGE') END"
)
_LIMIT: Final = (
    "SELECT least("
    " current_setting('max_connections')::int - CASE WHEN rolsuper THEN 0"
    "  ELSE current_setting('superuser_reserved_connections')::int"
    "  + coalesce(current_setting('reserved_connections', true), '0')::int END,"
    " CASE WHEN rolsuper OR rolconnlimit < 0 THEN NULL ELSE rolconnlimit END,"
    " CASE WHEN rolsuper OR datconnlimit < 0 THEN NULL ELSE datconnlimit END)"
    " FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()"
)
_OTHERS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL AND application_name <> ?"
    " AND coalesce(backend_type, 'client backend') = 'client backend'"
)
_STANDBYS: Final = (
    "SELECT count(*) FILTER (WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')),"
    " count(*) FILTER (WHERE state IS NULL) FROM pg_stat_replication"
)
_MOVED_TO: Final = "SELECT to_jsonb(cell) ->> 'moved_to' FROM cell"
"""Also where a release that moves none made the table."""
_ENABLED_KEYS: Final = "SELECT count(*) FROM keys WHERE status = 'Enabled'"


class Standbys(NamedTuple):
    """Of the server, as of now."""

    synchronous: int
    """Those that are connected and have what is answered."""
    hidden: int
    """Standbys of which the role may not see the state."""


class Connections(NamedTuple):
    """Of the server, this role and this database."""

    most: int
    """That gateways and other programs may have together."""
    others: int
    """Those of other programs now."""


@dataclass(frozen=True, slots=True)
class CellFacts:
    version: int
    """As `server_version_num`: 150003 is 15.3."""
    settings: Mapping[str, str]
    """Those of `SETTINGS`, for this role."""
    timeout_is_off: bool
    """Whether a `statement_timeout` stays off once a session has switched it off."""
    may_make_tables: bool
    """In the schema of the cell, or may make that."""
    clock_ahead_s: float
    """This machine's clock before that of the database."""
    connections: Connections
    standbys: Standbys
    owner: Owner
    """`NOBODY` before the first start of a gateway."""
    members: Sequence[Member]
    moved_to: str | None
    """Where what the cell held was moved; None where it is here."""
    enabled_keys: int

    @property
    def alive(self) -> list[Member]:
        return [each for each in self.members if each.is_alive]


def facts_of(store: Store) -> CellFacts:
    """Waits for the network. Raises CannotStart, DatabaseUnavailable with the server's reason."""
    try:
        with psycopg.connect(dsn_of(store), **CONNECT) as connection:
            connection.execute(SESSION)
            connection.read_only = True
            return _facts(connection, schema_of(store))
    except psycopg.Error as error:
        raise DatabaseUnavailable(f"the database cannot be asked: {text_of(error)}") from error


def _facts(connection: psycopg.Connection, schema: str) -> CellFacts:
    ahead_s = _clock_ahead_s(connection)
    with connection.transaction():
        asked = PostgresConnection(connection)
        is_allowed = _first(asked, _RIGHTS, schema, schema, schema)
        has_cell, has_keys = (is_allowed and _has(asked, f"{schema}.{name}") for name in ("member", "keys"))
        return CellFacts(
            version=connection.info.server_version,
            settings=dict(asked.execute(_SETTINGS, (list(SETTINGS),)).fetchall()),
            timeout_is_off=_first(asked, _TIMEOUT_IS_OFF),
            may_make_tables=is_allowed,
            clock_ahead_s=ahead_s,
            connections=Connections(_first(asked, _LIMIT), _first(asked, _OTHERS, CONNECT["application_name"])),
            standbys=Standbys(*(asked.execute(_STANDBYS).fetchone() or (0, 0))),
            owner=owner_in(asked) if has_cell else NOBODY,
            members=members_in(asked) if has_cell else (),
            moved_to=_first(asked, _MOVED_TO) if has_cell else None,
            enabled_keys=_first(asked, _ENABLED_KEYS) if has_keys else 0,
        )


def _clock_ahead_s(connection: psycopg.Connection) -> float:
    """By one question, whose way there and back is taken to be equal."""
    before_s = time.time()
    (there_s,) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (before_s,)
    return (before_s + time.time()) / 2 - float(there_s)


def _has(connection: PostgresConnection, table: str) -> bool:
    """Whether the table is there, and this role may read it."""
    if not _first(connection, "SELECT to_regclass(?) IS NOT NULL", table):
        return False
    return bool(_first(connection, "SELECT has_table_privilege(?, 'SELECT')", table))


def _first(connection: PostgresConnection, sql: str, *parameters: object) -> Any:
    row = connection.execute(sql, parameters).fetchone()
    return None if row is None else row[0]
