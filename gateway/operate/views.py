"""The operations on views, which keep questions about usage.

Beside the admin token and a session, an inbound key with the operation's own scope may call them.
"""

from typing import Any, Final, TypedDict
from urllib.parse import urlencode

from gateway.common.lists.conventions import envelope, read_request
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.operate.usage import USAGE
from gateway.usage.views.body import NewView, ViewChange
from gateway.usage.views.limited import LimitedViews
from gateway.usage.views.store import VIEW_LIST, Views
from gateway.usage.views.view import View, ViewDetail, ViewJson, question_of, view_item


class ViewAnswer(TypedDict):
    view: ViewDetail


async def listed(views: Views, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    request = read_request(VIEW_LIST, call.query)
    return envelope(VIEW_LIST, request, await views.page(request))


async def create(views: Views, call: OperationCall[NewView]) -> ViewAnswer:
    return one(views, await views.create(call.body, by=call.by))


async def show(views: Views, call: OperationCall[None]) -> ViewAnswer:
    return one(views, await views.read(call.path["view_id"]))


async def change(views: Views, call: OperationCall[ViewChange]) -> ViewAnswer:
    return one(views, await views.change(call.path["view_id"], call.body, by=call.by))


async def delete(views: Views, call: OperationCall[None]) -> None:
    await views.delete(call.path["view_id"])


def one(views: Views, view: View) -> ViewAnswer:
    """The view, and the question that it asks now."""
    question = question_of(view, views.now_ms())
    return {"view": {**view_item(view), "usage": f"{USAGE}?{urlencode(question)}"}}


# ---- the table

VIEWS: Final = "/v2/views"

_TAG: Final = "Views"
_ONE: Final = VIEWS + "/{view_id}"

LIST: Final = Operation(
    method="GET", path=VIEWS, id="listViews", summary="Views", tag=_TAG,
    limited=LimitedViews, scope="views:read_views", handler=listed, answer=Listed(VIEW_LIST, ViewJson),
)  # fmt: skip
CREATE: Final = Operation(
    method="POST", path=VIEWS, id="createView", summary="Make a view", tag=_TAG,
    limited=LimitedViews, scope="views:create_view", handler=create, body=NewView, errors=(409, 503),
    answer=OperationAnswer("The view is made.", ViewAnswer, 201),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_ONE, id="readView", summary="One view, with the question about usage that it asks now", tag=_TAG,
    limited=LimitedViews, scope="views:read_view", handler=show, answer=OperationAnswer("The view.", ViewAnswer),
)  # fmt: skip
CHANGE: Final = Operation(
    method="PATCH", path=_ONE, id="changeView", summary="Change some of its fields", tag=_TAG,
    limited=LimitedViews, scope="views:update_view", handler=change, body=ViewChange, errors=(409, 503),
    answer=OperationAnswer("The view as it is now.", ViewAnswer),
)  # fmt: skip
DELETE: Final = Operation(
    method="DELETE", path=_ONE, id="deleteView", summary="Delete it", tag=_TAG,
    limited=LimitedViews, scope="views:delete_view", handler=delete, answer=OperationAnswer("The view is gone.", status=204),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[Views, Any], ...]] = (LIST, CREATE, SHOW, CHANGE, DELETE)
