"""One run: a product on an empty folder, a sink, a sender; what was taken, delivered and lost."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.disk import fdatasync_latency_ms
from benchmarks.processes import Process
from benchmarks.side_by_side.build import Programs
from benchmarks.side_by_side.loads import NUMBERED_BY, Load, write_template
from benchmarks.side_by_side.peers import Sender, SenderReport, Sink, SinkCounts, running_sink
from benchmarks.side_by_side.products import Product, Running

_MIB: Final = 1 << 20
_POLL_S: Final = 0.02
STALLED_S: Final = 30.0
"""Without a delivery for so long, what is missing counts as lost."""
WARM_UP_FIRST: Final = 1 << 32
"""Number of the warm-up's first item."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run. Items are spans, log records or what the data points of one session become; rates
    are items a second, times of an answer milliseconds, memory MiB.
    """

    load: str
    product: str
    reader: str | None
    """Of the gateway: `native` or `python`."""
    requests_per_s: float
    taken_per_s: float
    """Acknowledged, over the sender's time."""
    delivered_per_s: float
    """The same items over the time until the sink had the last one, settle time included."""
    drain_s: float
    """From the last answer to the last delivery."""
    cpu_us_per_item: float
    """User and system time of all processes of the product, until the last delivery."""
    cpu_us_per_request: float
    peak_rss_mib: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    written_per_body_byte: float
    """Bytes given to the block layer over bytes of bodies as sent."""
    lost: int
    """Acknowledged, and never at the sink."""
    twice: int
    """At the sink more than once."""
    not_acked: int
    """Requests without a 200."""
    sender_cores: float
    sink_cores: float
    fdatasync_p50_ms: float
    """Of the disk, just before the run."""
    fdatasync_p99_ms: float
    load_average: float
    """Of the machine over the last minute, at the start."""


class Bench(NamedTuple):
    """What all runs share."""

    programs: Programs
    folder: Path
    seconds: float
    warm_up_s: float
    """Of the same load before the run."""


class _Meter(NamedTuple):
    cpu_s: float
    written_bytes: int

    @classmethod
    def of(cls, process: Process) -> "_Meter":
        return cls(process.cpu_s(), process.written_bytes())


@contextmanager
def started(
    product: Product, load: Load, bench: Bench, *, refuses: bool = False
) -> Iterator[tuple[Running, Sink, Path]]:
    """Sink and product on a new folder that is gone with the block; the third is the template."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{product.name}-", dir=bench.folder))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        template = folder / "template.json"
        write_template(load, template)
        field, log = NUMBERED_BY[load.kind], folder / "sink.log"
        sink = stack.enter_context(running_sink(bench.programs.peerbench, log, field=field, refuses=refuses))
        running = product.start(folder, sink.port, bench.programs)
        stack.callback(running.stop)
        yield running, sink, template


def run_once(product: Product, load: Load, bench: Bench) -> Run:
    """Raises ProcessFailed where the product does not start or ends."""
    disk, load_average = fdatasync_latency_ms(bench.folder), os.getloadavg()[0]
    with started(product, load, bench) as (running, sink, template):
        if bench.warm_up_s:
            warm = sender(bench, running, template, load, seconds=bench.warm_up_s, first=WARM_UP_FIRST).go()
            until_delivered(sink, warm.acked_items)
        ready = sender(bench, running, template, load, seconds=bench.seconds)
        base, before, began_s = sink.counts(), _Meter.of(running.process), time.monotonic()
        report = ready.go()
        answered_s = time.monotonic()
        counts, delivered_s = until_delivered(sink, base.unique + report.acked_items)
        after = _Meter.of(running.process)
        return _result(
            product,
            load,
            running,
            report,
            counts=counts,
            base=base,
            cpu_s=after.cpu_s - before.cpu_s,
            written_bytes=after.written_bytes - before.written_bytes,
            took_s=delivered_s - began_s,
            drain_s=delivered_s - answered_s,
            disk=disk,
            load_average=load_average,
        )


def sender(bench: Bench, running: Running, template: Path, load: Load, *, seconds: float, **options: Any) -> Sender:
    """The sender of *load*, built and waiting. Bodies that are compressed are built beforehand, as
    many as any product here takes in the time.
    """
    if load.gzip:
        options |= {"gzip": True, "pool": int(seconds * max(load.rate, 200, 20_000 / load.size**0.5))}
    return Sender(
        bench.programs.peerbench,
        template.parent / "sender.log",
        port=running.port,
        template=template,
        connections=load.connections,
        seconds=seconds,
        rate=load.rate,
        **options,
    )


def until_delivered(sink: Sink, items: int) -> tuple[SinkCounts, float]:
    """The sink's counts and the monotonic time, once it has *items* different ones or nothing came
    for `STALLED_S`.
    """
    best, moved_s = -1, time.monotonic()
    while True:
        counts, now_s = sink.counts(), time.monotonic()
        if counts.unique >= items:
            return counts, now_s
        if counts.unique > best:
            best, moved_s = counts.unique, now_s
        elif now_s - moved_s > STALLED_S:
            return counts, moved_s
        time.sleep(_POLL_S)


def _result(
    product: Product,
    load: Load,
    running: Running,
    report: SenderReport,
    *,
    counts: SinkCounts,
    base: SinkCounts,
    cpu_s: float,
    written_bytes: int,
    took_s: float,
    drain_s: float,
    disk: tuple[float, float],
    load_average: float,
) -> Run:
    items, requests = max(1, report.acked_items), max(1, report.acked_requests)
    return Run(
        load=load.name,
        product=product.name,
        reader=running.reader,
        requests_per_s=report.acked_requests / report.elapsed_s,
        taken_per_s=report.acked_items / report.elapsed_s,
        delivered_per_s=(counts.unique - base.unique) / took_s,
        drain_s=drain_s,
        cpu_us_per_item=cpu_s * 1e6 / items,
        cpu_us_per_request=cpu_s * 1e6 / requests,
        peak_rss_mib=running.process.rss_bytes() / _MIB,
        p50_ms=report.p50_ms,
        p99_ms=report.p99_ms,
        p999_ms=report.p999_ms,
        written_per_body_byte=written_bytes / max(1, report.body_bytes),
        lost=base.unique + report.acked_items - counts.unique,
        twice=counts.repeats - base.repeats,
        not_acked=report.requests - report.acked_requests,
        sender_cores=report.cpu_s / report.elapsed_s,
        sink_cores=(counts.cpu_s - base.cpu_s) / took_s,
        fdatasync_p50_ms=disk[0],
        fdatasync_p99_ms=disk[1],
        load_average=load_average,
    )
