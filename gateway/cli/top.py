"""`top`: the running gateway on one screen: lanes, rates, today's cost and models, and the senders
and slowest calls of the last minute.
"""

import asyncio
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gateway.cli.printing import STATE_COLOURS, costs_text
from gateway.cli.requests import STATUS, USAGE, ask
from gateway.cli.tap import lines_of
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.config.model import Config
from gateway.operate import spool_files, usage
from gateway.usage.sums.request import GROUPS
from spool.data_lock import held_by

EVERY_S: Final = 2.0
RECENT_S: Final = 60.0
MAX_RECENT: Final = 20_000
"""Calls of the last minute that are remembered."""
ROWS: Final = 4
"""Of models, senders and slowest calls each: all fits 24 lines."""
UNKNOWN: Final = "unknown"


@dataclass
class Seen:
    """What the frames are made of."""

    data_dir: str
    status: Mapping[str, Any] = field(default_factory=dict)
    today: Mapping[str, Any] = field(default_factory=dict)
    """As `GET /v2/usage` answers; empty before the first answer."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """`received`, and each lane's `delivered`, a second; empty before the second look."""
    recent: deque[tuple[float, Mapping[str, Any]]] = field(default_factory=lambda: deque(maxlen=MAX_RECENT))
    """(monotonic seconds, line of the tap)."""
    lost: int = 0
    """Calls that the tap did not show."""
    _looked_s: float | None = None

    def look(self, status: Mapping[str, Any], today: Mapping[str, Any], now_s: float) -> None:
        """Take new figures; rates are those since the last ones."""
        if self._looked_s is not None and now_s > self._looked_s:
            self.rates = rates_between(self.status, status, now_s - self._looked_s)
        self.status, self.today, self._looked_s = status, today, now_s
        while self.recent and self.recent[0][0] < now_s - RECENT_S:
            self.recent.popleft()

    def note(self, line: Mapping[str, Any], now_s: float) -> None:
        if "lost" in line:
            self.lost += line["lost"]
        else:
            self.recent.append((now_s, line))


def rates_between(before: Mapping[str, Any], after: Mapping[str, Any], took_s: float) -> dict[str, float]:
    found = {"received": max(0, after["edge"]["received"] - before["edge"]["received"]) / took_s}
    for name, lane in after["lanes"].items():
        earlier = before["lanes"].get(name, {"delivered": 0})["delivered"]
        found[name] = max(0, lane["delivered"] - earlier) / took_s
    return found


# ---- the frame


def frame(seen: Seen, now: datetime) -> RenderableType:
    """One screen of at most 24 lines where four lanes are set up, whatever its width."""
    parts: list[RenderableType] = [_header(seen, now), _lanes(seen), _today(seen)]
    parts += [_models(seen), _senders(seen), _slowest(seen)]
    return Group(*parts)


def _header(seen: Seen, now: datetime) -> Text:
    version = seen.status.get("version", UNKNOWN)
    rate = _rate(seen.rates.get("received"))
    text = f"telemetry-gateway {version}  {now:%H:%M:%S} UTC  in {rate}/s  {seen.data_dir}"
    return _line(text, "bold")


def _lanes(seen: Seen) -> Table:
    table = _table("lane", "state", ">pending", ">oldest", ">out/s", ">dead")
    for name, lane in seen.status.get("lanes", {}).items():
        age = lane["oldest_pending_age_s"]
        oldest = "" if age is None else f"{age:.0f} s"
        style = STATE_COLOURS.get(lane["state"], "")
        cells = (name, lane["state"], str(lane["pending"]), oldest, _rate(seen.rates.get(name)))
        table.add_row(*map(harmless, cells), str(lane["dead_lettered"]), style=style)
    return table


def _today(seen: Seen) -> Text:
    totals = seen.today.get("totals")
    if totals is None:
        return _line("today: unknown")
    cost = costs_text(totals["costs"])
    without = totals["calls_without_cost"]
    more = f", {plural(without, 'call', 'calls')} without a cost" if without else ""
    tokens = f"{_count(totals['input_tokens'])} in, {_count(totals['output_tokens'])} out"
    calls = plural(totals["calls"], "call", "calls")
    text = f"today (UTC): {calls}, cost {cost or UNKNOWN}{more}, tokens {tokens}"
    return Text(harmless(text), style="bold", overflow="fold")


