"""Every metric, once: its name, unit, labels and meaning; and the collector that reads them off the gateway's own figures.

Nothing is counted here. A scrape reads the same figures that `/v2/status` shows, in one call, so that both agree. What may still
change while a record settles is a gauge; what is final is a counter.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.counting.gaps import Gap


class LaneStatus(TypedDict):
    """`kept = delivered + pending + dead_lettered + expired`"""

    kept: int
    delivered: int
    pending: int
    dead_lettered: int
    expired: int
    oldest_pending_age_s: float | None
    """None when nothing is pending."""
    state: Literal["ok", "retrying", "held", "off"]
    reason: str | None
    """Why it is not ok; safe to show."""


class Status(TypedDict):
    """What `GET /v2/status` answers."""

    edge: Mapping[str, int]
    """`received = kept + duplicate + suppressed + rejected + ignored`"""
    lanes: Mapping[str, LaneStatus]
    reasons: NotRequired[Mapping[str, int]]
    """`<fate>.<reason>` -> items: what is behind the edge's fates."""
    unpriced: NotRequired[Mapping[str, int]]
    """Model -> calls that no price was found for."""
    gaps: NotRequired[Sequence[Gap]]
    """Sources whose metrics tell more tokens than their calls do: spans that were sampled or lost."""
    spool_bytes: NotRequired[int]
    """On disk."""
    version: NotRequired[str]


@dataclass(frozen=True, slots=True)
class WebFigures:
    """What the receiver counted since it started."""

    answers: Mapping[tuple[str, int], int]
    """(route, HTTP status) -> requests."""
    unforeseen: int
    gone: int
    in_flight_bytes: int


@dataclass(frozen=True, slots=True)
class Name:
    """One metric. A counter's samples carry `_total` after the name, as the exposition format has it."""

    name: str
    kind: Literal["counter", "gauge"]
    meaning: str
    labels: tuple[str, ...] = ()


ITEMS_RECEIVED: Final = Name(
    "telemetry_gateway_items_received", "counter", "Items (spans, log records, points, events, calls) received."
)
ITEMS: Final = Name(
    "telemetry_gateway_items",
    "gauge",
    "Items by their fate at the edge, as of now: a record that settles may change it.",
    ("fate",),
)
ITEM_REASONS: Final = Name("telemetry_gateway_item_reasons", "gauge", "Items by fate and reason.", ("fate", "reason"))
LANE_RECORDS: Final = Name(
    "telemetry_gateway_lane_records",
    "gauge",
    "Records of a lane by their fate, as of now: kept is the sum of the others.",
    ("lane", "fate"),
)
LANE_DELIVERED: Final = Name(
    "telemetry_gateway_lane_delivered_records", "counter", "Records that the lane's target took.", ("lane",)
)
LANE_EXPIRED: Final = Name(
    "telemetry_gateway_lane_expired_records", "counter", "Records given up for their age.", ("lane",)
)
LANE_OLDEST: Final = Name(
    "telemetry_gateway_lane_oldest_pending_age_seconds",
    "gauge",
    "Age of the oldest pending record; 0 when nothing is pending.",
    ("lane",),
)
LANE_STATE: Final = Name(
    "telemetry_gateway_lane_state", "gauge", "1 for the state that the lane is in.", ("lane", "state")
)
UNPRICED: Final = Name("telemetry_gateway_unpriced_calls", "gauge", "Calls that no price was found for.", ("model",))
SPOOL_BYTES: Final = Name("telemetry_gateway_spool_bytes", "gauge", "Bytes that the spool takes on disk.")
HTTP_ANSWERS: Final = Name(
    "telemetry_gateway_http_answers", "counter", "Answers of the HTTP receiver.", ("route", "status")
)
HTTP_GONE: Final = Name(
    "telemetry_gateway_http_senders_gone", "counter", "Requests whose sender went away before the answer."
)
UNFORESEEN: Final = Name(
    "telemetry_gateway_unforeseen_errors", "counter", "Errors nobody foresaw, told to the sender as retryable."
)
IN_FLIGHT_BYTES: Final = Name(
    "telemetry_gateway_http_in_flight_bytes", "gauge", "Bytes of request bodies that have no answer yet."
)
UP: Final = Name("telemetry_gateway_info", "gauge", "Always 1; its label says which release runs.", ("version",))

