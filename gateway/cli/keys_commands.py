"""`telemetry-gateway keys`: the keys that senders show."""

import asyncio
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from gateway.cli.groups import Group
from gateway.cli.options import NO_LIMIT, config_of, config_option, data_dir_option, json_option
from gateway.common.contract.reach import NAMED

if TYPE_CHECKING:
    from gateway.cli.keys import KeyPlace

Command = TypeVar("Command", bound=Callable[..., None])


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter("NAME=VALUE is needed, such as team=search")
    return name, value


def _bytes_in(text: str) -> int:
    """Raises ValueError."""
    from gateway.config.values import parse_size_bytes  # noqa: PLC0415 - `--help` needs no configuration

    return parse_size_bytes(text)


def _limit(needed: str, parse: Callable[[str], int], *, may_go: bool) -> Callable[[str], int | str]:
    """A whole number from 1 on, as *parse* reads it; `none` where *may_go*."""

    def read(text: str) -> int | str:
        if may_go and text == NO_LIMIT:
            return NO_LIMIT
        try:
            n = parse(text)
        except ValueError:
            n = 0
        if n < 1:
            raise click.BadParameter(f"{needed}{', or none,' if may_go else ''} is needed")
        return n

    return read


def _on_gateway(command: Callable[..., None]) -> Callable[..., None]:
    """Gives *command* the place of the keys that it is about."""

    @config_option
    @data_dir_option
    @click.option("--service", "of_service", is_flag=True, help="Keys of the local service, in place of the senders'.")
    @wraps(command)
    def placed(config_file: Path | None, data_dir: Path | None, of_service: bool, **rest: Any) -> None:  # noqa: FBT001 a flag of the command line
        from gateway.cli.keys import KeyPlace  # noqa: PLC0415 starting the other commands must not cost its imports

        command(KeyPlace(config_of(config_file, data_dir), of_service), **rest)

    return placed


def _grant_options(command: Command) -> Command:
    for option in (
        click.option(
            "--scope",
            "scopes",
            multiple=True,
            metavar="SCOPE",
            help="A fixed scope; may be repeated. `keys scopes` lists all, and those that open nothing at this gateway.",
        ),
        click.option("--managed", multiple=True, metavar="USE_CASE", help="A managed use case; may be repeated."),
    ):
        command = option(command)
    return command


def _limit_options(*, may_go: bool) -> Callable[[Command], Command]:
    gone = "; `none` takes it away" if may_go else ""
    requests = _limit("a whole number from 1 on", int, may_go=may_go)
    size = _limit("a size such as 512KiB or 64MiB", _bytes_in, may_go=may_go)

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "--bytes-per-minute", type=size, metavar="SIZE", help=f"Of decompressed bodies, such as 1MiB{gone}."
            ),
            click.option(
                "--requests-per-minute", type=requests, metavar="N", help=f"More are answered with 429{gone}."
            ),
        ):
            command = option(command)
        return command

    return add


tag_option = click.option(
    "--tag",
    "seen_tags",
    type=_label,
    metavar="NAME=VALUE",
    multiple=True,
    help="It sees the calls with this value of a tag only; may be repeated.",
)


def _seen_options(*, may_go: bool) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        for name in reversed(NAMED):
            text = f"It sees the calls and costs of this {name} only; may be repeated."
            command = click.option(f"--{name}", f"seen_{name}", multiple=True, metavar="NAME", help=text)(command)
        command = tag_option(command)
        if may_go:
            text = "It is limited to no team, project or tag any more."
            command = click.option("--sees-all", is_flag=True, help=text)(command)
        return command

    return add


by_option = click.option("--by", help="Your e-mail, for Created By and Updated By. [default: user@host]")
label_option = click.option(
    "--label",
    "labels",
    type=_label,
    metavar="NAME=VALUE",
    multiple=True,
    help="Put on every record sent under the key; may be repeated.",
)
description_option = click.option("--description", help="What the key is for.")
yes_option = click.option("--yes", is_flag=True, help="Go on even though senders without a key will be refused.")


@click.group(cls=Group)
def keys() -> None:
    """The keys of senders: who may post, and what."""


@keys.command("create")
@_on_gateway
@click.option("--name", required=True, help="At least 3 characters; unique.")
@_grant_options
@description_option
@label_option
@_limit_options(may_go=False)
@_seen_options(may_go=False)
@by_option
@yes_option
@json_option
def create(place: "KeyPlace", as_json: bool, yes: bool, **asked: Any) -> None:  # noqa: FBT001 flags of the command line
    """Make a key and print its secret, once.

    The secret is all that is on stdout, unless --json is given.
    """
    from gateway.cli.keys import create_key  # noqa: PLC0415 as above

    sys.exit(asyncio.run(create_key(place, asked, is_sure=yes, as_json=as_json)))


