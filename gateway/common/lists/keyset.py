"""Keyset pagination of rows that can be walked from any position in either direction: memory,
table, spool. Pure.

A page begins beside a position, not at an offset. So concurrent inserts and deletes move no other
row across pages, and a position stays valid when its row is deleted.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from gateway.common.lists.conventions import CursorPosition, ListRequest, Order, Page, Position

Row = TypeVar("Row")

OPPOSITE: Final[dict[Order, Order]] = {"asc": "desc", "desc": "asc"}


class Rows(Protocol[Row]):
    """A request's rows, already filtered, as of one moment."""

    def count(self) -> int: ...

    def walk(self, order: Order, beyond: CursorPosition | None, most: int) -> Sequence[Row]:
        """Up to *most* rows in *order* of value and id: the first ones, or those that come after a
        place.
        """
        ...

    def is_any(self, order: Order, beyond: CursorPosition) -> bool:
        """Whether `walk` would find one."""
        ...

    def place(self, row: Row) -> CursorPosition: ...

    def item(self, row: Row) -> object:
        """As the client sees it."""
        ...


def keyset_page(request: ListRequest, rows: Rows[Row]) -> Page:
    position = request.position
    if position is None:
        return _page(request, rows, request.sort.order, None)
    if not position.backwards:
        return _page(request, rows, request.sort.order, position.place)
    page = _page(request, rows, OPPOSITE[request.sort.order], position.place)
    return Page(page.items[::-1], page.total_count, _turned(page.next), _turned(page.previous))


def _page(request: ListRequest, rows: Rows[Row], order: Order, beyond: CursorPosition | None) -> Page:
    """The page in the direction of *order*: `next` is ahead, `previous` is behind."""
    found = rows.walk(order, beyond, request.limit + 1)
    shown = found[: request.limit]
    ahead = rows.place(shown[-1]) if len(found) > len(shown) else None
    behind = None if beyond is None else _edge(beyond, order) if not shown else rows.place(shown[0])
    # The rows behind may have been deleted since the cursor was written.
    if behind is not None and not rows.is_any(OPPOSITE[order], behind):
        behind = None
    return Page(
        items=[rows.item(row) for row in shown],
        total_count=rows.count(),
        previous=None if behind is None else Position(behind, backwards=True),
        next=None if ahead is None else Position(ahead, backwards=False),
    )


def _edge(place: CursorPosition, order: Order) -> CursorPosition:
    """Just after *place*, so that a walk back begins with the row at it, if it is there."""
    return CursorPosition(place.value, place.row_id + (1 if order == "asc" else -1))


def _turned(position: Position | None) -> Position | None:
    return None if position is None else Position(position.place, backwards=not position.backwards)
