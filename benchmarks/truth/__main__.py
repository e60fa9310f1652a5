"""The traces of the corpus, whose true token counts are known, given to other products and to ours:
how many totals are right.

    python -m benchmarks.truth                                    all products, all scenarios
    python -m benchmarks.truth --products gateway sum
    python -m benchmarks.truth --only otlp/strands-1.62/anthropic
    python -m benchmarks.truth --write-docs                       and write docs/truth.md
    python -m benchmarks.truth --products --write-docs            the page of known results

Other products are installed first, each into a virtual environment of its own in BENCHMARK_CACHE or
the temporary folder. Totals of earlier commands stay in the file of results, so that products can
be measured one by one. With --only, nothing is stored unless --json names a file.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.processes import ProcessFailed
from benchmarks.side_by_side.build import BuildFailed, cache_folder
from benchmarks.truth.pages import (
    RESULTS,
    Results,
    better,
    better_costs,
    conditions,
    conditions_line,
    counted,
    products_table,
    write_page,
)
from benchmarks.truth.products import PRODUCTS, Measured, installed
from benchmarks.truth.truths import Totals, Truth, requests_of, rounds, truth_of
from tests.support.corpus import scenarios


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--products", nargs="*", choices=PRODUCTS, default=list(PRODUCTS))
    parser.add_argument("--only", nargs="+", metavar="SCENARIO", help="scenarios or folders, such as otlp/ag2-1.2")
    parser.add_argument("--json", type=Path, help=f"results, of earlier commands too (default: {RESULTS})")
    parser.add_argument("--write-docs", action="store_true", help="write the figures into docs/truth.md")
    arguments = parser.parse_args()
    if arguments.only and arguments.write_docs:
        parser.error("--write-docs writes the figures of all scenarios, so it does not go with --only")
    return arguments


def _stored(path: Path) -> Results:
    """Of earlier commands, with what was served as the corpus has it now."""
    results = Results.read(path) if path.exists() else Results()
    truths = {scenario.name: truth_of(scenario.meta) for scenario in scenarios("traces")}
    results.truths = {name: truth for name, truth in truths.items() if isinstance(truth, Truth)}
    results.left_out = counted(truths.values())
    results.shown = {
        product: {name: totals for name, totals in shown.items() if name in results.truths}
        for product, shown in results.shown.items()
    }
    return results


def measure(name: str, results: Results) -> None:
    """Give one product all scenarios of *results*. Raises BuildFailed, ProcessFailed."""
    requests = {each.name: requests_of(each) for each in scenarios("traces") if each.name in results.truths}
    programs = installed(cache_folder(), PRODUCTS[name])
    found: Measured = {}
    for each in rounds(requests):
        with tempfile.TemporaryDirectory(prefix=f"truth-{name}-", ignore_cleanup_errors=True) as folder:
            found |= PRODUCTS[name].measure(Path(folder), programs, each)
    results.shown[name] = {scenario: found.get(scenario, Totals(0, 0)) for scenario in requests}
    results.conditions |= conditions(name)


def main() -> int:
    """Entry point. Exit code 1: a product could not be installed, or failed."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # products are ended on the way
    path, code = arguments.json or RESULTS, 0
    results = _stored(path)
    if arguments.only:
        wanted = tuple(arguments.only)
        results = Results(truths={name: truth for name, truth in results.truths.items() if name.startswith(wanted)})
    for name in arguments.products:
        print(f"{PRODUCTS[name].title} ...", file=sys.stderr, flush=True)
        try:
            measure(name, results)
        except (BuildFailed, ProcessFailed) as error:
            print(f"{name}: {error}", file=sys.stderr)
            code = 1
        if arguments.json or not arguments.only:
            results.write(path)
    print(conditions_line(results), products_table(results), sep="\n\n")
    print("\nOnly others are right:", better(results), better_costs(results), sep="\n\n")
    if arguments.write_docs:
        write_page(results)
    return code


if __name__ == "__main__":
    sys.exit(main())