@keys.command("import-legacy")
@_on_gateway
@click.option("--secret-file", type=click.File(), default="-", show_default=True, help="Holds the key; `-` is stdin.")
@_grant_options
@description_option
@label_option
@_limit_options(may_go=False)
@click.option("--if-missing", "if_missing", is_flag=True, help="Change nothing if there is one already.")
@click.option("--replace", is_flag=True, help="If there is one already, give it this key and these rights.")
@by_option
@yes_option
@json_option
def import_legacy(
    place: "KeyPlace",
    secret_file: Any,
    if_missing: bool,  # noqa: FBT001 as above
    replace: bool,  # noqa: FBT001 as above
    as_json: bool,  # noqa: FBT001 as above
    yes: bool,  # noqa: FBT001 as above
    **asked: Any,
) -> None:
    """Take over the one key that all your senders have now.

    It is listed as `Legacy API Key`.
    """
    from gateway.cli.keys import create_key, import_missing  # noqa: PLC0415 as above

    if if_missing and replace:
        raise click.UsageError("--if-missing keeps the key that is there, --replace changes it: choose one of them")
    try:
        asked["secret"] = secret_file.read().strip()
    except UnicodeDecodeError:
        raise click.ClickException(
            "--secret-file: it is no text; the key alone is needed"
        ) from None  # the error quotes it
    asked["replace"] = replace or None
    import_key = import_missing if if_missing else create_key
    sys.exit(asyncio.run(import_key(place, asked, is_sure=yes, as_json=as_json)))


@keys.command("import")
@_on_gateway
@click.option("--file", "file", type=click.File(), default="-", show_default=True, help="One key a line; `-` is stdin.")
@by_option
@yes_option
@json_option
def import_(place: "KeyPlace", file: Any, as_json: bool, yes: bool, by: str | None) -> None:  # noqa: FBT001 as above
    """Take keys that another gateway made.

    So several gateways know the same keys. Each line is what `keys create --json` printed there.
    A key that is here already gets what its line states; other keys are not changed.
    """
    from gateway.cli.keys_import import import_keys  # noqa: PLC0415 as above

    try:
        lines = file.read().splitlines()
    except UnicodeDecodeError:
        raise click.ClickException("--file: it is no text; keys in JSON are needed") from None  # the error quotes it
    sys.exit(asyncio.run(import_keys(place, lines, by=by, is_sure=yes, as_json=as_json)))


@keys.command("list")
@_on_gateway
@click.option("--status", multiple=True, help="Enabled or Disabled.")
@click.option("--mode", multiple=True, help="fixed or managed.")
@click.option("--managed", multiple=True, help="Keys with this use case; may be repeated.")
@click.option("--scope", multiple=True, help="Keys that grant this scope now; may be repeated.")
@click.option("--sort", "sort_key", help="name, status, created_at, last_modified, last_accessed, scope_count, …")
@click.option("--desc", is_flag=True, help="In descending order.")
@click.option("--limit", type=click.IntRange(min=1), help="Of one page; --json shows one page, the table all.")
@click.option("--cursor", help="With --json: the page that an earlier one named.")
@json_option
def list_(place: "KeyPlace", as_json: bool, **asked: Any) -> None:  # noqa: FBT001 as above
    """List the keys, without their secrets."""
    from gateway.cli.keys import print_keys  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_keys(place, asked, as_json=as_json)))


@keys.command("show")
@_on_gateway
@json_option
@click.argument("key", metavar="NAME|ID")
def show(place: "KeyPlace", as_json: bool, key: str) -> None:  # noqa: FBT001 as above
    """Show one key, and every scope that it grants now."""
    from gateway.cli.keys import print_key  # noqa: PLC0415 as above

    sys.exit(asyncio.run(print_key(place, key, as_json=as_json)))


@keys.command("edit")
@_on_gateway
@click.option("--name", help="The new name.")
@_grant_options
@description_option
@label_option
@click.option("--remove-label", "gone_labels", multiple=True, metavar="NAME", help="May be repeated.")
@_limit_options(may_go=True)
@_seen_options(may_go=True)
@by_option
@json_option
@click.argument("key", metavar="NAME|ID")
def edit(place: "KeyPlace", as_json: bool, key: str, **asked: Any) -> None:  # noqa: FBT001 as above
    """Change the given fields and leave the rest. --scope and --managed
    replace all that the key may do.
    """
    from gateway.cli.keys import edit_key  # noqa: PLC0415 as above

    sys.exit(asyncio.run(edit_key(place, key, asked, as_json=as_json)))


def _turn_command(verb: Literal["disable", "enable"], meaning: str) -> None:
    @keys.command(verb, help=meaning)
    @_on_gateway
    @by_option
    @json_option
    @click.argument("key", metavar="NAME|ID")
    def command(place: "KeyPlace", as_json: bool, by: str | None, key: str) -> None:  # noqa: FBT001 as above
        from gateway.cli.keys import turn_key  # noqa: PLC0415 as above

        sys.exit(asyncio.run(turn_key(place, key, verb, by, as_json=as_json)))


_turn_command("disable", "Refuse the key from the next request on, until `enable`.")
_turn_command("enable", "Take the key again.")


@keys.command("delete")
@_on_gateway
@click.option("--confirm", metavar="NAME", help="The key's exact name, in place of typing it.")
@by_option
@json_option
@click.argument("key", metavar="NAME|ID")
def delete(
    place: "KeyPlace",
    as_json: bool,  # noqa: FBT001 as above
    confirm: str | None,
    by: str | None,
    key: str,
) -> None:
    """Revoke the key at once, for good. Asks for its exact name."""
    from gateway.cli.keys import delete_key  # noqa: PLC0415 as above

    sys.exit(asyncio.run(delete_key(place, key, confirm, by, as_json=as_json)))


@keys.command("scopes")
@json_option
def scopes(as_json: bool) -> None:  # noqa: FBT001 as above
    """List every scope and managed use case that a key can have."""
    from gateway.cli.keys import print_scopes  # noqa: PLC0415 as above

    print_scopes(as_json=as_json)
