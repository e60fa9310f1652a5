"""One run of the ingest benchmark: sink, gateway and sender as processes, and
what was measured and proved.
"""

import json
import secrets
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.bodies import Shape
from benchmarks.litellm_bodies import PATH as LITELLM_PATH
from benchmarks.processes import Process, ProcessFailed, read_json_file
from benchmarks.sender import Report
from benchmarks.sink import Counts, Mode

_MIB = 1 << 20
_READY_TIMEOUT_S = 30.0
_DELIVERY_TIMEOUT_S = 600.0
_STALLED_S = 45.0
"""Longer than any settle time and back-off that a run here can meet."""
GRPC_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_KEY_VARIABLE = "BENCHMARK_UPSTREAM_KEY"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    shape: Shape
    requests: int
    seconds: float | None
    """When set, the length of the run, instead of `requests`."""
    connections: int
    settle: str
    pin: bool
    profile: bool
    folder: Path
    """Empty folder for data directories and logs."""
    grpc: bool = False
    """Over OTLP/gRPC; else over HTTP."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one run gave. Rates count AI spans; MiB are of the gateway process."""

    spans: int
    attributes: int
    encoding: str
    requests_per_s: float
    accepted_spans_per_s: float
    """Acknowledged spans over the time the sender took."""
    delivered_spans_per_s: float
    """The same spans over the time until the sink had the last one,
    settle time and linger included."""
    cpu_s_per_million_spans: float
    rss_ready_mib: float
    peak_rss_mib: float
    ack_p50_ms: float
    ack_p99_ms: float
    ack_p999_ms: float
    written_per_body_byte: float
    """Bytes the gateway gave to the block layer over bytes of the bodies as sent."""
    repeats: float
    verdict: str
    """`yes`, or what is not true."""
    pending_spans: float = 0.0
    peak_rss_pending_mib: float = 0.0
    """Peak when all spans were pending, before the drain."""
    drain_spans_per_s: float = 0.0
    profile: str = ""


class Sink(NamedTuple):
    """The upstream, as its process answers."""

    process: Process
    url: str

    def counts(self) -> Counts:
        """What came so far."""
        return Counts(**json.loads(fetch(self.url + "/_counts")))

    def seen(self) -> bytes:
        """Bitmap of the spans that came."""
        return fetch(self.url + "/_seen")

    def set_mode(self, mode: Mode) -> None:
        """Answer so from now on."""
        fetch(f"{self.url}/_mode/{mode}", method="POST")


class Gateway(NamedTuple):
    process: Process
    intake_url: str
    status_url: str


def fetch(url: str, *, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None) -> bytes:
    """Body of the answer.

    Raises urllib.error.HTTPError for anything but 2xx. Loopback only, so no proxy is asked.
    """
    request = urllib.request.Request(url, body, headers or {}, method=method)  # noqa: S310 - our own loopback URLs
    with _OPENER.open(request, timeout=30) as answer:
        read: bytes = answer.read()
    return read


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@contextmanager
def running_sink(log: Path, *, mode: Mode = "accept") -> Iterator[Sink]:
    """A sink on a free port, ended with the block."""
    process = Process([sys.executable, "-m", "benchmarks.sink", "--mode", mode], log=log)
    try:
        yield Sink(process, f"http://127.0.0.1:{json.loads(process.read_line())['port']}")
    finally:
        process.kill()


def run_sustained(plan: Plan, number: int) -> Result:
    """Send against an upstream that accepts; measure until the last span is there."""
    transport = "grpc" if plan.grpc else "http"
    folder = plan.folder / f"{plan.shape.spans}-{plan.shape.attributes}-{plan.shape.gzip}-{transport}-{number}"
    folder.mkdir()
    with running_sink(folder / "sink.log") as sink, _running_gateway(plan, folder, sink) as gateway:
        before = _Meter.read(gateway.process)
        ready_mib = gateway.process.rss_bytes("VmRSS") / _MIB
        started_s = time.monotonic()
        report, template = _send(plan, folder, gateway)
        counts = _delivered(sink, gateway, report.acked_spans)
        delivered_s = time.monotonic() - started_s
        after = _Meter.read(gateway.process)
        verdict = _verdict(report, counts, template, gateway)
        result = _result(
            plan,
            report,
            counts=counts,
            verdict=verdict,
            before=before,
            after=after,
            ready_mib=ready_mib,
            delivered_s=delivered_s,
        )
        profile = _profile(plan, folder, gateway)
    return replace(result, profile=profile)


