"""How fast the gateway takes spans, keeps them on disk, and delivers them:
three processes on loopback.

    python -m benchmarks.ingest                              the default matrix
    python -m benchmarks.ingest --spans 100 --attributes 15 --runs 5 --json out.json
    python -m benchmarks.ingest --pending                    a million pending spans; their drain
    python -m benchmarks.ingest --spans 512 --profile        where the time goes
    python -m benchmarks.ingest --grpc --spans 64 --runs 5   OTLP/gRPC beside OTLP/HTTP, in turn

Each run starts a sink (the cost service), a gateway with an empty data directory, and a sender;
sends; and waits until the sink has everything that was acknowledged. A run counts only when it
is true: spans and tokens at the sink equal those acknowledged, nothing twice, and the gateway's
own figures agree. The exit code is 1 when one is not.

The gateway runs as it ships (`synchronous=FULL`): an answer follows the commit on disk, so the
disk's own fdatasync latency stands beside the results. CPU seconds are the gateway process's,
all threads, until all is delivered.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from itertools import product
from pathlib import Path
from statistics import median

from benchmarks.bodies import Shape
from benchmarks.disk import SyncLatency, fdatasync_latency_ms
from benchmarks.processes import raise_file_limit
from benchmarks.scenario import Plan, Result, run_pending, run_sustained

SPANS = (1, 10, 100, 512)
ATTRIBUTES = (15, 40)
_COLUMNS = (
    ("spans/req", "spans", "d"),
    ("attrs", "attributes", "d"),
    ("enc", "encoding", "s"),
    ("req/s", "requests_per_s", ",.0f"),
    ("spans/s", "accepted_spans_per_s", ",.0f"),
    ("delivered/s", "delivered_spans_per_s", ",.0f"),
    ("CPU s/M spans", "cpu_s_per_million_spans", ".1f"),
    ("peak MiB", "peak_rss_mib", ".0f"),
    ("p50 ms", "ack_p50_ms", ".2f"),
    ("p99 ms", "ack_p99_ms", ".2f"),
    ("p99.9 ms", "ack_p999_ms", ".2f"),
    ("disk x", "written_per_body_byte", ".2f"),
    ("true", "verdict", "s"),
)


def shapes(arguments: argparse.Namespace) -> Iterator[Shape]:
    """The shapes asked for, or the default matrix in whatever was not."""
    compressions = (arguments.gzip,) if arguments.gzip is not None else (False, True)
    for spans, attributes, compress in product(
        arguments.spans or SPANS, arguments.attributes or ATTRIBUTES, compressions
    ):
        yield Shape(
            spans=spans,
            attributes=attributes,
            encoding="litellm" if arguments.litellm else "json" if arguments.otlp_json else "protobuf",
            gzip=compress,
            convention=arguments.convention,
            ai_percent=arguments.ai_percent,
        )


def requests_for(shape: Shape) -> int:
    """Requests of a run when the operator did not state: about 100
    000 spans, 200 to 20 000 requests.
    """
    return min(20_000, max(200, 100_000 // shape.spans))


def medians(results: Sequence[Result]) -> Result:
    """The median of every figure; true only when every run was."""
    best = results[0]
    names = [field.name for field in fields(Result) if isinstance(getattr(best, field.name), float)]
    middle = {name: float(median(getattr(result, name) for result in results)) for name in names}
    faults = next((result.verdict for result in results if result.verdict != "yes"), "yes")
    return replace(best, verdict=faults, **middle)  # type: ignore[arg-type]  # names of float fields only


def table(results: Sequence[Result]) -> str:
    """One line a result."""
    rows = [[format(getattr(result, name), spec) for _, name, spec in _COLUMNS] for result in results]
    widths = [max(len(title), *(len(row[at]) for row in rows)) for at, (title, _, _) in enumerate(_COLUMNS)]
    lines = [[title for title, _, _ in _COLUMNS], *rows]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, nargs="+", help=f"spans in a request (default {SPANS})")
    parser.add_argument("--attributes", type=int, nargs="+", help=f"attributes on an AI span (default {ATTRIBUTES})")
    parser.add_argument("--gzip", action=argparse.BooleanOptionalAction, help="compressed bodies (default: both)")
    parser.add_argument("--otlp-json", action="store_true", help="OTLP/JSON instead of protobuf")
    parser.add_argument(
        "--litellm", action="store_true", help="what LiteLLM pushes, 12 to 14 kB a record; --spans records a request"
    )
    parser.add_argument("--convention", default="gen_ai", choices=("gen_ai", "openinference", "openllmetry", "vercel"))
    parser.add_argument("--ai-percent", type=int, default=100, help="share of AI spans; the rest are HTTP spans")
    parser.add_argument("--grpc", action="store_true", help="each run over HTTP and over gRPC, and their ratio")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--requests", type=int, help="requests of a run, built beforehand")
    size.add_argument("--seconds", type=float, help="length of a run; bodies are then built while sending")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--runs", type=int, default=1, help="the table shows medians")
    parser.add_argument("--settle", default="1s", help="counting.settle, so that delivery overlaps intake")
    parser.add_argument("--pin", action="store_true", help="gateway on core 0, sender and sink on core 1")
    parser.add_argument("--pending", action="store_true", help="the upstream refuses; keep --pending-spans, then drain")
    parser.add_argument("--pending-spans", type=int, default=1_000_000)
    parser.add_argument(
        "--profile", action="store_true", help="sample the gateway's stacks and print the top functions"
    )
    parser.add_argument("--dir", type=Path, help="where the data directories are made (default: the temporary folder)")
    parser.add_argument("--json", type=Path, help="write every run here")
    return parser.parse_args()


def main() -> int:
    """Entry point; 1 when a run lost, repeated or miscounted something."""
    arguments = _arguments()
    raise_file_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes started here end too
    runs: list[Result] = []
    shown: list[Result] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gateway-bench-", dir=arguments.dir)))
        disk = fdatasync_latency_ms(folder)
        print(f"fdatasync of 4 KiB: p50 {disk.p50_ms:.3f} ms, p99 {disk.p99_ms:.3f} ms", flush=True)
        try:
            for plan in _plans(arguments, folder):
                scenario = run_pending if arguments.pending else run_sustained
                plans = [plan, replace(plan, grpc=True)] if arguments.grpc else [plan]
                made = [[scenario(each, run) for each in plans] for run in range(arguments.runs)]
                for results in zip(*made, strict=True):
                    runs += results
                    shown.append(medians(results))
                    print(_summary(results, shown[-1]), flush=True)
                if arguments.grpc:
                    print(_ratio(*shown[-2:]), flush=True)
        finally:  # a run that fails does not take the earlier ones with it
            if shown:
                print(table(shown), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(_written(disk, runs, shown), indent=1) + "\n")
    return 0 if all(result.verdict == "yes" for result in shown) else 1


def _written(disk: SyncLatency, runs: Sequence[Result], shown: Sequence[Result]) -> dict[str, object]:
    return {
        "fdatasync": disk._asdict(),
        "runs": [asdict(result) for result in runs],
        "medians": [asdict(result) for result in shown],
    }


def _plans(arguments: argparse.Namespace, folder: Path) -> Iterator[Plan]:
    wanted = [Shape(spans=100, attributes=15)] if arguments.pending and not arguments.spans else shapes(arguments)
    for shape in wanted:
        requests = arguments.requests or requests_for(shape)
        yield Plan(
            shape=shape,
            requests=arguments.pending_spans // shape.ai_spans() if arguments.pending else requests,
            seconds=arguments.seconds,
            connections=arguments.connections,
            settle=arguments.settle,
            pin=arguments.pin,
            profile=arguments.profile,
            folder=folder,
        )


def _ratio(http: Result, grpc: Result) -> str:
    return (
        f"gRPC to HTTP: {grpc.accepted_spans_per_s / http.accepted_spans_per_s:.2f} in spans/s,"
        f" {grpc.cpu_s_per_million_spans / http.cpu_s_per_million_spans:.2f} in CPU s of the gateway"
    )


def _summary(results: Sequence[Result], middle: Result) -> str:
    rates = [result.accepted_spans_per_s for result in results]
    text = (
        f"{middle.spans} spans x {middle.attributes} attributes, {middle.encoding}: {middle.accepted_spans_per_s:,.0f} spans/s"
        f" (range {min(rates):,.0f} to {max(rates):,.0f}), true: {middle.verdict}"
    )
    if middle.pending_spans:
        text += (
            f"\n  {middle.pending_spans:,.0f} spans pending: peak {middle.peak_rss_pending_mib:.0f} MiB"
            f" (ready {middle.rss_ready_mib:.0f} MiB), drained at {middle.drain_spans_per_s:,.0f} spans/s,"
            f" peak {middle.peak_rss_mib:.0f} MiB"
        )
    return "\n".join([text, *(result.profile for result in results if result.profile)])


if __name__ == "__main__":
    sys.exit(main())
