"""The commands on what a gateway keeps under names (budgets, views): list, create, show, change,
delete.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
from rich.table import Table

from gateway.cli.asking import ask
from gateway.cli.options import config_of, config_option, data_dir_option, json_option
from gateway.cli.printing import plain, print_table

if TYPE_CHECKING:
    from gateway.config.model import Config

LIST_LIMIT: Final = 50
_ID: Final = re.compile(r"[0-9a-f]{32}")

Item = Mapping[str, Any]
"""One of the resource, as the API answers it."""
Parameter = Callable[[Any], Any]
"""A decorator that adds an option or an argument."""

_LIMIT = click.option("--limit", type=click.IntRange(min=1, max=500), help="Show at most this many; default 50.")
_NAME = click.option("--name", help="A new name.")
_ID_OR_NAME = click.argument("id_or_name", metavar="ID|NAME")


@dataclass(frozen=True, kw_only=True)
class NamedResource:
    """One kind of them. Each verb prints the answer; raises ClickException where the gateway
    refuses it, and for an unknown name.
    """

    noun: str
    """`budget`; `budgets`, `budget_id` and the ids of operations in the API are made of it."""
    fields: Sequence[Parameter]
    """The options of a new one, beside its name."""
    helps: Mapping[str, str]
    """Verb -> help of its command."""
    body_of: Callable[..., dict[str, Any]]
    """The options, as they were typed -> the fields that they name. Raises UsageError."""
    needed: tuple[str, ...] = ()
    """Fields without which none is created, beside the name."""
    example: str
    """An option that changes one."""
    columns: Mapping[str, Literal["left", "right"]]
    """Of the list."""
    cells_of: Callable[[Item], Iterable[str]]
    lines_of: Callable[[Item], Iterable[str]]
    """What `show` prints of one."""
    deleted: str = "deleted"

    def add_to(self, group: click.Group) -> None:
        """Add the five commands."""
        parameters: dict[str, Sequence[Parameter]] = {
            "list": (_LIMIT, json_option),
            "create": (*self.fields, json_option, click.argument("name")),
            "show": (json_option, _ID_OR_NAME),
            "change": (_NAME, *self.fields, json_option, _ID_OR_NAME),
            "delete": (_ID_OR_NAME,),
        }
        for verb, own in parameters.items():
            work = getattr(self, verb)
            group.command(verb, help=self.helps[verb])(_command(work, (config_option, data_dir_option, *own)))

    def operation_id(self, verb: str) -> str:
        """Of the operation in the registry: `listBudgets`, `readBudget`."""
        return f"{verb}{self.noun.capitalize()}{'s' if verb == 'list' else ''}"

    async def list(self, config: "Config", *, limit: int | None, as_json: bool) -> None:
        answer = await ask(config, self.operation_id("list"), query=[("limit", str(limit or LIST_LIMIT))])
        if as_json:
            click.echo(json.dumps(answer))
            return
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name, side in self.columns.items():
            table.add_column(name, justify=side, no_wrap=side == "right", overflow="fold")
        for item in answer[f"{self.noun}s"]:
            table.add_row(*map(plain, self.cells_of(item)))
        print_table(table)
        paging = answer["pagination"]
        click.echo(f"{paging['item_count']} of {paging['total_count']} {self.noun}s")

    async def create(self, config: "Config", *, as_json: bool, **typed: Any) -> None:
        body = self.body_of(**typed)
        missing = [f"--{name}" for name in self.needed if name not in body]
        if missing:
            raise click.UsageError(f"{', '.join(missing)}: needed for a new {self.noun}")
        self._print(await ask(config, self.operation_id("create"), body=body, makes_files=True), as_json=as_json)
        await _note_unknown(config, body)

    async def show(self, config: "Config", *, id_or_name: str, as_json: bool) -> None:
        path = await self._path_of(config, id_or_name)
        self._print(await ask(config, self.operation_id("read"), path=path), as_json=as_json)

    async def change(self, config: "Config", *, id_or_name: str, as_json: bool, **typed: Any) -> None:
        body = self.body_of(**typed)
        if not body:
            raise click.UsageError(f"name what is to be changed, such as {self.example}")
        path = await self._path_of(config, id_or_name)
        self._print(await ask(config, self.operation_id("change"), path=path, body=body), as_json=as_json)
        await _note_unknown(config, body)

    async def delete(self, config: "Config", *, id_or_name: str) -> None:
        await ask(config, self.operation_id("delete"), path=await self._path_of(config, id_or_name))
        click.echo(self.deleted)

    async def named(self, config: "Config", name: str) -> Item:
        """The one of that *name*."""
        answer = await ask(config, self.operation_id("list"), query=[("name", name)])
        for item in answer[f"{self.noun}s"]:
            return dict(item)
        raise click.ClickException(f"no {self.noun} has this name; `{self.noun}s list` shows them")

    async def _path_of(self, config: "Config", id_or_name: str) -> dict[str, str]:
        item_id = id_or_name if _ID.fullmatch(id_or_name) else (await self.named(config, id_or_name))["id"]
        return {f"{self.noun}_id": item_id}

    def _print(self, answer: Mapping[str, Any], *, as_json: bool) -> None:
        click.echo(json.dumps(answer) if as_json else "\n".join(self.lines_of(answer[self.noun])))


def _command(work: Callable[..., Any], parameters: Sequence[Parameter]) -> Callable[..., None]:
    def command(config_file: Path | None, data_dir: Path | None, **typed: Any) -> None:
        asyncio.run(work(config_of(config_file, data_dir), **typed))

    for add in reversed(parameters):
        command = add(command)
    return command


async def _note_unknown(config: "Config", body: Mapping[str, Any]) -> None:
    """Name the values of the filter in *body* that no call of the last 30 days has, on stderr: they
    may be mistyped, or calls of theirs may still come.
    """
    from gateway.cli.known_names import unknown_values  # noqa: PLC0415 - it asks the gateway

    pairs = [(name, value) for name, values in body.get("filter", {}).items() for value in values if value is not None]
    for sentence in await unknown_values(config, pairs):
        click.echo(f"Note: {sentence.replace('of this time', 'of the last 30 days')}", err=True)
