"""The lanes of one gateway: which exporter each has, its pump, and
its state as the status shows it.
"""

import asyncio
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypedDict, assert_never, cast

import structlog

from exporters.attempts import Attempts
from exporters.base import Exporter, Outcome
from exporters.clock import SystemClock
from exporters.cost_service.billing import BillingCalls
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.devices import DeviceCalls
from exporters.cost_service.liveness import LIVENESS_SCOPE, check_liveness
from exporters.cost_service.unit_cost import CREATE_SCOPE, DELETE_SCOPE, READ_SCOPE, UnitCostSettings
from exporters.keyring import NOT_WANTED, Keyring, KeySetting, no_key_grants
from exporters.otlp.exporter import OtlpSettings
from exporters.pacing import LaneState
from exporters.pump import BatchLimits, Pump
from exporters.registry import LanePlan, UpstreamSettings, build_client, build_extra, build_otlp, build_upstream
from gateway.common.contract.errors import NotFound
from gateway.common.contract.scopes import (
    ENROLL_SCOPE,
    EVENT_SCOPE,
    HEARTBEAT_SCOPE,
    INGEST_SCOPE,
    PING_SCOPE,
    UNIT_COST_SCOPE,
)
from gateway.common.plugins import EXPORTERS_GROUP, BrokenPlugin, load, named, plugins
from gateway.common.traceback_summary import places
from gateway.common.wall_clock import wall_ms
from gateway.config.model import (
    Config,
    ConsoleExporter,
    ExporterOptions,
    FileExporter,
    OtlpExporter,
    PluginExporter,
    StreamExporter,
    Upstream,
    UpstreamKey,
    grants_scope,
)
from gateway.observability.metrics import LaneStatus
from gateway.pipeline.delivery.liveness import UpstreamLiveness
from gateway.pipeline.delivery.watchdog import LaneWatch
from gateway.usage.events.derived import Derivation, DerivedStream
from spool.clock import rfc3339_ms
from spool.record import AI_TELEMETRY, DEVICES, OWN_LANES, UNIT_COST, USAGE_EVENTS, Batch, Lane
from spool.store import EventStore, Spool, SupervisedLaneStore

log = structlog.get_logger()

OnSent = Callable[[Batch, Outcome, float], None] | None

LANE_NEEDS: Mapping[Lane, tuple[str, ...]] = {
    AI_TELEMETRY: (INGEST_SCOPE,),
    USAGE_EVENTS: (EVENT_SCOPE,),
    UNIT_COST: (UNIT_COST_SCOPE,),
    DEVICES: (ENROLL_SCOPE, HEARTBEAT_SCOPE),
}
"""The scopes without which a lane keeps all or a part of what it holds."""
FURTHER_NEEDS: Mapping[str, tuple[str, str]] = {
    "liveness": (LIVENESS_SCOPE, "whether the upstream is there shows in the answers to the lanes alone"),
    "pings of devices": (PING_SCOPE, "a heartbeat is sent in place of a ping"),
    "streams that are new here": (READ_SCOPE, "their current buckets go by sum"),
    "creation of streams": (CREATE_SCOPE, "a stream is made by its first records"),
    "deletion of streams": (DELETE_SCOPE, "a deletion waits"),
}
"""What else a key may be used for -> its scope, and what happens where none grants it."""
LANE_SCOPES = (*(scope for scopes in LANE_NEEDS.values() for scope in scopes), PING_SCOPE)
"""A lane is on where a key grants its scope."""
DERIVED_LIMITS = BatchLimits(in_flight=1)
NEVER: Final = Attempts()
"""Of a lane that sends nothing."""
RESTART_S = 1.0
"""Before a pump that ended by a fault is replaced."""
LOOK_FOR_KEYS_S = 1.0
WATCH_S = 0.5
STOP_GRACE_S = 5.0
"""How long a send that is under way may still take when the gateway
stops; then its batch is given back."""
LET_GO_S = 5.0
"""Beyond that, a pump that does not end is left to itself: its batches stay on
disk, and go out again later."""


