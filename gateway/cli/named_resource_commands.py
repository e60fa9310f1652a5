"""The commands on what a gateway keeps under names: list, create, show, change, delete."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gateway.cli.options import config_of, config_option, data_dir_option, json_option

if TYPE_CHECKING:
    from gateway.cli.named_resource import NamedResource

Parameter = Callable[[Any], Any]
"""A decorator that adds an option or an argument."""
Load = Callable[[], "NamedResource[Any]"]

_LIMIT = click.option("--limit", type=click.IntRange(min=1, max=500), help="Show at most this many; default 50.")
_NAME = click.option("--name", help="A new name.")
_ID_OR_NAME = click.argument("id_or_name", metavar="ID|NAME")


def add_commands(group: click.Group, fields: Sequence[Parameter], helps: Mapping[str, str], load: Load) -> None:
    """Add the five commands to *group*.

    *fields*: the options of a new one, beside its name. *helps*: verb -> help of its command.
    *load* imports the resource when a command of it runs: other commands start without it.
    """
    parameters: dict[str, Sequence[Parameter]] = {
        "list": (_LIMIT, json_option),
        "create": (*fields, json_option, click.argument("name")),
        "show": (json_option, _ID_OR_NAME),
        "change": (_NAME, *fields, json_option, _ID_OR_NAME),
        "delete": (_ID_OR_NAME,),
    }
    for verb, own in parameters.items():
        group.command(verb, help=helps[verb])(_command(verb, (config_option, data_dir_option, *own), load))


def _command(verb: str, parameters: Sequence[Parameter], load: Load) -> Callable[..., None]:
    def command(config_file: Path | None, data_dir: Path | None, **typed: Any) -> None:
        work = getattr(load(), verb)
        asyncio.run(work(config_of(config_file, data_dir), **typed))

    for add in reversed(parameters):
        command = add(command)
    return command
