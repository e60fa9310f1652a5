"""`telemetry-gateway viewer-tokens`: named tokens for those who read, each limited or not."""

import asyncio
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.groups import Group
from gateway.cli.keys_commands import tag_option
from gateway.cli.options import config_of, config_option, data_dir_option, json_option

if TYPE_CHECKING:
    from gateway.config.model import Config


@click.group("viewer-tokens", cls=Group)
def viewer_tokens() -> None:
    """Tokens of those who read the page and the API.

    A limited one sees the calls and costs of its teams or projects only.
    """


def _on_gateway(command: Callable[..., None]) -> Callable[..., None]:
    """With the options that choose the gateway."""

    @config_option
    @data_dir_option
    @wraps(command)
    def placed(config_file: Path | None, data_dir: Path | None, **rest: Any) -> None:
        command(config_of(config_file, data_dir), **rest)

    return placed


@viewer_tokens.command("create")
@_on_gateway
@click.option("--team", multiple=True, metavar="NAME", help="It sees this team only; may be repeated.")
@click.option("--project", multiple=True, metavar="NAME", help="It sees this project only; may be repeated.")
@tag_option
@click.option("--by", help="Your e-mail, for Created By. [default: user@host]")
@json_option
@click.argument("name")
def create(
    config: "Config", *, as_json: bool, name: str, by: str | None, seen_tags: Any, **seen: tuple[str, ...]
) -> None:
    """Make a token and print its secret, once.

    The secret is all that is on stdout, unless --json is given.

    \b
    Example:
      telemetry-gateway viewer-tokens create "Checkout leads" --team checkout
    """
    from gateway.cli.asking import ask, person  # noqa: PLC0415 - `--help` needs neither
    from gateway.cli.keys import seen_fields  # noqa: PLC0415 - the same

    limits = seen_fields(seen, seen_tags)
    body = {"name": name, "by": person(by), **({"limits": limits} if limits else {})}
    made = asyncio.run(ask(config, "createViewerToken", body=body, makes_files=True))
    if as_json:
        click.echo(json.dumps(made))
        return
    click.echo(f"viewer token {made['name']} ({made['id']}) is made; its secret is shown only now:", err=True)
    click.echo(made["secret"])


@viewer_tokens.command("list")
@_on_gateway
@json_option
def list_(config: "Config", *, as_json: bool) -> None:
    """List the tokens by name, without their secrets."""
    from rich.table import Table  # noqa: PLC0415 as above

    from gateway.cli.asking import ask  # noqa: PLC0415 as above
    from gateway.cli.keys import limit_text, minute  # noqa: PLC0415 as above
    from gateway.cli.printing import plain, print_table  # noqa: PLC0415 as above

    answer = asyncio.run(ask(config, "listViewerTokens", query=[("limit", "500")]))
    if as_json:
        click.echo(json.dumps(answer))
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("name", "limited to", "id", "created by", "created"):
        table.add_column(column, no_wrap=column == "id")
    for each in answer["viewer_tokens"]:
        cells = (
            each["name"],
            limit_text(each["limits"]) or "-",
            each["id"],
            each["created_by"],
            minute(each["created_at"]),
        )
        table.add_row(*map(plain, cells))
    print_table(table)


@viewer_tokens.command("revoke")
@_on_gateway
@click.argument("id_or_name", metavar="ID|NAME")
def revoke(config: "Config", *, id_or_name: str) -> None:
    """Refuse the token from now on.

    The sessions that it opened end, too.
    """
    asyncio.run(_revoke(config, id_or_name))
    click.echo("revoked")


async def _revoke(config: "Config", id_or_name: str) -> None:
    from gateway.cli.asking import ask  # noqa: PLC0415 as above

    found = (await ask(config, "listViewerTokens", query=[("name", id_or_name)]))["viewer_tokens"]
    token_id = found[0]["id"] if found else id_or_name
    await ask(config, "revokeViewerToken", path={"id": token_id})
