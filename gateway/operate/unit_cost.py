"""The operations on unit-cost streams: which there are, and their shapes. Records are posted on the
senders' port.
"""

from typing import Any, Final, Protocol, TypedDict

from gateway.common.contract.scopes import READ_UNIT_COST_SCOPE
from gateway.common.lists.conventions import envelope, read_request
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.usage.events.streams import STREAMS, UnitCostStreamJson, stream_named, stream_page
from spool.unit_cost import StreamState


class StreamSource(Protocol):
    async def streams(self) -> list[StreamState]:
        """The streams in use, by name. Raises SpoolError."""


class StreamAnswer(TypedDict):
    stream: UnitCostStreamJson


async def listed(source: StreamSource, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest, SpoolError."""
    request = read_request(STREAMS, call.query)
    return envelope(STREAMS, request, stream_page(await source.streams(), request))


async def show(source: StreamSource, call: OperationCall[None]) -> StreamAnswer:
    """Raises StreamUnknown, SpoolError."""
    return {"stream": stream_named(await source.streams(), call.path["stream"])}


# ---- the table

_TAG: Final = "Unit cost"
_PATH: Final = "/v2/unit-cost"

LIST: Final = Operation(
    method="GET", path=_PATH, id="listUnitCostStreams", summary="Unit-cost streams that are in use here", tag=_TAG,
    scope=READ_UNIT_COST_SCOPE, handler=listed, answer=Listed(STREAMS, UnitCostStreamJson),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_PATH + "/{stream}", id="readUnitCostStream", summary="One unit-cost stream", tag=_TAG,
    scope=READ_UNIT_COST_SCOPE, handler=show, answer=OperationAnswer("The stream.", StreamAnswer),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[StreamSource, Any], ...]] = (LIST, SHOW)
