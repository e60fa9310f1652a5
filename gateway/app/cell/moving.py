"""What a stopped gateway keeps, moved from its data directory into a cell, or back: all of it in
one transaction of Postgres, so that nothing is half moved.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import psycopg

from exporters.keyring import KeyFault, read_secret
from gateway.access.key_files import INBOUND
from gateway.app.cell.databases import dsn_of, make_schema
from gateway.app.cell.home import derive, open_keys
from gateway.app.cell.secrets import FILES, derived
from gateway.common.contract.errors import CannotStart
from gateway.common.storage.private_files import write_private
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config, Store
from gateway.pipeline.assembly import MACHINE_SECRET_FILE, USER_SECRET_FILE
from gateway.stores.moving import cell_state
from gateway.stores.moving.cell_state import NotMovable
from gateway.stores.moving.copying import fill_cell, fill_files
from gateway.stores.moving.files import (
    CONTROL,
    make_control,
    make_every_table,
    make_files,
    reading,
    refuse_damaged_spool,
    summarise,
    writing,
)
from gateway.stores.moving.tables import Files, Table, shared_tables
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.sqlite.keys import keys_in
from spool.counters import Counters
from spool.data_dir import DATABASE, MOVED, make_data_dir, moved_to, refuse_half_restored
from spool.errors import SpoolError
from spool.postgres.committing import UnknownOutcome, committed
from spool.postgres.migrating import spool_scripts
from spool.postgres.session import connect, mapped_errors
from spool.sql.counter_rows import load_counters
from spool.sqlite.database import mapped_errors as mapped_file_errors

T = TypeVar("T")

HASH_KEYS: Final = (INBOUND.pepper, MACHINE_SECRET_FILE, USER_SECRET_FILE)
"""Files without which what is kept proves nothing: keys, and hashes of machines and users."""


class Moved(NamedTuple):
    gateway_id: str
    rows: dict[str, int]
    """By table."""
    counters: Counters


async def move_to_cell(config: Config, data_dir: Path) -> Moved:
    """Move what *data_dir*, whose lock the caller holds, keeps into the cell of *config*, whose own
    data directory may be another one. *data_dir* stays as it is, marked as moved.

    Raises NotMovable, CannotStart, SpoolError, DatabaseUnavailable, PepperMismatch, TablesDiffer,
    OSError.
    """
    refuse_no_source(config.store, data_dir)
    refuse_other_secrets(config, data_dir)
    async with keys_in(data_dir, INBOUND, wall_ms):
        pass  # the pepper is theirs
    await make_control(data_dir)
    await asyncio.to_thread(refuse_damaged_spool, data_dir)
    await make_cell(config)
    return await asyncio.to_thread(_fill_cell, config, data_dir)


async def move_to_folder(config: Config, folder: Path, named: Path) -> Moved:
    """Fill the empty *folder*, which becomes the data directory *named*, with what the cell of
    *config* keeps, and with the secrets of its gateways. The cell stays as it is, marked as moved.

    Raises as `move_to_cell`.
    """
    make_data_dir(config.data_dir)
    derive(config)
    await make_cell(config)
    await check_pepper(config)
    await make_files(folder)
    moved = await asyncio.to_thread(_fill_folder, config, folder, named)
    copy_secrets(config.data_dir, folder)
    return moved


def refuse_no_source(store: Store, data_dir: Path) -> None:
    """Raises NotMovable where *data_dir* holds no gateway, or was moved elsewhere; SpoolError."""
    refuse_half_restored(data_dir)
    missing = [name for name in (DATABASE, CONTROL) if not (data_dir / name).exists()]
    if missing:
        raise NotMovable(f"{data_dir} holds no {' and no '.join(missing)}: name the gateway's with --data-dir")
    where = moved_to(data_dir)
    if where is not None and where != name_of(store):
        raise NotMovable(f"what {data_dir} holds was moved to the {where} before: it is moved once")


def refuse_other_secrets(config: Config, data_dir: Path) -> None:
    """Raises NotMovable where a gateway of the cell would hash with another key than *data_dir*'s
    gateway did; CannotStart.
    """
    wanted = wanted_secrets(config, data_dir)
    differ = [name for name in HASH_KEYS if name in wanted and wanted[name] != (data_dir / name).read_bytes().strip()]
    if not differ:
        return
    files = ", ".join(name for name in FILES if (data_dir / name).exists())
    why = "store.secret makes others" if config.store.secret is not None else f"{config.data_dir} has others, or none"
    leave = "leave store.secret out, and " if config.store.secret is not None else ""
    raise NotMovable(
        f"{', '.join(differ)} of {data_dir} must go along, and {why}: keys that were made with the old"
        f" {INBOUND.pepper} are valid with it alone; {leave}copy {files} from {data_dir} into the data directory of"
        " each gateway of the cell, and try again"
    )


def wanted_secrets(config: Config, data_dir: Path) -> dict[str, bytes]:
    """What a gateway of the cell hashes with, of the files that *data_dir* has; empty for one that
    it lacks. Raises CannotStart.
    """
    names = [name for name in HASH_KEYS if (data_dir / name).exists()]
    try:
        if config.store.secret is not None:
            secret = read_secret(config.store.secret, os.environ).reveal()
            return {name: derived(name, secret).strip() for name in names}
    except KeyFault as fault:
        raise CannotStart(f"store.secret: {fault}") from fault
    own = {name: config.data_dir / name for name in names}
    return {name: path.read_bytes().strip() if path.exists() else b"" for name, path in own.items()}


async def make_cell(config: Config) -> None:
    """The schema of the cell with all tables of this release. Raises CannotStart,
    DatabaseUnavailable, PepperMismatch.
    """
    await asyncio.to_thread(make_schema, config)
    database = await PostgresDatabase.open(dsn_of(config.store), durability=config.store.durability, connections=1)
    try:
        await make_every_table(database)
        await database.migrate("spool", spool_scripts())
    finally:
        await database.close()


async def check_pepper(config: Config) -> None:
    """Raises PepperMismatch where the keys of the cell were hashed with another pepper."""
    database = await PostgresDatabase.open(dsn_of(config.store), durability=config.store.durability, connections=1)
    try:
        await (await open_keys(database, config.data_dir, wall_ms)).close()
    finally:
        await database.close()


def name_of(store: Store) -> str:
    """As the mark in a data directory has it."""
    return f"cell {store.cell} of {store.dsn}"


def _fill_cell(config: Config, data_dir: Path) -> Moved:
    def fill(tables: list[Table], files: Files, postgres: psycopg.Connection) -> dict[str, int]:
        cell_state.refuse_used(tables, postgres)
        rows = fill_cell(tables, files, postgres)
        write_private(mark, name_of(config.store).encode() + b"\n")
        return rows

    mark = data_dir / MOVED
    is_marked = mark.exists()  # by a move whose outcome was unknown
    with reading(data_dir) as files:
        try:
            rows = _in_one_transaction(config, files, fill)
        except UnknownOutcome as error:  # with the mark: no gateway counts here before it is known
            raise SpoolError(
                f"Postgres: {error}: run the command again; if it says that the cell is not empty, all was moved"
            ) from error
        except BaseException:
            if not is_marked:
                mark.unlink(missing_ok=True)
            raise
        return _moved(files, rows)


def _fill_folder(config: Config, folder: Path, named: Path) -> Moved:
    def fill(tables: list[Table], files: Files, postgres: psycopg.Connection) -> dict[str, int]:
        where = cell_state.moved_to(postgres)
        if where is not None and where != str(named):
            raise NotMovable(f"what the cell {config.store.cell} held was moved to {where} before: it is moved once")
        cell_state.refuse_uncounted(postgres)
        with writing(folder) as target:
            rows = fill_files(tables, postgres, target)
        summarise(folder, wall_ms())
        refuse_damaged_spool(folder)
        cell_state.leave(postgres, str(named))
        return rows

    with reading(folder) as files:
        rows = _in_one_transaction(config, files, fill)
    with reading(folder) as files:
        return _moved(files, rows)


def _in_one_transaction(config: Config, files: Files, fill: Callable[[list[Table], Files, psycopg.Connection], T]) -> T:
    """Raises UnknownOutcome, NotMovable, TablesDiffer, SpoolError."""
    mapped = mapped_errors(), mapped_file_errors("data directory")
    with mapped[0], mapped[1], _connected(config.store) as postgres, committed(postgres):
        cell_state.refuse_running(postgres)
        return fill(shared_tables(files, postgres), files, postgres)


@contextmanager
def _connected(store: Store) -> Iterator[psycopg.Connection]:
    with closing(connect(dsn_of(store), store.durability)) as postgres:
        postgres.execute("SET idle_in_transaction_session_timeout = 0")  # reading of a large file may take longer
        yield postgres


def _moved(files: Files, rows: dict[str, int]) -> Moved:
    (gateway_id,) = files[DATABASE].execute("SELECT value FROM meta WHERE name = 'gateway_id'").fetchone()
    return Moved(gateway_id, rows, load_counters(files[DATABASE]))


def copy_secrets(source: Path, folder: Path) -> None:
    """What makes keys valid and hashes equal, and the tokens of the admin listener."""
    for name in FILES:
        if (source / name).exists():
            write_private(folder / name, (source / name).read_bytes())
