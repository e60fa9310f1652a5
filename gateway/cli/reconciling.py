"""`reconcile`: a provider's export beside the gateway's own sums."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table

from gateway.cli.exporting import Export, export_rows, moment
from gateway.cli.printing import amount_text, plain, print_table
from gateway.common.plural import plural
from gateway.config.model import Config
from gateway.usage.reconcile.compare import Difference, days_of, differences
from gateway.usage.reconcile.statements import BadStatement, Billed, read_statement
from gateway.usage.sums.figures import money_text

GROUP_BY: Final = ("provider", "model")


async def reconcile(
    config: Config,
    files: Sequence[Path],
    *,
    provider: str | None,
    columns: Mapping[str, str],
    tolerance: Decimal,
    currency: str,
    as_json: bool,
) -> int:
    """0 where both agree, 1 where they differ. Raises ClickException."""
    billed, named = read_files(files, columns)
    provider = provider or named
    if provider is None:
        raise click.UsageError("--provider: name the provider that the CSV is of, such as openai")
    first, last = days_of(billed)
    since, until = moment("--from", first), moment("--to", last) + timedelta(days=1)
    asked = Export(since, until, "ndjson", group_by=GROUP_BY)
    counted = [row async for row in export_rows(config, asked) if row["provider"] == provider]
    found = differences(billed, counted, tolerance=tolerance, currency=currency)
    if as_json:
        click.echo(
            json.dumps({"provider": provider, "from": first, "to": last, "differences": list(map(as_row, found))})
        )
    else:
        print_differences(found, provider, since, until)
    return 1 if found else 0


def read_files(files: Sequence[Path], columns: Mapping[str, str]) -> tuple[list[Billed], str | None]:
    """The rows of all *files* and their provider. Raises ClickException."""
    billed: list[Billed] = []
    providers: set[str | None] = set()
    for file in files:
        try:
            statement = read_statement(file.read_text("utf-8-sig"), columns)
        except (BadStatement, UnicodeDecodeError) as error:
            raise click.ClickException(f"{file}: {error}") from error
        except OSError as error:
            raise click.ClickException(f"{file}: {error.strerror}") from error
        billed += statement.rows
        providers.add(statement.provider)
    if len(providers) > 1:
        raise click.UsageError("FILE: all files are to be of one provider")
    if not billed:
        raise click.ClickException("the file states no usage")
    return billed, providers.pop()


def as_row(each: Difference) -> dict[str, Any]:
    """Counts as numbers, money as text; null where a side has nothing."""
    numbers = {"billed": each.billed, "counted": each.counted, "difference": each.of}
    shown = {name: money_text(value) if isinstance(value, Decimal) else value for name, value in numbers.items()}
    return {"day": each.day, "model": each.model, "measure": each.measure, **shown, "likely_reason": each.reason}


def print_differences(found: Sequence[Difference], provider: str, since: datetime, until: datetime) -> None:
    """A table of 80 columns, then the reasons."""
    if found:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("day", "model", "what", "file", "gateway", "difference"):
            table.add_column(
                name, overflow="fold", justify="right" if name in {"file", "gateway", "difference"} else "left"
            )
        for each in found:
            numbers = (number_text(each.billed), number_text(each.counted), number_text(each.of))
            table.add_row(each.day, plain(each.model), each.measure.removesuffix("_tokens"), *numbers)
        print_table(table)
        for each in found:
            click.echo(f"{each.day} {plain(each.model)}, {each.measure.replace('_', ' ')}: {each.reason}")
    days = plural((until - since).days, "day", "days")
    text = f"{plural(len(found), 'difference', 'differences')}" if found else "Both agree"
    click.echo(f"{text}: {provider}, {days} from {since.date()}, UTC")


def number_text(value: int | Decimal | None) -> str:
    if value is None:
        return "none"
    return f"{value:,}" if isinstance(value, int) else amount_text(money_text(value))
