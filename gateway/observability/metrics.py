"""Every metric, once: its name, unit, labels and meaning; and the collector that reads them
off the gateway's own counters.

Nothing is counted here. A scrape reads the same counters that `/v2/status` shows, in
one call, so that both agree. What may still change while a record settles is a gauge;
what is final is a counter.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.common.contract.json_types import Count, Schema, Time
from gateway.common.contract.reader_status import ReaderStatus
from gateway.counting.coverage import AiWithoutCalls
from gateway.counting.metrics.gaps import Gap
from gateway.counting.readings import InputReading
from gateway.observability.dead_letters import ReasonFigures, ResendFigures
from gateway.observability.quarantine import QuarantineStatus
from gateway.observability.refusals import RefusedStatus
from gateway.usage.billing.lane import BillingStatus
from gateway.usage.billing.relay import BillingRelayStatus
from spool.histogram import ANSWER_S, Histogram


class LaneShown(TypedDict):
    """How a lane fares."""

    pending: Count
    state: Literal["ok", "behind", "retrying", "held", "off"]
    reason: str | None
    """Why it is not ok."""


class LaneStatus(LaneShown):
    """`kept = delivered + pending + dead_lettered + expired`"""

    kept: Count
    delivered: Count
    dead_lettered: Count
    expired: Count
    oldest_pending_age_s: float | None
    """Null when nothing is pending."""
    restarts: NotRequired[Count]
    """How often its pump was replaced, because it ended by a fault or stood still,
    since the gateway started."""
    pending_bytes: NotRequired[int | None]
    """About what the pending records take; null where no one measured it."""
    unnamed_refusals: NotRequired[Count]
    """Of the dead letters, how many an OTLP upstream refused without naming them, since the
    gateway started: these have no record."""
    upstream: NotRequired[str]
    """Address, path of a file, or unit-cost stream."""
    last_success_at: NotRequired[Time | None]
    """Null where nothing was delivered since the start."""
    last_send_s: NotRequired[float | None]
    """How long the last batch took."""
    send_p95_s: NotRequired[float | None]
    """95 of 100 batches took no longer; null above 60 s."""


class SpoolStatus(TypedDict):
    """What the spool takes on the disk, and what it may; as of the last commit."""

    used_bytes: Count
    """What counts against the limit: pages that hold something, the write-ahead log,
    and what is on its way there."""
    max_bytes: Count
    """Above it senders are asked to keep their data."""
    file_bytes: NotRequired[Count]
    """Size of the files, where it is one of this machine; beyond `used_bytes` are free pages,
    which are used again or given back to the system."""
    disk_free_bytes: NotRequired[int]
    """Left on its disk, beside the reserve."""


class CellMember(TypedDict):
    name: str
    """Of its machine."""
    release: str
    owns: bool
    """Whether it counts and delivers."""
    alive: bool
    """Whether it was seen in the last 10 s."""
    up_s: float
    """Since it started."""
    silent_s: float
    """Since it was seen; a day later it is forgotten."""


class CellStatus(TypedDict):
    """The part `cell` of /v2/status."""

    owner: str | None
    """Name of the machine whose gateway counts; null between two owners."""
    epoch: Count
    """It grows by one with each owner."""
    why: Literal["start", "released", "expired"] | None
    """How it came to this owner: `released` (the one before stopped) or `expired` (it fell silent).
    Null before the first owner."""
    since_s: float | None
    """For how long it has been the owner."""
    members: Sequence[CellMember]
    """All gateways, oldest first."""
    journal_bytes: Count
    """What waits in the journal. Above `spool.max_bytes`, or more than the owner counts in ten
    minutes, senders are refused."""
    behind_s: float | None
    """For how long more has waited in the journal than is counted at once, or nothing could be
    counted; null while neither is so."""


class Edge(TypedDict):
    received: Count
    kept: Count
    duplicate: Count
    suppressed: Count
    rejected: Count
    ignored: Count


class Status(TypedDict):
    """What `GET /v2/status` answers."""

    edge: Annotated[Mapping[str, int], Edge]
    """`received = kept + duplicate + suppressed + rejected + ignored`"""
    lanes: Mapping[str, LaneStatus]
    """By name."""
    waiting_metrics: NotRequired[Count]
    """Sums of metrics that are kept and pending until it is known whether calls cover them
    (`counting.metrics_settle`): then each is sent, or moves from `kept` to `suppressed`."""
    reasons: NotRequired[Mapping[str, Count]]
    """`<outcome>.<reason>` -> items: what is behind the edge's outcomes."""
    unpriced: NotRequired[Mapping[str, Count]]
    """Model -> calls that no price was found for."""
    gaps: NotRequired[Sequence[Gap]]
    """Sources whose metrics state more tokens than their calls do: spans
    that were sampled or lost."""
    ai_without_calls: NotRequired[Sequence[AiWithoutCalls]]
    """Sources that report agents and steps, and no call of a model."""
    input_readings: NotRequired[Sequence[InputReading]]
    """How inputs were read where no table knows whether they include the cached tokens."""
    spool: NotRequired[SpoolStatus]
    quarantine: NotRequired[QuarantineStatus]
    """Damage that was found in the spool's files, and what became of it."""
    dead_letters: NotRequired[Sequence[ReasonFigures]]
    """What is kept of refused records, by lane and reason; a second old at most."""
    resends: NotRequired[Mapping[str, ResendFigures]]
    """Lane -> what became of dead letters and of delivered records that were sent again."""
    refused: NotRequired[Sequence[RefusedStatus]]
    """Refused requests of senders since the start, the latest first."""
    cell: NotRequired[CellStatus]
    """Where several gateways count as one (`store.type: postgres`)."""
    devices: NotRequired["DeviceStatus"]
    reader: NotRequired[ReaderStatus]
    upstream: NotRequired["UpstreamStatus"]
    billing: NotRequired[BillingStatus | None]
    """The lane of billing drops; null where no connection is configured."""
    billing_relay: NotRequired[Sequence[BillingRelayStatus]]
    """Billing drops of senders, by connection: those that wait for the upstream or were refused."""
    version: NotRequired[str]
    commit: NotRequired[str | None]
    """Its first digits; null where the build did not write it down."""


