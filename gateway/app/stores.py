"""What a gateway keeps: the records of spool.db, and all that is in control.db."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.access.store import KeyStore
from gateway.app.building import Build
from gateway.common.contract.errors import CannotStart
from gateway.common.storage.database import Database
from gateway.common.storage.sql import SqlDatabase
from gateway.config.model import refuse_open_intake
from gateway.fleet.devices.store import DeviceStore
from gateway.fleet.senders.store import KeptSenders
from gateway.observability.metrics import CellStatus
from gateway.operate.archive.staging import remove_left
from gateway.pipeline.assembly import spool_settings
from gateway.pipeline.learnt_bases import KeptLearntBases
from gateway.stores.sql.allocation import open_allocation
from gateway.stores.sql.billing.days import open_billing
from gateway.stores.sql.billing.relayed import open_relayed
from gateway.stores.sql.budgets import open_budgets
from gateway.stores.sql.devices import SqlDevices
from gateway.stores.sql.insights import open_insights
from gateway.stores.sql.learnt_bases import SqlLearntBases
from gateway.stores.sql.recommendations import open_recommendations
from gateway.stores.sql.senders import SqlSenders
from gateway.stores.sql.sums.home import SqlSums
from gateway.stores.sql.views import SqlViews
from gateway.stores.sqlite.keys import open_control, open_keys
from gateway.usage.allocation.home import AllocationHome
from gateway.usage.billing.home import BillingHome
from gateway.usage.billing.relay_home import RelayHome
from gateway.usage.budgets.home import BudgetHome
from gateway.usage.insights.home import InsightHome
from gateway.usage.pricing.prices import Prices
from gateway.usage.pricing.watch import PriceFileWatch, open_prices
from gateway.usage.recommendations.home import RecommendationHome
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.home import SumHome
from gateway.usage.views.store import Views
from spool.data_dir import make_data_dir
from spool.sqlite.spool import SqliteSpool
from spool.store import FileSpool, Spool


@dataclass(frozen=True, slots=True)
class Homes:
    """What is kept beside records and is used by one part alone."""

    relayed: RelayHome
    billing: BillingHome
    budgets: BudgetHome
    insights: InsightHome
    views: Views
    allocation: AllocationHome
    recommendations: RecommendationHome


@dataclass(frozen=True, slots=True)
class Files:
    """What only a gateway has that keeps all in files of its machine."""

    spool: FileSpool
    control: Database


@dataclass(frozen=True, slots=True)
class Stores:
    spool: Spool
    files: Files | None
    """None where all is kept in a database elsewhere."""
    homes: Homes
    instance_id: str
    """Of this process. A data directory has one at a time, so it is the spool's `gateway_id`."""
    prices: Prices
    price_file: PriceFileWatch | None
    """The operator's own prices, where there are any."""
    keys: KeyStore
    devices: DeviceStore
    senders: KeptSenders
    bases: KeptLearntBases
    sums: SumHome
    follower: UsageFollower
    """Opened before anything is sent: what is delivered then stays until it is counted."""
    cell: Callable[[], CellStatus] | None = None
    """None for a gateway that counts alone."""


async def open_stores(build: Build) -> Stores:
    """Lock and open the data directory. Raises CannotStart, SpoolError, DatabaseUnavailable,
    OSError.
    """
    config, closing = build.config, build.stack.push_async_callback
    make_data_dir(config.data_dir)
    remove_left(config.data_dir)
    spool = SqliteSpool(config.data_dir, spool_settings(config), now_ms=build.now_ms, exporters=list(config.exporters))
    closing(spool.close)
    priced = open_prices(config.pricing.file, has_list=config.pricing.price_list == "on")
    control = await open_control(config.data_dir)
    closing(control.close)
    keys = await open_keys(control, config.data_dir, build.now_ms)
    closing(keys.close)
    if reason := refuse_open_intake(config, enabled_keys=int(keys.any_enabled())):
        raise CannotStart(reason)
    return await stores_in(
        control,
        build,
        spool,
        files=Files(spool, control),
        instance_id=spool.gateway_id,
        priced=priced,
        keys=keys,
    )


async def stores_in(
    database: SqlDatabase[Any],
    build: Build,
    spool: Spool,
    *,
    files: Files | None,
    instance_id: str,
    priced: tuple[Prices, PriceFileWatch | None],
    keys: KeyStore,
    cell: Callable[[], CellStatus] | None = None,
) -> Stores:
    """What *database* keeps with *keys*; arguments as of `Stores`. Raises DatabaseUnavailable."""
    config, closing = build.config, build.stack.push_async_callback
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
    follower = await UsageFollower.open(spool, sums, now_ms=build.now_ms, tags=tuple(config.tags))
    homes = Homes(
        await open_relayed(database),
        await open_billing(database),
        await open_budgets(database),
        await open_insights(database),
        await SqlViews.open(database, now_ms=build.now_ms),
        await open_allocation(database),
        await open_recommendations(database),
    )
    return Stores(spool, files, homes, instance_id, *priced, keys, devices, senders, bases, sums, follower, cell)
