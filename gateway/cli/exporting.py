"""`export`: usage by day or hour as a file."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import click

from gateway.cli.requests import USAGE, ask
from gateway.cli.views import view_named
from gateway.common.plural import plural
from gateway.common.printable import harmless
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.operate import usage
from gateway.usage.export import focus
from gateway.usage.export.files import WRITERS, NoParquet
from gateway.usage.export.rows import Row, columns, rows_of
from gateway.usage.sums.saved_filter import query_of
from gateway.usage.views.view import view_times

DEFAULT_GROUPS: Final = ("provider", "model", "team")
_STEPS: Final = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
_PAGE: Final = "500"


class Export(NamedTuple):
    """The options of the command."""

    since: datetime
    until: datetime
    form: str
    interval: str = "day"
    group_by: tuple[str, ...] = DEFAULT_GROUPS
    to: Path | None = None
    """None for stdout."""
    where: tuple[tuple[str, str], ...] = ()
    """Filters, as parameters of the question."""


class Typed(NamedTuple):
    """The options, as they were typed; times are needed where no view is named."""

    since: str | None
    until: str | None
    form: str
    interval: str | None = None
    group_by: str | None = None
    to: Path | None = None
    view: str | None = None


async def export(config: Config, typed: Typed) -> int:
    """0 when all of it was written. Raises ClickException."""
    asked = await asked_by(config, typed)
    rows = [row async for row in export_rows(config, asked)]
    head: Sequence[str] = columns(asked.group_by)
    if asked.form == "focus":
        head, kept = focus.COLUMNS, list(focus.focus_rows(rows))
        _note_left_out(focus.without_cost(rows))
        rows = kept
    try:
        with _opened(asked.to) as to:
            write_rows(asked.form, to, head, rows)
    except NoParquet as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{asked.to or 'stdout'}: {error.strerror}") from error
    if asked.to is not None:
        click.echo(f"{asked.to}: {plural(len(rows), 'row', 'rows')}", err=True)
    return 0


async def asked_by(config: Config, typed: Typed) -> Export:
    """What is exported: as it was typed, else as the view has it. FOCUS has groups of its own."""
    view = None if typed.view is None else await view_named(config, typed.view)
    begins, ends = (None, None) if view is None else whole_hours(view_times(view, wall_ms()))
    since = begins if typed.since is None else full_hour("--from", typed.since)
    until = ends if typed.until is None else full_hour("--to", typed.until)
    if since is None or until is None:
        raise click.UsageError("--from and --to are needed, or a --view")
    groups = DEFAULT_GROUPS if typed.group_by is None else tuple(typed.group_by.split(","))
    groups = focus.GROUP_BY if typed.form == "focus" else groups
    interval = typed.interval or "day"
    if view is not None and typed.form != "focus":
        groups = view.group_by if typed.group_by is None else groups
        interval = typed.interval or view.interval or "day"
    where = () if view is None else tuple(query_of(view.filter))
    if view is not None and view.search is not None and typed.group_by is None and typed.form != "focus":
        where = (*where, ("search", view.search))
    return Export(since, until, typed.form, interval, groups, typed.to, where)


def whole_hours(times: tuple[datetime, datetime]) -> tuple[datetime, datetime]:
    """The hours of UTC that cover them."""
    since, until = (time.astimezone(UTC) for time in times)
    ends = until.replace(minute=0)
    return since.replace(minute=0), ends if ends == until else ends + timedelta(hours=1)


def write_rows(form: str, to: IO[bytes], head: Sequence[str], rows: Iterable[Row]) -> None:
    """A terminal would obey control characters of names: it gets none."""
    WRITERS[form](to, head, map(_harmless, rows) if to.isatty() else rows)


def _harmless(row: Row) -> Row:
    return {name: harmless(value) if isinstance(value, str) else value for name, value in row.items()}


def _note_left_out(calls: int) -> None:
    if calls:
        left_out = plural(calls, "call has no known cost and is", "calls have no known cost and are")
        click.echo(f"{left_out} in no row's cost: FOCUS knows no unknown cost", err=True)


async def export_rows(config: Config, asked: Export) -> AsyncIterator[Row]:
    """The rows of one period after the other."""
    start = asked.since
    while start < asked.until:
        end = min(_end_of_period(start, asked.interval), asked.until)
        for row in rows_of(await _period(config, asked, start, end), asked.group_by):
            yield row
        start = end


def _end_of_period(start: datetime, interval: str) -> datetime:
    """The end of the UTC day or hour that *start* is in."""
    begins = start.replace(minute=0) if interval == "hour" else start.replace(hour=0, minute=0)
    return begins + _STEPS[interval]


async def _period(config: Config, asked: Export, start: datetime, end: datetime) -> dict[str, Any]:
    """The answer with the groups of all pages."""
    within = [("from", start.isoformat()), ("to", end.isoformat())]
    question = [*within, ("group_by", ",".join(asked.group_by)), *asked.where]
    page = await ask(
        config, USAGE, usage.SHOW, query=[*question, ("sort_key", "name"), ("sort_order", "asc"), ("limit", _PAGE)]
    )
    groups = page["usage"]
    while cursor := page["pagination"]["cursor"]["next_cursor"]:
        page = await ask(config, USAGE, usage.SHOW, query=[*question, ("cursor", cursor)])
        groups += page["usage"]
    return {**page, "usage": groups}


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    """*path*, which appears whole or not at all; stdout where it is None."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def full_hour(option: str, text: str) -> datetime:
    """As `moment`. Raises UsageError where it is within an hour: usage is kept by UTC hours."""
    time = moment(option, text)
    if time.minute or time.second or time.microsecond:
        raise click.UsageError(f"{option}: a full hour of UTC is needed, such as 2026-01-05T10:00Z")
    return time


def moment(option: str, text: str) -> datetime:
    """A date or time of ISO 8601, UTC where it has no offset. Raises UsageError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option}: a date or time is needed, such as 2026-01-05") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
