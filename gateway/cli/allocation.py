"""`telemetry-gateway allocation`: rules that give a team, project or tag to calls."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import yaml
from rich.table import Table

from gateway.cli.asking import ask
from gateway.cli.groups import Group
from gateway.cli.options import config_of, config_option, data_dir_option, json_option
from gateway.cli.printing import plain, print_table
from gateway.common.printable import harmless

if TYPE_CHECKING:
    from gateway.config.model import Config

MAX_BYTES: Final = 1 << 20
SIDES: Final = ("before", "applied", "after")
"""Of a preview: as calls bring it, by the rules that are applied now, by those of the file."""
_RULES = click.argument("rules", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE")
_TARGET = click.argument("target")
_NOTE = click.option("--note", default="", help="Why, as the list of versions shows it.")


@click.group(cls=Group)
def allocation() -> None:
    """Rules that give calls to teams.

    To projects and tags, too. They are applied when usage is asked for; nothing kept changes.
    """


@allocation.command("list")
@config_option
@data_dir_option
@json_option
def listed(config_file: Path | None, data_dir: Path | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """List the rules of each target."""
    found = _ask(config_of(config_file, data_dir), "listAllocationDefinitions")
    if as_json:
        click.echo(json.dumps(found))
        return
    for each in found["definitions"]:
        click.echo("\n".join(_lines_of(each)))
    if not found["definitions"]:
        click.echo("no rules: `allocation set TARGET FILE` makes some")


@allocation.command()
@config_option
@data_dir_option
@_TARGET
@click.option("--version", type=click.IntRange(min=1), help="One of them; all without it.")
@json_option
def versions(
    config_file: Path | None,
    data_dir: Path | None,
    target: str,
    version: int | None,
    as_json: bool,  # noqa: FBT001 as above
) -> None:
    """List the versions of a target's rules."""
    config, path = config_of(config_file, data_dir), {"target": target}
    if version is None:
        found = _ask(config, "listAllocationVersions", path=path)
        shown = found["versions"]
    else:
        found = _ask(config, "readAllocationVersion", path={**path, "version": str(version)})
        shown = [found["definition"]]
    click.echo(json.dumps(found) if as_json else "\n".join(line for each in shown for line in _lines_of(each)))


@allocation.command("set")
@config_option
@data_dir_option
@_NOTE
@json_option
@_TARGET
@_RULES
def put(
    config_file: Path | None,
    data_dir: Path | None,
    note: str,
    as_json: bool,  # noqa: FBT001 as above
    target: str,
    rules: Path,
) -> None:
    """Make the next version of a target's rules.

    From a YAML or JSON file. It is applied at once, to every day that is kept. `preview` shows
    before what it moves. An empty list ends the allocation.

    \b
    Examples:
      telemetry-gateway allocation set team rules.yaml --note "as agreed in May"
    """
    config, body = config_of(config_file, data_dir), {"rules": rules_in(rules), "note": note}
    known = {each["target"] for each in _ask(config, "listAllocationDefinitions")["definitions"]}
    if target in known:
        made = _ask(config, "createAllocationVersion", path={"target": target}, body=body)
    else:
        made = _ask(config, "createAllocationDefinition", body={**body, "target": target})
    click.echo(json.dumps(made) if as_json else "\n".join(_lines_of(made["definition"])))


@allocation.command()
@config_option
@data_dir_option
@click.option("--range", "within", help="Such as last_month, or 2026-11-02/2026-11-09; last_30_days without it.")
@json_option
@_TARGET
@_RULES
def preview(
    config_file: Path | None,
    data_dir: Path | None,
    within: str | None,
    as_json: bool,  # noqa: FBT001 as above
    target: str,
    rules: Path,
) -> None:
    """Show what rules would move.

    Nothing is changed.
    """
    body = {"target": target, "rules": rules_in(rules), **({"range": within} if within else {})}
    found = _ask(config_of(config_file, data_dir), "previewAllocation", body=body)
    if as_json:
        click.echo(json.dumps(found))
        return
    _print_preview(found["preview"])


def _print_preview(found: Mapping[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(str(found["target"]), overflow="fold")
    for head in ("calls before", "now", "after", "cost before", "now", "after"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in found["names"]:
        name = row[found["target"]] or f"({row['absent'][found['target']]})"
        calls = [_calls(row[each]) for each in SIDES]
        costs = [_cost(row[each]) for each in SIDES]
        table.add_row(*map(plain, (name, *calls, *costs)))
    print_table(table)
    for number, rule in enumerate(found["rules"], 1):
        click.echo(f"rule {number}: {rule['calls']:,} calls, {_cost(rule)}")
    click.echo(
        f"{found['from']} to {found['to']}: {found['totals']['calls']:,} calls, {_cost(found['totals'])}, as before"
    )


def _calls(sums: Mapping[str, Any] | None) -> str:
    return "-" if sums is None else f"{sums['calls']:,}"


def _cost(sums: Mapping[str, Any] | None) -> str:
    costs = {} if sums is None else sums["costs"]
    return ", ".join(f"{harmless(currency)} {amount}" for currency, amount in costs.items()) or "-"


def _lines_of(definition: Mapping[str, Any]) -> Iterator[str]:
    note = f": {harmless(definition['note'])}" if definition["note"] else ""
    yield f"{definition['target']}, version {definition['version']}, {definition['created_at']}{note}"
    for rule in definition["rules"]:
        match = " ".join(f"{name}={value or ''}" for name, values in rule["match"].items() for value in values)
        shares = ", ".join(f"{share['name']} {share['percent']} %" for share in rule["shares"])
        yield f"  {harmless(match) or 'any call'} -> {harmless(shares)}"
    if not definition["rules"]:
        yield "  no rules: nothing is allocated"


def rules_in(file: Path) -> Any:
    """Raises ClickException."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise click.ClickException(f"{file}: at most {MAX_BYTES >> 20} MiB are read")
        found = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.ClickException(f"{file}: it is no readable YAML or JSON ({type(error).__name__})") from None
    return _texts(found["rules"] if isinstance(found, dict) and "rules" in found else found)


def _texts(rules: Any) -> Any:
    """*rules* with percents as texts: YAML has 60 and 33.4 as numbers, whose digits are kept."""
    if isinstance(rules, list):
        return [_texts(each) for each in rules]
    if not isinstance(rules, dict):
        return rules
    return {
        name: _digits(value) if name == "percent" and isinstance(value, int | float) else _texts(value)
        for name, value in rules.items()
    }


def _digits(number: float) -> str:
    return format(Decimal(repr(number)), "f")


def _ask(config: "Config", operation: str, **asked: Any) -> dict[str, Any]:
    return asyncio.run(ask(config, operation, **asked))
