"""What a large backlog costs: time to ready, memory, drain.

    python -m benchmarks.backlog --gib 10            received hours ago: settled for the ledger
    python -m benchmarks.backlog --gib 10 --age 0    received a moment ago: the ledger is rebuilt
    python -m benchmarks.backlog --gib 0.2 --drain-s 30 --json out.json

The backlog is written through the spool's own interface, with records and evidence as the
gateway makes them of gen_ai spans, ids patched so that no two are alike. Then the gateway
starts on it, with the page cache dropped where this user may, against a sink that refuses until
it is ready. The same is done with an empty data directory: the base.
"""

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, cast

from benchmarks.bodies import AI_SPAN_ID_BASE, Shape, Template
from benchmarks.processes import Process, read_json_file
from benchmarks.scenario import Sink, fetch, running_sink
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.counting.calls.digest import DIGEST_BYTES
from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.rules.context import Context, UserPolicy
from gateway.usage.pricing.prices import Prices
from spool.clock import rfc3339_ms
from spool.record import AI_TELEMETRY
from spool.settings import SpoolSettings
from spool.sqlite.spool import SqliteSpool
from spool.store import ItemCounts

_MIB = 1 << 20
_KEY_VARIABLE = "BENCHMARK_UPSTREAM_KEY"
_ROOM_BYTES = 64 << 30
_READY_TIMEOUT_S = 300.0
_CHUNKS_AT_ONCE = 32
_SPANS = 500
_TRACE_AT, _RESPONSE_AT = 8, 64
"""Where the end of the trace id, with the span id behind it, and the response id's fingerprint
stand in a row of evidence (`gateway.counting.calls.digest`)."""
_SPREAD = 0x9E3779B97F4A7C15
"""Makes a number look like a fingerprint: the ledger's tables
take the low bits of one for random."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Result:
    backlog_mib: float
    """Size of spool.db."""
    records: int
    age_s: float
    ready_s: float
    """From the start of the process until /readyz answers 200; most of a base of the
    same is Python's own start."""
    ready_base_s: float
    rss_ready_mib: float
    """Of the gateway and its worker together."""
    rss_base_mib: float
    rss_drain_mib: float
    """The most that was seen while it drained."""
    drained_mib: float
    drain_mib_per_s: float
    drain_records_per_s: float
    file_after_mib: float


class Batch(NamedTuple):
    records: list[bytes]
    rows: bytes


class Source:
    """Batches of records and their evidence, no two records alike."""

    def __init__(self, received_ms: int) -> None:
        body = Template(Shape(spans=_SPANS), now_ns=received_ms * 1_000_000).body(0)
        context = Context(received_ms, rfc3339_ms(received_ms), users=UserPolicy("keep", b""), peer="127.0.0.1")
        packed = cast("ParsedPayload", parse(Payload("traces", body, json=False), context, ParseRules(Prices())).calls)
        self._rows = [packed.rows[at : at + DIGEST_BYTES] for at in range(0, len(packed.rows), DIGEST_BYTES)]
        self._pieces = [_cut(record, AI_SPAN_ID_BASE + i) for i, record in enumerate(packed.records)]
        self._next = AI_SPAN_ID_BASE

    def batch(self) -> Batch:
        ids = range(self._next, self._next + _SPANS)
        self._next += _SPANS
        records = [
            head + b"%016x" % ident + middle + b"%016x" % ident + tail
            for ident, (head, middle, tail) in zip(ids, self._pieces, strict=True)
        ]
        return Batch(records, b"".join(map(_patched, self._rows, ids)))


def _cut(record: bytes, ident: int) -> tuple[bytes, bytes, bytes]:
    """The record around the first half of its record id, and around its span id."""
    start = record.index(b'"record_id":"') + len(b'"record_id":"')
    span = record.index(b'"span_id":"%016x"' % ident) + len(b'"span_id":"')
    return record[:start], record[start + 16 : span], record[span + 16 :]


def _patched(row: bytes, ident: int) -> bytes:
    raw = ident.to_bytes(8, "big")
    fingerprint = (ident * _SPREAD & (1 << 64) - 1).to_bytes(8, "little")
    return row[:_TRACE_AT] + raw + raw + row[_TRACE_AT + 16 : _RESPONSE_AT] + fingerprint + row[_RESPONSE_AT + 8 :]


async def write_backlog(data_dir: Path, size_bytes: int, age_s: float) -> int:
    """Fill a spool with pending, settled records received *age_s* ago; how many."""
    received_ms = int((time.time() - age_s) * 1000)
    settings = SpoolSettings(max_bytes=_ROOM_BYTES, synchronous="NORMAL")
    spool = SqliteSpool(data_dir, settings, now_ms=lambda: received_ms, monotonic_ms=lambda: 0)
    source, count = Source(received_ms), 0
    while spool.used_bytes < size_bytes:
        waiting = []
        for _ in range(_CHUNKS_AT_ONCE):
            batch = source.batch()
            count += len(batch.records)
            tally = ItemCounts(received=len(batch.records), kept=len(batch.records))
            waiting.append(spool.append(AI_TELEMETRY, batch.records, tally, facts=batch.rows))
        await asyncio.gather(*waiting)
    await spool.settle(AI_TELEMETRY, spool.sealed_seq)
    await spool.close()
    return count


