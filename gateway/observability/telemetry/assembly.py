"""What a configuration asks of the gateway's own telemetry."""

import os
import random
from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from exporters.http_client import PRODUCT
from exporters.otlp.exporter import OtlpSettings
from gateway.common.contract.errors import CannotStart
from gateway.config.model import Telemetry
from gateway.observability.telemetry.tracer import Tracer

if TYPE_CHECKING:
    from gateway.observability.telemetry.push import TelemetryPush


def tracer_of(options: Telemetry | None) -> Tracer | None:
    """None where nothing is traced."""
    if options is None or not options.sample_ratio:
        return None
    return Tracer(options.sample_ratio, chance=random.random, random_bytes=os.urandom)


def build_push(
    options: Telemetry,
    registry: CollectorRegistry,
    tracer: Tracer | None,
    instance_id: str,
    pushes: Counter[tuple[str, str]],
) -> "TelemetryPush":
    """Make it inside a running loop. Raises CannotStart for a certificate authority that cannot be
    read.
    """
    from exporters.otlp.push import push_to  # noqa: PLC0415 where it is off, OTLP's messages are not loaded
    from gateway.observability.telemetry.push import TelemetryPush  # noqa: PLC0415 as above

    settings = OtlpSettings(
        options.endpoint,
        options.protocol,
        options.headers,
        packs=options.compression == "gzip",
        ca_file=options.ca_file,
        proxy=options.proxy,
        timeout_s=options.timeout_s,
    )
    try:
        push = push_to(settings)
    except (ValueError, OSError) as error:
        raise CannotStart(f"telemetry: {error}") from error
    resource = {
        "service.name": PRODUCT,
        "service.version": version(PRODUCT),
        "service.instance.id": instance_id,
    }
    return TelemetryPush(push, registry, tracer, resource, interval_s=options.interval_s, pushes=pushes)
