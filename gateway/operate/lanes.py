"""The operation on a held lane: let it go on without what its upstream does not take."""

from typing import Any, Final, Protocol, TypedDict

from gateway.common.contract.errors import LaneNotHeld
from gateway.common.contract.json_types import Count
from gateway.operate.operation import Operation, OperationAnswer, OperationCall
from spool.record import Lane


class LaneGoesOn(TypedDict):
    lane: Lane
    waiting: Count
    """Records that wait in it."""


class Lanes(Protocol):
    """The lanes of the running gateway."""

    def set_aside(self, lane: Lane) -> int | None:
        """How many records wait; None where the lane is not held for refusals or for answers that
        are not understood. Raises NotFound.
        """


async def set_aside(lanes: Lanes, call: OperationCall[None]) -> LaneGoesOn:
    lane = call.path["lane"]
    waiting = lanes.set_aside(lane)
    if waiting is None:
        raise LaneNotHeld(f"lane {lane} is not held by refusals, nor by answers that are not understood")
    return {"lane": lane, "waiting": waiting}


SET_ASIDE: Final = Operation(
    method="POST", path="/v2/lanes/{lane}/set-aside", id="setAsideInLane", tag="Dead letters",
    summary="Let a held lane go on: of the records that wait, those that its upstream refuses become dead letters",
    text="Records whose answers are not understood become dead letters as far as they hold the lane now.",
    handler=set_aside, answer=OperationAnswer("The lane goes on.", LaneGoesOn), errors=(409, 503),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[Lanes, Any], ...]] = (SET_ASIDE,)
