"""The composition root: the parts of one gateway, made from a configuration, started and stopped.

Start: lock and open the spool, rebuild the ledger, embed the service if there is no upstream, start
the lanes, and only then take requests. Stop goes the other way: take no more, answer what is under
way, let sends land, close the files.
"""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import structlog

from gateway.admin.address_file import announce_address
from gateway.admin.assembly import build_admin
from gateway.admin.backup import LiveBackup
from gateway.admin.parts import PARTS, Running
from gateway.admin.session import open_access
from gateway.archive.staging import CONTROL, SERVICE, remove_left
from gateway.billing.lane import BillingLane
from gateway.billing.requests import BillingRequests, RelayRequests
from gateway.budgets.book import Budgets
from gateway.common.background import run_in_background
from gateway.common.maintenance import Maintained, maintain
from gateway.common.tls import LOOK_EVERY_S, ServerTls, TlsFault
from gateway.common.wall_clock import wall_ms
from gateway.config.changes import changed, with_changes
from gateway.config.model import Config, refuse_open_intake
from gateway.config.values import Address, TcpAddress
from gateway.contract.errors import CannotStart
from gateway.delivery.assembly import start_billing, start_delivery, start_relay
from gateway.delivery.webhooks import webhooks_of
from gateway.devices.backfill import add_named
from gateway.devices.own import own_device
from gateway.devices.store import DeviceStore
from gateway.ingest.assembly import USER_SECRET_FILE, maintained, open_ingest, spool_settings
from gateway.insights.rounds import Rounds
from gateway.insights.snapshot import Snapshot
from gateway.keys.control_store import open_control, open_keys
from gateway.local_service.forgetting import forget_user
from gateway.observability.intake_log import IntakeLog
from gateway.observability.lane_log import LaneLog
from gateway.observability.latency import Latencies, LoopLag
from gateway.observability.refusals import RefusedStatus
from gateway.observability.status import StatusReport
from gateway.observability.telemetry.assembly import build_push, tracer_of
from gateway.pricing.watch import open_prices
from gateway.receiver.assembly import build_gate, build_receiver, open_routes
from gateway.receiver.authenticator import KeyAuthenticator
from gateway.receiver.billing_drops import billing_drop_routes
from gateway.receiver.forwarded import budget_state_route, liveness_route
from gateway.receiver.listen import OWNER_AND_GROUP, OWNER_ONLY, Closing, bind
from gateway.senders.store import WRITE_EVERY_S, SenderStore
from gateway.usage.following import UsageFollower
from gateway.usage.forgetting import Delivered, UserForgetter
from gateway.usage.query import UsageQueries
from gateway.views.store import Views
from spool.data_dir import make_data_dir
from spool.errors import SpoolLocked
from spool.sqlite.spool import SqliteSpool
from spool.store import Spool

log = structlog.get_logger()

