"""The composition root: one gateway from one configuration. Only here, and in `gateway.cli`, is every part known.

Start: lock and open the spool, rebuild the ledger, embed the service if there is no upstream, start the lanes, and only
then take requests. Stop: take no more, answer what is under way, let sends land, close the files.
"""

import asyncio
import errno
import os
import platform
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry

from exporters.clock import SystemClock
from gateway.admin.address_file import WrittenAddress
from gateway.admin.dead_letter_routes import add_operator_routes
from gateway.admin.description_route import add_description_route
from gateway.admin.device_routes import add_device_routes
from gateway.admin.insight_routes import add_insight_routes
from gateway.admin.key_routes import add_key_routes
from gateway.admin.keys import SERVICE_PATH, Store
from gateway.admin.server import AdminParts, admin_app
from gateway.admin.session import AdminAccess, admin_token
from gateway.admin.spool_file_routes import add_spool_file_routes
from gateway.common.plural import plural
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config, Upstream, refuse_open_intake
from gateway.config.values import Address, TcpAddress
from gateway.contract.errors import CannotStart
from gateway.counting.metrics.gaps import Gap, sender_shown
from gateway.delivery.embedded import FOLDER, READ_KEY_FILE, ServiceSummary, Total, embedded_upstream, prepare_keys
from gateway.delivery.lanes import Lanes
from gateway.devices.backfill import add_named
from gateway.devices.enrolment_hold import EnrolmentGate
from gateway.devices.intake import DeviceIntake
from gateway.devices.lane import DeviceLane, HerdLimits
from gateway.devices.legacy_lane import EarlierItems
from gateway.devices.own import own_device
from gateway.devices.rows import New, silent_for
from gateway.devices.store import DeviceStore
from gateway.ingest.assembly import build_intake, build_settler, build_worker, event_rules, read_secrets, spool_settings
from gateway.ingest.intake import GatewayIntake
from gateway.ingest.settle import HeldFrom, Settler
from gateway.insights.detect import Figures
from gateway.insights.finding import Insight
from gateway.insights.operations import DeadLetters, Device, LaneWaits
from gateway.insights.rounds import Rounds
from gateway.insights.store import InsightStore
from gateway.insights.thresholds import SILENT_DEVICE_HOURS
from gateway.insights.usage.following import UsageFollower
from gateway.insights.usage.tally import HOUR_MS
from gateway.keys.control_store import open_control, open_keys
from gateway.keys.errors import DatabaseUnavailable
from gateway.keys.store import KeyStore
from gateway.lists.conventions import ListRequest, Page
from gateway.local_service.service import Service
from gateway.observability.dead_letters import reason_figures, resend_figures
from gateway.observability.devices import device_status, edge_with, lane_with
from gateway.observability.metrics import LaneStatus, SpoolStatus, Status, StatusCollector
from gateway.observability.quarantine import quarantine_status
from gateway.pricing.file import PriceFile
from gateway.pricing.own import BadPriceFile
from gateway.pricing.prices import Prices
from gateway.receiver.assembly import build_gate, build_receiver
from gateway.receiver.authenticator import KeyAuthenticator
from gateway.receiver.forwarded import liveness_route
from gateway.receiver.listen import OWNER_AND_GROUP, OWNER_ONLY, Listener, listen, runner_for
from gateway.receiver.server import Receiver
from gateway.storage.database import Database
from gateway.usage_events.intake import Metering
from spool.data_dir import make_data_dir
from spool.errors import SpoolError
from spool.record import DEVICES
from spool.sqlite.spool import SqliteSpool
from spool.store import EventStore, Spool
from spool.unit_cost import Rules

log = structlog.get_logger()

DISTRIBUTION = "ai-telemetry-gateway"
LOOK_AFTER_S = 1.0
NOTE_ACCESS_S = 60.0


@dataclass(frozen=True, slots=True)
class Ports:
    """What is bound, with real ports; None where a listener is off."""

    http: Address
    admin: Address
    service: Address


