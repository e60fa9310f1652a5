"""The operation on senders: who sends, what of it, and what is refused."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from gateway.fleet.senders.activity import Activity, SenderId
from gateway.fleet.senders.listing import SENDER_LIST, SenderActivity, sender_page
from gateway.operate.operation import Listed, Operation, OperationCall


class SenderSource(Protocol):
    """`Senders`."""

    known: dict[SenderId, Activity]
    now_ms: Callable[[], int]


async def listed(senders: SenderSource, call: OperationCall[None]) -> Mapping[str, Any]:
    """Raises BadListRequest."""
    return sender_page(senders.known, senders.now_ms(), call.query)


SENDERS: Final = "/v2/senders"
LIST: Final = Operation(
    method="GET", path=SENDERS, id="listSenders", summary="Who sends: when, how much, and what is wrong with it",
    text="A row for each inbound key, format, service and product. Kept over a restart; a kill loses a minute of it.",
    tag="Senders", handler=listed, answer=Listed(SENDER_LIST, SenderActivity),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[SenderSource, Any], ...]] = (LIST,)
