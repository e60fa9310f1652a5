"""The views that a limited caller sees: those whose filter keeps calls inside its limit only."""

from collections.abc import Callable, Collection

from gateway.common.contract.errors import Forbidden, NotFound, TooManyKept
from gateway.common.contract.reach import Reach, is_within
from gateway.common.lists.conventions import ListRequest, Page, SortValue
from gateway.common.lists.memory import page_of
from gateway.usage.sums.limited_filter import MAX_KEPT, limited_body, number_of
from gateway.usage.views.body import NewView, ViewChange
from gateway.usage.views.store import NO_SUCH_VIEW, Views
from gateway.usage.views.view import View, view_item


class LimitedViews:
    """*views* for a caller who sees *reach*; one beyond it is not found."""

    def __init__(self, views: Views, reach: Reach) -> None:
        self._views = views
        self._reach = reach

    @property
    def now_ms(self) -> Callable[[], int]:
        return self._views.now_ms

    async def every(self) -> list[View]:
        return [view for view in await self._views.every() if is_within(view.filter, self._reach)]

    async def page(self, request: ListRequest) -> Page:
        return page_of(
            request,
            await self.every(),
            field_of=_field,
            id_of=lambda view: number_of(view.view_id),
            item_of=view_item,
        )

    async def read(self, view_id: str) -> View:
        return self._seen(await self._views.read(view_id))

    async def create(self, body: NewView, *, by: str) -> View:
        """Raises Forbidden, BadPayload, NameInUse, TooManyKept."""
        if len(await self.every()) >= MAX_KEPT:
            raise TooManyKept(f"views: inside one limit {MAX_KEPT} are possible; delete some first")
        return await self._views.create(limited_body(body, self._reach, is_new=True), by=by)

    async def change(self, view_id: str, body: ViewChange, *, by: str) -> View:
        """Raises Forbidden, BadPayload, NameInUse."""
        await self.read(view_id)
        return self._seen(await self._views.change(view_id, limited_body(body, self._reach, is_new=False), by=by))

    async def delete(self, view_id: str) -> None:
        await self.read(view_id)
        await self._views.delete(view_id)

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        """Raises Forbidden: a user may be in the views of every team."""
        raise Forbidden("users are forgotten by operators alone", reason="not_divisible")

    def _seen(self, view: View) -> View:
        """Raises NotFound."""
        if not is_within(view.filter, self._reach):
            raise NotFound(NO_SUCH_VIEW)
        return view


def _field(view: View, name: str) -> SortValue:
    found: dict[str, SortValue] = {
        "created_at": view.created_at_ms, "updated_at": view.updated_at_ms, "name": view.name,
    }  # fmt: skip
    return found[name]
