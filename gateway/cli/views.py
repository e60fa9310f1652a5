"""`views`: questions about usage that are kept; and a view by its name, for other commands."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click
from rich.table import Table

from gateway.admin import views
from gateway.cli.printing import harmless, plain, print_table
from gateway.cli.requests import VIEWS, ask
from gateway.cli.where import filter_of
from gateway.config.model import Config
from gateway.usage.saved_filter import kept_filter
from gateway.views.view import View

LIST_LIMIT: Final = 50
_ID: Final = re.compile(r"[0-9a-f]{32}")


class Typed(NamedTuple):
    """The options, as they were typed."""

    name: str | None = None
    where: tuple[str, ...] = ()
    group_by: str | None = None
    interval: str | None = None
    sort: str | None = None
    range: str | None = None

    def body(self) -> dict[str, Any]:
        """The fields that were named. Raises UsageError."""
        named = {"name": self.name, "range": self.range, "sort_key": self.sort}
        fields: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        if self.sort is not None:
            fields["sort_order"] = "asc" if self.sort == "name" else "desc"
        if self.where:
            fields["filter"] = filter_of(self.where)
        if self.group_by is not None:
            fields["group_by"] = self.group_by.split(",")
        if self.interval is not None:
            fields["interval"] = None if self.interval == "none" else self.interval
        return fields


async def print_list(config: Config, *, limit: int | None, as_json: bool) -> int:
    answer = await ask(config, VIEWS, views.LIST, query=[("limit", str(limit or LIST_LIMIT))])
    if as_json:
        click.echo(json.dumps(answer))
        return 0
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("view", "range", "groups", "filter"):
        table.add_column(name, overflow="fold")
    for each in answer["views"]:
        table.add_row(*map(plain, (each["name"], each["range"], groups_text(each), filter_text(each))))
    print_table(table)
    paging = answer["pagination"]
    click.echo(f"{paging['item_count']} of {paging['total_count']} views")
    return 0


def groups_text(view: Mapping[str, Any]) -> str:
    return f"by {view['interval']}" if view["interval"] else ",".join(view["group_by"])


def filter_text(view: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value or ''}" for name, values in view["filter"].items() for value in values) or "-"


async def create(config: Config, typed: Typed, *, as_json: bool) -> int:
    print_one(await ask(config, VIEWS, views.CREATE, body=typed.body(), makes_files=True), as_json=as_json)
    return 0


async def show(config: Config, view: str, *, as_json: bool) -> int:
    print_one(await ask(config, VIEWS, views.SHOW, path=await path_of(config, view)), as_json=as_json)
    return 0


async def change(config: Config, view: str, typed: Typed, *, as_json: bool) -> int:
    body = typed.body()
    if not body:
        raise click.UsageError("name what is to be changed, such as --range last_month")
    path = await path_of(config, view)
    print_one(await ask(config, VIEWS, views.CHANGE, path=path, body=body), as_json=as_json)
    return 0


async def delete(config: Config, view: str) -> int:
    await ask(config, VIEWS, views.DELETE, path=await path_of(config, view))
    click.echo("deleted")
    return 0


async def path_of(config: Config, view: str) -> dict[str, str]:
    """The parameter of the view's path, from its id or name."""
    if _ID.fullmatch(view):
        return {"view_id": view}
    return {"view_id": (await item_named(config, view))["id"]}


async def item_named(config: Config, name: str) -> Mapping[str, Any]:
    """Raises ClickException where there is none."""
    found: Sequence[Mapping[str, Any]] = (await ask(config, VIEWS, views.LIST, query=[("name", name)]))["views"]
    if not found:
        raise click.ClickException("no view has this name; `views list` shows them")
    return found[0]


async def view_named(config: Config, name: str) -> View:
    """Raises ClickException where there is none."""
    item = await item_named(config, name)
    kept: dict[str, Any] = {key: item[key] for key in ("name", "interval", "sort_key", "sort_order", "range")}
    return View(
        view_id=item["id"], view_no=0, filter=kept_filter(item["filter"]), group_by=tuple(item["group_by"]), **kept,
        created_at_ms=0, created_by="", updated_at_ms=0, updated_by="",
    )  # fmt: skip


def over(question: Iterable[tuple[str, str]], typed: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """*question* with what was *typed* in the place of its own; groups and interval exclude each
    other.
    """
    named = {name for name, _ in typed}
    gone = {"group_by", "interval", "sort_key", "sort_order"} if named & {"group_by", "interval"} else set()
    return [*(pair for pair in question if pair[0] not in named | gone), *typed]


def print_one(answer: Mapping[str, Any], *, as_json: bool) -> None:
    view = answer["view"]
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(f"{harmless(view['name'])} ({view['id']})")
    click.echo(f"  {view['range']}, {groups_text(view)}, by {view['sort_key']}; filter {harmless(filter_text(view))}")