NOTE_ACCESS_S = 60.0
PROTOCOLS = ("http/1.1", "h2")
"""Of ALPN: a client that speaks nothing but gRPC is answered where to go."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What is bound, with real ports; None where a listener is off."""

    http: Address
    grpc: Address
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
        """*now_ms* is the wall clock; *monotonic_s* measures how long a lane is stuck."""
        self.config = config
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._stack = AsyncExitStack()
        self._tracer = tracer_of(config.telemetry)
        self._pushes: Counter[tuple[str, str]] = Counter()
        self.ports = Ports(None, None, None, None)
        self.billing: BillingLane | None = None
        self.stop_wanted = asyncio.Event()
        """Set with `stop_reason` when the gateway must not go on; its owner then stops it."""
        self.stop_reason: str | None = None

    async def start(self) -> Ports:
        """Raises CannotStart, SpoolError, OSError; what was opened by then is closed again."""
        try:
            self._tls = open_tls(self.config, self._now_ms)
            await self._open_stores()
            await self._open_ingest()
            await self._start_delivery()
            self.relay = await start_relay(self.config, self._stack, self.lanes, self._control, self._now_ms)
            await self._start_insights()
            self.billing = await start_billing(
                self.config, self._stack, self.lanes, self._control, self.usage, self.spool.gateway_id, self._now_ms
            )
            await self._listen()
        except BaseException:
            await self._stack.aclose()
            raise
        return self.ports

    async def stop(self) -> None:
        await self._stack.aclose()

    def reload(self, config: Config) -> list[str]:
        """Take from *config* what can change while the gateway runs; the changed options that
        need a restart.

        Raises KeyFault for a secret that cannot be read, with nothing changed.
        """
        running = with_changes(self.config, config)
        routes = open_routes(running, self.intake, self.receiver.admission, self._further)
        if running.upstream is not None and not self.lanes.use_keys(running.upstream):
            running = running.model_copy(update={"upstream": self.config.upstream})
        self.receiver.use(*routes)
        for tls in self._tls.values():
            tls.reload()
        if self._price_file is not None:
            self._price_file.reload()
        self.config = running
        return changed(running, config)

    async def _open_stores(self) -> None:
        """spool.db and control.db: records, keys, devices."""
        config = self.config
        make_data_dir(config.data_dir)
        remove_left(config.data_dir)
        self.spool: Spool = SqliteSpool(
            config.data_dir, spool_settings(config), now_ms=self._now_ms, exporters=list(config.exporters)
        )
        self._stack.push_async_callback(self.spool.close)
        self.prices, self._price_file = open_prices(config.pricing.file, has_list=config.pricing.price_list == "on")
        self._control = await open_control(config.data_dir)
        self._stack.push_async_callback(self._control.close)
        self.keys = await open_keys(self._control, config.data_dir, self._now_ms)
        self._stack.push_async_callback(self.keys.close)
        if reason := refuse_open_intake(config, enabled_keys=int(self.keys.any_enabled())):
            raise CannotStart(reason)
        self.devices = await DeviceStore.open(
            self._control,
            gateway_id=self.spool.gateway_id,
            max_new_per_hour=config.devices.max_new_per_hour,
            interval_ms=int(config.devices.heartbeat_interval_s * 1000),
            now_ms=self.spool.age_ms,
            wall_ms=self._now_ms,
        )
        self._stack.push_async_callback(self.devices.close)
        self._senders = await SenderStore.open(self._control, self._now_ms)
        self._stack.push_async_callback(self._senders.close)

    async def _open_ingest(self) -> None:
        is_workstation = self.config.profile == "device"
        self._itself = own_device(self.spool.gateway_id, self.config.devices.own_id, is_workstation=is_workstation)
        self._ingest = await open_ingest(
            self.config,
            self._stack,
            self.spool,
            self.prices,
            self.devices,
            self._itself,
            now_ms=self._now_ms,
            senders=self._senders.senders,
        )
        self.intake, self.settler = self._ingest.intake, self._ingest.settler
        self.intake.pipeline.tracer = self.settler.tracer = self._tracer

    async def _start_delivery(self) -> None:
        config = self.config
        self.lanes, self._device_lane, self.service = await start_delivery(
            config,
            self._stack,
            self.spool,
            self._ingest.events,
            self.devices,
            self._itself,
            now_ms=self._now_ms,
            service_tls=self._context_of("service"),
            on_sent=None if self._tracer is None else self._tracer.sent,
        )
        if config.enrolls_devices:
            run_in_background(self._stack, add_named(self.spool, self.devices), "named devices")
        run_in_background(self._stack, self.settler.run(), "settling")
        keep_totals_ms = int(config.unit_cost.keep_totals_s * 1000)
        parts = [
            *maintained(config, self.spool, self._ingest),
            Maintained("unit cost", partial(self.lanes.unit_cost.run_maintenance, keep_totals_ms=keep_totals_ms)),
            Maintained("keys", self.keys.flush_last_accessed, every_s=NOTE_ACCESS_S),
            Maintained("lock", self._keep_lock),
            Maintained("senders", self._senders.write, every_s=WRITE_EVERY_S),
        ]
        if self._price_file is not None:
            parts.append(Maintained("prices", self._price_file.run_maintenance))
        parts += [Maintained(f"tls.{name}", tls.run_maintenance, LOOK_EVERY_S) for name, tls in self._tls.items()]
        run_in_background(self._stack, maintain(parts), "maintenance")

    async def _keep_lock(self) -> None:
        """Two gateways never share a data directory: the one that lost the lock stops."""
        try:
            if self.spool.keep_lock():
                log.error("the lock file was removed or replaced; made anew", data_dir=str(self.config.data_dir))
        except SpoolLocked as error:
            self.stop_reason = f"the lock was lost: {error}"
            self.stop_wanted.set()

    async def _start_insights(self) -> None:
        aggregates = self.settler.aggregates
        self.status = StatusReport(
            self.spool,
            self.devices,
            spool_lanes=self.lanes.status,
            device_lane=lambda: (self._device_lane.state, self._device_lane.reason),
            held_s=lambda: self.settler.held_s,
            behind_s=lambda: self.settler.behind_s,
            waiting_metrics=lambda: aggregates.n_held,
            unpriced=self.prices.unpriced,
            gaps=aggregates.gaps,
            uncovered=self.settler.uncovered,
            key_names=self.keys.names,
            refused=self._refused,
            upstream=self.lanes.liveness.status,
            reader=self.intake.pipeline.parser.reader.status,
            billing=lambda: None if self.billing is None else self.billing.status(),
            billing_relay=self.relay.status,
        )
        intake_log = IntakeLog(self.status.not_ready, self.spool.commit_seconds, lambda: self.settler.held_s)
        logs = [
            Maintained("lane log", LaneLog(self.status.logged_lanes).run_maintenance),
            Maintained("intake log", intake_log.run_maintenance),
        ]
        run_in_background(self._stack, maintain(logs), "log of states")
        follower = await UsageFollower.open(self.spool, self._control, now_ms=self._now_ms)
        self.budgets = await Budgets.open(
            self._control, now_ms=self._now_ms, webhooks=webhooks_of(self.config.budgets), follower=follower
        )
        self._views = await Views.open(self._control, now_ms=self._now_ms)
        snapshot = Snapshot(
            self.spool,
            self.devices,
            stuck_lanes=self.status.stuck_lanes,
            gaps=aggregates.gaps,
            uncovered=self.settler.uncovered,
            key_names=self.keys.names,
            crossings=self.budgets.crossings,
            prefer_metrics=aggregates.settings.prefer_metrics,
            now_ms=self._now_ms,
            monotonic_s=self._monotonic_s,
        )
        self._rounds = await Rounds.open(
            self._control,
            follower,
            snapshot,
            has_prices=self.config.pricing.price_list == "on",
        )
        self.usage = UsageQueries(self._control, now_ms=self._now_ms, follower=self._rounds.follower)
        self._stack.push_async_callback(self._rounds.last)
        run_in_background(self._stack, self._rounds.run(), "insights")
        run_in_background(self._stack, self.budgets.run(), "budgets")

    def _latencies(self) -> Latencies:
        lag, pipeline = LoopLag(), self.intake.pipeline
        run_in_background(self._stack, lag.run(), "event loop lag")
        return Latencies(
            self.receiver.counts.seconds,
            pipeline.append_seconds,
            self.spool.commit_seconds,
            self.settler.lag_seconds,
            self.lanes.attempts,
            lag.seconds,
            self._pushes,
            self._tracer,
            pipeline.parser.pids,
        )

    def _start_push(self) -> None:
        """The gateway's own telemetry, where it goes to an endpoint; pushed last when all listeners
        are closed.
        """
        if self.config.telemetry is None:
            return
        registry = self.admin[PARTS].registry
        pushing = build_push(self.config.telemetry, registry, self._tracer, self.spool.gateway_id, self._pushes)
        self._stack.push_async_callback(pushing.close)
        run_in_background(self._stack, pushing.run(), "own telemetry")

    def _refused(self) -> list[RefusedStatus]:
        return self.receiver.refused.status()

    async def _listen(self) -> None:
        """Bind what takes requests; the last step of the start."""
        addresses = self.config.listen
        reading = KeyAuthenticator(self.keys)
        self._further = [
            liveness_route(self._rounds, reading),
            budget_state_route(self.budgets, reading),
            *billing_drop_routes(self.relay, self._senders.senders),
        ]
        gate = build_gate(self.config, self.keys)
        self.receiver = build_receiver(
            self.config,
            self.intake,
            gate,
            self._further,
            now_ms=self._now_ms,
            senders=self._senders.senders,
            tracer=self._tracer,
        )
        self.access = open_access(self.config.data_dir, self.config.metrics_token)
        self.admin = build_admin(
            self.config,
            running=lambda: Running(self.config, self.ports.http, self.ports.grpc),
            status=self.status,
            latencies=self._latencies(),
            access=self.access,
            receiver=self.receiver,
            rounds=self._rounds,
            budgets=self.budgets,
            views=self._views,
            spool=self.spool,
            lanes=self.lanes,
            keys=self.keys,
            devices=self.devices,
            senders=self._senders.senders,
            service=self.service,
            usage=self.usage,
            users=self._user_forgetter(),
            billing=BillingRequests(None if self.billing is None else self.billing.book, self.billing, self._now_ms),
            billing_relay=RelayRequests(self._control, self.relay),
            now_ms=self._now_ms,
            backup=self._backup(),
        )
        self._start_push()
        http, admin = self._context_of("http"), self._context_of("admin")
        served, closing = self.receiver.make_server(), Closing()
        self._stack.push_async_callback(closing.close)
        self.ports = Ports(
            http=await bind(closing, "listen.http", served, addresses.http, self.receiver, OWNER_AND_GROUP, http),
            grpc=await self._listen_for_grpc(closing),
            admin=await bind(closing, "listen.admin", self.admin, addresses.admin, None, OWNER_ONLY, admin),
            service=None if self.service is None else TcpAddress("127.0.0.1", self.service.port),
        )
        if self.ports.admin is not None:
            files = self._tls["admin"].files if "admin" in self._tls else None
            self._stack.callback(announce_address(self.config.data_dir, self.ports.admin, files))
        self.receiver.http_at, self.receiver.grpc_at = port_of(self.ports.http), port_of(self.ports.grpc)

    def _backup(self) -> LiveBackup:
        databases = {CONTROL: self._control}
        if self.service is not None:
            databases[SERVICE] = self.service.database
        return LiveBackup(self.config.data_dir, self.spool, databases, self._now_ms)

    def _user_forgetter(self) -> UserForgetter:
        service = None if self.service is None else Delivered(self.service.database, forget_user)
        secret_file = self.config.data_dir / USER_SECRET_FILE
        named_in = (self.budgets.forget_users, self._views.forget_users)
        return UserForgetter(self.spool.operator(), self._control, self.usage, secret_file, service, named_in)

    def _context_of(self, listener: str) -> ssl.SSLContext | None:
        """None for a listener without TLS."""
        tls = self._tls.get(listener)
        return None if tls is None else tls.context

    async def _listen_for_grpc(self, closing: Closing) -> Address:
        if self.config.listen.grpc is None:
            return None
        from gateway.grpc.assembly import listen_for_grpc  # noqa: PLC0415 - h2 is not loaded where it is off

        tls = self._tls.get("grpc")
        return await listen_for_grpc(closing, self.config, self.receiver, self.intake, self.keys, tls)


def open_tls(config: Config, now_ms: Callable[[], int]) -> dict[str, ServerTls]:
    """Listener -> its TLS, of those that listen with it. Raises CannotStart."""
    listening = config.listeners()
    try:
        return {
            name: ServerTls(options.files(f"tls.{name}"), PROTOCOLS, now_ms)
            for name, options in config.tls.groups().items()
            if listening[name] is not None
        }
    except TlsFault as fault:
        raise CannotStart(str(fault)) from fault


def port_of(address: Address) -> str | None:
    """`port 4317`, or the path of a Unix socket; None where nothing listens."""
    if address is None:
        return None
    return f"port {address.port}" if isinstance(address, TcpAddress) else str(address)
