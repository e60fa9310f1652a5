"""The views of one gateway, as their users see them; `gateway.stores` has the homes."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from gateway.common.contract.errors import BadPayload
from gateway.common.lists.conventions import BadListRequest, Filterable, ListRequest, ListShape, Page, Sort
from gateway.usage.sums.ranges import BEYOND_HOURS, zone_of
from gateway.usage.sums.saved_filter import kept_filter
from gateway.usage.views.body import NewView, ViewChange
from gateway.usage.views.view import SLASH, View, two_times

MAX_VIEWS: Final = 1_000
TOO_MANY: Final = f"views: {MAX_VIEWS} are kept already; delete some first"
NO_SUCH_VIEW: Final = "no view has this id"
NAME_TAKEN: Final = "name: another view has it"
VIEW_LIST: Final = ListShape(
    root="views",
    sort_keys=("created_at", "name", "updated_at"),
    default_sort=Sort("name", "asc"),
    filters=(Filterable("name", (), is_open=True),),
)


class Views(Protocol):
    """Every method may raise DatabaseUnavailable; an unknown id raises NotFound."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """The wall clock of its times."""

    async def every(self) -> list[View]:
        """In the order in which they were made."""

    async def page(self, request: ListRequest) -> Page:
        """The page of *request*, which is of `VIEW_LIST`; its items are what `view_item` makes."""

    async def read(self, view_id: str) -> View:
        """The view with that id."""

    async def create(self, body: NewView, *, by: str) -> View:
        """Raises BadPayload, NameInUse, TooManyKept."""

    async def change(self, view_id: str, body: ViewChange, *, by: str) -> View:
        """Raises BadPayload, NameInUse."""

    async def delete(self, view_id: str) -> None:
        """Raises NotFound."""

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        """Take *users* out of the filters; a view of theirs alone is deleted. How many views named
        one of them.
        """


def typed(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body as a `View` has them."""
    found = dict(fields)
    if "filter" in found:
        found["filter"] = kept_filter(found["filter"])
    if "group_by" in found:
        found["group_by"] = tuple(dict.fromkeys(found["group_by"]))
    return found


def checked(view: View) -> View:
    """Raises BadPayload for hours of a range whose hours are not kept, for times or a zone that do
    not exist, and for a search among no names.
    """
    try:
        zone = zone_of(view.time_zone)
        if SLASH in view.range:
            two_times(view.range, zone)
    except BadListRequest as error:
        raise BadPayload(str(error)) from None
    if view.search is not None and view.interval is not None:
        raise BadPayload("search: it is among the names of groups: interval has to be null")
    if view.interval == "hour" and view.range in BEYOND_HOURS:
        raise BadPayload(f"interval: hours of {view.range} are not kept: day is needed, or a shorter range")
    return view