def run_pending(plan: Plan, number: int) -> Result:
    """Send against an upstream that refuses, so that all of it is pending; then let it
    accept, and time the drain.
    """
    folder = plan.folder / f"pending-{number}"
    folder.mkdir()
    with running_sink(folder / "sink.log", mode="refuse") as sink, _running_gateway(plan, folder, sink) as gateway:
        before = _Meter.read(gateway.process)
        ready_mib = gateway.process.rss_bytes("VmRSS") / _MIB
        started_s = time.monotonic()
        report, template = _send(plan, folder, gateway)
        pending = json.loads(fetch(gateway.status_url))["lanes"]["ai_telemetry"]["pending"]
        peak_pending_mib = gateway.process.rss_bytes() / _MIB
        sink.set_mode("accept")
        drain_started_s = time.monotonic()
        counts = _delivered(sink, gateway, report.acked_spans)
        drained_s = time.monotonic()
        after = _Meter.read(gateway.process)
        verdict = _verdict(report, counts, template, gateway)
        result = _result(
            plan,
            report,
            counts=counts,
            verdict=verdict,
            before=before,
            after=after,
            ready_mib=ready_mib,
            delivered_s=drained_s - started_s,
        )
        profile = _profile(plan, folder, gateway)
    return replace(
        result,
        profile=profile,
        pending_spans=float(pending),
        peak_rss_pending_mib=peak_pending_mib,
        drain_spans_per_s=counts.unique_spans / (drained_s - drain_started_s),
    )


class _Meter(NamedTuple):
    cpu_s: float
    written_bytes: int
    peak_rss_mib: float

    @classmethod
    def read(cls, process: Process) -> "_Meter":
        return cls(process.cpu_s(), process.written_bytes(), process.rss_bytes() / _MIB)


class _TemplateFacts(NamedTuple):
    input_tokens: int
    output_tokens: int


@contextmanager
def _running_gateway(plan: Plan, folder: Path, sink: Sink) -> Iterator[Gateway]:
    config, ports_file = folder / "config.yaml", folder / "ports.json"
    config.write_text(json.dumps(_config(plan, folder, sink)))  # JSON is YAML
    module = ["benchmarks.sampler", str(folder / "profile.txt")] if plan.profile else ["gateway.cli.main"]
    command = [sys.executable, "-m", *module, "run", "--config", str(config), "--ports-file", str(ports_file)]
    process = Process(command, log=folder / "gateway.log", env={_KEY_VARIABLE: secrets.token_hex(16)})
    try:
        if plan.pin:
            process.pin({0})
            sink.process.pin({1})
        ports = process.wait_until(lambda: read_json_file(ports_file), timeout_s=_READY_TIMEOUT_S, what="ready")
        base = "http://127.0.0.1:"
        path = LITELLM_PATH if plan.shape.encoding == "litellm" else "/v1/traces"
        intake = f"grpc://127.0.0.1:{ports['grpc']}{GRPC_METHOD}" if plan.grpc else f"{base}{ports['http']}{path}"
        yield Gateway(process, intake, f"{base}{ports['admin']}/v2/status")
    finally:
        process.kill()


def _config(plan: Plan, folder: Path, sink: Sink) -> dict[str, object]:
    key = {"name": "benchmark", "secret": f"${{env:{_KEY_VARIABLE}}}", "managed": ["send-ai-telemetry"]}
    return {
        "data_dir": str(folder / "data"),
        "listen": {
            "http": "127.0.0.1:0",
            "grpc": "127.0.0.1:0" if plan.grpc else "off",
            "admin": "127.0.0.1:0",
            "service": "off",
        },
        "counting": {"settle": plan.settle},
        "upstream": {"base_url": sink.url, "keys": [key]},
    }


