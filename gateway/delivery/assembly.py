"""The lanes that a configuration describes, and the service embedded where it names no upstream."""

import random
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import NamedTuple

from exporters.clock import SystemClock
from gateway.config.model import Config, refuse_shared_totals
from gateway.contract.errors import CannotStart
from gateway.delivery.embedded import EmbeddedService
from gateway.delivery.lanes import Lanes, OnSent
from gateway.devices.lane import DeviceLane
from gateway.devices.lane_store import EnrolmentRate
from gateway.devices.legacy_lane import EarlierItems
from gateway.devices.rows import New
from gateway.devices.store import DeviceStore
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
        service = await EmbeddedService.start(config.listen.service, config.data_dir, now_ms, service_tls)
        stack.push_async_callback(service.stop)
        upstream = await service.upstream()
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
        itself=None if options.enroll == "off" else itself,
        attempts=lanes.attempts[DEVICES],
    )
    lanes.on_new_keys = device_lane.wake
    stack.push_async_callback(device_lane.stop)
    await device_lane.start()
    return Delivery(lanes, device_lane, service)
