"""What counts and what sends: the intake with its settling, the lanes, and their upkeep."""

from dataclasses import dataclass
from functools import partial

import structlog

from gateway.app.building import Build
from gateway.app.stores import Stores
from gateway.common.maintenance import Maintained, maintain
from gateway.common.tls import LOOK_EVERY_S
from gateway.fleet.devices.backfill import add_named
from gateway.fleet.devices.own import own_device
from gateway.fleet.senders.store import WRITE_EVERY_S
from gateway.pipeline.assembly import Ingest, maintained, open_ingest
from gateway.pipeline.delivery.assembly import Delivery, start_delivery, start_relay
from gateway.usage.billing.relay import BillingRelay
from spool.errors import SpoolLocked
from spool.store import FileSpool

log = structlog.get_logger()

NOTE_ACCESS_S = 60.0


@dataclass(frozen=True, slots=True)
class Delivering:
    ingest: Ingest
    delivery: Delivery
    relay: BillingRelay


async def start_delivering(build: Build, stores: Stores) -> Delivering:
    """Rebuild the ledger, start the lanes, settling and upkeep. Raises CannotStart, SpoolError."""
    config, spool = build.config, stores.spool
    itself = own_device(stores.instance_id, config.devices.own_id, is_workstation=config.profile == "device")
    ingest = await open_ingest(
        config,
        build.stack,
        spool,
        stores.prices,
        stores.devices,
        stores.bases,
        itself,
        now_ms=build.now_ms,
    )
    ingest.intake.front.core.tracer = ingest.settler.tracer = build.tracer
    delivery = await start_delivery(
        config,
        build.stack,
        spool,
        ingest.events,
        stores.devices,
        itself,
        now_ms=build.now_ms,
        service_tls=build.context_of("service"),
        on_sent=None if build.tracer is None else build.tracer.sent,
    )
    if config.enrolls_devices:
        build.run(add_named(spool, stores.devices), "named devices")
    build.run(ingest.settler.run(), "settling")
    build.run(maintain(upkeep(build, stores, ingest, delivery)), "maintenance")
    relay = await start_relay(config, build.stack, delivery.lanes, stores.homes.relayed, build.now_ms)
    return Delivering(ingest, delivery, relay)


def upkeep(build: Build, stores: Stores, ingest: Ingest, delivery: Delivery) -> list[Maintained]:
    """What is to be done now and then."""
    keep_totals_ms = int(build.config.unit_cost.keep_totals_s * 1000)
    parts = [
        *maintained(build.config, stores.spool, ingest),
        Maintained("unit cost", partial(delivery.lanes.unit_cost.run_maintenance, keep_totals_ms=keep_totals_ms)),
        Maintained("keys", stores.keys.flush_last_accessed, every_s=NOTE_ACCESS_S),
        Maintained("senders", stores.senders.write, every_s=WRITE_EVERY_S),
    ]
    if stores.files is not None:
        parts.append(Maintained("lock", partial(keep_lock, build, stores.files.spool)))
    if stores.price_file is not None:
        parts.append(Maintained("prices", stores.price_file.run_maintenance))
    return parts + [Maintained(f"tls.{name}", tls.run_maintenance, LOOK_EVERY_S) for name, tls in build.tls.items()]


async def keep_lock(build: Build, spool: FileSpool) -> None:
    """Two gateways never share a data directory: the one that lost the lock stops."""
    try:
        if spool.keep_lock():
            log.error("the lock file was removed or replaced; made anew", data_dir=str(build.config.data_dir))
    except SpoolLocked as error:
        build.stop.want(f"the lock was lost: {error}")
