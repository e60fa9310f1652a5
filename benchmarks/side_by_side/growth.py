"""Whether the gateway's cost grows with what it holds: intake beside so many pending records (the
upstream refuses), and beside so many known calls (all delivered).
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from benchmarks.side_by_side.loads import Load, write_template
from benchmarks.side_by_side.peers import Sink
from benchmarks.side_by_side.products import Product, Running
from benchmarks.side_by_side.runs import Bench, sender, started, until_delivered

Held = Literal["pending", "known", "drained"]
LEVELS: Final[dict[Held, tuple[int, ...]]] = {"pending": (10_000, 100_000, 1_000_000), "known": (0, 1_000_000)}
_FILL: Final = Load(512)
_MEASURED: Final = (Load(1, connections=64), Load(64))
_SETTLED_S: Final = 3.0
"""After this all that was sent is settled (`counting.settle` is 1 s)."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Level:
    """Intake of one load at one level; or, `drained`, the delivery of all that was pending."""

    held: Held
    records: int
    load: str
    taken_per_s: float
    """Of `drained`: delivered a second."""
    cpu_us_per_item: float
    p99_ms: float
    rss_mib: float
    peak_rss_mib: float
    lost: int
    twice: int


class _Filled:
    """A gateway, and how much it was sent."""

    def __init__(self, held: Held, running: Running, sink: Sink, folder: Path, bench: Bench) -> None:
        self._held, self._running, self._sink, self._bench = held, running, sink, bench
        self._templates = {load: folder / f"{load.size}.json" for load in (_FILL, *_MEASURED)}
        self.sent = self._next = 0

    def fill(self, records: int) -> None:
        """Send until *records* are held, and wait until they are settled."""
        requests = max(0, records - self.sent + _FILL.size - 1) // _FILL.size
        if requests:
            self._send(_FILL, seconds=600.0, requests=requests)

    def measure(self, load: Load) -> Level:
        """Intake of *load* at the present level."""
        level, before_s = self.sent, self._running.process.cpu_s()
        report = self._send(load, seconds=self._bench.seconds)
        used_s = self._running.process.cpu_s() - before_s
        return self._level(level, load.name, report[0], used_s / max(1, report[1]), p99_ms=report[2])

    def drain(self) -> Level:
        """Let the upstream accept, and wait for all of it."""
        before_s, began_s = self._running.process.cpu_s(), time.monotonic()
        self._sink.accept()
        counts, ended_s = until_delivered(self._sink, self.sent)
        used_s = self._running.process.cpu_s() - before_s
        rate = counts.unique / (ended_s - began_s)
        return self._level(self.sent, "", rate, used_s / max(1, self.sent), held="drained")

    def _send(self, load: Load, **options: float) -> tuple[float, int, float]:
        """Taken a second, items, p99 in ms."""
        path = self._templates[load]
        if not path.exists():
            write_template(load, path)
        report = sender(self._bench, self._running, path, load, first=self._next, **options).go()
        # Numbers of requests that were cut off are not used again.
        self._next = report.next_number + 64 * load.size
        self.sent += report.acked_items
        if self._held == "known":
            until_delivered(self._sink, self.sent)
        else:
            time.sleep(_SETTLED_S)
        return report.acked_items / report.elapsed_s, report.acked_items, report.p99_ms

    def _level(
        self, records: int, load: str, rate: float, cpu_s: float, *, p99_ms: float = 0.0, held: Held | None = None
    ) -> Level:
        counts, process = self._sink.counts(), self._running.process
        missing = self.sent - counts.unique if held or self._held == "known" else 0
        return Level(
            held or self._held,
            records,
            load,
            rate,
            cpu_s * 1e6,
            p99_ms,
            process.rss_bytes("VmRSS") / _MIB,
            process.rss_bytes() / _MIB,
            missing,
            counts.repeats,
        )


def growth(product: Product, bench: Bench) -> Iterator[Level]:
    """Each level as it was measured."""
    for held, levels in LEVELS.items():
        with started(product, _FILL, bench, refuses=held == "pending") as (running, sink, template):
            filled = _Filled(held, running, sink, template.parent, bench)
            for records in levels:
                filled.fill(records)
                for load in _MEASURED:
                    yield filled.measure(load)
            if held == "pending":
                yield filled.drain()