class UpstreamStatus(TypedDict):
    """Whether the upstream is there and takes a key; nothing follows from it."""

    liveness: Literal["ok", "key_rejected_or_scope_missing", "unreachable", "no_key"] | None
    """What `GET /v2/insights?limit=1` found last: at the start, and again when a lane was silent
    for 15 minutes. `no_key`: no configured key may ask. Null before the first answer."""
    checked_at: Time | None
    last_success_at: Time | None
    """When a batch of any lane to it was delivered last; null for never since the start."""


class DeviceStatus(TypedDict):
    states: Mapping[str, Count]
    """State -> devices; a few seconds old at most."""
    enrolments_waiting: Count
    """Enrolments without a final answer of the upstream."""
    telemetry_held_s: Annotated[float | None, Schema(minimum=0)]
    """For how long the oldest telemetry has waited for one, beyond its settling (`devices.gate:
    hold`); null while none waits."""


@dataclass(slots=True)
class WebFigures:
    """What the receiver counted since it started."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(route, HTTP status) -> requests."""
    unforeseen: int = 0
    """Errors that no table entry foresaw."""
    gone: int = 0
    """Senders that went away before the answer."""
    in_flight_bytes: int = 0
    over_quota: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(key's name, `requests` or `bytes`) -> requests refused."""
    seconds: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(lambda: Histogram(ANSWER_S)))
    """Route -> from the headers of its requests to their answers."""

    def note_unforeseen(self) -> None:
        self.unforeseen += 1


