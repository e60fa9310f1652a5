"""`telemetry-gateway recommendations`: what could be saved, and what is decided about it."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
from rich.table import Table

from gateway.cli.asking import ask
from gateway.cli.groups import Group
from gateway.cli.options import config_of, config_option, data_dir_option, json_option
from gateway.cli.printing import plain, print_table
from gateway.common.plural import plural
from gateway.common.printable import harmless

LIST_LIMIT: Final = 50
HELPS: Final = {
    "accept": ("accepted", "Accept one: what it saves is measured from then on."),
    "dismiss": ("dismissed", "Dismiss one: it does not come back by itself."),
    "reopen": ("open", "Open one again that was accepted or dismissed."),
}
"""Verb -> state, and the help of the command."""


@click.group("recommendations", cls=Group)
def recommendations() -> None:
    """List what could be saved, and decide about it."""


@recommendations.command("list")
@config_option
@data_dir_option
@click.option(
    "--state",
    multiple=True,
    type=click.Choice(["open", "accepted", "dismissed"]),
    help="Only these; may be repeated. Open and accepted ones without it.",
)
@json_option
def listed(config_file: Path | None, data_dir: Path | None, state: tuple[str, ...], as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """List recommendations, the largest saving first."""
    query = [("limit", str(LIST_LIMIT)), *(("state", each) for each in state or ("open", "accepted"))]
    answer = asyncio.run(ask(config_of(config_file, data_dir), "listRecommendations", query=query))
    if as_json:
        click.echo(json.dumps(answer))
    else:
        print_list(answer)


def print_list(answer: Mapping[str, Any]) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("saving a month", "recommendation", "state", "realised"):
        table.add_column(name, justify="right" if name in {"saving a month", "realised"} else "left")
    for each in answer["recommendations"]:
        realised = "-" if each["realised"] is None else f"{float(each['realised']):,.2f}"
        title = f"{each['title']} ({each['id'][:8]})"
        table.add_row(f"{float(each['saving']):,.2f} {each['currency']}", plain(title), each["state"], realised)
    print_table(table)
    click.echo(plural(answer["pagination"]["total_count"], "recommendation", "recommendations"))


@recommendations.command("show")
@config_option
@data_dir_option
@click.argument("recommendation_id", metavar="ID")
@json_option
def show(config_file: Path | None, data_dir: Path | None, recommendation_id: str, as_json: bool) -> None:  # noqa: FBT001 as above
    """Show the figures and the formula of one.

    The first characters of its id are enough.
    """
    asyncio.run(_print_one(config_of(config_file, data_dir), recommendation_id, as_json=as_json))


async def _print_one(config: Any, recommendation_id: str, *, as_json: bool) -> None:
    found = await _one(config, recommendation_id)
    if as_json:
        click.echo(json.dumps({"recommendation": found}))
        return
    click.echo(f"{harmless(found['title'])} ({found['id']})")
    click.echo(f"  saves {found['saving']} {found['currency']}: {found['cost']} less {found['cost_instead']}")
    click.echo(f"  {found['formula']}")
    for name, value in ({"calls": found["calls"]} | found["evidence"]).items():
        click.echo(f"  {name.replace('_', ' ')}: {value:,}")
    by = f" by {harmless(found['state_set_by'])}" if found["state_set_by"] else ""
    click.echo(f"  {found['state']}{by}")


async def _one(config: Any, recommendation_id: str) -> dict[str, Any]:
    """By its id or the beginning of it. Raises ClickException."""
    every = (await ask(config, "listRecommendations", query=[("limit", "500")]))["recommendations"]
    found = [each for each in every if each["id"].startswith(recommendation_id)]
    if len(found) != 1:
        raise click.ClickException(
            f"{len(found) or 'no'} recommendations have an id that begins with it: `recommendations list` has the ids"
        )
    return dict(found[0])


def _changing(verb: str) -> click.Command:
    state, text = HELPS[verb]

    @click.command(verb, help=text)
    @config_option
    @data_dir_option
    @click.argument("recommendation_id", metavar="ID")
    @json_option
    def change(config_file: Path | None, data_dir: Path | None, recommendation_id: str, as_json: bool) -> None:  # noqa: FBT001 as above
        config = config_of(config_file, data_dir)

        async def changed() -> dict[str, Any]:
            id_ = (await _one(config, recommendation_id))["id"]
            return await ask(config, "changeRecommendation", path={"recommendation_id": id_}, body={"state": state})

        answer = asyncio.run(changed())
        kept = answer["recommendation"]
        click.echo(json.dumps(answer) if as_json else f"{harmless(kept['title'])}: {kept['state']}")
        sys.exit(0)

    return change


for _verb in HELPS:
    recommendations.add_command(_changing(_verb))
