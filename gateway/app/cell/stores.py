"""What the owner of a cell keeps: homes in Postgres, each of whose commits names its epoch."""

from collections.abc import Awaitable, Callable
from typing import Final

from gateway.app.building import Build
from gateway.app.cell.home import CellHome
from gateway.app.stores import Homes, Stores
from gateway.fleet.devices.store import DeviceStore
from gateway.fleet.senders.store import KeptSenders
from gateway.observability.metrics import CellStatus
from gateway.pipeline.assembly import spool_settings
from gateway.pipeline.journal.owner import OwnerSpool
from gateway.pipeline.learnt_bases import KeptLearntBases
from gateway.stores.postgres.cell import Ownership
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.sql.billing.days import open_billing
from gateway.stores.sql.billing.relayed import open_relayed
from gateway.stores.sql.budgets import open_budgets
from gateway.stores.sql.devices import SqlDevices
from gateway.stores.sql.insights import open_insights
from gateway.stores.sql.learnt_bases import SqlLearntBases
from gateway.stores.sql.senders import SqlSenders
from gateway.stores.sql.sums.home import SqlSums
from gateway.stores.sql.views import SqlViews
from gateway.usage.pricing.watch import open_prices
from gateway.usage.sums.following import UsageFollower
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
    prices, price_file = open_prices(config.pricing.file, has_list=config.pricing.price_list == "on")
    devices = await DeviceStore.open(
        await SqlDevices.open(database),
        gateway_id=spool.gateway_id,
        max_new_per_hour=config.devices.max_new_per_hour,
        interval_ms=int(config.devices.heartbeat_interval_s * 1000),
        now_ms=spool.age_ms,
        wall_ms=build.now_ms,
    )
    closing(devices.close)
    senders = await KeptSenders.open(await SqlSenders.open(database), build.now_ms)
    closing(senders.close)
    bases = await KeptLearntBases.open(await SqlLearntBases.open(database))
    closing(bases.close)
    sums = await SqlSums.open(database)
    follower = await UsageFollower.open(spool, sums, now_ms=build.now_ms)
    stores = Stores(
        spool=spool,
        files=None,
        homes=await _homes(database, build.now_ms),
        instance_id=home.itself.id,
        prices=prices,
        price_file=price_file,
        keys=home.keys,
        devices=devices,
        senders=senders,
        bases=bases,
        sums=sums,
        follower=follower,
        cell=status,
    )
    return stores, spool


def _can_give_up(home: CellHome, build: Build, give_up: Callable[[], Awaitable[None]]) -> None:
    """Until the owner has stopped."""
    home.give_up.append(give_up)
    build.stack.callback(home.give_up.remove, give_up)


async def _homes(database: PostgresDatabase, now_ms: Callable[[], int]) -> Homes:
    return Homes(
        await open_relayed(database),
        await open_billing(database),
        await open_budgets(database),
        await open_insights(database),
        await SqlViews.open(database, now_ms=now_ms),
    )
