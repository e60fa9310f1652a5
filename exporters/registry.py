"""From plain settings to exporters: what each lane sends with, within which limits, and
what is wrapped around it.

`build_upstream` gives the lanes of the cost management service, `build_extra` a further
destination of the AI records.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from exporters.base import Exporter
from exporters.clock import Clock
from exporters.console import ConsoleExporter
from exporters.cost_service.client import CostServiceClient
from exporters.cost_service.lanes import (
    AI_TELEMETRY_SCOPE,
    EVENTS_SCOPE,
    AiTelemetryExporter,
    OtlpTelemetryExporter,
    UsageEventsExporter,
)
from exporters.cost_service.preset import preset_with
from exporters.cost_service.unit_cost import MANAGE_SCOPE, UnitCostExporter, UnitCostSettings
from exporters.destination import Destination
from exporters.file import FileExporter
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, no_key_grants
from exporters.otlp.exporter import OtlpExporter, OtlpSettings
from exporters.pump import BatchLimits
from exporters.secret import Secret
from spool.record import AI_TELEMETRY, UNIT_COST, USAGE_EVENTS, Lane

AI_TELEMETRY_LIMITS = BatchLimits()
USAGE_EVENTS_LIMITS = BatchLimits(max_records=1, in_flight=8)
UNIT_COST_LIMITS = BatchLimits(max_records=3000)
"""The lane's store has one batch a stream under way, so those under way at once
are of different streams."""


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """How to reach the service, as an operator set it."""

    base_url: str
    preset: str = "document"
    encoding: Literal["records", "otlp"] = "records"
    """Of AI telemetry: the service's JSON, or OTLP spans."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Paths and header names that differ from the preset's
    (`exporters.cost_service.preset.Preset`)."""
    ca_file: Path | None = None
    proxy: Secret | None = None
    connect_timeout_s: float = 10.0
    timeout_s: float = 60.0
    sum_retry: Literal["park", "at_least_once"] = "park"
    """After an ambiguous 5xx on a usage event or a sum: set it aside for the
    operator, or send it again."""
    knows_event_ids: bool = False
    """The upstream knows a repeated event: nothing speaks against sending it again."""


@dataclass(frozen=True, slots=True)
class LanePlan:
    """One lane: its exporter and limits; without an exporter it is off, for *reason*."""

    lane: Lane
    exporter: Exporter | None
    limits: BatchLimits
    reason: str | None = None
    destination: Destination | None = None
    """What it shares with the other lanes to the same target; None when there are none."""


def build_client(settings: UpstreamSettings, keyring: Keyring, gateway_id: str) -> CostServiceClient:
    """The client that all lanes share; needs a running loop.

    Raises ValueError for an address or name that cannot be.
    """
    endpoint = Endpoint(
        settings.base_url, settings.ca_file, settings.proxy, settings.connect_timeout_s, settings.timeout_s
    )
    return CostServiceClient(endpoint, keyring, gateway_id, preset=preset_with(settings.preset, settings.names))


def build_upstream(
    settings: UpstreamSettings, client: CostServiceClient, clock: Clock, unit_cost: UnitCostSettings
) -> list[LanePlan]:
    """The service's lanes of records, each on or off by what the keys grant.

    Close the client after the last of them.
    """
    encodes = OtlpTelemetryExporter if settings.encoding == "otlp" else AiTelemetryExporter
    ai_telemetry = encodes(client)
    usage_events = UsageEventsExporter(
        client, repeatable=settings.knows_event_ids or settings.sum_retry == "at_least_once"
    )
    return [
        _plan(client, AI_TELEMETRY, ai_telemetry, AI_TELEMETRY_LIMITS, AI_TELEMETRY_SCOPE),
        _plan(client, USAGE_EVENTS, usage_events, USAGE_EVENTS_LIMITS, EVENTS_SCOPE),
        _plan(client, UNIT_COST, UnitCostExporter(client, unit_cost, clock), UNIT_COST_LIMITS, MANAGE_SCOPE),
    ]


def build_extra(name: str, type_: str, options: Mapping[str, str]) -> LanePlan:
    """A further destination of the AI records, as a lane of its own *name*.

    Raises ValueError for what it cannot be.
    """
    match type_:
        case "file":
            _only(name, options, {"path"})
            if not options.get("path"):
                raise ValueError(f"exporters.{name}.path is missing")
            return LanePlan(name, FileExporter(Path(options["path"])), BatchLimits(in_flight=1))
        case "console":
            _only(name, options, set())
            return LanePlan(name, ConsoleExporter(sys.stdout.buffer), BatchLimits(in_flight=1))
        case _:
            raise ValueError(f"exporters.{name}.type {type_!r} is not one of file, console")


def build_otlp(name: Lane, settings: OtlpSettings) -> LanePlan:
    """A further destination that takes OTLP, as a lane of its own *name*; needs a running loop.

    Raises ValueError for an address that cannot be, OSError for a certificate authority.
    """
    if settings.protocol == "grpc":
        from exporters.otlp.grpc_exporter import OtlpGrpcExporter  # noqa: PLC0415 - 20 MiB that others are spared

        over_grpc = OtlpGrpcExporter(settings)
        return LanePlan(name, over_grpc, AI_TELEMETRY_LIMITS, destination=over_grpc.destination)
    exporter = OtlpExporter(settings)
    return LanePlan(name, exporter, AI_TELEMETRY_LIMITS, destination=exporter.destination)


def _plan(client: CostServiceClient, lane: Lane, exporter: Exporter, limits: BatchLimits, *scopes: str) -> LanePlan:
    if any(client.keyring.grants(scope) for scope in scopes):
        return LanePlan(lane, exporter, limits, destination=client.destination)
    return LanePlan(lane, None, limits, reason=no_key_grants(scopes))


def _only(name: str, options: Mapping[str, str], known: set[str]) -> None:
    unknown = sorted(options.keys() - known)
    if unknown:
        raise ValueError(f"exporters.{name} has no setting {', '.join(unknown)}")
