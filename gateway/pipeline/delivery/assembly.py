"""The lanes that a configuration describes, and the service embedded where it names no upstream."""

import random
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import NamedTuple

from exporters.clock import SystemClock
from gateway.common.contract.errors import BadRecord, CannotStart
from gateway.config.model import Billing, Config, Upstream, refuse_shared_totals
from gateway.fleet.devices.lane import DeviceLane
from gateway.fleet.devices.lane_store import EnrolmentRate
from gateway.fleet.devices.legacy_lane import EarlierItems
from gateway.fleet.devices.own import own_beat
from gateway.fleet.devices.rows import New
from gateway.fleet.devices.store import DeviceStore
from gateway.local_service.billing_bodies import read_drop, refuse_other_sums
from gateway.local_service.checks import decoded_object
from gateway.local_service.errors import Invalid
from gateway.pipeline.delivery.embedded import EmbeddedService
from gateway.pipeline.delivery.lanes import Lanes, OnSent
from gateway.usage.billing.book import BillingBook, BillingSettings
from gateway.usage.billing.content import first_hour
from gateway.usage.billing.home import BillingHome
from gateway.usage.billing.lane import BillingLane
from gateway.usage.billing.lane_store import LANE
from gateway.usage.billing.relay import BillingRelay, ReadDrop
from gateway.usage.billing.relay_home import RelayHome
from gateway.usage.billing.relay_store import LANE as RELAY
from gateway.usage.sums.query import UsageQueries
from spool.record import DEVICES
from spool.store import EventStore, Spool


class Delivery(NamedTuple):
    lanes: Lanes
    device_lane: DeviceLane
    service: EmbeddedService | None
    """None where the configuration names an upstream."""


async def start_delivery(
    config: Config,
    stack: AsyncExitStack,
    spool: Spool,
    events: EventStore,
    devices: DeviceStore,
    itself: New,
    *,
    now_ms: Callable[[], int],
    service_tls: ssl.SSLContext | None = None,
    on_sent: OnSent = None,
) -> Delivery:
    """Start the lanes; *stack* stops them. *itself* is the gateway as a device.
    *service_tls* is of `listen.service`. Raises CannotStart, SpoolError.
    """
    service, upstream, options = None, config.upstream, config.devices
    if upstream is None:
        service = await EmbeddedService.start(
            config.listen.service, config.data_dir, now_ms, service_tls, body_timeout_s=config.limits.body_timeout_s
        )
        stack.push_async_callback(service.stop)
        upstream = await service.upstream()
        if config.billing is not None:
            await service.establish_connection(config.billing.connection)
    lanes = Lanes(config, upstream, spool, events, EarlierItems(devices), on_sent)
    stack.push_async_callback(lanes.stop)
    replaced = [stream.name for stream in await lanes.unit_cost.streams() if stream.ships == "replace"]
    if reason := refuse_shared_totals(config, replaced):
        raise CannotStart(reason)
    lanes.start()
    device_lane = DeviceLane(
        devices,
        lanes.device_calls,
        rate=EnrolmentRate(options.enroll_per_s, options.enroll_burst),
        clock=SystemClock(),
        now_ms=spool.age_ms,
        chance=random.random,
        itself=itself if config.enrolls_devices else None,
        own_beat=partial(own_beat, itself, spool),
        is_wanted=DEVICES not in config.unused_lanes,
        attempts=lanes.attempts[DEVICES],
    )
    lanes.on_new_keys.append(device_lane.wake)
    stack.push_async_callback(device_lane.stop)
    await device_lane.start()
    return Delivery(lanes, device_lane, service)


def billing_settings(options: Billing, upstream: Upstream | None) -> BillingSettings:
    """Of the drops to *upstream*; None is the embedded service."""
    return BillingSettings(
        connection=options.connection,
        upstream="embedded" if upstream is None else upstream.base_url,
        every_s=options.every_s,
        close_after_s=options.close_after_s,
        since_hour=None if options.since is None else first_hour(options.since.isoformat()),
    )


async def start_relay(
    config: Config, stack: AsyncExitStack, lanes: Lanes, home: RelayHome, now_ms: Callable[[], int]
) -> BillingRelay:
    """Start the lanes of relayed billing drops; *stack* stops them. Raises DatabaseUnavailable."""
    relay = BillingRelay(
        home,
        lanes.billing_calls,
        read_relayed,
        own_connection=None if config.billing is None else config.billing.connection,
        clock=SystemClock(),
        chance=random.random,
        now_ms=now_ms,
        attempts=lanes.attempts[RELAY],
    )
    lanes.on_new_keys.append(relay.wake)
    stack.push_async_callback(relay.stop)
    await relay.start()
    return relay


async def start_billing(
    config: Config,
    stack: AsyncExitStack,
    lanes: Lanes,
    home: BillingHome,
    usage: UsageQueries,
    gateway_id: str,
    now_ms: Callable[[], int],
) -> BillingLane | None:
    """Start the lane of billing drops; *stack* stops it. None where none is configured. Raises
    DatabaseUnavailable.
    """
    if config.billing is None:
        return None
    settings = billing_settings(config.billing, config.upstream)
    lane = BillingLane(
        await BillingBook.open(home, usage.sums, settings, gateway_id, now_ms),
        lanes.billing_calls(settings.connection),
        clock=SystemClock(),
        chance=random.random,
        count=partial(usage.refresh, at_once=True),
        attempts=lanes.attempts[LANE],
    )
    lanes.on_new_keys.append(lane.wake)
    stack.push_async_callback(lane.stop)
    await lane.start()
    return lane


def read_relayed(body: bytes) -> ReadDrop:
    """A billing drop of a sender. The check is the service's (wire contract 6.5), so that what
    is accepted here is taken there. Raises BadRecord, which names the row and the field.
    """
    try:
        drop = read_drop(decoded_object(body))
        if drop.manifest is None:
            return ReadDrop(drop.month, len(drop.rows), drop.operation)
        if drop.manifest.parts == 1:
            refuse_other_sums(drop.rows, drop.manifest)
    except Invalid as error:
        raise BadRecord(error.code, str(error)) from error
    manifest = drop.manifest
    division = f"{manifest.revision}/{manifest.parts}"
    return ReadDrop(drop.month, len(drop.rows), drop.operation, f"{manifest.source}\x00{manifest.day}", division)
