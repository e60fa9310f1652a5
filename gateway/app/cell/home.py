"""What a gateway of a cell opens in the database, whether it owns the cell or not."""

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from exporters.keyring import KeyFault, read_secret
from gateway.access.key_files import INBOUND
from gateway.access.pepper import load_pepper
from gateway.access.store import KeyStore
from gateway.app.building import Build
from gateway.app.cell.databases import dsn_of, make_schema
from gateway.app.cell.secrets import derive_files, digests, refuse_others
from gateway.common.contract.errors import CannotStart
from gateway.common.release import release
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.storage.private_files import read_or_create
from gateway.config.model import Config, refuse_open_intake
from gateway.operate.session import open_access
from gateway.pipeline.assembly import read_secrets
from gateway.pipeline.journal.form import FORMS
from gateway.stores.postgres.cell import Itself, PostgresCell
from gateway.stores.postgres.clock import DatabaseClock
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.postgres.journal import PostgresJournal
from gateway.stores.postgres.keys import PostgresKeys
from spool.data_dir import make_data_dir
from spool.data_lock import DataLock

INSTANCE_FILE: Final = "instance-id"
ANSWER_S: Final = 10
"""For which a command waits: while the standbys are gone a commit has no answer."""


@dataclass(frozen=True, slots=True)
class CellHome:
    dsn: str
    shared: PostgresDatabase
    """What may be written by any gateway."""
    itself: Itself
    cell: PostgresCell
    journal: PostgresJournal
    keys: KeyStore
    give_up: list[Callable[[], Awaitable[None]]]
    """What waits for the database that hangs is ended by each of these, one for each that is
    open."""


async def open_home(build: Build, clock: DatabaseClock) -> CellHome:
    """Lock the data directory, and open the cell; *clock* learns what time it is there. Raises
    CannotStart, SpoolLocked, DatabaseUnavailable, PepperMismatch, OSError.
    """
    config, closing = build.config, build.stack.push_async_callback
    prepare_files(build)
    await asyncio.to_thread(make_schema, config)
    dsn = dsn_of(config.store)
    shared, journals = [await _database(build, dsn) for _ in range(2)]
    await clock.learn(shared)
    noted = digests(config.data_dir)
    itself = Itself(instance_id(config.data_dir), socket.gethostname(), release(), sorted(FORMS), noted)
    cell = await PostgresCell.open(shared, itself, config.store.lease_s)
    if where := await cell.moved_to():
        raise CannotStart(
            f"what the cell {config.store.cell} held was moved to {where}: start the gateway there (store.type: sqlite),"
            " or name another cell with store.cell"
        )
    refuse_others(config.data_dir, [each for each in await cell.members() if each.id != itself.id])
    keys = await open_keys(shared, config.data_dir, build.now_ms)
    closing(if_answered, keys.close)
    if reason := refuse_open_intake(config, enabled_keys=int(keys.any_enabled())):
        raise CannotStart(reason)
    closing(if_answered, cell.leave)
    return CellHome(dsn, shared, itself, cell, PostgresJournal(journals), keys, [shared.close, journals.close])


async def if_answered(last: Callable[[], Awaitable[None]]) -> None:
    """Do the *last* thing of a stop, which is of no account where the database does not answer."""
    with suppress(DatabaseUnavailable):
        await last()


@asynccontextmanager
async def keys_of_cell(config: Config, now_ms: Callable[[], int]) -> AsyncIterator[KeyStore]:
    """The keys of the cell, whether a gateway runs or not. Raises CannotStart, DatabaseUnavailable,
    PepperMismatch, OSError.
    """
    make_data_dir(config.data_dir)
    derive(config)
    await asyncio.to_thread(make_schema, config)
    database = await PostgresDatabase.open(
        dsn_of(config.store), durability=config.store.durability, connections=1, answer_s=ANSWER_S
    )
    try:
        keys = await open_keys(database, config.data_dir, now_ms)
        try:
            yield keys
        finally:
            await keys.close()
    finally:
        await database.close()


def prepare_files(build: Build) -> None:
    """The data directory, with all files that are compared with those of other gateways. Raises
    CannotStart, PepperMismatch, SpoolLocked, OSError.
    """
    config = build.config
    make_data_dir(config.data_dir)
    build.stack.callback(DataLock(config.data_dir).close)
    derive(config)
    load_pepper(config.data_dir / INBOUND.pepper, secrets.token_bytes)
    open_access(config.data_dir, config.metrics_token)
    read_secrets(config)


def derive(config: Config) -> None:
    """Make the files of `store.secret`, where it is set. Raises CannotStart, OSError."""
    if config.store.secret is not None:
        try:
            derive_files(config.data_dir, read_secret(config.store.secret, os.environ).reveal())
        except KeyFault as fault:
            raise CannotStart(f"store.secret: {fault}") from fault


async def _database(build: Build, dsn: str) -> PostgresDatabase:
    config: Config = build.config
    database = await PostgresDatabase.open(
        dsn, durability=config.store.durability, connections=config.store.connections
    )
    build.stack.push_async_callback(database.close)
    return database


def instance_id(data_dir: Path) -> str:
    """Of the gateway in *data_dir*, the same after each start."""
    path = data_dir / INSTANCE_FILE
    return read_or_create(path, f"gw-{secrets.token_hex(8)}\n".encode).decode("ascii", "replace").strip()


async def open_keys(database: PostgresDatabase, data_dir: Path, now_ms: Callable[[], int]) -> KeyStore:
    """Raises PepperMismatch, DatabaseUnavailable."""
    pepper = load_pepper(data_dir / INBOUND.pepper, secrets.token_bytes)
    home = await PostgresKeys.open(database)
    return await KeyStore.open(
        home, prefix=INBOUND.prefix, pepper=pepper, now_ms=now_ms, random_bytes=secrets.token_bytes
    )