def _models(seen: Seen) -> Table:
    table = _table("models of today", ">calls", ">in", ">out", ">cost")
    for row in list(seen.today.get(GROUPS.root, ()))[:ROWS]:
        cost = costs_text(row["costs"])
        table.columns[-1].min_width = max(len(cost), table.columns[-1].min_width or 0)
        name = f"{row.get('provider') or UNKNOWN}/{row.get('model') or UNKNOWN}"
        figures = (str(row["calls"]), _count(row["input_tokens"]), _count(row["output_tokens"]))
        table.add_row(harmless(name), *figures, cost or UNKNOWN)
    return table


def _senders(seen: Seen) -> Table:
    table = _table("senders of the last minute", ">calls", ">failed")
    calls: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for _, line in seen.recent:
        who = " ".join(filter(None, (line["service"], line["key"] and f"({line['key']})"))) or UNKNOWN
        calls[who] += 1
        failed[who] += line["status"] not in {"ok", None}
    for who, n in calls.most_common(ROWS - 1):
        table.add_row(harmless(who), str(n), str(failed[who]))
    return table


def _slowest(seen: Seen) -> Table:
    table = _table("slowest of the last minute", "service", ">out", ">seconds")
    timed = [line for _, line in seen.recent if line["duration_ms"] is not None]
    for line in sorted(timed, key=lambda line: -line["duration_ms"])[: ROWS - 1]:
        name = f"{line['provider'] or UNKNOWN}/{line['model'] or UNKNOWN}"
        seconds = f"{line['duration_ms'] / 1000:.1f}"
        table.add_row(harmless(name), harmless(line["service"] or UNKNOWN), _count(line["output_tokens"]), seconds)
    return table


def _table(*names: str) -> Table:
    """The first column takes what is left; names that are too long end in an ellipsis."""
    table = Table(box=None, padding=(0, 1, 0, 0), expand=True, header_style="cyan")
    for n, name in enumerate(names):
        right = name.startswith(">")
        options: dict[str, Any] = {"no_wrap": True, "overflow": "ellipsis", "justify": "right" if right else "left"}
        table.add_column(name.removeprefix(">"), ratio=1 if n == 0 else None, **options)
    return table


def _line(text: str, style: str = "") -> Text:
    return Text(harmless(text), style=style, no_wrap=True, overflow="ellipsis")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _count(value: int | None) -> str:
    """`12.3M`; `unknown` for what no call states."""
    if value is None:
        return UNKNOWN
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**4)):
        if value >= size:
            return f"{value / (1000 if unit == 'k' else size):.1f}{unit}"
    return str(value)


# ---- the loop


async def show_top(config: Config, *, once: bool) -> int:
    """Print frames until `q`; one with --once, or where stdout is not a terminal. 0 then.

    Raises ClickException where no gateway runs, or it cannot be asked.
    """
    if held_by(config.data_dir) is None:
        raise click.ClickException(f"no gateway runs on {config.data_dir}: start it with `telemetry-gateway run`")
    seen = Seen(str(config.data_dir))
    async with _followed(config, seen):
        await _look(config, seen)
        if once or not sys.stdout.isatty():
            await asyncio.sleep(1)
            await _look(config, seen)
            Console().print(frame(seen, datetime.now(UTC)))
            return 0
        await _show(config, seen)
    return 0


async def _show(config: Config, seen: Seen) -> None:
    over = asyncio.Event()
    with _keys(over), Live(frame(seen, datetime.now(UTC)), screen=True, auto_refresh=False) as live:
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), EVERY_S)
            await _look(config, seen)
            live.update(frame(seen, datetime.now(UTC)), refresh=True)


async def _look(config: Config, seen: Seen) -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    query: Sequence[tuple[str, str]] = (("from", today), ("group_by", "provider,model"), ("limit", str(ROWS)))
    status = await ask(config, STATUS, spool_files.STATUS)
    seen.look(status, await ask(config, USAGE, usage.SHOW, query=query), time.monotonic())


@asynccontextmanager
async def _followed(config: Config, seen: Seen) -> AsyncIterator[None]:
    """The tap's lines go to *seen* until the end of the block."""

    async def follow() -> None:
        async for line in lines_of(config, ()):
            seen.note(line, time.monotonic())

    task = asyncio.create_task(follow(), name="tap")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextmanager
def _keys(over: asyncio.Event) -> Iterator[None]:
    """`q` sets *over*; where the terminal gives no single keys, only Ctrl-C ends."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    import termios  # noqa: PLC0415 Windows has none
    import tty  # noqa: PLC0415 as above

    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def pressed() -> None:
        if sys.stdin.read(1) in {"q", "Q", ""}:
            over.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, pressed)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
