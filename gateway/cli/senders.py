"""`senders`: who sends, when it did last, and what is wrong with it."""

import json
from collections.abc import Mapping
from typing import Any, Final

import click
from rich.table import Table

from gateway.admin import senders
from gateway.cli.printing import plain, print_table
from gateway.cli.requests import SENDERS, ask
from gateway.common.printable import harmless
from gateway.config.model import Config

LIST_LIMIT: Final = 50
UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))


async def print_senders(config: Config, *, warning: tuple[str, ...], limit: int | None, as_json: bool) -> int:
    query = [*(("warning", code) for code in warning), ("limit", str(limit or LIST_LIMIT))]
    answer = await ask(config, SENDERS, senders.LIST, query=query)
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_list(answer)
    return 0


def print_list(answer: Mapping[str, Any]) -> None:
    """A table, and below it each warning with its remedy."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("service", "format", "key", "last seen"):
        table.add_column(name, overflow="fold")
    for name in ("calls", "no usage", "refused"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in answer["senders"]:
        cells = (each["service_name"] or "-", each["format"], each["key"] or "-", ago(each["silent_s"]))
        counts = (each["calls"], each["calls_without_usage"], each["refused"])
        # A sender names itself: its name may hold terminal sequences.
        table.add_row(*map(plain, cells), *map(str, counts))
    print_table(table)
    for each in answer["senders"]:
        for warned in each["warnings"]:
            name = harmless(each["service_name"] or each["key"] or each["format"])
            click.echo(f"{name} ({each['format']}): {warned['text']}\n  -> {warned['remedy']}")
    paging = answer["pagination"]
    click.echo(f"{paging['item_count']} of {paging['total_count']} senders")
    if len(answer["senders"]) > 1:
        click.echo("A call that two of them report counts for each, and once in `usage`.")


def ago(seconds: float | None) -> str:
    """`3 min ago`; `never` where nothing was taken."""
    if seconds is None:
        return "never"
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
