"""The settler and the intake that a configuration describes."""

import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.common.contract.errors import CannotStart
from gateway.common.maintenance import Maintained
from gateway.common.native import NATIVE
from gateway.common.storage.private_files import read_or_create
from gateway.config.model import Config
from gateway.fleet.devices.enrolment_hold import LONGEST_MS, MARGIN_MS, EnrolmentGate
from gateway.fleet.devices.intake import DeviceIntake
from gateway.fleet.devices.rows import New
from gateway.fleet.devices.store import DeviceStore
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.intake import GatewayIntake
from gateway.pipeline.learnt_bases import KeptLearntBases
from gateway.pipeline.metrics import Settings as MetricsSettings
from gateway.pipeline.parsing.event_reader import ReadApart
from gateway.pipeline.parsing.frames import Setup
from gateway.pipeline.parsing.parse import ParseRules
from gateway.pipeline.parsing.parser import Parser
from gateway.pipeline.parsing.worker_client import WorkerClient
from gateway.pipeline.settle import HeldFrom, Settler
from gateway.products.catalogue import sources_with
from gateway.rules.context import Context, Machines, UserPolicy
from gateway.rules.tags import Tags
from gateway.usage.events.checks import EventRules
from gateway.usage.events.intake import Metering
from gateway.usage.pricing.prices import Prices
from spool.settings import SpoolSettings
from spool.store import EventStore, Spool
from spool.unit_cost import Rules

USER_SECRET_FILE: Final = "user-secret"  # noqa: S105 - a file's name
MACHINE_SECRET_FILE: Final = "machine-secret"  # noqa: S105 as above
SECRET_BYTES: Final = 32
SECRET_MIN_BYTES: Final = 16
CORES_FOR_WORKER: Final = 2


class Secrets(NamedTuple):
    """Keys of hashes that leave the machine; empty where none is needed."""

    user: bytes
    machine: bytes
    """Of the ids of machines that state none."""


def read_secrets(config: Config) -> Secrets:
    """The secrets in the data directory, made at the first start.

    Raises CannotStart for one that is damaged.
    """
    user = machine = b""
    if config.attributes.user == "hash":
        user = _secret_in(config.data_dir / USER_SECRET_FILE, "the hashes of users")
    if config.devices.enroll != "off":
        machine = _secret_in(config.data_dir / MACHINE_SECRET_FILE, "the ids of machines that state none")
    return Secrets(user, machine)


def _secret_in(path: Path, follows: str) -> bytes:
    """*follows*: what is another one under another secret."""
    secret = read_or_create(path, lambda: os.urandom(SECRET_BYTES))
    if len(secret.strip().strip(b"\0")) < SECRET_MIN_BYTES:
        raise CannotStart(
            f"{path} holds no secret: restore it; if it is deleted, a new one is made and {follows} change"
        )
    return secret


class Ingest(NamedTuple):
    """The intake and what stands behind it."""

    intake: GatewayIntake
    settler: Settler
    metering: Metering
    events: EventStore
    """Of *metering*, and of streams that are derived from AI records."""


async def open_ingest(
    config: Config,
    stack: AsyncExitStack,
    spool: Spool,
    prices: Prices,
    devices: DeviceStore,
    bases: KeptLearntBases,
    itself: New,
    *,
    now_ms: Callable[[], int],
) -> Ingest:
    """Rebuild the ledger and make the intake; *stack* closes both.
    *itself* is the gateway as a device.

    Raises CannotStart, SpoolError.
    """
    options, settle_ms = config.devices, int(config.counting.settle_s * 1000)
    gate = EnrolmentGate(devices, settle_ms=settle_ms, now_ms=spool.age_ms) if options.gate == "hold" else None
    settler = build_settler(config, spool, prices, None if gate is None else gate.held_from_ms, bases)
    stack.push_async_callback(settler.aggregates.close)
    await settler.rebuild()
    # On a device, telemetry that names no device is its own; elsewhere its device is unknown.
    own_device = itself.device_id if config.profile == "device" and options.enroll != "off" else None
    secrets = read_secrets(config)
    worker = build_worker(config, secrets, own_device)
    if worker is not None:
        worker.start() if NATIVE is None else worker.start_later()
        stack.push_async_callback(worker.stop)
    events = spool.events(Rules(config.unit_cost.operation, config.unit_cost.max_streams))
    reader = None if worker is None else ReadApart(worker)
    metering = Metering(events, event_rules(config), now_ms=now_ms, reader=reader)
    intake = build_intake(
        config,
        spool,
        settler,
        prices,
        metering,
        now_ms=now_ms,
        devices=DeviceIntake(devices, telemetry_enrolls=config.enrolls_devices, needs_row=options.gate == "hold"),
        own_device=own_device,
        secrets=secrets,
        worker=worker,
    )
    return Ingest(intake, settler, metering, events)


