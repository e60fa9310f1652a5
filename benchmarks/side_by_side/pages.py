"""The pages that state figures: docs/benchmarks.md and its plots, and the blocks of other pages.

A block stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`, and is made of the
stored results alone; a test compares.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.processes import PROJECT_ROOT
from benchmarks.side_by_side.plots import Chart, svg
from benchmarks.side_by_side.report import REFERENCE, conditions, growth_table, load_tables, markdown
from benchmarks.side_by_side.results import Median, Results, medians

RESULTS: Final = Path(__file__).with_name("results.json")
PAGES: Final = ("README.md", "docs/benchmarks.md", "docs/sizing.md", "benchmarks/README.md")
OURS: Final = ("gateway", "gateway-python")
READERS: Final = {"native": "native", "python": "Python"}
IMAGES: Final = "docs/images/benchmarks"
_BLOCK: Final = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
R = TypeVar("R")
_PLOTTED: Final = ("1", "10", "64", "100", "512")


def write_pages(results: Results) -> None:
    """Write all blocks and plots."""
    for name in PAGES:
        path = PROJECT_ROOT / name
        path.write_text(with_blocks(path.read_text("utf-8"), results), "utf-8")
    for name, text in plots(results).items():
        path = PROJECT_ROOT / IMAGES / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def with_blocks(page: str, results: Results) -> str:
    """*page* with each block as *results* have it. Raises KeyError for a block without a maker."""
    return filled(page, results, BLOCKS)


def filled(page: str, results: R, makers: Mapping[str, Callable[[R], str]]) -> str:
    """*page* with each block as its maker writes it. Raises KeyError for a block without one."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{makers[found[2]](results)}\n\n{found[3]}", page)


def summary(results: Results) -> str:
    """The gateway with each reader beside the durable collector, by load."""
    found = medians(results.runs)
    rows = []
    for load in dict.fromkeys(load for load, _ in found):
        other = found.get((load, REFERENCE))
        if other is not None:
            rows += [[load, _reader(ours), *_pairs(ours, other)] for ours in _ours(found, load)]
    return markdown(
        ["spans a request", "reader", "taken/s", "delivered/s", "CPU µs a span", "p99 ms", "RSS MiB", "written x"], rows
    )


def _pairs(ours: Median, other: Median) -> list[str]:
    a, b = ours.run, other.run
    return [
        f"{a.taken_per_s:,.0f} : {b.taken_per_s:,.0f}",
        f"{a.delivered_per_s:,.0f} : {b.delivered_per_s:,.0f}",
        f"{a.cpu_us_per_item:.1f} : {b.cpu_us_per_item:.1f}",
        f"{a.p99_ms:.1f} : {b.p99_ms:.1f}",
        f"{a.peak_rss_mib:.0f} : {b.peak_rss_mib:.0f}",
        f"{a.written_per_body_byte:.1f} : {b.written_per_body_byte:.1f}",
    ]


def _ours(found: Mapping[tuple[str, str], Median], load: str) -> list[Median]:
    """Of the gateway, with each reader that was measured."""
    return [found[load, name] for name in OURS if (load, name) in found]


def _reader(median: Median) -> str:
    return READERS.get(median.run.reader or "", "")


def paragraph(results: Results) -> str:
    """A row a product at the two loads that matter, for the README."""
    found = medians(results.runs)
    rows = []
    for name, what in (*((name, "") for name in OURS), (REFERENCE, "OpenTelemetry Collector, durable queue")):
        one, many = found.get(("1", name)), found.get(("64", name))
        if one is not None and many is not None:
            shown = what or f"the gateway, {_reader(one)} reader"
            rows.append([shown, f"{one.run.taken_per_s:,.0f}", f"{many.run.taken_per_s:,.0f}"])
    return markdown(
        ["on two cores, shared with sender and upstream", "requests/s, one span each", "spans/s, 64 a request"], rows
    )


def sizes(results: Results) -> str:
    """Rates and CPU of the gateway, a row a load."""
    found = medians(results.runs)
    names = {"100": "spans, 100 a request", "1": "spans, one a request", "100 litellm": "records of LiteLLM's callback, 100 a request",
             "100 claude_code": "log records of Claude Code, 100 a request", "10000 metrics": "sessions of Claude Code, 10,000 data points a request"}  # fmt: skip
    rows = []
    for load, name in names.items():
        for ours in _ours(found, load):
            run = ours.run
            rows.append(
                [
                    name,
                    _reader(ours),
                    f"{run.taken_per_s:,.0f}",
                    f"{run.delivered_per_s:,.0f}",
                    f"{run.cpu_us_per_item:.0f}",
                    f"{run.peak_rss_mib:.0f}",
                ]
            )
    return markdown(["what", "reader", "accepted a second", "delivered a second", "CPU µs each", "memory, MiB"], rows)


BLOCKS: Final[Mapping[str, Callable[[Results], str]]] = {
    "conditions": conditions,
    "summary": summary,
    "tables": load_tables,
    "growth": lambda results: growth_table(results.growth),
    "paragraph": paragraph,
    "sizes": sizes,
}


def plots(results: Results) -> dict[str, str]:
    """File name -> SVG."""
    found = {key: median for key, median in medians(results.runs).items() if key[0] in _PLOTTED}
    groups = [load for load in _PLOTTED if any(load == each for each, _ in found)]

    def chart(title: str, figure: Callable[[Median], float], shown: str, *, logarithmic: bool = False) -> str:
        values = {key: figure(median) for key, median in found.items()}
        named = [f"{load} a request" for load in groups]
        renamed = {(f"{load} a request", name): value for (load, name), value in values.items()}
        return svg(Chart(title, named, renamed, lambda value: format(value, shown), logarithmic))

    return {
        "taken.svg": chart("Spans taken a second", lambda m: m.run.taken_per_s, ",.0f", logarithmic=True),
        "delivered.svg": chart("Spans delivered a second", lambda m: m.run.delivered_per_s, ",.0f", logarithmic=True),
        "cpu.svg": chart("CPU, µs a span", lambda m: m.run.cpu_us_per_item, ".1f", logarithmic=True),
        "memory.svg": chart("Peak memory, MiB", lambda m: m.run.peak_rss_mib, ".0f"),
    }
