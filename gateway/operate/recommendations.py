"""The operations on recommendations.

Beside the admin token and a session, an inbound key with the operation's own scope may call them.
"""

from typing import Any, Final, TypedDict

from pydantic import Field

from gateway.common.body import Body
from gateway.common.lists.conventions import envelope, read_request
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.usage.recommendations.book import Recommendations
from gateway.usage.recommendations.listing import RECOMMENDATION_LIST, RecommendationJson, recommendation_item
from gateway.usage.recommendations.recommendation import STATES, State


class RecommendationChange(Body):
    """What is decided about it."""

    state: State = Field(description=f"one of {', '.join(STATES)}")
    """When it is accepted, what it saves from then on is measured."""


class RecommendationAnswer(TypedDict):
    recommendation: RecommendationJson


async def listed(recommendations: Recommendations, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    request = read_request(RECOMMENDATION_LIST, call.query)
    return envelope(RECOMMENDATION_LIST, request, await recommendations.page(request))


async def show(recommendations: Recommendations, call: OperationCall[None]) -> RecommendationAnswer:
    return {"recommendation": recommendation_item(await recommendations.read(call.path["recommendation_id"]))}


async def change(recommendations: Recommendations, call: OperationCall[RecommendationChange]) -> RecommendationAnswer:
    changed = await recommendations.change(call.path["recommendation_id"], call.body.state, by=call.by)
    return {"recommendation": recommendation_item(changed)}


# ---- the table

RECOMMENDATIONS: Final = "/v2/recommendations"

_TAG: Final = "Recommendations"
_ONE: Final = RECOMMENDATIONS + "/{recommendation_id}"

LIST: Final = Operation(
    method="GET", path=RECOMMENDATIONS, id="listRecommendations", summary="What could be saved, with the amount", tag=_TAG,
    scope="optimize:list_recommendations", handler=listed, answer=Listed(RECOMMENDATION_LIST, RecommendationJson),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_ONE, id="readRecommendation", summary="One recommendation", tag=_TAG,
    scope="optimize:get_recommendation", handler=show,
    answer=OperationAnswer("The recommendation.", RecommendationAnswer),
)  # fmt: skip
CHANGE: Final = Operation(
    method="PATCH", path=_ONE, id="changeRecommendation", summary="Accept it, dismiss it, or open it again", tag=_TAG,
    scope="optimize:update_recommendations", handler=change, body=RecommendationChange,
    answer=OperationAnswer("The recommendation as it is now.", RecommendationAnswer),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[Recommendations, Any], ...]] = (LIST, SHOW, CHANGE)