class Lanes:
    """Make inside a running loop; `start`, then `stop`."""

    def __init__(
        self,
        config: Config,
        upstream: Upstream,
        spool: Spool,
        events: EventStore,
        devices: Exporter | None = None,
        on_sent: OnSent = None,
    ) -> None:
        """*devices* takes what an earlier release left in the spool's lane of that name;
        devices have a lane of their own. *on_sent* is `Attempts.on_end` of every lane.
        """
        self._spool = spool
        clock = SystemClock()
        self._keyring = Keyring(key_settings(upstream))
        settings = upstream_settings(upstream)
        self._client: CostServiceClient = build_client(settings, self._keyring, spool.gateway_id)
        self.unit_cost = spool.unit_cost(
            can_read=lambda: self._keyring.grants(READ_SCOPE),
            can_create=lambda: bool(self._client.preset.unit_cost_create) and self._keyring.grants(CREATE_SCOPE),
            can_delete=lambda: self._keyring.grants(DELETE_SCOPE),
        )
        unit_cost = UnitCostSettings(
            self.unit_cost.learn_base,
            self.unit_cost.block,
            config.unit_cost.suffix,
            config.unit_cost.max_records_per_s,
            repeatable_sums=upstream.sum_retry == "at_least_once",
        )
        self._plans: dict[Lane, LanePlan] = {
            plan.lane: plan for plan in build_upstream(settings, self._client, clock, unit_cost)
        }
        if devices is not None:
            self._plans[DEVICES] = LanePlan(DEVICES, devices, BatchLimits())
        self.device_calls = DeviceCalls(self._client)
        self.on_new_keys: list[Callable[[], None]] = []
        """What else holds something for a key that it lacks."""
        for name in upstream.unused_lanes:
            self._plans[name] = LanePlan(name, None, BatchLimits(), NOT_WANTED)
        for name, options in config.exporters.items():
            self._plans[name] = extra_plan(name, options, events)
        self._addresses = dict.fromkeys(OWN_LANES, upstream.base_url)
        self._addresses |= {name: address_of(options) for name, options in config.exporters.items()}
        self._clock = clock
        self._stopping = False
        self._pumps: dict[Lane, Pump] = {}
        self._pumping: dict[Lane, asyncio.Task[None]] = {}
        self.attempts: defaultdict[Lane, Attempts] = defaultdict(lambda: Attempts(on_end=on_sent))
        """Of every pump that a lane had."""
        self.liveness = UpstreamLiveness(lambda: check_liveness(self._client), self._last_successes, clock, wall_ms)
        self._restarts: Counter[Lane] = Counter()
        self._unnamed_before: Counter[Lane] = Counter()
        """Unnamed refusals of the pumps that were replaced."""
        self._running: list[asyncio.Task[None]] = []

    def _store(self, lane: Lane) -> SupervisedLaneStore:
        """Where the lane's batches come from."""
        return self.unit_cost if lane == UNIT_COST else self._spool

    def billing_calls(self, connection: str) -> BillingCalls:
        """Drops by the client that all lanes share."""
        return BillingCalls(self._client, connection)

    def start(self) -> None:
        """Start the pump of each lane and its watchdog."""
        for fault in self._keyring.faults():
            log.warning("upstream key", fault=fault)
        self._running = [
            asyncio.create_task(self._keep_pumping(lane, plan.exporter, plan), name=f"pump {lane}")
            for lane, plan in self._plans.items()
            if plan.exporter is not None
        ]
        self._running.append(asyncio.create_task(self.liveness.run(), name="liveness"))
        self._running.append(asyncio.create_task(self._look_for_keys(), name="key files"))

    async def _keep_pumping(self, lane: Lane, exporter: Exporter, plan: LanePlan) -> None:
        """Run the lane's pump; one that ends by a fault of ours is reported and replaced, for
        its lane must not stand still.
        """
        while not self._stopping:
            pump = Pump(
                lane,
                self._store(lane),
                exporter,
                limits=plan.limits,
                clock=self._clock,
                chance=random.random,
                destination=plan.destination,
                attempts=self.attempts[lane],
                brake=self._spool,
            )
            if lane in self._pumps:
                self._unnamed_before[lane] += self._pumps[lane].counts.unnamed_refusals
            self._pumps[lane] = pump
            self._pumping[lane] = asyncio.create_task(pump.run(), name=f"pumping {lane}")
            watching = asyncio.create_task(self._until_still(lane, pump, plan.limits), name=f"watch {lane}")
            try:
                await asyncio.wait({self._pumping[lane], watching}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                watching.cancel()
                await self._let_go(self._pumping[lane])
            if not self._stopping:
                self._restarts[lane] += 1
                self._store(lane).forget_leases(lane)
                tell_end(lane, self._pumping[lane])
                await asyncio.sleep(0 if watching.done() and not watching.cancelled() else RESTART_S)

    async def _until_still(self, lane: Lane, pump: Pump, limits: BatchLimits) -> None:
        """Return when the lane states that it is well and has
        something to send, yet nothing moves.
        """
        watch = LaneWatch(WATCH_S)
        while True:
            await asyncio.sleep(WATCH_S)
            now_s = self._clock.monotonic_s()
            if pump.state != "ok" or not self._spool.depth(lane).pending:
                watch.began(now_s)
            elif watch.stands_still(now_s, moved=pump.counts.sent_batches, holding=pump.holding):
                is_ready = await self._is_ready(lane, limits)  # takes as long as what the pump may wait for: look again
                if is_ready and watch.stands_still(now_s, moved=pump.counts.sent_batches, holding=pump.holding):
                    return
                watch.began(now_s)

    async def _is_ready(self, lane: Lane, limits: BatchLimits) -> bool:
        """False also when the spool cannot be asked: that is not the pump's fault."""
        try:
            async with asyncio.timeout(LET_GO_S):
                return await self._store(lane).is_ready(
                    lane, max_records=limits.max_records, max_bytes=limits.max_bytes
                )
        except Exception as error:  # noqa: BLE001 as above, whatever it was
            log.warning("the lane cannot be looked at", lane=lane, error=type(error).__name__)
            return False

    async def _let_go(self, pumping: asyncio.Task[None]) -> None:
        """Cancel a pump, which gives back what it holds; one that
        does not even end then is left behind.
        """
        pumping.cancel()
        await asyncio.wait({pumping}, timeout=LET_GO_S)

    def _last_successes(self) -> list[float | None]:
        """Of each lane to the upstream that is on, when it got a batch through."""
        lanes = (lane for lane in OWN_LANES if (plan := self._plans.get(lane)) is not None and plan.exporter)
        return [self.attempts[lane].last_delivered_s for lane in lanes]

    async def _look_for_keys(self) -> None:
        """A key file that changed is tried at once by the lanes that are held, however
        seldom they probe by now.
        """
        while True:
            await asyncio.sleep(LOOK_FOR_KEYS_S)
            if self._keyring.look():
                log.info("a key file changed; held lanes try again")
                self._try_held_lanes()

    def _try_held_lanes(self) -> None:
        for wake in self.on_new_keys:
            wake()
        for pump in self._pumps.values():
            if pump.state == "held":
                pump.wake()

    def set_aside(self, lane: Lane) -> int | None:
        """An operator's word: `Pump.set_aside`. How many records wait; None where the lane is not
        held for that. Raises NotFound.
        """
        if lane not in self._spool.lanes():
            raise NotFound(f"there is no lane {lane}")
        pump, waiting = self._pumps.get(lane), self._spool.depth(lane).pending
        return waiting if pump is not None and pump.set_aside(waiting) else None

    def use_keys(self, upstream: Upstream) -> bool:
        """Send with the keys and the proxy of *upstream* from now on; held lanes try again at once.

        False, with nothing changed, where these keys would turn a lane on or off: that needs a
        restart.
        """
        settings = key_settings(upstream)
        if any(
            self._keyring.grants(scope) != any(setting.grants(scope) for setting in settings) for scope in LANE_SCOPES
        ):
            return False
        self._keyring.use(settings)
        self._client.use_proxy(upstream_settings(upstream).proxy)
        self._try_held_lanes()
        return True

    async def stop(self) -> None:
        """Let what is under way land; everything else stays in the spool."""
        self._stopping = True
        stopping = [asyncio.create_task(pump.stop(STOP_GRACE_S)) for pump in self._pumps.values()]
        if stopping:
            await asyncio.wait(stopping, timeout=STOP_GRACE_S + LET_GO_S)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for plan in self._plans.values():
            if plan.exporter is not None:
                await plan.exporter.close()
        await self._client.close()

    def status(self, now_ms: int) -> Mapping[str, LaneStatus]:
        return {lane: self._lane_status(lane, now_ms) for lane in self._spool.lanes()}

    def _lane_status(self, lane: Lane, now_ms: int) -> LaneStatus:
        depth = self._spool.depth(lane)
        pump = self._pumps.get(lane)
        plan = self._plans.get(lane)
        state: LaneState
        if pump is not None:
            state, reason = shown_state(pump.state, pump.reason, depth.pending)
            if state == "ok" and lane == UNIT_COST and self.unit_cost.keeps_deletions:
                state, reason = "held", no_key_grants([DELETE_SCOPE])
        else:
            state = "off"
            reason = plan.reason if plan is not None else "no exporter of this name is configured"
        oldest = depth.oldest_pending_ms
        return {
            "kept": depth.kept,
            "delivered": depth.delivered,
            "pending": depth.pending,
            "dead_lettered": depth.dead_lettered,
            "expired": depth.expired,
            "oldest_pending_age_s": None if oldest is None else round(max(0, now_ms - oldest) / 1000, 3),
            "state": state,
            "reason": reason,
            "restarts": self._restarts[lane],
            "unnamed_refusals": self._unnamed_before[lane] + (pump.counts.unnamed_refusals if pump else 0),
            "pending_bytes": depth.pending_bytes,
            "upstream": self._addresses.get(lane, ""),
            **sending(self.attempts.get(lane, NEVER), self._clock.monotonic_s()),
        }


class Sending(TypedDict):
    """The part of a lane's status that its last sends report."""

    last_success_at: str | None
    last_send_s: float | None
    send_p95_s: float | None


def sending(attempts: Attempts, now_s: float) -> Sending:
    """*now_s* is of the clock of *attempts*."""
    at_s, took_s, p95_s = attempts.last_delivered_s, attempts.last_took_s, attempts.seconds.quantile(0.95)
    return {
        "last_success_at": None if at_s is None else rfc3339_ms(wall_ms() - round((now_s - at_s) * 1000)),
        "last_send_s": None if took_s is None else round(took_s, 3),
        "send_p95_s": None if p95_s is None or math.isinf(p95_s) else p95_s,
    }


def address_of(options: ExporterOptions) -> str:
    """Of a further destination, for operators."""
    match options:
        case FileExporter():
            return str(options.path)
        case ConsoleExporter():
            return "standard output"
        case StreamExporter():
            return f"unit-cost stream {options.stream}"
        case OtlpExporter():
            return options.endpoint
        case PluginExporter():
            return f"plug-in {options.plugin}"
        case _:
            assert_never(options)


def tell_end(lane: Lane, pumping: asyncio.Task[None]) -> None:
    error = pumping.exception() if pumping.done() and not pumping.cancelled() else None
    if error is None:
        log.error("the lane stood still with something to send; its pump is replaced", lane=lane)
    else:
        log.error("pump ended", lane=lane, error=type(error).__name__, at=places(error))


def shown_state(state: LaneState, reason: str | None, pending: int) -> tuple[LaneState, str | None]:
    """A lane whose last try failed, and which holds nothing any more, has nothing to try again."""
    return ("ok", None) if state == "retrying" and not pending else (state, reason)


def key_settings(upstream: Upstream) -> list[KeySetting]:
    return [KeySetting(key.name, key.secret, grants_of(key)) for key in upstream.keys]


def lanes_without_scope(upstream: Upstream) -> dict[Lane, str]:
    """Lane -> the scope that it lacks, in a sentence; empty where the keys grant all that the
    lanes in use need.
    """
    keyring = Keyring(key_settings(upstream))
    wanted = {lane: scopes for lane, scopes in LANE_NEEDS.items() if lane not in upstream.unused_lanes}
    lacking = {lane: [scope for scope in scopes if not keyring.grants(scope)] for lane, scopes in wanted.items()}
    return {lane: no_key_grants(scopes) for lane, scopes in lacking.items() if scopes}


def further_without_scope(upstream: Upstream) -> dict[str, str]:
    """Of `FURTHER_NEEDS`, what no key grants -> the scope and what follows, in a sentence."""
    keyring = Keyring(key_settings(upstream))
    return {
        what: f"{no_key_grants([scope])}: {follows}"
        for what, (scope, follows) in FURTHER_NEEDS.items()
        if not keyring.grants(scope)
    }


def grants_of(key: UpstreamKey) -> Callable[[str], bool]:
    """What the key grants, asked of the catalogue at each use."""
    return partial(grants_scope, key)


def upstream_settings(upstream: Upstream) -> UpstreamSettings:
    """The settings of the exporter that sends to the configured upstream."""
    return UpstreamSettings(
        base_url=upstream.base_url,
        preset=upstream.preset,
        encoding=upstream.encoding,
        names=upstream.names,
        sum_retry=upstream.sum_retry,
        knows_event_ids=upstream.knows_event_ids,
        ca_file=upstream.ca_file,
        proxy=upstream.proxy,
    )


def derivation_of(options: StreamExporter) -> Derivation:
    granularity = options.granularity or ("DAILY" if options.element is None else "HOURLY")
    return Derivation(
        options.stream, options.measure, granularity, options.element, options.dimensions, options.currency
    )


def extra_plan(name: Lane, options: ExporterOptions, events: EventStore) -> LanePlan:
    """The lane *name* of a further destination; needs a running loop. Raises OSError for a
    certificate authority that cannot be read.
    """
    match options:
        case StreamExporter():
            return LanePlan(name, DerivedStream(derivation_of(options), events), DERIVED_LIMITS)
        case OtlpExporter():
            return build_otlp(name, otlp_settings(options))
        case PluginExporter():
            return LanePlan(name, plugged_exporter(name, options), BatchLimits())
        case _:
            return build_extra(name, options.type, exporter_options(options))


def plugged_exporter(name: Lane, options: PluginExporter) -> Exporter:
    """What the factory of the plug-in makes for the lane *name*; needs a running loop. Raises
    BrokenPlugin.
    """
    point = plugins(EXPORTERS_GROUP)[options.plugin]
    factory = cast("Callable[[Lane, Mapping[str, str]], Exporter]", load(point))
    try:
        made = factory(name, {option: value.reveal() for option, value in options.options.items()})
    except Exception as error:
        raise BrokenPlugin(f"exporters.{name}: {named(point)}: {type(error).__name__}: {error}") from error
    if not (callable(getattr(made, "send", None)) and callable(getattr(made, "close", None))):
        raise BrokenPlugin(f"exporters.{name}: {named(point)} makes no exporter: it needs send and close")
    return made


def otlp_settings(options: OtlpExporter) -> OtlpSettings:
    return OtlpSettings(
        options.endpoint,
        options.protocol,
        options.headers,
        packs=options.compression == "gzip",
        ca_file=options.ca_file,
        proxy=options.proxy,
        timeout_s=options.timeout_s,
    )


def exporter_options(options: FileExporter | ConsoleExporter) -> dict[str, str]:
    """All that is set, as texts."""
    return {name: str(value) for name, value in options.model_dump(exclude={"type"}).items() if value is not None}
