"""`telemetry-gateway views`: saved questions about usage."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.groups import Group
from gateway.cli.named_resource import Item, NamedResource
from gateway.cli.where import filter_of
from gateway.common.printable import harmless

if TYPE_CHECKING:
    from gateway.config.model import Config
    from gateway.usage.views.view import View


def body_of(
    *,
    where: tuple[str, ...],
    group_by: str | None,
    interval: str | None,
    sort: str | None,
    compare: str | None,
    search: str | None,
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
    if compare is not None:
        fields["compare"] = None if compare == "none" else compare
    if search is not None:
        fields["search"] = search or None
    return fields


def cells_of(view: Item) -> tuple[str, ...]:
    return view["name"], view["range"], groups_text(view), filter_text(view)


def lines_of(view: Item) -> Iterator[str]:
    yield f"{harmless(view['name'])} ({view['id']})"
    yield f"  {range_text(view)}, {groups_text(view)}, by {view['sort_key']}; filter {harmless(filter_text(view))}"


def range_text(view: Item) -> str:
    zone = "" if view["time_zone"] == "UTC" else f" ({view['time_zone']})"
    return f"{view['range']}{zone}{', compared with the period before' if view['compare'] else ''}"


def groups_text(view: Item) -> str:
    return f"by {view['interval']}" if view["interval"] else ",".join(view["group_by"])


def filter_text(view: Item) -> str:
    return " ".join(f"{name}={value or ''}" for name, values in view["filter"].items() for value in values) or "-"


async def view_named(config: "Config", name: str) -> "View":
    """Raises ClickException where there is none."""
    from gateway.usage.views.view import view_of  # noqa: PLC0415 - `--help` needs no views

    return view_of(await VIEW.named(config, name))


def over(question: Iterable[tuple[str, str]], typed: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """*question* with what was *typed* in the place of its own; groups and interval exclude each
    other.
    """
    named = {name for name, _ in typed}
    gone = {"group_by", "interval", "sort_key", "sort_order"} if named & {"group_by", "interval"} else set()
    gone |= {"search"} if "interval" in named else set()
    gone |= {"from", "to"} if "range" in named else set()
    gone |= {"range"} if named & {"from", "to"} else set()
    return [*(pair for pair in question if pair[0] not in named | gone), *typed]


_FIELDS: Final = (
    click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only these calls, such as team=core, or team= for unknown; may be repeated."),
    click.option("--group-by", help="Up to three dimensions, separated by commas; provider,model without it."),
    click.option("--interval", type=click.Choice(["hour", "day", "none"]), help="Hours or UTC days in place of groups."),
    click.option("--sort", help="cost, calls, input_tokens, output_tokens or name; cost without it."),
    click.option("--range", help="Such as today, last_7_days, this_month, last_quarter, or two times such as 2026-11-02/2026-11-09; last_30_days without it."),
    click.option("--time-zone", help="In which days begin, such as Europe/Berlin; UTC without it."),
    click.option("--compare", type=click.Choice(["previous", "none"]), help="Whether rows are compared with the period before."),
    click.option("--search", help="Only groups whose first name holds this text; an empty one for any."),
)  # fmt: skip
_HELPS: Final = {
    "list": "List views by name.",
    "create": """Save a question about usage.

    \b
    Examples:
      telemetry-gateway views create "Core by model" --where team=core --range this_month
    """,
    "show": "Show a view; `usage --view NAME` shows its figures.",
    "change": "Change the given fields; the filter is replaced as a whole.",
    "delete": "Delete a view.",
}


VIEW: Final = NamedResource(
    noun="view",
    fields=_FIELDS,
    helps=_HELPS,
    body_of=body_of,
    example="--range last_month",
    columns=dict.fromkeys(("view", "range", "groups", "filter"), "left"),
    cells_of=cells_of,
    lines_of=lines_of,
)


@click.group(cls=Group)
def views() -> None:
    """Saved questions about usage.

    For `usage --view`, `export --view` and the page.
    """


VIEW.add_to(views)
