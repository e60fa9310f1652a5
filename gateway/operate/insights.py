"""The operations on insights and their comments.

Beside the admin token and a session, an inbound key with the operation's own scope may call them.
"""

from typing import Any, Final, Protocol

from gateway.common.contract.reach import Reach
from gateway.common.lists.conventions import ListRequest, Page, envelope, read_request
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.usage.insights.changes import CommentBody, InsightChange, NewInsight
from gateway.usage.insights.finding import COMMENT_LIST, INSIGHT_LIST, Insight, InsightAnswer
from gateway.usage.insights.kept import Comment, CommentAnswer
from gateway.usage.insights.store import InsightStore


class Insights(Protocol):
    """What the operations work on."""

    @property
    def store(self) -> InsightStore: ...

    async def asked(self) -> None:
        """Bring the insights up to date for a reader."""

    async def page(self, request: ListRequest) -> Page:
        """A page of insights, brought up to date before."""


class LimitedInsights:
    """*insights* for a caller who sees *reach*."""

    def __init__(self, insights: Insights, reach: Reach) -> None:
        self._insights = insights
        self.store = insights.store.limited(reach)

    async def asked(self) -> None:
        await self._insights.asked()

    async def page(self, request: ListRequest) -> Page:
        await self.asked()
        return await self.store.page(request)


async def listed(insights: Insights, call: OperationCall[None]) -> dict[str, Any]:
    """As service-interface part 4.1 has it. Raises BadListRequest."""
    request = read_request(INSIGHT_LIST, call.query)
    return envelope(INSIGHT_LIST, request, await insights.page(request))


async def create(insights: Insights, call: OperationCall[NewInsight]) -> InsightAnswer:
    return {"insight": await insights.store.create(given(call))}


async def show(insights: Insights, call: OperationCall[None]) -> InsightAnswer:
    return {"insight": await insights.store.read(call.path["insight_id"])}


async def change(insights: Insights, call: OperationCall[InsightChange]) -> InsightAnswer:
    return {"insight": await insights.store.change(call.path["insight_id"], given(call), by=call.by)}


async def delete(insights: Insights, call: OperationCall[None]) -> None:
    await insights.store.delete(call.path["insight_id"])


async def comments(insights: Insights, call: OperationCall[None]) -> dict[str, Any]:
    insight_id = call.path["insight_id"]
    shape = COMMENT_LIST.of(insight_id)
    request = read_request(shape, call.query)
    return envelope(shape, request, await insights.store.comments(insight_id, request))


async def add_comment(insights: Insights, call: OperationCall[CommentBody]) -> CommentAnswer:
    return {"comment": await insights.store.add_comment(call.path["insight_id"], given(call), by=call.by)}


async def change_comment(insights: Insights, call: OperationCall[CommentBody]) -> CommentAnswer:
    path = call.path
    changed = await insights.store.change_comment(path["insight_id"], path["comment_id"], given(call), by=call.by)
    return {"comment": changed}


def given(call: OperationCall[Any]) -> dict[str, Any]:
    """The fields of the body that the request holds."""
    fields: dict[str, Any] = call.body.model_dump(exclude_unset=True)
    return fields


# ---- the table

INSIGHTS: Final = "/v2/insights"

_TAG: Final = "Insights"
_ONE: Final = INSIGHTS + "/{insight_id}"
_COMMENTS_PATH: Final = _ONE + "/comments"

LIST: Final = Operation(
    method="GET", path=INSIGHTS, id="listInsights", summary="Insights", tag=_TAG,
    limited=LimitedInsights, scope="insights:read_insights", handler=listed, answer=Listed(INSIGHT_LIST, Insight),
)  # fmt: skip
CREATE: Final = Operation(
    method="POST", path=INSIGHTS, id="createInsight", summary="Make one by hand", tag=_TAG,
    limited=LimitedInsights, scope="insights:create_insight", handler=create, body=NewInsight, errors=(409, 503),
    answer=OperationAnswer("The insight is made.", InsightAnswer, 201),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_ONE, id="readInsight", summary="One insight", tag=_TAG,
    limited=LimitedInsights, scope="insights:read_insight", handler=show, answer=OperationAnswer("The insight.", InsightAnswer),
)  # fmt: skip
CHANGE: Final = Operation(
    method="PATCH", path=_ONE, id="changeInsight", tag=_TAG,
    summary="Change its status, or more of one that was made by hand",
    limited=LimitedInsights, scope="insights:update_insight", handler=change, body=InsightChange, errors=(409, 503),
    answer=OperationAnswer("The insight as it is now.", InsightAnswer),
)  # fmt: skip
DELETE: Final = Operation(
    method="DELETE", path=_ONE, id="deleteInsight", tag=_TAG,
    summary="Delete it with its comments; what is found again is a new one",
    limited=LimitedInsights, scope="insights:delete_insight", handler=delete, answer=OperationAnswer("The insight is gone.", status=204),
)  # fmt: skip
COMMENTS: Final = Operation(
    method="GET", path=_COMMENTS_PATH, id="listComments", summary="Its comments", tag=_TAG,
    limited=LimitedInsights, scope="insights:read_insight_comments", handler=comments, answer=Listed(COMMENT_LIST.of(""), Comment),
)  # fmt: skip
ADD_COMMENT: Final = Operation(
    method="POST", path=_COMMENTS_PATH, id="addComment", summary="Write a comment", tag=_TAG,
    limited=LimitedInsights, scope="insights:create_insight_comment", handler=add_comment, body=CommentBody, errors=(409, 503),
    answer=OperationAnswer("The comment is written.", CommentAnswer, 201),
)  # fmt: skip
CHANGE_COMMENT: Final = Operation(
    method="PATCH", path=_COMMENTS_PATH + "/{comment_id}", id="changeComment", tag=_TAG,
    summary="Change its text; its author stays",
    limited=LimitedInsights, scope="insights:update_insight_comment", handler=change_comment, body=CommentBody,
    answer=OperationAnswer("The comment as it is now.", CommentAnswer),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[Insights, Any], ...]] = (
    LIST, CREATE, SHOW, CHANGE, DELETE, COMMENTS, ADD_COMMENT, CHANGE_COMMENT,
)  # fmt: skip
