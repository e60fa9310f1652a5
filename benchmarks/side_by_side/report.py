"""Tables of results, as Markdown."""

from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.side_by_side.growth import Level
from benchmarks.side_by_side.results import Median, Results, medians

REFERENCE: Final = "collector-durable"
"""What `x` is a ratio to."""
Column = tuple[str, Callable[[Median, Median | None], str]]


def _times(figure: Callable[[Median], float]) -> Callable[[Median, Median | None], str]:
    def shown(median: Median, reference: Median | None) -> str:
        return f"{figure(median) / figure(reference):.2f}" if reference is not None and figure(reference) else "-"

    return shown


COLUMNS: Final[tuple[Column, ...]] = (
    ("product", lambda median, _: _product(median)),
    ("requests/s", lambda median, _: f"{median.run.requests_per_s:,.0f}"),
    ("taken/s (range)", lambda m, _: f"{m.run.taken_per_s:,.0f} ({m.lowest_per_s:,.0f}-{m.highest_per_s:,.0f})"),
    ("x", _times(lambda median: median.run.taken_per_s)),
    ("delivered/s", lambda median, _: f"{median.run.delivered_per_s:,.0f}"),
    ("x", _times(lambda median: median.run.delivered_per_s)),
    ("CPU µs", lambda median, _: f"{median.run.cpu_us_per_item:.1f}"),
    ("x", _times(lambda median: median.run.cpu_us_per_item)),
    ("p50 ms", lambda median, _: f"{median.run.p50_ms:.1f}"),
    ("p99 ms", lambda median, _: f"{median.run.p99_ms:.1f}"),
    ("p99.9 ms", lambda median, _: f"{median.run.p999_ms:.1f}"),
    ("RSS MiB", lambda median, _: f"{median.run.peak_rss_mib:.0f}"),
    ("written x", lambda median, _: f"{median.run.written_per_body_byte:.2f}"),
    ("drain s", lambda median, _: f"{median.run.drain_s:.1f}"),
    ("lost, twice", lambda median, _: f"{median.run.lost:,}, {median.run.twice:,}"),
)


def _product(median: Median) -> str:
    return f"{median.run.product} ({median.run.reader})" if median.run.reader else median.run.product


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is text, the others are figures."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def load_tables(results: Results) -> str:
    """A table for each load, in the order of the runs."""
    found = medians(results.runs)
    sections = [
        f"**{_title(load)}**\n\n{_load_table(load, found)}" for load in dict.fromkeys(load for load, _ in found)
    ]
    return "\n\n".join(sections)


def _load_table(load: str, found: dict[tuple[str, str], Median]) -> str:
    reference = found.get((load, REFERENCE))
    rows = [[shown(median, reference) for _, shown in COLUMNS] for (each, _), median in found.items() if each == load]
    return markdown([title for title, _ in COLUMNS], rows)


def _title(load: str) -> str:
    size, _, rest = load.partition(" ")
    what = {"claude_code": "log records of Claude Code", "metrics": "data points", "litellm": "records of LiteLLM"}
    kind, _, more = rest.partition(" ")
    noun, more = (what[kind], more) if kind in what else ("span" if size == "1" else "spans", rest)
    return f"{int(size):,} {noun} a request" + (f", {more}" if more else "")


def growth_table(levels: Sequence[Level]) -> str:
    """Intake by what is held; the last line is the drain."""
    rows = [
        [
            f"{level.held}, {level.records:,}", level.load or "-", f"{level.taken_per_s:,.0f}", f"{level.cpu_us_per_item:.1f}",
            f"{level.p99_ms:.1f}", f"{level.rss_mib:.0f}", f"{level.peak_rss_mib:.0f}", f"{level.lost:,}, {level.twice:,}",
        ]
        for level in levels
    ]  # fmt: skip
    head = ["held", "load", "taken/s", "CPU µs", "p99 ms", "RSS MiB", "peak MiB", "lost, twice"]
    return markdown(head, rows)


def _range(values: Sequence[float]) -> str:
    """`5`, `5 to 10`."""
    least, most = min(values, default=0), max(values, default=0)
    return f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"


def conditions(results: Results) -> str:
    """Where and how it was measured, in two sentences."""
    on, runs = results.machine, results.runs
    load = max((run.load_average for run in runs), default=0.0)
    counts = sorted({median.runs for median in medians(runs).values()})
    many, long = _range(counts), _range(on["seconds"])
    shared = (
        f"The machine was shared: its load average was up to {load:.1f} when a run began." if load > on["cores"] else ""
    )
    return (
        f"{on['day']}, {on['cores']} cores ({on['processor']}), Python {on['python']}, {on['go']}, collector"
        f" {on['collector']}; medians of {many} runs of {long} s, products in turn. fdatasync of 4 KiB before"
        f" the runs: p50 {_spread([run.fdatasync_p50_ms for run in runs])} ms, p99"
        f" {_spread([run.fdatasync_p99_ms for run in runs])} ms. {shared}"
    ).rstrip()


def _spread(figures: Sequence[float]) -> str:
    return f"{min(figures, default=0):.2f}-{max(figures, default=0):.2f}"


def faults(results: Results) -> list[str]:
    """What is not as it has to be: items of the gateway lost or delivered twice."""
    ours = [run for run in results.runs if run.reader]
    found = [f"{run.product}, {run.load}: {run.lost} lost, {run.twice} twice" for run in ours if run.lost or run.twice]
    levels = [level for level in results.growth if level.lost or level.twice]
    return found + [f"{level.held}, {level.records}: {level.lost} lost, {level.twice} twice" for level in levels]
