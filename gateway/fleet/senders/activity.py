"""Who sends what: for each inbound key, format, service and product when it was seen first and
last, what came, and what was refused. In memory, bounded; `gateway.fleet.senders.store` keeps it.

The hot path pays for a dictionary look-up and a few additions a request. Nothing of a payload is
kept but the name of its service.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

from gateway.common.contract.parsed_payload import Sent
from gateway.products.catalogue import SOURCES

MAX_SENDERS: Final = 1000
"""The one that was silent longest goes first."""
MAX_SERVICES: Final = 200
"""Of one key, format and product; further ones are counted as `OTHER`."""
OTHER: Final = "(other)"
MAX_SERVICE_CHARS: Final = 128
MAX_REASONS: Final = 20


class SenderId(NamedTuple):
    key: str | None
    """Name of the inbound key; None on open intake, and where a request showed none that is
    known."""
    format: str
    """`otlp.traces`, `otlp.logs`, `otlp.metrics`, the name of a source, `records`,
    `usage_events`, `unit_cost` or `devices`."""
    service: str | None
    """`service.name`; None where nothing states it."""
    product: str
    """What its User-Agent begins with, such as `OTel-OTLP-Exporter-Python/1.30.0`; empty where it
    names none."""


@dataclass(slots=True)
class Refusal:
    requests: int
    last_ms: int


@dataclass(slots=True)
class Activity:
    """Of one sender, since it was seen first."""

    sender_no: int
    first_ms: int
    last_ms: int
    """When it last sent something that was taken; the first moment where nothing was."""
    requests: int = 0
    items: int = 0
    """Spans, log records, points, events or calls, whatever became of them."""
    calls: int = 0
    without_usage: int = 0
    """Of the calls, those that should state tokens and do not."""
    size_bytes: int = 0
    """Of bodies, decompressed; of a body with several services in equal parts."""
    longest_gap_ms: int = 0
    """Between two requests."""
    refusals: dict[str, Refusal] = field(default_factory=dict)
    """By reason."""
    is_changed: bool = True
    """Since it was written down."""

    @property
    def refused(self) -> int:
        return sum(refusal.requests for refusal in self.refusals.values())


class Senders:
    """Used on the event loop's thread."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.known: dict[SenderId, Activity] = {}
        """The one seen last stands last."""
        self.gone: list[int] = []
        """Numbers of those that were forgotten since they were written down."""
        self._next_no = 1
        self._latest: dict[tuple[str | None, str, str], SenderId] = {}
        """(key, format, product) -> the service that sent last: a refusal is put down to it."""
        self._services: dict[tuple[str | None, str, str], int] = {}

    def restore(self, rows: Iterable[tuple[SenderId, Activity]]) -> None:
        """Take over what an earlier process knew, the one seen longest ago first."""
        for sender, activity in rows:
            self._add(sender, activity)
            self._next_no = max(self._next_no, activity.sender_no + 1)

    def sent(self, key: str | None, format_: str, product: str, services: Iterable[Sent]) -> None:
        """Note requests that were taken, with what each of the *services* sent in them."""
        for service, requests, items, calls, without_usage, size_bytes in services:
            activity = self._seen(key, format_, service, product)
            activity.requests += requests
            activity.items += items
            activity.calls += calls
            activity.without_usage += without_usage
            activity.size_bytes += size_bytes

    def refused(self, key: str | None, format_: str, product: str, reason: str, requests: int = 1) -> None:
        """Note requests that were refused; whose service they are of no one read."""
        sender = self._latest.get((key, format_, product)) or SenderId(key, format_, None, product)
        activity = self.known.get(sender) or self._made(sender)
        refusal = activity.refusals.get(reason)
        if refusal is None:
            if len(activity.refusals) >= MAX_REASONS:
                reason = OTHER
            refusal = activity.refusals.setdefault(reason, Refusal(0, 0))
        refusal.requests += requests
        refusal.last_ms = self.now_ms()
        activity.is_changed = True

    def changed(self) -> Iterator[tuple[SenderId, Activity]]:
        """Those whose figures are not written down."""
        return ((sender, activity) for sender, activity in self.known.items() if activity.is_changed)

    def _seen(self, key: str | None, format_: str, service: str | None, product: str) -> Activity:
        sender = SenderId(key, format_, service, product)
        activity = self.known.pop(sender, None)
        if activity is None:
            sender = self._bounded(sender)
            activity = self.known.pop(sender, None) or self._made(sender)
        now_ms = self.now_ms()
        if activity.requests and now_ms - activity.last_ms > activity.longest_gap_ms:
            activity.longest_gap_ms = now_ms - activity.last_ms
        activity.last_ms = now_ms
        activity.is_changed = True
        self.known[sender] = activity
        self._latest[key, format_, product] = sender
        return activity

    def _bounded(self, sender: SenderId) -> SenderId:
        """*sender*, new; counted as another one where its key has too many services."""
        service = sender.service
        if service is not None and len(service) > MAX_SERVICE_CHARS:
            service = service[:MAX_SERVICE_CHARS]
        if self._services.get(group_of(sender), 0) >= MAX_SERVICES:
            service = OTHER
        return sender._replace(service=service)

    def _made(self, sender: SenderId) -> Activity:
        now_ms = self.now_ms()
        activity = Activity(self._next_no, now_ms, now_ms)
        self._next_no += 1
        self._add(sender, activity)
        return activity

    def _add(self, sender: SenderId, activity: Activity) -> None:
        if len(self.known) >= MAX_SENDERS:
            self._forget(next(iter(self.known)))
        self.known[sender] = activity
        self._services[group_of(sender)] = self._services.get(group_of(sender), 0) + 1

    def _forget(self, sender: SenderId) -> None:
        group = group_of(sender)
        self.gone.append(self.known.pop(sender).sender_no)
        self._services[group] -= 1
        if not self._services[group]:
            del self._services[group]
        if self._latest.get(group) == sender:
            del self._latest[group]


def group_of(sender: SenderId) -> tuple[str | None, str, str]:
    return sender.key, sender.format, sender.product


OTLP: Final = {
    "/v1/traces": "otlp.traces",
    "/v1/logs": "otlp.logs",
    "/v1/metrics": "otlp.metrics",
    "TraceService/Export": "otlp.traces",
    "LogsService/Export": "otlp.logs",
    "MetricsService/Export": "otlp.metrics",
}
"""End of a route -> format, also below the path of a source or of a gateway that forwards."""
PREFIXES: Final = {
    "/v1/events": "usage_events",
    "/events/v1/events": "usage_events",
    "/v1/unit-cost": "unit_cost",
    "/unit-cost/v1/": "unit_cost",
    "/v1/devices": "devices",
    "/v2/ai-control-plane/devices": "devices",
    "/v2/ai-telemetry/records": "records",
    "/v2/connections/billing/external": "billing",
}
SOURCE: Final = "/v1/sources/"


@cache
def native_paths() -> Mapping[str, str]:
    """Path that a source's client chooses itself -> the source's name."""
    return {path: source.name for source in SOURCES.values() for path in source.native_paths}


"""Paths that clients choose themselves."""


def format_of(route: str) -> str:
    """The format that a *route*, as it is listed, takes; `unknown` for what is no route's."""
    for end, name in OTLP.items():
        if route.endswith(end):
            return name
    if route.startswith(SOURCE):
        return route.removeprefix(SOURCE).partition("/")[0]
    if (source := native_paths().get(route)) is not None:
        return source
    return next((name for prefix, name in PREFIXES.items() if route.startswith(prefix)), "unknown")