NAMES: Final[tuple[Name, ...]] = (
    ITEMS_RECEIVED, ITEMS, ITEM_REASONS, LANE_RECORDS, LANE_DELIVERED, LANE_EXPIRED, LANE_OLDEST, LANE_STATE,
    UNPRICED, SPOOL_BYTES, HTTP_ANSWERS, HTTP_GONE, UNFORESEEN, IN_FLIGHT_BYTES, UP,
)  # fmt: skip

EDGE_FATES: Final = ("kept", "duplicate", "suppressed", "rejected", "ignored")
LANE_FATES: Final = ("kept", "delivered", "pending", "dead_lettered", "expired")
LANE_STATES: Final = ("ok", "retrying", "held", "off")

Sample = tuple[tuple[str, ...], float]
"""Label values, value."""


class StatusCollector(Collector):
    """Give it to a prometheus-client registry."""

    def __init__(self, status: Callable[[], Status], web_figures: Callable[[], WebFigures]) -> None:
        self._status = status
        self._web_figures = web_figures

    def describe(self) -> Iterable[Metric]:
        """The names without samples, so that registering reads no figure."""
        return [family(name, []) for name in NAMES]

    def collect(self) -> Iterator[Metric]:
        status, web = self._status(), self._web_figures()
        yield from edge_metrics(status)
        yield from lane_metrics(status["lanes"])
        yield family(HTTP_ANSWERS, [((route, str(code)), n) for (route, code), n in web.answers.items()])
        yield family(HTTP_GONE, [((), web.gone)])
        yield family(UNFORESEEN, [((), web.unforeseen)])
        yield family(IN_FLIGHT_BYTES, [((), web.in_flight_bytes)])
        if "spool_bytes" in status:
            yield family(SPOOL_BYTES, [((), status["spool_bytes"])])
        if "version" in status:
            yield family(UP, [((status["version"],), 1)])


def edge_metrics(status: Status) -> Iterator[Metric]:
    edge = status["edge"]
    yield family(ITEMS_RECEIVED, [((), edge["received"])])
    yield family(ITEMS, [((fate,), edge[fate]) for fate in EDGE_FATES])
    reasons = [(name.partition("."), n) for name, n in status.get("reasons", {}).items()]
    yield family(ITEM_REASONS, [((fate, reason), n) for (fate, _, reason), n in reasons])
    yield family(UNPRICED, [((model,), n) for model, n in status.get("unpriced", {}).items()])


def lane_metrics(lanes: Mapping[str, LaneStatus]) -> Iterator[Metric]:
    counts = {name: {fate: n for fate, n in lane.items() if isinstance(n, int)} for name, lane in lanes.items()}
    yield family(LANE_RECORDS, [((name, fate), counts[name][fate]) for name in lanes for fate in LANE_FATES])
    yield family(LANE_DELIVERED, [((name,), lane["delivered"]) for name, lane in lanes.items()])
    yield family(LANE_EXPIRED, [((name,), lane["expired"]) for name, lane in lanes.items()])
    yield family(LANE_OLDEST, [((name,), lane["oldest_pending_age_s"] or 0) for name, lane in lanes.items()])
    states = [((name, state), float(lane["state"] == state)) for name, lane in lanes.items() for state in LANE_STATES]
    yield family(LANE_STATE, states)


def family(name: Name, samples: Iterable[Sample]) -> Metric:
    made = CounterMetricFamily if name.kind == "counter" else GaugeMetricFamily
    metric = made(name.name, name.meaning, labels=name.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric
