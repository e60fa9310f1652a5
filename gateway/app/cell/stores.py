"""What the owner of a cell keeps: homes in Postgres, each of whose commits names its epoch."""

from collections.abc import Awaitable, Callable
from typing import Final

from gateway.app.building import Build
from gateway.app.cell.home import CellHome
from gateway.app.stores import Stores, stores_in
from gateway.observability.metrics import CellStatus
from gateway.pipeline.assembly import spool_settings
from gateway.pipeline.journal.owner import OwnerSpool
from gateway.stores.postgres.cell import Ownership
from gateway.stores.postgres.database import PostgresDatabase
from gateway.usage.pricing.watch import open_prices
from spool.postgres.spool import PostgresSpool

CONNECTIONS: Final = 4
"""Of an owner, beside those that each gateway has."""


async def open_owned(
    home: CellHome,
    status: Callable[[], CellStatus],
    build: Build,
    ownership: Ownership,
    lost: Callable[[], None],
) -> tuple[Stores, OwnerSpool]:
    """*lost* is called where the spool notices that another gateway owns it. Raises SpoolError,
    DatabaseUnavailable.
    """
    config, closing = build.config, build.stack.push_async_callback
    durability = config.store.durability
    begin = ownership.share_fence
    database = await PostgresDatabase.open(home.dsn, durability=durability, connections=CONNECTIONS, begin=begin)
    _can_give_up(home, build, database.close)
    closing(database.close)
    spool = await PostgresSpool.open(
        home.dsn,
        spool_settings(config),
        durability=durability,
        now_ms=build.now_ms,
        exporters=list(config.exporters),
        fence=ownership.fence,
        on_fenced=lost,
    )
    _can_give_up(home, build, spool.give_up)
    closing(spool.close)
    stores = await stores_in(
        database,
        build,
        spool,
        files=None,
        instance_id=home.itself.id,
        priced=open_prices(config.pricing.file, has_list=config.pricing.price_list == "on"),
        keys=home.keys,
        cell=status,
    )
    return stores, spool


def _can_give_up(home: CellHome, build: Build, give_up: Callable[[], Awaitable[None]]) -> None:
    """Until the owner has stopped."""
    home.give_up.append(give_up)
    build.stack.callback(home.give_up.remove, give_up)
