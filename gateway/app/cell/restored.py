"""A cell whose database was restored to an earlier moment, made ready to go on."""

import asyncio
from contextlib import closing
from typing import Final, NamedTuple

import psycopg

from gateway.app.cell.databases import dsn_of
from gateway.app.cell.moving import make_cell
from gateway.app.cell.seen_turn import SeenTurn
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.stores.postgres.cell import owner_in
from spool.counters import Counters
from spool.errors import SpoolError
from spool.postgres.committing import UnknownOutcome, committed
from spool.postgres.connection import PostgresConnection
from spool.postgres.session import connect, mapped_errors
from spool.sql import unit_doubts
from spool.sql.counter_rows import load_counters, save_counters

FURTHER: Final = 1_000_000_000
"""Turns that are left out, so that the next one is above those that other gateways saw."""
_FENCE: Final = "UPDATE cell SET epoch = epoch + 1, turn = ?, owner = NULL, until = clock_timestamp()"


class Restored(NamedTuple):
    turn: int
    """As the database had it."""
    seen_turn: int
    """As this gateway saw it; 0 where it saw none."""
    dead_letters: int
    """Records of unit cost that became dead letters: deletions, and totals that go by `sum`."""


async def go_on_restored(config: Config) -> Restored:
    """Let gateways own the cell of *config* again, as after `restore` of a backup. Totals of unit
    cost are read at the upstream before they are replaced. Nothing is deleted that may have been
    sent since. An owner that runs is fenced. May be repeated.

    Raises CannotStart, DatabaseUnavailable, SpoolError, OSError.
    """
    await make_cell(config)
    return await asyncio.to_thread(_go_on, config)


def _go_on(config: Config) -> Restored:
    store = config.store
    try:
        with mapped_errors(), closing(connect(dsn_of(store), store.durability)) as postgres, committed(postgres):
            return _settled(postgres, SeenTurn(config.data_dir))
    except UnknownOutcome as error:
        raise SpoolError(f"Postgres: {error}: run the command again") from error


def _settled(postgres: psycopg.Connection, seen: SeenTurn) -> Restored:
    connection = PostgresConnection(postgres, is_binary=True)
    owner = owner_in(connection)
    seen_turn = seen.of(owner.cell_id)
    connection.execute(
        _FENCE, (max(owner.turn, seen_turn) + FURTHER,)
    )  # waits for what an owner commits, and fails all that comes later
    counters = load_counters(connection)
    before = _dead_letters(counters)
    now_ms = wall_ms()
    unit_doubts.distrust(connection, now_ms)
    unit_doubts.give_up(connection, counters, now_ms)
    save_counters(connection, counters)
    return Restored(owner.turn, seen_turn, _dead_letters(counters) - before)


def _dead_letters(counters: Counters) -> int:
    return sum(lane.dead_lettered for lane in counters.lanes.values())
