"""`telemetry-gateway senders`: who sends, when it did last, and what is wrong with it."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table

from gateway.cli.asking import ask
from gateway.cli.options import config_of, config_option, data_dir_option, json_option
from gateway.cli.printing import plain, print_table
from gateway.common.printable import harmless
from gateway.counting.readings import SHOWN_BASES

if TYPE_CHECKING:
    from gateway.config.model import Config

LIST_LIMIT: Final = 50
UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60))


@click.command("senders")
@config_option
@data_dir_option
@click.option(
    "--warning",
    multiple=True,
    type=click.Choice(["refused", "silent", "missing_usage"]),
    help="Only those with this warning; may be repeated.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many; default 50.")
@json_option
def senders(
    config_file: Path | None,
    data_dir: Path | None,
    warning: tuple[str, ...],
    limit: int | None,
    as_json: bool,  # noqa: FBT001 a flag of the command line
) -> None:
    """List who sends, what is wrong with it, and what to do."""
    config = config_of(config_file, data_dir)
    sys.exit(asyncio.run(print_senders(config, warning=warning, limit=limit, as_json=as_json)))


async def print_senders(config: "Config", *, warning: tuple[str, ...], limit: int | None, as_json: bool) -> int:
    query = [*(("warning", code) for code in warning), ("limit", str(limit or LIST_LIMIT))]
    answer = await ask(config, "listSenders", query=query)
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_list(answer)
        print_readings(await input_readings(config))
    return 0


async def input_readings(config: "Config") -> Sequence[Mapping[str, Any]]:
    """As `GET /v2/status` has them; none while no gateway runs."""
    from gateway.cli import requests  # noqa: PLC0415 - most of the gateway: `--help` needs none of it
    from gateway.operate import spool_files  # noqa: PLC0415

    readings: Sequence[Mapping[str, Any]] = ()
    with suppress(click.ClickException):
        readings = (await requests.ask(config, requests.STATUS, spool_files.STATUS)).get("input_readings", ())
    return readings


def print_readings(readings: Sequence[Mapping[str, Any]]) -> None:
    """One line for each library whose input may or may not include the cached tokens."""
    if readings:
        click.echo("Libraries of which no table knows whether their input includes the cached tokens:")
    for each in readings[:LIST_LIMIT]:
        library = " ".join(harmless(each[name]) for name in ("library", "library_version") if each[name])
        click.echo(
            f"  {library}, {harmless(each['provider'])}: {SHOWN_BASES[each['basis']]}. Calls: {each['calls_proved']}"
            f" proved, {each['calls_learnt']} learnt, {each['calls_assumed']} assumed to include them"
            f" ({each['input_tokens_assumed']} input tokens)"
        )
    if (rest := len(readings) - LIST_LIMIT) > 0:
        click.echo(f"  {rest} more are in GET /v2/status")


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
            click.echo(f"{_name(each)}: {warned['text']}\n  -> {warned['remedy']}")
    paging = answer["pagination"]
    click.echo(f"{paging['item_count']} of {paging['total_count']} senders")
    if len(answer["senders"]) > 1:
        click.echo("A call that two of them report counts for each, and once in `usage`.")


def _name(sender: Mapping[str, Any]) -> str:
    """`assistant (otlp.traces)`; only its format for one without a service name and a key."""
    name = sender["service_name"] or sender["key"]
    return f"{harmless(name)} ({sender['format']})" if name else str(sender["format"])


def ago(seconds: float | None) -> str:
    """`3 min ago`; `never` where nothing was taken."""
    if seconds is None:
        return "never"
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