@dataclass(frozen=True, slots=True)
class Name:
    """One metric.

    A counter's samples carry `_total` after the name, as the exposition format has it.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


ITEMS_RECEIVED: Final = Name(
    "telemetry_gateway_items_received", "counter", "Items (spans, log records, points, events, calls) received."
)
ITEMS: Final = Name(
    "telemetry_gateway_items",
    "gauge",
    "Items by their outcome at the edge, as of now: a record that settles may change it.",
    ("fate",),
)
ITEM_REASONS: Final = Name(
    "telemetry_gateway_item_reasons", "gauge", "Items by outcome and reason.", ("fate", "reason")
)
LANE_RECORDS: Final = Name(
    "telemetry_gateway_lane_records",
    "gauge",
    "Records of a lane by their outcome, as of now: kept is the sum of the others.",
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
LANE_BYTES: Final = Name(
    "telemetry_gateway_lane_pending_bytes",
    "gauge",
    "Size of the pending records, about: their number by the mean size of the oldest. Not for unit_cost and devices.",
    ("lane",),
)
LANE_STATE: Final = Name(
    "telemetry_gateway_lane_state", "gauge", "1 for the state that the lane is in.", ("lane", "state")
)
LANE_RESTARTS: Final = Name(
    "telemetry_gateway_lane_restarts",
    "counter",
    "Times that a lane's pump was replaced, because it ended by a fault of ours or stood still with something to send.",
    ("lane",),
)
LANE_UNNAMED_REFUSALS: Final = Name(
    "telemetry_gateway_lane_unnamed_refusals",
    "counter",
    "Records that an OTLP upstream refused without naming them: dead letters without a record.",
    ("lane",),
)
DEAD_LETTERS: Final = Name(
    "telemetry_gateway_dead_letters",
    "gauge",
    "Dead letters that are kept, by the upstream's reason: the 100 most frequent of a lane, the rest as other.",
    ("lane", "reason"),
)
DEAD_LETTER_ENDS: Final = Name(
    "telemetry_gateway_dead_letter_ends",
    "counter",
    "Dead letters that were put back to be sent (replayed), or whose bytes were dropped or expired.",
    ("lane", "end"),
)
SENDING_AGAIN: Final = Name(
    "telemetry_gateway_sending_again_records", "gauge", "Delivered records that are still to be sent again.", ("lane",)
)
SENT_AGAIN: Final = Name(
    "telemetry_gateway_sent_again_records",
    "counter",
    "Delivered records that were to be sent again: delivered once more, refused now, or given up. They stay delivered.",
    ("lane", "outcome"),
)
UNPRICED: Final = Name("telemetry_gateway_unpriced_calls", "gauge", "Calls that no price was found for.", ("model",))
SPOOL_BYTES: Final = Name(
    "telemetry_gateway_spool_bytes", "gauge", "Size of spool.db and its write-ahead log, free pages included."
)
SPOOL_USED: Final = Name("telemetry_gateway_spool_used_bytes", "gauge", "What of it counts against spool.max_bytes.")
SPOOL_LIMIT: Final = Name(
    "telemetry_gateway_spool_max_bytes", "gauge", "spool.max_bytes: above it new data is refused."
)
DISK_FREE: Final = Name(
    "telemetry_gateway_spool_disk_free_bytes", "gauge", "Left on the spool's disk, beside the reserve."
)
QUARANTINED: Final = Name(
    "telemetry_gateway_quarantined_records",
    "gauge",
    "Records on damaged pages of the spool that could not be read, now dead letters; absent when their number is unknown.",
)
QUARANTINE_BYTES: Final = Name(
    "telemetry_gateway_quarantine_bytes", "gauge", "Damaged files kept in quarantine/; above 0 somebody should look."
)
UNACKNOWLEDGED: Final = Name(
    "telemetry_gateway_spool_unacknowledged_losses",
    "gauge",
    "Salvages and losses of the spool that no operator has acknowledged.",
)
LOST: Final = Name(
    "telemetry_gateway_spool_lost_records",
    "gauge",
    "Records that the spool lost, not refused by the upstream; absent for an unknown number.",
    ("lane",),
)
SALVAGES: Final = Name("telemetry_gateway_spool_salvages", "gauge", "Times that a damaged spool was salvaged.")
HTTP_ANSWERS: Final = Name(
    "telemetry_gateway_http_answers",
    "counter",
    "Answers to senders; those of gRPC under the status that HTTP has for them.",
    ("route", "status"),
)
HTTP_GONE: Final = Name(
    "telemetry_gateway_http_senders_gone", "counter", "Requests whose sender went away before the answer."
)
OVER_QUOTA: Final = Name(
    "telemetry_gateway_http_over_quota",
    "counter",
    "Requests refused with 429 because their key had sent what it may in a minute, by the key's name and what was used up.",
    ("key", "quota"),
)
UNFORESEEN: Final = Name(
    "telemetry_gateway_unforeseen_errors",
    "counter",
    "Unforeseen errors, of a sender's request or the admin listener's; reported as retryable.",
)
IN_FLIGHT_BYTES: Final = Name(
    "telemetry_gateway_http_in_flight_bytes", "gauge", "Bytes of request bodies that have no answer yet."
)
DEVICES: Final = Name("telemetry_gateway_devices", "gauge", "Devices by their state.", ("state",))
ENROLMENTS: Final = Name(
    "telemetry_gateway_device_enrolments_waiting", "gauge", "Enrolments of devices that the service has not answered."
)
BILLING_DAYS: Final = Name(
    "telemetry_gateway_billing_days", "gauge",
    "Days of usage by the state of their billing drop; absent where no connection is configured.", ("state",),
)  # fmt: skip
BILLING_STATE: Final = Name(
    "telemetry_gateway_billing_state", "gauge", "1 for the state that the lane of billing drops is in.", ("state",)
)
RELAYED_DROPS: Final = Name(
    "telemetry_gateway_billing_relayed_drops", "gauge",
    "Billing drops of senders that wait for the upstream, or that it refused.", ("state",),
)  # fmt: skip
UP: Final = Name("telemetry_gateway_info", "gauge", "Always 1; its label is the release that runs.", ("version",))
BUILD: Final = Name(
    "telemetry_gateway_build_info", "gauge",
    "Always 1; its labels are the release, its commit, and what reads spans: native or python.",
    ("version", "commit", "reader"),
)  # fmt: skip

NAMES: Final[tuple[Name, ...]] = (
    ITEMS_RECEIVED, ITEMS, ITEM_REASONS, LANE_RECORDS, LANE_DELIVERED, LANE_EXPIRED, LANE_OLDEST, LANE_BYTES, LANE_STATE,
    LANE_RESTARTS, LANE_UNNAMED_REFUSALS, DEAD_LETTERS, DEAD_LETTER_ENDS, SENDING_AGAIN, SENT_AGAIN,
    UNPRICED, SPOOL_BYTES, SPOOL_USED, SPOOL_LIMIT, DISK_FREE, QUARANTINED, QUARANTINE_BYTES, SALVAGES, UNACKNOWLEDGED, LOST, HTTP_ANSWERS, HTTP_GONE, OVER_QUOTA, UNFORESEEN, IN_FLIGHT_BYTES, DEVICES, ENROLMENTS,
    BILLING_DAYS, BILLING_STATE, RELAYED_DROPS, UP, BUILD,
)  # fmt: skip

EDGE_OUTCOMES: Final = ("kept", "duplicate", "suppressed", "rejected", "ignored")
LANE_OUTCOMES: Final = ("kept", "delivered", "pending", "dead_lettered", "expired")
LANE_STATES: Final = ("ok", "behind", "retrying", "held", "off")

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
        """Metric families of the present status, for the Prometheus client."""
        status, web = self._status(), self._web_figures()
        yield from edge_metrics(status)
        yield from lane_metrics(status["lanes"])
        yield from resend_metrics(status)
        yield family(HTTP_ANSWERS, [((route, str(code)), n) for (route, code), n in web.answers.items()])
        yield family(HTTP_GONE, [((), web.gone)])
        yield family(OVER_QUOTA, list(web.over_quota.items()))
        yield family(UNFORESEEN, [((), web.unforeseen)])
        yield family(IN_FLIGHT_BYTES, [((), web.in_flight_bytes)])
        if "spool" in status:
            yield from spool_metrics(status["spool"])
        if "quarantine" in status:
            yield from quarantine_metrics(status["quarantine"])
        if "devices" in status:
            yield family(DEVICES, [((state,), n) for state, n in status["devices"]["states"].items()])
            yield family(ENROLMENTS, [((), status["devices"]["enrolments_waiting"])])
        yield from billing_metrics(status.get("billing"))
        yield relay_metric(status.get("billing_relay", ()))
        if "version" in status:
            yield family(UP, [((status["version"],), 1)])
        if "version" in status and "reader" in status:
            labels = (status["version"], status.get("commit") or "unknown", status["reader"]["name"])
            yield family(BUILD, [(labels, 1)])


def quarantine_metrics(quarantine: QuarantineStatus) -> Iterator[Metric]:
    records = quarantine["records"]
    yield family(QUARANTINED, [] if records is None else [((), records)])
    yield family(QUARANTINE_BYTES, [((), quarantine["bytes"])])
    yield family(SALVAGES, [((), quarantine["salvages"])])
    yield family(UNACKNOWLEDGED, [((), quarantine["unacknowledged"])])
    yield family(LOST, [((lane,), n) for lane, n in quarantine["lanes"].items()])


def edge_metrics(status: Status) -> Iterator[Metric]:
    edge = status["edge"]
    yield family(ITEMS_RECEIVED, [((), edge["received"])])
    yield family(ITEMS, [((outcome,), edge[outcome]) for outcome in EDGE_OUTCOMES])
    reasons = [(name.partition("."), n) for name, n in status.get("reasons", {}).items()]
    yield family(ITEM_REASONS, [((outcome, reason), n) for (outcome, _, reason), n in reasons])
    yield family(UNPRICED, [((model,), n) for model, n in status.get("unpriced", {}).items()])


def lane_metrics(lanes: Mapping[str, LaneStatus]) -> Iterator[Metric]:
    """The metric families of the lanes."""
    counts = {name: {outcome: n for outcome, n in lane.items() if isinstance(n, int)} for name, lane in lanes.items()}
    yield family(
        LANE_RECORDS, [((name, outcome), counts[name][outcome]) for name in lanes for outcome in LANE_OUTCOMES]
    )
    yield family(LANE_DELIVERED, [((name,), lane["delivered"]) for name, lane in lanes.items()])
    yield family(LANE_EXPIRED, [((name,), lane["expired"]) for name, lane in lanes.items()])
    yield family(LANE_OLDEST, [((name,), lane["oldest_pending_age_s"] or 0) for name, lane in lanes.items()])
    sizes = [((name,), size) for name, lane in lanes.items() if (size := lane.get("pending_bytes")) is not None]
    yield family(LANE_BYTES, sizes)
    states = [((name, state), float(lane["state"] == state)) for name, lane in lanes.items() for state in LANE_STATES]
    yield family(LANE_STATE, states)
    yield family(LANE_RESTARTS, [((name,), lane.get("restarts", 0)) for name, lane in lanes.items()])
    unnamed = [((name,), lane.get("unnamed_refusals", 0)) for name, lane in lanes.items()]
    yield family(LANE_UNNAMED_REFUSALS, unnamed)


def billing_metrics(billing: BillingStatus | None) -> Iterator[Metric]:
    """Without a sample where no connection is configured."""
    if billing is None:
        yield from (family(BILLING_DAYS, []), family(BILLING_STATE, []))
        return
    counts = {"due": billing["days_due"], "refused": billing["days_refused"], "dropped": billing["days_dropped"]}
    yield family(BILLING_DAYS, [((state,), n) for state, n in counts.items()])
    yield family(BILLING_STATE, [((state,), float(billing["state"] == state)) for state in LANE_STATES])


def relay_metric(connections: Sequence[BillingRelayStatus]) -> Metric:
    waiting, refused = (sum(each[state] for each in connections) for state in ("waiting", "refused"))
    return family(RELAYED_DROPS, [(("waiting",), waiting), (("refused",), refused)])


def spool_metrics(spool: SpoolStatus) -> Iterator[Metric]:
    if "file_bytes" in spool:
        yield family(SPOOL_BYTES, [((), spool["file_bytes"])])
    yield family(SPOOL_USED, [((), spool["used_bytes"])])
    yield family(SPOOL_LIMIT, [((), spool["max_bytes"])])
    if "disk_free_bytes" in spool:
        yield family(DISK_FREE, [((), spool["disk_free_bytes"])])


def resend_metrics(status: Status) -> Iterator[Metric]:
    """The metric families of replays."""
    yield family(DEAD_LETTERS, [((x["lane"], x["reason"]), x["records"]) for x in status.get("dead_letters", ())])
    resends = status.get("resends", {})
    ends = [((lane, end), x["dead_letters"][end]) for lane, x in resends.items() for end in x["dead_letters"]]
    yield family(DEAD_LETTER_ENDS, ends)
    yield family(SENDING_AGAIN, [((lane,), x["waiting"]) for lane, x in resends.items()])
    outcomes = [
        ((lane, outcome), x["sent_again"][outcome]) for lane, x in resends.items() for outcome in x["sent_again"]
    ]
    yield family(SENT_AGAIN, outcomes)


def family(name: Name, samples: Iterable[Sample]) -> Metric:
    made = CounterMetricFamily if name.kind == "counter" else GaugeMetricFamily
    metric = made(name.name, name.meaning, labels=name.labels)
    for labels, value in samples:
        metric.add_metric(labels, value)
    return metric
