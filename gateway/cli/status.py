"""`status`: on one screen whether the gateway is well, what waits, what is wrong and what to do."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal

import click
from rich.table import Table
from rich.text import Text

from gateway.cli.doctor import print_finding
from gateway.cli.no_owner import is_without_owner, without_owner
from gateway.cli.printing import STATE_COLOURS, coloured, costs_text, plain, print_table
from gateway.cli.requests import DEAD_LETTERS, SENDERS, STATUS, USAGE, Subject, ask
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.observability.metrics import CellMember, CellStatus
from gateway.observability.waiting_metrics import edge_parts, waiting_note
from gateway.operate import dead_letters, senders, spool_files, usage
from gateway.operate.findings.finding import Finding
from gateway.operate.findings.gather import Query, wrong_with
from gateway.operate.findings.safe import safe_text
from gateway.operate.operation import AnyOperation
from gateway.operate.site.words import age, size
from spool.data_dir import DATABASE
from spool.data_lock import held_by
from spool.errors import SpoolError

State = Literal["well", "warnings", "faults", "no_owner", "unreachable", "not_running", "no_data"]

ANSWER_S: Final = 30.0
HANGS: Final = "see its log; restart it where it hangs"
HANGS_IN_CELL: Final = (
    "run `telemetry-gateway doctor` with its --config: while the standbys of Postgres are gone, nothing is answered that"
    " waits for a commit. Where it finds nothing, see the log of the owner"
)
UNKNOWN: Final = "unknown"
SHOWN: Final[Mapping[State, tuple[str, str]]] = {
    "well": ("well", "green"),
    "warnings": ("well, with warnings", "yellow"),
    "faults": ("not well", "red"),
    "no_owner": ("runs, and no owner of its cell answers", "red"),
    "unreachable": ("does not answer", "red"),
    "not_running": ("not running", "red"),
    "no_data": ("not running", "red"),
}
"""State -> its words and colour."""
WELL: Final = frozenset({"well", "warnings"})
START: Final = "start it: `telemetry-gateway run`"


@dataclass
class Seen:
    """What was found."""

    data_dir: str
    state: State
    process: str | None = None
    """Its id; None where no gateway runs."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """As `GET /v2/status` answers; only `edge`, `lanes` and `reasons` where no gateway runs, empty
    where nothing could be read."""
    today: Mapping[str, Any] | None = None
    """Totals of the current UTC day, as `GET /v2/usage` answers; None where they are unknown."""
    findings: Sequence[Finding] = ()
    """Faults and warnings, the faults first."""

    @property
    def waiting(self) -> dict[str, dict[str, Any]]:
        """Lane -> `records`, `oldest_s`, of those in which something waits."""
        return {
            name: {"records": lane["pending"], "oldest_s": lane["oldest_pending_age_s"]}
            for name, lane in self.status.get("lanes", {}).items()
            if lane["pending"]
        }

    @property
    def safe(self) -> str | None:
        """A sentence where something is wrong; None where all is well, or nothing could be read."""
        return safe_text(self.status) if self.findings and self.status else None

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "state": self.state,
            "running": self.process is not None,
            "process": self.process,
            "data_dir": self.data_dir,
            "version": self.status.get("version"),
            "waiting": self.waiting,
            "today": self.today,
            "safe": self.safe,
            "findings": [finding.document() for finding in self.findings],
            "edge": self.status.get("edge"),
            "lanes": self.status.get("lanes"),
            "cell": self.status.get("cell"),
        }


async def print_status(config: Config, *, as_json: bool) -> int:
    """0 where a gateway runs and nothing is a fault."""
    seen = await look(config)
    if as_json:
        click.echo(json.dumps(seen.document()))
    else:
        show(seen)
    return 0 if seen.state in WELL else 1


async def look(config: Config) -> Seen:
    """Ask the gateway that runs on the data directory, else read its files."""
    data_dir = str(config.data_dir.absolute())
    try:
        owner = held_by(config.data_dir)
        has_data = (config.data_dir / DATABASE).exists()
    except (SpoolError, OSError) as error:
        fault = Finding("fault", "data directory", str(error), "run this as the gateway's user")
        return Seen(data_dir, "no_data", findings=[fault])
    if owner is None and not (has_data and config.store.type == "sqlite"):
        return _nothing_here(config, data_dir)
    try:
        async with asyncio.timeout(ANSWER_S):
            status = await ask(config, STATUS, spool_files.STATUS)
            today = await _today(config)
    except (click.ClickException, TimeoutError) as error:
        return _unanswered(config, data_dir, owner, error)
    if owner is None:
        return Seen(data_dir, "not_running", None, status, today, [_not_running(status)])
    found = await wrong_with(status, wall_ms(), partial(_asked, config))
    return Seen(data_dir, _state(found), owner, status, today, found)


def _unanswered(config: Config, data_dir: str, process: str | None, error: click.ClickException | TimeoutError) -> Seen:
    if is_without_owner(error):
        return Seen(data_dir, "no_owner", process, findings=[without_owner(error)])
    text = error.message if isinstance(error, click.ClickException) else f"no answer within {ANSWER_S:.0f} s"
    fault = Finding("fault", "gateway", text, HANGS_IN_CELL if config.store.type == "postgres" else HANGS)
    return Seen(data_dir, "unreachable" if process else "not_running", process, findings=[fault])


def _nothing_here(config: Config, data_dir: str) -> Seen:
    """No gateway runs, and there is no file to read."""
    if config.store.type == "postgres":
        text = "none runs on this data directory; ask another one of the cell meanwhile"
        return Seen(data_dir, "not_running", findings=[Finding("fault", "gateway", text, START)])
    text = f"none runs here, and none ever did: {data_dir} holds no data"
    remedy = f"{START}; or name the gateway's data directory with --data-dir or --config"
    return Seen(data_dir, "no_data", findings=[Finding("fault", "gateway", text, remedy)])


def _state(found: Sequence[Finding]) -> State:
    if not found:
        return "well"
    return "faults" if found[0].level == "fault" else "warnings"


def _not_running(status: Mapping[str, Any]) -> Finding:
    waiting = sum(lane["pending"] for lane in status["lanes"].values())
    kept = f"; {plural(waiting, 'record waits', 'records wait')} on disk until it runs" if waiting else ""
    return Finding("fault", "gateway", f"none runs on this data directory{kept}", START)


async def _today(config: Config) -> Mapping[str, Any] | None:
    """None where the sums cannot be read, as those of an older release."""
    query = [("from", f"{datetime.now(UTC):%Y-%m-%d}"), ("limit", "1")]
    with suppress(click.ClickException):
        totals: Mapping[str, Any] = (await ask(config, USAGE, usage.SHOW, query=query))["totals"]
        return totals
    return None


async def _asked(config: Config, operation: AnyOperation, query: Query) -> Mapping[str, Any] | None:
    """None of an older release, which does not know it."""
    with suppress(click.ClickException):
        return await ask(config, SUBJECTS[operation.id], operation, query=query)
    return None


SUBJECTS: Final[Mapping[str, Subject[Any]]] = {senders.LIST.id: SENDERS, dead_letters.LIST.id: DEAD_LETTERS}
"""By id of the operation."""


# ---- the screen


def show(seen: Seen) -> None:
    for line in head(seen):
        click.echo(line)
    if seen.status:
        click.echo()
        print_table(lane_table(seen.status["lanes"]))
    if (cell := seen.status.get("cell")) is not None:
        click.echo()
        print_table(member_table(cell["members"]))
    if seen.findings:
        click.echo()
    for finding in seen.findings:
        print_finding(finding)
    if seen.safe is not None:
        click.echo(f"\n{seen.safe}")


def head(seen: Seen) -> Iterator[str]:
    """The lines above the lanes."""
    words, colour = SHOWN[seen.state]
    process = f" (process {seen.process})" if seen.process else ""
    yield f"gateway    {coloured(words, colour)}{process}"
    if "version" in seen.status:
        reader = seen.status.get("reader", {}).get("name", UNKNOWN)
        yield f"version    {harmless(seen.status['version'])}, reader: {harmless(reader)}"
    yield f"data       {harmless(seen.data_dir)}"
    if seen.status:
        if (cell := seen.status.get("cell")) is not None:
            yield f"cell       {cell_text(cell)}"
        yield f"received   {received_text(seen.status)}"
        yield f"today      {today_text(seen.today)}"
        yield f"waiting    {waiting_text(seen.waiting)}"
        if (note := waiting_note(seen.status)) is not None:
            yield f"           {note}"


def cell_text(cell: CellStatus) -> str:
    journal = f"journal {size(cell['journal_bytes'])}"
    if cell["owner"] is None:
        return f"no owner; {journal}"
    how = f"epoch {cell['epoch']}, {cell['why']}, since {age(cell['since_s'])}"
    behind = "" if cell["behind_s"] is None else f", behind for {age(cell['behind_s'])}"
    return f"owner {harmless(cell['owner'])} ({how}); {journal}{behind}"


def received_text(status: Mapping[str, Any]) -> str:
    outcomes = ", ".join(f"{n:,} {name}" for name, n in edge_parts(status).items() if n)
    return plural(status["edge"]["received"], "item", "items") + (f": {outcomes}" if outcomes else "")


def today_text(totals: Mapping[str, Any] | None) -> str:
    if totals is None:
        return UNKNOWN
    if not totals["calls"]:
        return "no calls yet (UTC)"
    tokens = (UNKNOWN if totals[name] is None else f"{totals[name]:,}" for name in ("input_tokens", "output_tokens"))
    cost = costs_text(totals["costs"]) or UNKNOWN
    return f"{plural(totals['calls'], 'call', 'calls')}, tokens {' in, '.join(tokens)} out, cost {cost} (UTC)"


def waiting_text(waiting: Mapping[str, Mapping[str, Any]]) -> str:
    if not waiting:
        return "nothing"
    texts = []
    for name, lane in waiting.items():
        oldest = "" if lane["oldest_s"] is None else f" (oldest {lane['oldest_s']:.0f} s)"
        texts.append(f"{lane['records']:,} in {name}{oldest}")
    return ", ".join(texts)


def lane_table(lanes: Mapping[str, Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("lane", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("waiting", "delivered", "dead letters", "expired"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, lane in lanes.items():
        state = Text(lane["state"], style=STATE_COLOURS.get(lane["state"], ""))
        counts = (f"{lane[count]:,}" for count in ("pending", "delivered", "dead_lettered", "expired"))
        table.add_row(plain(name), state, *counts)
    return table


def member_table(members: Sequence[CellMember]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("gateway", "state", "release"):
        table.add_column(name, no_wrap=True)
    for name in ("up for", "last seen"):
        table.add_column(name, justify="right", no_wrap=True)
    for member in members:
        state = "silent" if not member["alive"] else "owner" if member["owns"] else "alive"
        times = age(member["up_s"]), f"{age(member['silent_s'])} ago"
        shown = Text(state, style="" if member["alive"] else "red")
        table.add_row(plain(member["name"]), shown, plain(member["release"]), *times)
    return table
