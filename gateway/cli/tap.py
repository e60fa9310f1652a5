"""`tap`: the running gateway's calls as they settle, a line each."""

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import aiohttp
import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from yarl import URL

from gateway.cli.admin_client import reach, token_of, unanswered
from gateway.common.printable import harmless
from gateway.config.model import Config
from spool.data_lock import held_by
from spool.errors import SpoolLocked

PATH: Final = "/v2/tap"
COLUMNS: Final = (("time", 8), ("outcome", 10), ("provider", 10), ("model", 20), ("in", 8), ("out", 7), ("cost", 11))
"""Of 80 columns in all; what is behind them names the sender, where there is room."""
WHOLE: Final = frozenset({"in", "out", "cost"})
"""Numbers are never cut: a longer one moves what follows it."""
LEAST_WHO: Final = 10
"""Columns that a sender's name is worth."""
UNKNOWN: Final = "-"


async def print_tap(config: Config, filters: Sequence[tuple[str, str]], *, most: int | None, as_json: bool) -> int:
    """Print lines until *most* were printed, the gateway stops or the user does. 0 then."""
    if not as_json:
        click.echo(header())
    printed = 0
    async for line in lines_of(config, filters, _state_connected):
        click.echo(json.dumps(line) if as_json else shown(line))
        printed += "lost" not in line
        if printed == most:
            break
    return 0


async def lines_of(
    config: Config, filters: Sequence[tuple[str, str]], connected: Callable[[str], None] = lambda _: None
) -> AsyncIterator[Mapping[str, Any]]:
    """*connected* gets the address once the gateway shows its calls.

    Raises ClickException where no gateway runs, it cannot be asked, or it refuses.
    """
    owner = held_by(config.data_dir)
    if owner is None:
        raise click.ClickException(f"no gateway runs on {config.data_dir}: start it with `telemetry-gateway run`")
    locked = SpoolLocked(f"{config.data_dir} is used by process {owner}")
    connector, base = reach(config, locked)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
    headers = {"Authorization": token_of(config)}
    url = URL(base + PATH)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session,
            session.get(url, params=list(filters)) as response,
        ):
            if not response.ok:
                raise click.ClickException((await response.json())["error"]["message"])
            connected(str(url.origin()))
            async for raw in response.content:
                if text := raw.strip():
                    yield json.loads(text)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise click.ClickException(unanswered(locked, str(url.origin()), error)) from error


def _state_connected(address: str) -> None:
    click.echo(f"Connected to {address}: calls are shown as they settle.", err=True)


def header() -> str:
    return " ".join(_cell(name, width) for name, width in COLUMNS)


def shown(line: Mapping[str, Any]) -> str:
    """One line of 80 columns, and what names the sender behind them where the terminal is wider."""
    if "lost" in line:
        return f"… {line['lost']} calls are not shown: they came faster than they could be printed"
    reason = line["reason"]
    outcome = line["outcome"] if line["status"] == "ok" or line["outcome"] != "kept" else "failed"
    cells = (
        _time(line["at"]),
        outcome,
        line["provider"] or UNKNOWN,
        line["model"] or UNKNOWN,
        _number(line["input_tokens"]),
        _number(line["output_tokens"]),
        _cost(line["cost"]),
    )
    who = " ".join(f"{name}={line[name]}" for name in ("key", "team", "service", "device") if line[name])
    text = " ".join(_column(harmless(text), *column) for text, column in zip(cells, COLUMNS, strict=True))
    behind = harmless(" ".join(filter(None, (reason, who))))
    room = Console().width - cell_len(text) - 1
    return f"{text} {_cut(behind, room)}".rstrip() if room >= LEAST_WHO else text.rstrip()


def _time(at: str) -> str:
    found = re.search(r"T(\d\d:\d\d:\d\d)", at)
    return UNKNOWN if found is None else found[1]


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def _cost(cost: Mapping[str, str] | None) -> str:
    if cost is None:
        return UNKNOWN
    amount = cost["amount"].rstrip("0").rstrip(".") if "." in cost["amount"] else cost["amount"]
    return f"{amount} {cost['currency']}"


def _column(text: str, name: str, width: int) -> str:
    return text.ljust(width) if name in WHOLE else _cell(text, width)


def _cell(text: str, width: int) -> str:
    return set_cell_size(_cut(text, width), width)


def _cut(text: str, width: int) -> str:
    """Its beginning, with an ellipsis where it is longer than *width* columns."""
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 1)).rstrip() + "…"