def maintained(config: Config, spool: Spool, ingest: Ingest) -> list[Maintained]:
    """The maintenance of the spool and of what counts beside it."""
    delivered_s, window_s = config.spool.keep_delivered_s, config.counting.window_s
    events = partial(
        ingest.metering.run_maintenance,
        spool,
        window_ms=int(max(config.spool.max_age_s + delivered_s, window_s) * 1000),
        crowded_window_ms=int(max(delivered_s, window_s) * 1000),
    )
    return [
        Maintained("spool", spool.run_maintenance),
        Maintained("metrics", ingest.settler.aggregates.run_maintenance),
        Maintained("events", events),
    ]


def build_settler(
    config: Config,
    spool: Spool,
    prices: Prices,
    held_from_ms: HeldFrom | None,
    bases: KeptLearntBases,
) -> Settler:
    """The settler of calls and metrics, by the configuration."""
    return Settler(
        spool,
        settle_ms=int(config.counting.settle_s * 1000),
        window_ms=evidence_ms(config),
        max_keys=config.counting.max_keys,
        now_ms=spool.age_ms,
        metrics=metrics_settings(config),
        price=prices.price,
        held_from_ms=held_from_ms,
        bases=bases.bases,
        keep_bases=bases.write,
    )


def build_intake(
    config: Config,
    spool: Spool,
    settler: Settler,
    prices: Prices,
    metering: Metering,
    *,
    now_ms: Callable[[], int],
    devices: DeviceIntake | None = None,
    own_device: str | None = None,
    secrets: Secrets,
    worker: WorkerClient | None = None,
) -> GatewayIntake:
    """*own_device*: as `Context` has it.

    Without *worker* every payload is parsed in this process.
    """
    parser, context = Parser(parse_rules(config, prices), worker), base_context(config, secrets, own_device)
    front = Front(spool, Core(spool, settler), parser, now_ms=now_ms, context=context, devices=devices)
    return GatewayIntake(spool, front, metering, devices)


def parse_rules(config: Config, prices: Prices) -> ParseRules:
    return ParseRules(prices, metrics_settings(config).prefer_metrics, sources_with(generic_mapping(config)))


def base_context(config: Config, secrets: Secrets, own_device: str | None) -> Context:
    """What is the same for all payloads."""
    return Context(
        0,
        "",
        users=UserPolicy(config.attributes.user, secrets.user),
        machines=Machines(secrets.machine),
        own_device=own_device,
        limits=config.limits.of_parsing,
        tags=Tags(config.tags),
    )


def build_worker(config: Config, secrets: Secrets, own_device: str | None) -> WorkerClient | None:
    """The processes that read bodies, not started yet; None where there is no core for them."""
    if config.workers == "off" or usable_processors() < CORES_FOR_WORKER:
        return None
    events = event_rules(config)
    return WorkerClient(
        Setup(
            users=config.attributes.user,
            user_secret=secrets.user,
            price_file=None if config.pricing.file is None else str(config.pricing.file),
            prefer_metrics=sorted(metrics_settings(config).prefer_metrics),
            mapping=generic_mapping(config),
            machine_secret=secrets.machine,
            price_list=config.pricing.price_list == "on",
            own_device=own_device,
            limits=list(config.limits.of_parsing),
            tags={tag: list(names) for tag, names in config.tags.items()},
            events=(events.route, events.replace_brackets, sorted(events.more_dimensions)),
            niceness=0,
        )
    )


def metrics_settings(config: Config) -> MetricsSettings:
    return MetricsSettings(
        settle_ms=int(config.counting.metrics_settle_s * 1000),
        window_ms=int(config.counting.window_s * 1000),
        max_age_ms=int(config.spool.max_age_s * 1000),
        prefer_metrics=frozenset(preference.service for preference in config.counting.prefer),
        max_source_series=config.limits.max_source_series,
    )


def spool_settings(config: Config) -> SpoolSettings:
    """The spool's settings, by the configuration."""
    return SpoolSettings(
        max_bytes=config.spool.max_bytes,
        max_age_ms=int(config.spool.max_age_s * 1000),
        keep_delivered_ms=int(config.spool.keep_delivered_s * 1000),
        keep_dead_letters_ms=int(config.spool.keep_dead_letters_s * 1000),
        max_dead_letter_bytes=config.spool.max_dead_letter_bytes,
        window_ms=evidence_ms(config),
        reserve_bytes=config.spool.reserve_bytes,
    )


def evidence_ms(config: Config) -> int:
    """How long the ledger's evidence of calls is kept: longer where
    enrolments hold records back.
    """
    options = config.counting
    held_ms = LONGEST_MS + MARGIN_MS + int(options.settle_s * 1000) if config.devices.gate == "hold" else 0
    return int(options.window_s * 1000) + held_ms


def event_rules(config: Config) -> EventRules:
    return EventRules(
        config.events.route,
        config.events.angle_brackets == "replace",
        frozenset(config.unit_cost.dimensions),
        config.limits.of_parsing,
    )


def generic_mapping(config: Config) -> dict[str, Any] | None:
    """The field mapping of the source `generic`; None for its default."""
    options = config.sources.get("generic")
    return None if options is None else options.mapping


def usable_processors() -> int:
    """Those that its affinity leaves, where the system has one; at least 1."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    return len(os.sched_getaffinity(0))
