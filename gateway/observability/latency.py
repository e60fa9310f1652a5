"""How long things take, and what they take of the machine: histograms, the outcomes of requests to
the upstream, and the two processes.

The parts count (`spool.histogram`, `exporters.attempts`); a scrape reads. The figures of the
processes are `prometheus_client.ProcessCollector`'s, which has them on Linux alone.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Final

from prometheus_client import GC_COLLECTOR, CollectorRegistry, ProcessCollector
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from exporters.attempts import Attempts
from gateway.observability.metrics import Name, family
from gateway.observability.telemetry.tracer import Tracer
from spool.histogram import ANSWER_S, Histogram

REQUEST_SECONDS: Final = Name(
    "telemetry_gateway_request_duration_seconds",
    "histogram",
    "From a request's headers to its answer, the commit included. Route `none`: a path that does not exist.",
    ("transport", "route"),
)
APPEND_SECONDS: Final = Name(
    "telemetry_gateway_append_duration_seconds",
    "histogram",
    "From the count of a payload to the end of the commit that keeps it.",
)
COMMIT_SECONDS: Final = Name(
    "telemetry_gateway_spool_commit_duration_seconds",
    "histogram",
    "Commits to spool.db that keep records, with their sync.",
)
SETTLE_LAG: Final = Name(
    "telemetry_gateway_settle_lag_seconds",
    "histogram",
    "From the receipt of a chunk of calls until it may be sent: counting.settle, and what exceeds it.",
)
SEND_SECONDS: Final = Name(
    "telemetry_gateway_send_duration_seconds", "histogram", "From the send of a batch to its outcome.", ("lane",)
)
SENDS: Final = Name(
    "telemetry_gateway_sends",
    "counter",
    "Batches sent, by outcome: delivered, retry, hold, refused or not_understood.",
    ("lane", "outcome"),
)
UPSTREAM_ANSWERS: Final = Name(
    "telemetry_gateway_upstream_answers",
    "counter",
    "Requests to the upstream by class of HTTP status (2xx …), name of gRPC status, or none where no answer came.",
    ("lane", "status"),
)
LOOP_LAG: Final = Name(
    "telemetry_gateway_event_loop_lag_seconds",
    "histogram",
    "How late the event loop wakes what waited for a moment; looked at twice a second.",
)
PUSHES: Final = Name(
    "telemetry_gateway_own_telemetry_pushes",
    "counter",
    "Requests with the gateway's own metrics and spans (telemetry.endpoint), by what became of them: sent or failed.",
    ("signal", "outcome"),
)
DROPPED_SPANS: Final = Name(
    "telemetry_gateway_own_spans_dropped", "counter", "Own spans that found no room until the next push."
)
NAMES: Final = (
    REQUEST_SECONDS, APPEND_SECONDS, COMMIT_SECONDS, SETTLE_LAG, SEND_SECONDS, SENDS, UPSTREAM_ANSWERS, LOOP_LAG,
    PUSHES, DROPPED_SPANS,
)  # fmt: skip

LOOK_EVERY_S: Final = 0.5
GRPC_METHOD: Final = "/Export"
"""With it ends the route of a gRPC call, and no path of HTTP."""


class LoopLag:
    """How late the event loop is."""

    def __init__(self) -> None:
        self.seconds = Histogram(ANSWER_S)

    async def run(self) -> None:
        """Look twice a second, until cancelled."""
        while True:
            began_s = perf_counter()
            await asyncio.sleep(LOOK_EVERY_S)
            self.seconds.observe(max(0.0, perf_counter() - began_s - LOOK_EVERY_S))


@dataclass(frozen=True, slots=True)
class Latencies:
    """The histograms of a running gateway's parts."""

    requests: Mapping[str, Histogram]
    """By route."""
    append: Histogram
    commit: Histogram
    settle_lag: Histogram
    attempts: Mapping[str, Attempts]
    """By lane."""
    loop_lag: Histogram
    pushes: Mapping[tuple[str, str], int]
    """(signal, outcome) -> requests with the gateway's own telemetry."""
    tracer: Tracer | None
    parser_pids: Mapping[str, Callable[[], int | None]] = field(default_factory=dict)
    """Namespace of its metrics -> the id of a process that reads bodies; None while it does not
    run."""


class LatencyCollector(Collector):
    """Give it to a prometheus-client registry."""

    def __init__(self, latencies: Latencies) -> None:
        self._latencies = latencies

    def describe(self) -> Iterable[Metric]:
        """The names without samples."""
        return [histograms(name, []) if name.kind == "histogram" else family(name, []) for name in NAMES]

    def collect(self) -> Iterator[Metric]:
        """Metric families as of now."""
        found = self._latencies
        yield histograms(REQUEST_SECONDS, [((transport_of(path), path), x) for path, x in list(found.requests.items())])
        yield histograms(APPEND_SECONDS, [((), found.append)])
        yield histograms(COMMIT_SECONDS, [((), found.commit)])
        yield histograms(SETTLE_LAG, [((), found.settle_lag)])
        attempts = list(found.attempts.items())
        yield histograms(SEND_SECONDS, [((lane,), x.seconds) for lane, x in attempts])
        yield family(SENDS, [((lane, outcome), n) for lane, x in attempts for outcome, n in x.outcomes.items()])
        yield family(UPSTREAM_ANSWERS, [((lane, status), n) for lane, x in attempts for status, n in x.answers.items()])
        yield histograms(LOOP_LAG, [((), found.loop_lag)])
        yield family(PUSHES, list(found.pushes.items()))
        yield family(DROPPED_SPANS, [((), 0 if found.tracer is None else found.tracer.dropped)])


def register(registry: CollectorRegistry, latencies: Latencies) -> None:
    """Add the histograms, all processes and the garbage collector to *registry*."""
    registry.register(LatencyCollector(latencies))
    ProcessCollector(registry=registry)
    for namespace, pid in latencies.parser_pids.items():
        ProcessCollector(namespace=namespace, pid=partial(_pid_or_none, pid), registry=registry)
    registry.register(GC_COLLECTOR)


def _pid_or_none(pid: Callable[[], int | None]) -> int | str:
    return pid() or "none"


def transport_of(route: str) -> str:
    return "grpc" if route.endswith(GRPC_METHOD) else "http"


def histograms(name: Name, samples: Iterable[tuple[tuple[str, ...], Histogram]]) -> Metric:
    metric = HistogramMetricFamily(name.name, name.meaning, labels=name.labels)
    for labels, histogram in samples:
        observed = histogram.read()
        buckets = [("+Inf" if bound == float("inf") else str(bound), n) for bound, n in observed.buckets]
        metric.add_metric(labels, buckets, observed.sum)
    return metric
