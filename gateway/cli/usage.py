"""`usage`: calls, tokens and cost as a table of 80 columns."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import click
from rich.table import Table

from gateway.cli.known_names import unknown_values
from gateway.cli.printing import costs_text, plain, print_table
from gateway.cli.requests import STATUS, USAGE, ask
from gateway.cli.views import over, view_named
from gateway.cli.where import parameters_of
from gateway.common.plural import plural
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.observability.waiting_metrics import waiting_note
from gateway.operate import spool_files, usage
from gateway.usage.sums.request import GROUP_BY
from gateway.usage.views.view import question_of

LIMIT: Final = 20
UNKNOWN: Final = "unknown"
NONE: Final = "-"
LATENCY: Final = ("p50 ms", "p99 ms", "first token")
"""Heads of columns; the last one is a p50 too."""


class Options(NamedTuple):
    """Those of the command, as they were typed."""

    since: str | None = None
    until: str | None = None
    group_by: str | None = None
    interval: str | None = None
    where: tuple[str, ...] = ()
    sort: str | None = None
    limit: int | None = None
    view: str | None = None
    range: str | None = None
    time_zone: str | None = None
    compare: str | None = None
    search: str | None = None
    allocation: str | None = None
    latency: bool = False

    def query(self) -> list[tuple[str, str]]:
        """The parameters of the operation. Raises UsageError for a filter without a value."""
        named = {
            "from": self.since, "to": self.until, "range": self.range, "time_zone": self.time_zone,
            "group_by": self.group_by, "interval": self.interval, "compare": self.compare, "search": self.search,
            "allocation": self.allocation,
            "latency": "true" if self.latency else None,
            "sort_key": self.sort, "limit": str(self.limit or LIMIT),
        }  # fmt: skip
        order = [] if self.sort is None else [("sort_order", "asc" if self.sort == "name" else "desc")]
        return [
            *((name, value) for name, value in named.items() if value is not None),
            *order,
            *parameters_of(self.where),
        ]


async def print_usage(config: Config, options: Options, *, as_json: bool) -> int:
    """0 when the usage was printed."""
    query = options.query()
    if options.view is not None:
        query = over(question_of(await view_named(config, options.view), wall_ms()), query)
    answer = await ask(config, USAGE, usage.SHOW, query=query)
    unknown = await unknown_values(config, query)
    for sentence in unknown:
        click.echo(sentence, err=as_json)
    if as_json:
        click.echo(json.dumps(answer))
    elif answer["totals"]["calls"] or not unknown:
        asked = dict(query)
        names = ("start",) if "interval" in asked else asked.get("group_by", ",".join(GROUP_BY)).split(",")
        print_answer(answer, names)
        await _print_waiting(config)
    return 0


async def _print_waiting(config: Config) -> None:
    """What may be added soon. Prints nothing where the spool cannot be asked."""
    with suppress(click.ClickException):
        if (note := waiting_note(await ask(config, STATUS, spool_files.STATUS))) is not None:
            click.echo(note)


def print_answer(answer: Mapping[str, Any], names: Sequence[str]) -> None:
    """The rows, below a model's its dated names; what they leave, and the total."""
    print_table(comparing(answer, names) if "previous" in answer else table_of(answer, names))
    for line in notes(answer):
        click.echo(line)


def table_of(answer: Mapping[str, Any], names: Sequence[str]) -> Table:
    has_latency = "latency" in answer["totals"]
    table = _table(names, ("calls", "input", "output", "cost", *(LATENCY if has_latency else ())))
    for row in answer["usage"]:
        table.add_row(*(plain(name_text(row, name)) for name in names), *sums_texts(row), *latency_texts(row))
        for version in row.get("versions", ()):
            inside = (f"  {plain(name_text(version, name))}" if name == "model" else "" for name in names)
            table.add_row(*inside, *sums_texts(version), style="dim")
    if answer["rest"]:
        table.add_row(rest_text(answer), *([""] * (len(names) - 1)), *sums_texts(answer["rest"]))
    table.add_row(
        "total",
        *([""] * (len(names) - 1)),
        *sums_texts(answer["totals"]),
        *latency_texts(answer["totals"]),
        style="bold",
    )
    return table


