"""The gateway beside the OpenTelemetry Collector: same machine, same sender, same upstream, one
product at a time.

    python -m benchmarks.side_by_side                                  the matrix, 3 runs of 5 s
    python -m benchmarks.side_by_side --loads 1 64 512 --products gateway collector-durable
    python -m benchmarks.side_by_side --half                           p99 at half of what was taken
    python -m benchmarks.side_by_side --growth                         with up to 1 M records held
    python -m benchmarks.side_by_side --write-docs                     and write docs/benchmarks.md
    python -m benchmarks.side_by_side --loads --write-docs             the pages of known results

What is missing is built first: sender and sink with Go, the collector by its own builder from Go
modules, into BENCHMARK_CACHE or the temporary folder. Runs of earlier commands stay in the file of
results, so that a matrix can be measured in parts; --fresh begins a new one.

A closed loop has so many connections that each send the next request when the last one is answered;
an open loop sends at a rate, and counts latency from when a request was due. Exit code 1: an item
of the gateway was lost or delivered twice.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchmarks.processes import ProcessFailed, raise_file_limit
from benchmarks.side_by_side.build import BuildFailed, build, cache_folder
from benchmarks.side_by_side.growth import growth
from benchmarks.side_by_side.loads import LOADS, Load
from benchmarks.side_by_side.pages import RESULTS, write_pages
from benchmarks.side_by_side.products import OURS, PRODUCTS, Product
from benchmarks.side_by_side.report import conditions, faults, growth_table, load_tables
from benchmarks.side_by_side.results import Results, machine, medians
from benchmarks.side_by_side.runs import Bench, Run, run_once

HALF = "half load"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--loads", nargs="*", choices=LOADS, metavar="LOAD", default=list(LOADS), help=f"of {', '.join(LOADS)}"
    )
    parser.add_argument("--products", nargs="+", choices=PRODUCTS, default=list(PRODUCTS))
    parser.add_argument("--without-extension", action="store_true", help="of the gateway only gateway-python")
    parser.add_argument("--runs", type=int, default=3, help="of each product under each load; medians are shown")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a run")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds of the same load before each run")
    parser.add_argument("--half", action="store_true", help="also an open loop at half of what the product took")
    parser.add_argument("--growth", action="store_true", help="the gateway with 10 k to 1 M records held")
    parser.add_argument("--dir", type=Path, help="where products keep their files (default: the temporary folder)")
    parser.add_argument(
        "--json", type=Path, default=RESULTS, help="results, of earlier commands too (default: %(default)s)"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the results of earlier commands")
    parser.add_argument("--write-docs", action="store_true", help="write tables and plots into docs/benchmarks.md")
    return parser.parse_args()


def products_for(load: Load, wanted: Sequence[str]) -> list[Product]:
    """Only the gateway reads what is no OTLP trace."""
    names = wanted if load.kind == "spans" else [name for name in wanted if name in OURS]
    return [PRODUCTS[name] for name in names]


def in_turn(products: Sequence[Product], runs: int) -> Iterator[Product]:
    """A B, B A, A B …: what changes with time changes for all of them alike."""
    for number in range(runs):
        yield from reversed(products) if number % 2 else products


def measure(load: Load, wanted: Sequence[str], runs: int, bench: Bench) -> Iterator[Run]:
    """Every run under *load*. A product that fails is reported, and its run is missing."""
    for product in in_turn(products_for(load, wanted), runs):
        try:
            run = run_once(product, load, bench)
        except ProcessFailed as error:
            print(f"  {product.name}, {load.name}: {error}", file=sys.stderr)
            continue
        print(
            f"  {run.load}, {run.product}: {run.requests_per_s:,.0f} requests/s, {run.taken_per_s:,.0f} taken/s,"
            f" {run.delivered_per_s:,.0f} delivered/s, CPU {run.cpu_us_per_item:.1f} µs, p99 {run.p99_ms:.1f} ms,"
            f" lost {run.lost}, twice {run.twice}",
            file=sys.stderr,
            flush=True,
        )
        yield run


def half_loads(results: Results, loads: Sequence[Load], wanted: Sequence[str]) -> Iterator[tuple[str, Load]]:
    """For each product the closed loops as open ones, at half of the requests/s that it took."""
    found = medians(results.runs)
    for load in loads:
        for product in products_for(load, wanted):
            median = found.get((load.name, product.name))
            if median is not None and not load.rate:
                yield product.name, replace(load, rate=median.run.requests_per_s / 2)


def run_all(arguments: argparse.Namespace, results: Results, bench: Bench) -> None:
    """What the arguments ask for, into *results*; written after each load."""
    loads = [LOADS[name] for name in arguments.loads]
    wanted = [name for name in arguments.products if not (arguments.without_extension and name == "gateway")]
    for load in loads:
        results.runs += measure(load, wanted, arguments.runs, bench)
        results.write(arguments.json)
    if arguments.half:
        for name, load in half_loads(results, loads, wanted):
            runs = measure(load, [name], arguments.runs, bench)
            results.runs += [replace(run, load=f"{replace(load, rate=0).name} {HALF}") for run in runs]
            results.write(arguments.json)
    if arguments.growth:
        for level in growth(PRODUCTS["gateway-python" if arguments.without_extension else "gateway"], bench):
            results.growth.append(level)
            print(f"  {level}", file=sys.stderr, flush=True)
        results.write(arguments.json)


def main() -> int:
    """Entry point."""
    arguments = _arguments()
    raise_file_limit()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the processes started here end too
    results = Results() if arguments.fresh else Results.read(arguments.json)
    if arguments.loads or arguments.growth:
        with_collector = any(name not in OURS for name in arguments.products)
        try:
            programs = build(cache_folder(), with_collector=with_collector)
        except BuildFailed as error:
            print(error, file=sys.stderr)
            return 2
        results.machine = machine([*results.machine.get("seconds", ()), arguments.seconds])
        with (
            tempfile.TemporaryDirectory(prefix="side-by-side-", dir=arguments.dir) as folder,
            suppress(KeyboardInterrupt),
        ):
            run_all(arguments, results, Bench(programs, Path(folder), arguments.seconds, arguments.warm_up))
    print("\n\n".join([conditions(results), load_tables(results), growth_table(results.growth)]))
    if arguments.write_docs:
        write_pages(results)
    wrong = faults(results)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