def _send(plan: Plan, folder: Path, gateway: Gateway) -> tuple[Report, _TemplateFacts]:
    size = ["--seconds", str(plan.seconds)] if plan.seconds else ["--requests", str(plan.requests)]
    shape = json.dumps(asdict(plan.shape))
    command = [sys.executable, "-m", "benchmarks.sender", "--url", gateway.intake_url, "--shape", shape, *size]
    sender = Process([*command, "--connections", str(plan.connections)], log=folder / "sender.log")
    try:
        if plan.pin:
            sender.pin({1})
        facts = json.loads(sender.read_line())
        sender.write_line("go")
        return Report(**json.loads(sender.read_line())), _TemplateFacts(facts["input_tokens"], facts["output_tokens"])
    finally:
        sender.kill()


def _delivered(sink: Sink, gateway: Gateway, spans: int) -> Counts:
    """The sink's counts once it has *spans* spans.

    Raises ProcessFailed, with the status, when nothing moves any more.
    """
    best, moved_s = -1, time.monotonic()

    def complete() -> Counts | None:
        nonlocal best, moved_s
        counts = sink.counts()
        if counts.unique_spans > best:
            best, moved_s = counts.unique_spans, time.monotonic()
        if counts.unique_spans < spans and time.monotonic() - moved_s > _STALLED_S:
            status = fetch(gateway.status_url).decode()
            raise ProcessFailed(f"nothing arrived for {_STALLED_S} s; {counts}; {status}\n{gateway.process.log_tail()}")
        return counts if counts.unique_spans >= spans else None

    return gateway.process.wait_until(complete, timeout_s=_DELIVERY_TIMEOUT_S, what=f"all {spans} spans delivered")


def _verdict(report: Report, counts: Counts, template: _TemplateFacts, gateway: Gateway) -> str:
    edge = json.loads(fetch(gateway.status_url))["edge"]
    sums = sum(edge[outcome] for outcome in ("kept", "duplicate", "suppressed", "rejected", "ignored"))
    faults = {
        "not all 200": report.acked_requests != report.requests,
        "items rejected": report.rejected_items > 0,
        "spans lost or invented": counts.unique_spans != report.acked_spans,
        "double counted": counts.double_counted > 0 or counts.unique_records != counts.unique_spans,
        "unknown records": counts.unknown > 0,
        "bad batches": counts.bad_requests > 0,
        "input tokens differ": counts.input_tokens != report.acked_requests * template.input_tokens,
        "output tokens differ": counts.output_tokens != report.acked_requests * template.output_tokens,
        "edge identity broken": edge["received"] != sums,
        "kept differs from acked": edge["kept"] != report.acked_spans,
    }
    return ", ".join(fault for fault, present in faults.items() if present) or "yes"


def _result(
    plan: Plan,
    report: Report,
    *,
    counts: Counts,
    verdict: str,
    before: _Meter,
    after: _Meter,
    ready_mib: float,
    delivered_s: float,
) -> Result:
    shape = plan.shape
    return Result(
        spans=shape.spans,
        attributes=shape.attributes,
        encoding=("grpc" if plan.grpc else shape.encoding) + ("+gzip" if shape.gzip else ""),
        requests_per_s=report.acked_requests / report.elapsed_s,
        accepted_spans_per_s=report.acked_spans / report.elapsed_s,
        delivered_spans_per_s=counts.unique_spans / delivered_s,
        cpu_s_per_million_spans=(after.cpu_s - before.cpu_s) * 1e6 / max(1, report.acked_spans),
        rss_ready_mib=ready_mib,
        peak_rss_mib=after.peak_rss_mib,
        ack_p50_ms=report.ack_p50_ms,
        ack_p99_ms=report.ack_p99_ms,
        ack_p999_ms=report.ack_p999_ms,
        written_per_body_byte=(after.written_bytes - before.written_bytes) / max(1, report.sent_bytes),
        repeats=float(counts.repeats),
        verdict=verdict,
    )


def _profile(plan: Plan, folder: Path, gateway: Gateway) -> str:
    """The sampler's text, written when the gateway has stopped; empty without `profile`."""
    if not plan.profile:
        return ""
    gateway.process.terminate()
    return (folder / "profile.txt").read_text()
