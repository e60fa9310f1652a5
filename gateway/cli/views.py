"""`views`: options as fields, views as text, and a view by its name for other commands."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from gateway.admin import views
from gateway.cli.named_resource import Item, NamedResource
from gateway.cli.requests import VIEWS
from gateway.cli.where import filter_of
from gateway.common.printable import harmless
from gateway.config.model import Config
from gateway.usage.saved_filter import kept_filter
from gateway.views.view import View


def body_of(
    *,
    where: tuple[str, ...],
    group_by: str | None,
    interval: str | None,
    sort: str | None,
    **plain_fields: str | None,
) -> dict[str, Any]:
    """The fields that were named. Raises UsageError."""
    fields: dict[str, Any] = {name: value for name, value in plain_fields.items() if value is not None}
    if sort is not None:
        fields |= {"sort_key": sort, "sort_order": "asc" if sort == "name" else "desc"}
    if where:
        fields["filter"] = filter_of(where)
    if group_by is not None:
        fields["group_by"] = group_by.split(",")
    if interval is not None:
        fields["interval"] = None if interval == "none" else interval
    return fields


def cells_of(view: Item) -> tuple[str, ...]:
    return view["name"], view["range"], groups_text(view), filter_text(view)


def lines_of(view: Item) -> Iterator[str]:
    yield f"{harmless(view['name'])} ({view['id']})"
    yield f"  {view['range']}, {groups_text(view)}, by {view['sort_key']}; filter {harmless(filter_text(view))}"


def groups_text(view: Item) -> str:
    return f"by {view['interval']}" if view["interval"] else ",".join(view["group_by"])


def filter_text(view: Item) -> str:
    return " ".join(f"{name}={value or ''}" for name, values in view["filter"].items() for value in values) or "-"


async def view_named(config: Config, name: str) -> View:
    """Raises ClickException where there is none."""
    item = await VIEW.named(config, name)
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


VIEW: Final = NamedResource(
    noun="view",
    subject=VIEWS,
    listing=views.LIST,
    creation=views.CREATE,
    reading=views.SHOW,
    changing=views.CHANGE,
    deletion=views.DELETE,
    body_of=body_of,
    example="--range last_month",
    columns=dict.fromkeys(("view", "range", "groups", "filter"), "left"),
    cells_of=cells_of,
    lines_of=lines_of,
)
