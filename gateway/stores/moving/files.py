"""The databases of a data directory, opened to be moved from or filled. The caller holds the lock
of a directory that a gateway could start on.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.resources import files as files_of
from pathlib import Path
from typing import Final

from gateway.access.key_files import INBOUND
from gateway.common.storage.database import Database, read_only
from gateway.common.storage.sql import SqlDatabase
from gateway.stores import postgres, sqlite
from gateway.stores.moving.tables import Files
from gateway.stores.sql.database import make_tables
from spool.data_dir import DATABASE
from spool.errors import SpoolCorrupt
from spool.sql.counter_rows import load_counters
from spool.sqlite import database
from spool.sqlite.recovery import reconcile
from spool.sqlite.recovery.opening import damage
from spool.sqlite.recovery.summary import read_from, read_summary, write_summary
from spool.sqlite.recovery.verify import verify

CONTROL: Final = INBOUND.database
_QUARANTINE: Final = "quarantine"
"""A finding about files that were set aside: the spool itself is sound."""


def parts_of(engine: str) -> list[str]:
    """The parts of tables beside the spool's, that *engine* has."""
    package = {"sqlite": sqlite, "postgres": postgres}[engine].__name__
    folders = files_of(f"{package}.migrations").iterdir()
    return sorted(each.name for each in folders if each.is_dir() and not each.name.startswith("_"))


async def make_every_table(opened: SqlDatabase[sqlite3.Connection] | SqlDatabase[object]) -> None:
    """All tables of this release, but the spool's. Raises DatabaseUnavailable."""
    for part in parts_of(opened.engine):
        await make_tables(opened, part)


async def make_control(data_dir: Path) -> None:
    """control.db with all tables of this release. Raises DatabaseUnavailable."""
    control = await Database.open(data_dir / CONTROL)
    try:
        await make_every_table(control)
    finally:
        await control.close()


async def make_files(folder: Path) -> None:
    """Both databases, new. Raises DatabaseUnavailable, SpoolError."""
    database.connect(folder).close()
    await make_control(folder)


def refuse_damaged_spool(data_dir: Path) -> None:
    """Bring spool.db to this release's layout. Raises SpoolCorrupt where it is not sound."""
    found = damage(data_dir)
    if found is None:
        with closing(database.connect(data_dir)) as connection, database.mapped_errors(DATABASE):
            found = _unsettled(connection, data_dir)
    if found is None:
        findings = [finding.text for finding in verify(data_dir).findings if finding.of != _QUARANTINE]
        found = "; ".join(findings) or None
    if found is not None:
        raise SpoolCorrupt(
            f"the spool is damaged ({found}): start the gateway on this directory once, which salvages what can be"
            " read, stop it, and try again"
        )


def _unsettled(connection: sqlite3.Connection, data_dir: Path) -> str | None:
    """What the next start would settle first."""
    summary = read_summary(data_dir)
    if reconcile.findings(connection) is not None:
        return "a salvage is not settled yet"
    if summary is not None and reconcile.is_older(load_counters(connection), summary):
        return "spool.db is older than its summary"
    return None


@contextmanager
def reading(data_dir: Path) -> Iterator[Files]:
    """Both databases, for reading."""
    with closing(database.connect_to_read(data_dir)) as spool, closing(read_only(data_dir / CONTROL)) as control:
        yield {DATABASE: spool, CONTROL: control}


@contextmanager
def writing(folder: Path) -> Iterator[Files]:
    """Both databases, whose commits are on disk when this ends, or none of them where it raises."""
    with ExitStack() as stack:
        spool = stack.enter_context(closing(database.connect(folder)))
        control = stack.enter_context(
            closing(sqlite3.connect(folder / CONTROL, isolation_level=None, check_same_thread=False))
        )
        control.execute("PRAGMA synchronous = FULL")
        for connection in (spool, control):
            stack.enter_context(database.one_commit(connection))
        yield {DATABASE: spool, CONTROL: control}


def summarise(folder: Path, now_ms: int) -> None:
    """Make the summaries of a spool.db that was filled: a start takes it for no old copy."""
    with closing(database.connect(folder)) as connection:
        counters = load_counters(connection)
        (gateway_id,) = connection.execute("SELECT value FROM meta WHERE name = 'gateway_id'").fetchone()
        summary = read_from(connection, counters, gateway_id, now_ms, reconcile.entries(connection))
        write_summary(folder, summary._replace(is_final=True))
