"""Whether a cell may be moved, asked inside the transaction that moves it: until that ends no
gateway owns the cell, and none that starts sees its state.
"""

from typing import Final

import psycopg
from psycopg.sql import SQL, Identifier

from gateway.stores.moving.tables import Table
from gateway.stores.postgres.cell import ALIVE_S
from spool.postgres.connection import PostgresConnection
from spool.sql.counter_rows import load_counters

FILLED_BY_A_START: Final = frozenset(
    {"device_notes", "devices", "key_facts", "lane", "meta", "usage_counted", "usage_names", "usage_rollup_state"}
)
"""Tables that hold something before anything was counted: the gateway is a device itself."""
_OTHER_DEVICES: Final = "SELECT count(*) FROM devices WHERE origin <> 'gateway'"
_LOCK: Final = "LOCK TABLE cell, journal IN ACCESS EXCLUSIVE MODE"
_LEASE: Final = "SELECT owner FROM cell WHERE owner IS NOT NULL AND until > clock_timestamp()"
_ALIVE: Final = "SELECT name FROM member WHERE seen_at > clock_timestamp() - make_interval(secs => %s) ORDER BY name"
_TAKES_NOTHING: Final = "ALTER TABLE journal ADD CONSTRAINT moved CHECK (FALSE)"


class NotMovable(Exception):
    """Why a cell is not moved, or not moved to, in words for the operator."""


def refuse_running(postgres: psycopg.Connection) -> None:
    """Keep every gateway out until the transaction ends. Raises NotMovable while one is alive."""
    postgres.execute(_LOCK)
    alive = [name for (name,) in postgres.execute(_ALIVE, (ALIVE_S,))]
    if alive:
        raise NotMovable(
            f"{len(alive)} of the cell's gateways run, or did so within the last {ALIVE_S} s (on {', '.join(alive)}):"
            " stop all of them, and try again"
        )
    if postgres.execute(_LEASE).fetchone() is not None:
        raise NotMovable(
            "the lease of the cell's last owner still runs (store.lease): wait until it ends, and try again"
        )


def moved_to(postgres: psycopg.Connection) -> str | None:
    """Where what the cell held was moved; None where it is here."""
    row = postgres.execute("SELECT moved_to FROM cell").fetchone()
    return None if row is None else row[0]


def refuse_used(tables: list[Table], postgres: psycopg.Connection) -> None:
    """Raises NotMovable where the cell holds anything."""
    remedy = "a data directory is moved into an empty cell alone; name another one with store.cell"
    if where := moved_to(postgres):
        raise NotMovable(f"what the cell held was moved to {where}: {remedy}")
    names = [table.name for table in tables if table.name not in FILLED_BY_A_START]
    used = [name for name in (*names, "journal") if _holds_rows(name, postgres)]
    (devices,) = postgres.execute(_OTHER_DEVICES).fetchone() or (0,)
    if used or devices or _counted(postgres) or _keys_made(postgres):
        raise NotMovable(
            f"the cell is not empty (it holds {', '.join(used[:3]) or 'keys, devices or counts'}): {remedy}"
        )


def refuse_uncounted(postgres: psycopg.Connection) -> None:
    """Raises NotMovable while the journal holds what a sender was answered for."""
    row = postgres.execute("SELECT coalesce(sum(payloads), 0) FROM journal").fetchone()
    if row and row[0]:
        raise NotMovable(
            f"the journal holds {row[0]} payloads that no gateway has counted: start one gateway of the cell, stop it"
            " when `telemetry_gateway_journal_bytes` no longer falls, and try again"
        )


def leave(postgres: psycopg.Connection, to: str) -> None:
    """Nobody owns the cell from here on, and no gateway keeps anything in its journal."""
    if moved_to(postgres) is None:
        postgres.execute(_TAKES_NOTHING)
    postgres.execute("UPDATE cell SET moved_to = %s", (to,))


def _holds_rows(table: str, postgres: psycopg.Connection) -> bool:
    found = postgres.execute(SQL("SELECT 1 FROM {} LIMIT 1").format(Identifier(table))).fetchone()
    return found is not None


def _counted(postgres: psycopg.Connection) -> int:
    return load_counters(PostgresConnection(postgres)).edge["received"]


def _keys_made(postgres: psycopg.Connection) -> int:
    (created,) = postgres.execute("SELECT created FROM key_facts").fetchone() or (0,)
    return int(created)