class Gateway:
    """One running gateway. `start` in a running loop, `stop` in the same."""

    def __init__(
        self,
        config: Config,
        *,
        now_ms: Callable[[], int] = wall_ms,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """*monotonic_s* tells insights for how long something lasts."""
        self.config = config
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._stack = AsyncExitStack()
        self.spool: Spool
        self.counting: Settler
        self.intake: GatewayIntake
        self._metering: Metering
        self.keys: KeyStore
        self.insights: InsightStore
        self._usage: UsageFollower
        self._rounds: Rounds
        self._lane_waits = LaneWaits()
        self.devices: DeviceStore
        self._itself: New
        self._control: Database
        self._lanes: Lanes
        self._device_lane: DeviceLane
        self._receiver: Receiver
        self.admin: web.Application
        self.access: AdminAccess
        self.prices = Prices(has_list=config.pricing.price_list == "on")
        self._price_file: PriceFile | None = None
        self._service_keys: KeyStore | None = None
        self._summary: ServiceSummary | None = None
        self.ports = Ports(None, None, None)

    async def start(self) -> Ports:
        """Raises CannotStart, SpoolError, OSError; what was opened by then is closed again."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self.ports

    async def stop(self) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        await self._open_stores()
        await self._open_counting()
        metered = self.spool.events(Rules(self.config.unit_cost.operation, self.config.unit_cost.max_streams))
        self._open_intake(metered)
        service = await self._start_service() if self.config.upstream is None else None
        await self._start_lanes(service, metered)
        self._start_tasks()
        self.ports = Ports(
            http=await self._listen("http", self._receiver_runner(), self.config.listen.http),
            admin=await self._listen("admin", self._admin_runner(), self.config.listen.admin),
            service=None if service is None else TcpAddress("127.0.0.1", service[1]),
        )
        self._write_admin_address(self.ports.admin)

    async def _open_stores(self) -> None:
        """What is on disk: records, keys, devices."""
        config = self.config
        make_data_dir(config.data_dir)
        self.spool = SqliteSpool(
            config.data_dir, spool_settings(config), now_ms=self._now_ms, exporters=list(config.exporters)
        )
        self._stack.push_async_callback(self.spool.close)
        self._read_prices()
        await self._open_keys()
        refused = refuse_open_intake(config, enabled_keys=int(self.keys.any_enabled()))
        if refused is not None:
            raise CannotStart(refused)
        await self._open_devices()

    async def _open_counting(self) -> None:
        self.counting = build_settler(self.config, self.spool, self.prices, self._enrolment_gate())
        self._stack.push_async_callback(self.counting.aggregates.close)
        await self.counting.rebuild()

    def _enrolment_gate(self) -> HeldFrom | None:
        if self.config.devices.gate != "hold":
            return None
        settle_ms = int(self.config.counting.settle_s * 1000)
        return EnrolmentGate(self.devices, settle_ms=settle_ms, now_ms=self.spool.age_ms).held_from_ms

    def _open_intake(self, metered: EventStore) -> None:
        config, own_device = self.config, self._device_of_the_nameless()
        secrets = read_secrets(config)
        worker = build_worker(config, secrets, own_device)
        if worker is not None:
            worker.start()
            self._stack.push_async_callback(worker.stop)
        self._metering = Metering(metered, event_rules(config), now_ms=self._now_ms)
        devices = DeviceIntake(
            self.devices,
            telemetry_enrolls=config.devices.enroll != "off",
            needs_row=config.devices.gate == "hold",
        )
        self.intake = build_intake(
            config,
            self.spool,
            self.counting,
            self.prices,
            self._metering,
            now_ms=self._now_ms,
            devices=devices,
            own_device=own_device,
            secrets=secrets,
            worker=worker,
        )

    async def _start_lanes(self, service: tuple[Service, int] | None, metered: EventStore) -> None:
        config = self.config
        upstream = config.upstream or await self._embedded(service)
        if service is not None:
            self._service_keys = service[0].keys
            self._summary = ServiceSummary(service[1], config.data_dir / READ_KEY_FILE)
            self._stack.push_async_callback(self._summary.close)
        self._lanes = Lanes(config, upstream, self.spool, metered, EarlierItems(self.devices))
        self._stack.push_async_callback(self._lanes.stop)
        await self._refuse_shared_totals()
        self._lanes.start()
        await self._start_device_lane()

    def _start_tasks(self) -> None:
        if self.config.devices.enroll != "off":
            self._background(add_named(self.spool, self.devices), "named devices")
        self._background(self.counting.run(), "settling")
        self._background(self._look_after(), "spool")
        self._stack.push_async_callback(self._rounds.last)
        self._background(self._usage.run(), "usage by the hour")
        self._background(self._rounds.run(), "insights")

    def _read_prices(self) -> None:
        path = self.config.pricing.file
        if path is not None:
            try:
                self._price_file = PriceFile(path, self.prices)
            except (BadPriceFile, OSError) as error:
                raise CannotStart(f"pricing.file {path}: {error}") from error

    async def _open_keys(self) -> None:
        self._control = database = await open_control(self.config.data_dir)
        self._stack.push_async_callback(database.close)
        self.keys = await open_keys(database, self.config.data_dir, self._now_ms)
        self._stack.push_async_callback(self.keys.close)
        self._background(self._note_access(), "keys")
        self.insights = await InsightStore.open(database, now_ms=self._now_ms)
        self._usage = await UsageFollower.open(self.spool, database, now_ms=self._now_ms)
        self._rounds = Rounds(
            self.insights,
            self._usage,
            database,
            figures=self._insight_figures,
            now_ms=self._now_ms,
            monotonic_s=self._monotonic_s,
            has_prices=self.config.pricing.price_list == "on",
        )

    async def _note_access(self) -> None:
        """Write down now and then when keys were last used."""
        while True:
            await asyncio.sleep(NOTE_ACCESS_S)
            with suppress(DatabaseUnavailable):  # what was noted is kept, and written the next time
                await self.keys.flush_last_accessed()

    async def _start_service(self) -> tuple[Service, int]:
        address = self.config.listen.service
        if not isinstance(address, TcpAddress):
            raise CannotStart("listen.service must be host:port while there is no upstream")
        service = Service(self.config.data_dir / FOLDER, now_ms=self._now_ms)
        try:
            port = await service.start(address.host, address.port)
        except OSError as error:
            raise not_bound("listen.service", address, error) from error
        self._stack.push_async_callback(service.stop)
        return service, port

    async def _embedded(self, service: tuple[Service, int] | None) -> Upstream:
        assert service is not None  # noqa: S101 embedded whenever there is no upstream
        return embedded_upstream(service[1], await prepare_keys(service[0], self.config.data_dir))

    async def _open_devices(self) -> None:
        options = self.config.devices
        self.devices = await DeviceStore.open(
            self._control,
            gateway_id=self.spool.gateway_id,
            max_new_per_hour=options.max_new_per_hour,
            interval_ms=int(options.heartbeat_interval_s * 1000),
            now_ms=self.spool.age_ms,
            wall_ms=self._now_ms,
        )
        self._stack.push_async_callback(self.devices.close)
        self._itself = own_device(
            self.spool.gateway_id,
            options.own_id,
            is_workstation=self.config.profile == "device",
            os=platform.system(),
            arch=platform.machine(),
        )

    def _device_of_the_nameless(self) -> str | None:
        """Whose telemetry it is that names no device: on a device its own, elsewhere nobody knows."""
        is_of_this_machine = self.config.profile == "device" and self.config.devices.enroll != "off"
        return self._itself.device_id if is_of_this_machine else None

    async def _start_device_lane(self) -> None:
        options = self.config.devices
        self._device_lane = DeviceLane(
            self.devices,
            self._lanes.device_calls,
            limits=HerdLimits(options.enroll_per_s, options.enroll_burst),
            clock=SystemClock(),
            now_ms=self.spool.age_ms,
            chance=random.random,
            itself=None if options.enroll == "off" else self._itself,
        )
        self._lanes.on_new_keys = self._device_lane.wake
        self._stack.push_async_callback(self._device_lane.stop)
        await self._device_lane.start()

    async def _refuse_shared_totals(self) -> None:
        """Totals that one gateway replaces whole must not be sent by several. Raises CannotStart."""
        options = self.config.unit_cost
        if options.replicas > 1 and not options.suffix:
            whole = [stream.name for stream in await self._lanes.unit_cost.streams() if stream.ships == "replace"]
            if whole:
                raise CannotStart(
                    f"unit_cost.replicas is {options.replicas}, and {plural(len(whole), 'stream was', 'streams were')} begun with operation: replace"
                    f" ({', '.join(whole[:5])}): their totals would wipe the other gateways'; set unit_cost.suffix, or"
                    " begin with an empty data directory"
                )

    def _background(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)

    async def _look_after(self) -> None:
        while True:
            try:
                await self.spool.run_maintenance()
                await self.counting.aggregates.run_maintenance()
                await self._look_after_metering()
                if self._price_file is not None:
                    self._price_file.look()
            except Exception as error:  # noqa: BLE001 upkeep must go on whatever one round met
                log.warning("spool upkeep failed", error=type(error).__name__)
            await asyncio.sleep(LOOK_AFTER_S)

    async def _look_after_metering(self) -> None:
        config = self.config
        expired = await self._lanes.unit_cost.run_maintenance(keep_totals_ms=int(config.unit_cost.keep_totals_s * 1000))
        if expired:
            log.warning("unit-cost records waited for too long and are expired", records=expired)
        window_ms = int(max(config.spool.max_age_s + config.spool.keep_delivered_s, config.counting.window_s) * 1000)
        await self._metering.forget(self.spool.age_ms() - window_ms)
        known_ms = self.spool.age_ms() - int(max(config.spool.keep_delivered_s, config.counting.window_s) * 1000)
        if forgotten := await self._metering.make_room(known_ms, lambda: self.spool.is_crowded):
            log.warning("the spool fills up: older event ids are forgotten, and repeats of them count", ids=forgotten)

    async def _listen(self, option: str, runner: web.BaseRunner, address: Address) -> Address:
        try:
            listener: Listener | None = await listen(
                runner, address, socket_mode=OWNER_ONLY if option == "admin" else OWNER_AND_GROUP
            )
        except OSError as error:
            raise not_bound(f"listen.{option}", address, error) from error
        if listener is None:
            return None
        self._stack.push_async_callback(listener.close)
        return listener.address

    def _write_admin_address(self, address: Address) -> None:
        """For commands beside the gateway, which finds it with no need of them."""
        if address is None:
            return
        try:
            written = WrittenAddress(self.config.data_dir, address)
        except OSError as error:
            log.warning("commands must be told the admin address: it cannot be written", error=type(error).__name__)
        else:
            self._stack.callback(written.close)

    def _receiver_runner(self) -> web.BaseRunner:
        liveness = liveness_route(self._insight_page, KeyAuthenticator(self.keys))
        self._receiver = build_receiver(
            self.config, self.intake, build_gate(self.config, self.keys), [liveness], now_ms=self._now_ms
        )
        return runner_for(self._receiver.make_server())

    def _admin_runner(self) -> web.BaseRunner:
        self.access = AdminAccess(admin_token(self.config.data_dir, os.urandom), time.monotonic, os.urandom)
        registry = CollectorRegistry()
        registry.register(StatusCollector(self.status, self._receiver.figures))
        parts = AdminParts(
            self.status,
            self._totals,
            self._not_ready,
            registry,
            self.access,
            self._insight_page,
            self._unsettled,
            KeyAuthenticator(self.keys),
        )
        address = self.config.listen.admin
        app = admin_app(parts, loopback=address is None or address.is_loopback)
        add_spool_file_routes(app, self.spool)
        add_operator_routes(app, self.spool.operator(), self.spool.age_ms)
        add_device_routes(app, self.devices)
        add_key_routes(app, Store(self.keys, self._receiver.admission.recent.last_hour))
        if self._service_keys is not None:
            add_key_routes(app, Store(self._service_keys), SERVICE_PATH)
        add_insight_routes(app, self.insights)
        add_description_route(app)
        self.admin = app
        return runner_for(app)

    async def _totals(self) -> Sequence[Total]:
        """The embedded service's summary by provider and model; nothing where the service is elsewhere."""
        if self._summary is None:
            return []
        return await self._summary.totals()

    async def _insight_figures(self) -> Figures:
        """How things stand now, for the detectors. Raises DatabaseUnavailable."""
        aggregates = self.counting.aggregates
        stuck = {
            name: (lane["state"], lane["reason"] or "no reason is known")
            for name, lane in self._lane_status().items()
            if lane["state"] != "ok" and lane["pending"]
        }
        return Figures(
            self._now_ms(),
            gaps=aggregates.gaps(),
            prefer_metrics=aggregates.settings.prefer_metrics,
            key_names=self.keys.names(),
            stuck_lanes=self._lane_waits.seen(stuck, self._monotonic_s()),
            dead_letters=[DeadLetters(x.lane, x.reason, x.records) for x in self.spool.dead_letter_summary().reasons],
            devices=await self._silent_devices(),
        )

    async def _silent_devices(self) -> list[Device]:
        """Their times are by the clock of ages: here they are as the wall tells them now."""
        now_ms, age_ms = self._now_ms(), self.spool.age_ms()
        silent_ms = SILENT_DEVICE_HOURS * HOUR_MS
        found = await self.devices.read(partial(silent_for, silent_ms=silent_ms, now_ms=age_ms))
        return [
            Device(name, first_ms + now_ms - age_ms, last_ms + now_ms - age_ms) for name, first_ms, last_ms in found
        ]

    def _gaps_shown(self) -> list[Gap]:
        key_names = self.keys.names()
        gaps = self.counting.aggregates.gaps()
        return [{**gap, "sender": sender_shown(gap["sender"], key_names)} for gap in gaps]

    async def _insight_page(self, request: ListRequest) -> Page:
        await self._rounds.asked()
        return await self.insights.page(request)

    async def _unsettled(self) -> Sequence[Insight]:
        """Nothing while the database cannot be read: the page tells of the lanes even then."""
        try:
            await self._rounds.asked()
            return await self.insights.unsettled()
        except DatabaseUnavailable:
            return []

    async def _not_ready(self) -> str | None:
        try:
            self.spool.admit(0)
        except SpoolError as error:
            return str(error)
        return None

    def status(self) -> Status:
        """What `GET /v2/status` answers."""
        figures = self.devices.figures
        return {
            "edge": edge_with(self.spool.edge(), figures.edge),
            "lanes": self._lane_status(),
            "reasons": edge_with(self.spool.reasons(), figures.reasons),
            "devices": device_status(self.devices, self.counting.held_s),
            "unpriced": dict(self.prices.unpriced),
            "gaps": self._gaps_shown(),
            "spool": spool_status(self.spool),
            "quarantine": quarantine_status(self.spool),
            "dead_letters": reason_figures(self.spool.dead_letter_summary()),
            "resends": resend_figures(self.spool.dead_letter_summary()),
            "refused": self._receiver.refused.status(),
            "version": version(DISTRIBUTION),
        }

    def _lane_status(self) -> dict[str, LaneStatus]:
        """The lanes of the spool; that of devices is theirs, beside what an earlier release left in the spool."""
        now_ms = self.spool.age_ms()
        lanes = dict(self._lanes.status(now_ms))
        lane = self._device_lane
        lanes[DEVICES] = lane_with(lanes[DEVICES], self.devices.figures, now_ms, lane.state, lane.reason)
        return lanes


def spool_status(spool: Spool) -> SpoolStatus:
    return {
        "used_bytes": spool.used_bytes,
        "max_bytes": spool.settings.max_bytes,
        "file_bytes": spool.room.file_bytes,
        "disk_free_bytes": spool.room.free_bytes,
    }


def not_bound(option: str, address: Address, error: OSError) -> CannotStart:
    """*option*: as who starts it names it."""
    why = os.strerror(error.errno) if error.errno else str(error)
    mend = "; stop what listens there, or set another port" if error.errno == errno.EADDRINUSE else ""
    return CannotStart(f"{option}: {address} cannot be listened on: {why}{mend}")