@contextmanager
def running_gateway(folder: Path, data_dir: Path, sink: Sink) -> Iterator[tuple[Process, str, float]]:
    """The process, its admin address, and the seconds until it was ready."""
    key = {"name": "benchmark", "secret": f"${{env:{_KEY_VARIABLE}}}", "managed": ["send-ai-telemetry"]}
    config = {
        "data_dir": str(data_dir),
        "listen": {"http": "127.0.0.1:0", "grpc": "off", "admin": "127.0.0.1:0", "service": "off"},
        "spool": {"max_bytes": _ROOM_BYTES, "keep_delivered": "0s"},
        "counting": {"window": "10m"},
        "upstream": {"base_url": sink.url, "keys": [key]},
    }
    config_file, ports_file = folder / f"{data_dir.name}.yaml", folder / f"{data_dir.name}.ports"
    config_file.write_text(json.dumps(config))  # JSON is YAML
    command = ["gateway.cli.main", "run", "--config", str(config_file), "--ports-file", str(ports_file)]
    started_s = time.monotonic()
    log = folder / f"{data_dir.name}.log"
    process = Process([sys.executable, "-m", *command], log=log, env={_KEY_VARIABLE: secrets.token_hex(16)})
    try:
        ports = process.wait_until(lambda: read_json_file(ports_file), timeout_s=_READY_TIMEOUT_S, what="ready")
        admin = f"http://127.0.0.1:{ports['admin']}"
        fetch(admin + "/readyz")
        yield process, admin, time.monotonic() - started_s
    finally:
        process.kill()


def drop_page_cache() -> None:
    """So that nothing of the backlog is in memory; without the right to,
    the start finds it there.
    """
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        sys.stderr.write("the page cache could not be dropped: the start is warm\n")


def measure(folder: Path, size_bytes: int, age_s: float, drain_s: float) -> Result:
    data_dir, empty_dir = folder / "backlog", folder / "empty"
    began_s = time.monotonic()
    records = asyncio.run(write_backlog(data_dir, size_bytes, age_s))
    sys.stderr.write(f"{records} records written in {time.monotonic() - began_s:.0f} s\n")
    with running_sink(folder / "sink.log", mode="refuse") as sink:
        with running_gateway(folder, empty_dir, sink) as (process, _, ready_base_s):
            rss_base_mib = process.rss_bytes("VmRSS") / _MIB
        drop_page_cache()
        backlog_mib = (data_dir / "spool.db").stat().st_size / _MIB
        with running_gateway(folder, data_dir, sink) as (process, admin, ready_s):
            rss_ready_mib = process.rss_bytes("VmRSS") / _MIB
            sink.set_mode("accept")
            drained_s, rss_drain_mib = drain(process, admin, drain_s)
            counts = sink.counts()
    file_after_mib = (data_dir / "spool.db").stat().st_size / _MIB
    return Result(
        round(backlog_mib), records, age_s, round(ready_s, 2), round(ready_base_s, 2), round(rss_ready_mib),
        round(rss_base_mib), round(rss_drain_mib), round(counts.bytes / _MIB), round(counts.bytes / _MIB / drained_s, 1),
        round(counts.unique_records / drained_s), round(file_after_mib),
    )  # fmt: skip


def drain(process: Process, admin: str, most_s: float) -> tuple[float, float]:
    """Wait until nothing is pending, or for *most_s*; how long that was, and
    the most memory seen meanwhile.
    """
    began_s, most_rss = time.monotonic(), 0
    while (passed_s := time.monotonic() - began_s) < most_s:
        most_rss = max(most_rss, process.rss_bytes("VmRSS"))
        if not json.loads(fetch(admin + "/v2/status"))["lanes"][AI_TELEMETRY]["pending"]:
            break
        time.sleep(_POLL_S)
    return passed_s, most_rss / _MIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gib", type=float, default=1.0, help="size of spool.db")
    parser.add_argument("--age", type=float, default=7200.0, help="seconds since the records were received")
    parser.add_argument("--drain-s", type=float, default=120.0, help="longest that the drain is watched")
    parser.add_argument("--folder", type=Path, help="where the data goes; by default a temporary folder")
    parser.add_argument("--json", type=Path, help="write the result there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="backlog-", dir=options.folder) as folder:
        result = asdict(measure(Path(folder), int(options.gib * (1 << 30)), options.age, options.drain_s))
    text = json.dumps(result, indent=2)
    if options.json is not None:
        options.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