def latency_texts(row: Mapping[str, Any]) -> list[str]:
    """In ms; a dash where no call says how long it took."""
    if "latency" not in row:
        return []
    found = [row["latency"][kind] for kind in ("duration", "duration", "time_to_first_token")]
    return [
        NONE if each is None else f"{each[name]:,}"
        for each, name in zip(found, ("p50_ms", "p99_ms", "p50_ms"), strict=True)
    ]


def _table(names: Sequence[str], figures: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap="cost" not in name)
    return table


def rest_text(answer: Mapping[str, Any]) -> str:
    shown, count = len(answer["usage"]), answer["pagination"]["total_count"]
    return f"{count - shown} more" if count > shown else "other"


def comparing(answer: Mapping[str, Any], names: Sequence[str]) -> Table:
    """Calls and cost beside those of the period before."""
    table = _table(names, ("calls", "before", "cost", "cost before", "difference", "%"))
    before, blank = answer["previous"] or {}, [""] * (len(names) - 1)
    for row in answer["usage"]:
        table.add_row(
            *(plain(name_text(row, name)) for name in names), *compared_texts(row, row["previous"], row["change"])
        )
    if answer["rest"] or before.get("rest"):
        texts = compared_texts(answer["rest"], before.get("rest"), None)
        table.add_row(rest_text(answer), *blank, *texts)
    texts = compared_texts(answer["totals"], before.get("totals"), before.get("change"))
    table.add_row("total", *blank, *texts, style="bold")
    return table


def compared_texts(
    now: Mapping[str, Any] | None, before: Mapping[str, Any] | None, change: Mapping[str, Any] | None
) -> list[str]:
    """Calls and cost, now and before; of the cost the difference and its percentage, a dash where
    there is none.
    """
    calls = ["0" if each is None else f"{each['calls']:,}" for each in (now, before)]
    costs = [NONE if each is None else cost_text(each) for each in (now, before)]
    changes = {} if change is None else change["costs"]
    written = [
        "\n".join(
            _signed(each[name]) + (f" {currency}" if name == "difference" else "") for currency, each in changes.items()
        )
        for name in ("difference", "percent")
    ]
    return [calls[0], NONE if before is None else calls[1], *costs, *(each or NONE for each in written)]


def _signed(amount: str | None) -> str:
    return NONE if amount is None else amount if amount.startswith("-") else f"+{amount}"


def name_text(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    return str(value) if value is not None else f"({row['absent'][name]})"


def sums_texts(sums: Mapping[str, Any]) -> list[str]:
    """Calls, input, output, cost; a number that is not known is `unknown`, and without calls 0."""
    if _is_nothing(sums):
        return ["0"] * 4
    tokens = (tokens_text(sums[name]) for name in ("input_tokens", "output_tokens"))
    return [f"{sums['calls']:,}", *tokens, cost_text(sums)]


def _is_nothing(sums: Mapping[str, Any]) -> bool:
    """Sums of metrics may have tokens without calls."""
    return not sums["calls"] and sums["input_tokens"] is None and sums["output_tokens"] is None


def tokens_text(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def cost_text(sums: Mapping[str, Any]) -> str:
    """Every currency, with every digit."""
    if not sums["costs"]:
        return "0" if _is_nothing(sums) else UNKNOWN
    return plain(costs_text(sums["costs"]))


def notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """What the figures leave out, and their time."""
    totals = answer["totals"]
    if totals["calls_without_cost"]:
        without = plural(totals["calls_without_cost"], "call has no known cost", "calls have no known cost")
        yield f"{without}; {totals['calls_without_price']} of them for want of a price"
    if totals["calls_missing_usage"]:
        yield plural(totals["calls_missing_usage"], "call came without its tokens", "calls came without their tokens")
    yield f"From {answer['from']} to {answer['to']}, counted through {answer['counted_through'] or 'never'}"
    if (before := answer.get("previous")) is not None:
        yield f"Compared with {before['from']} to {before['to']}"
    elif "previous" in answer:
        yield "The hours of the period before are no longer kept: there is nothing to compare with"
