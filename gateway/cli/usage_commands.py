"""`telemetry-gateway usage`: what the gateway counted."""

import asyncio
import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click

from gateway.cli.options import config_of, config_option, data_dir_option, json_option

_DIMENSIONS = "provider, model, team, project, user, device_id, service_name, key, operation, source, tag:NAME"

from_option = click.option("--from", "since", help="The first day or hour, such as 2026-01-05; UTC.")
to_option = click.option("--to", "until", help="The end, not included; default: now.")


@click.command()
@config_option
@data_dir_option
@from_option
@to_option
@click.option("--group-by", help=f"Up to three of {_DIMENSIONS}, separated by commas; provider,model without it.")
@click.option("--interval", type=click.Choice(["hour", "day"]), help="Hours or days in place of groups.")
@click.option("--range", help="Such as today, last_week or this_month, in place of --from and --to.")
@click.option("--time-zone", help="Of days, and of --from and --to, such as Europe/Berlin; UTC without it.")
@click.option("--compare", type=click.Choice(["previous"]), help="Beside each row, the same of the period before.")
@click.option("--latency", is_flag=True, help="Each row also has how long calls took: p50 and p99.")
@click.option("--allocation", type=click.Choice(["applied", "none"]), help="none: without allocation rules.")
@click.option("--search", help="Only groups whose first name holds this text.")
@click.option(
    "--where",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only these, such as team=core, or team= for unknown; may be repeated.",
)
@click.option("--view", help="Name of a saved view; other options replace its own.")
@click.option("--sort", help="cost, calls, input_tokens, output_tokens or name.")
@click.option("--limit", type=click.IntRange(min=1, max=500), help="Show at most this many rows; default 20.")
@json_option
def usage(config_file: Path | None, data_dir: Path | None, as_json: bool, **options: Any) -> None:  # noqa: FBT001 a flag of the command line
    """Show calls, tokens and cost, by model, team and more.

    Of the last 30 days, unless a time is given.

    \b
    Examples:
      telemetry-gateway usage --where team=core --range last_week --compare previous
    """
    from gateway.cli.usage import Options, print_usage  # noqa: PLC0415 starting the other commands must not cost its imports

    sys.exit(asyncio.run(print_usage(config_of(config_file, data_dir), Options(**options), as_json=as_json)))


@click.command()
@config_option
@data_dir_option
@click.option("--from", "since", help="The first day, such as 2026-01-05; UTC. Needed without --view.")
@click.option("--to", "until", help="The end, not included. Needed without --view.")
@click.option("--view", help="Name of a saved view: its filter, groups, interval and range, unless they are named.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "ndjson", "parquet", "focus"]),
    default="csv",
    show_default=True,
    help="Format of the file.",
)
@click.option(
    "--interval",
    type=click.Choice(["day", "hour"]),
    help="What one row covers: a UTC day (default) or an hour.",
)
@click.option("--group-by", help=f"Up to three of {_DIMENSIONS}, separated by commas; provider,model,team without it.")
@click.option(
    "-o", "--output", "to", type=click.Path(path_type=Path, dir_okay=False), help="The file; stdout without it."
)
def export(
    config_file: Path | None,
    data_dir: Path | None,
    since: str | None,
    until: str | None,
    view: str | None,
    form: str,
    interval: str | None,
    group_by: str | None,
    to: Path | None,
) -> None:
    """Write usage by day or hour to a file.

    `--format focus` is CSV with the columns of FOCUS 1.2.
    """
    from gateway.cli.exporting import Typed  # noqa: PLC0415 as above
    from gateway.cli.exporting import export as write  # noqa: PLC0415 as above

    if form == "focus" and (group_by is not None or interval == "hour"):
        raise click.UsageError(
            "--format focus is by day, provider, model and team: leave out --group-by and --interval"
        )
    if form == "parquet" and to is None:
        raise click.UsageError("--format parquet: name a file with -o")
    if view is None and (since is None or until is None):
        raise click.UsageError("--from and --to are needed, or a --view")
    typed = Typed(since, until, form, interval, group_by, to, view)
    sys.exit(asyncio.run(write(config_of(config_file, data_dir), typed)))


@click.command("forget-user")
@config_option
@data_dir_option
@click.argument("user")
@click.option("--dry-run", is_flag=True, help="Count what names the user, and change nothing.")
@click.option("--yes", "is_agreed", is_flag=True, help="Do not ask.")
@json_option
def forget_user(
    config_file: Path | None,
    data_dir: Path | None,
    user: str,
    dry_run: bool,  # noqa: FBT001 as above
    is_agreed: bool,  # noqa: FBT001 as above
    as_json: bool,  # noqa: FBT001 as above
) -> None:
    """Remove a user from all kept data.

    Totals stay exact.
    """
    from gateway.cli.forgetting import forget  # noqa: PLC0415 as above

    config = config_of(config_file, data_dir)
    sys.exit(asyncio.run(forget(config, user, dry_run=dry_run, is_agreed=is_agreed, as_json=as_json)))


@click.command()
@config_option
@data_dir_option
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--provider", help="The provider, as records name it; needed for a CSV with columns of its own.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=COLUMN",
    help="A column of such a CSV, such as date=Day; may be repeated.",
)
@click.option(
    "--tolerance", default="1%", show_default=True, help="Ignore differences up to this share of the larger figure."
)
@click.option("--currency", default="USD", show_default=True, help="Costs in other currencies are left out.")
@json_option
def reconcile(
    config_file: Path | None,
    data_dir: Path | None,
    files: tuple[Path, ...],
    provider: str | None,
    columns: tuple[str, ...],
    tolerance: str,
    currency: str,
    as_json: bool,  # noqa: FBT001 as above
) -> None:
    """Compare a provider's usage export with the counts.

    By day and model.
    """
    from gateway.cli.reconciling import reconcile as compare  # noqa: PLC0415 as above

    config = config_of(config_file, data_dir)
    asked = compare(
        config,
        files,
        provider=provider,
        columns=_columns(columns),
        tolerance=_share(tolerance),
        currency=_currency(currency.upper()),
        as_json=as_json,
    )
    sys.exit(asyncio.run(asked))


def _currency(code: str) -> str:
    from gateway.common.contract.currencies import REMEDY, is_currency  # noqa: PLC0415 as above

    if not is_currency(code):
        raise click.BadParameter(f"{REMEDY} is needed", param_hint="--currency")
    return code


def _columns(texts: tuple[str, ...]) -> dict[str, str]:
    from gateway.usage.reconcile.statements import COLUMNS  # noqa: PLC0415 as above

    found = dict(text.split("=", 1) for text in texts if "=" in text)
    if len(found) < len(texts) or not found.keys() <= set(COLUMNS):
        raise click.UsageError(f"--column: NAME=COLUMN is needed, NAME of {', '.join(COLUMNS)}")
    return found


def _share(text: str) -> Decimal:
    try:
        share = Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except InvalidOperation:
        raise click.UsageError("--tolerance: a share is needed, such as 1% or 0.01") from None
    if not 0 <= share <= 1:
        raise click.UsageError("--tolerance: from 0 to 100% is needed")
    return share
