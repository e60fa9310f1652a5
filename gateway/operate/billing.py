"""The operations on billing drops: what was dropped, that a month goes out, and the drops of
senders that this gateway forwards.
"""

from typing import Annotated, Any, Final, Literal, TypedDict

from pydantic import Field

from gateway.common.body import Body
from gateway.common.lists.conventions import envelope, read_request
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.usage.billing.relay_home import RELAYED_LIST, RelayedDrop
from gateway.usage.billing.requests import BillingAnswer, BillingRequests, RelayRequests, SentBilling

BILLING: Final = "/v2/billing"


class SendBilling(Body):
    """Which month to drop."""

    month: Annotated[str, Field(description="a month of UTC as YYYY-MM,", examples=["2026-01"])]
    dry_run: Annotated[bool, Field(description="true, to send nothing, or false")] = False
    partial: Annotated[bool, Field(description="true, to drop days too that began before counting did, or false")] = (
        False
    )


class WaitingDrop(TypedDict):
    id: str
    state: Literal["waiting"]


async def show(billing: BillingRequests, call: OperationCall[None]) -> BillingAnswer:
    """The lane, and the days of a month."""
    return await billing.show(dict(call.query).get("month"))


async def send(billing: BillingRequests, call: OperationCall[SendBilling]) -> SentBilling:
    """Ask for a month, or state what it would hold."""
    body = call.body
    work = billing.plan if body.dry_run else billing.send
    return await work(body.month, partly_known=body.partial)


async def relayed(relay: RelayRequests, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    request = read_request(RELAYED_LIST, call.query)
    return envelope(RELAYED_LIST, request, await relay.page(request))


async def retry(relay: RelayRequests, call: OperationCall[None]) -> WaitingDrop:
    await relay.retry(call.path["drop_id"])
    return {"id": call.path["drop_id"], "state": "waiting"}


async def remove(relay: RelayRequests, call: OperationCall[None]) -> None:
    await relay.remove(call.path["drop_id"])


# ---- the table

_MONTH: Final = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"}

SHOW: Final = Operation(
    method="GET", path=BILLING, id="showBilling", tag="Billing",
    summary="Days that were dropped to the billing connection, or are due",
    handler=show,
    query=({"name": "month", "in": "query", "description": "Of UTC; the current one without it.", "schema": _MONTH},),
    errors=(400, 404, 503),
    answer=OperationAnswer("The lane and the days of the month that hold usage.", BillingAnswer),
)  # fmt: skip
SEND: Final = Operation(
    method="POST", path=f"{BILLING}/send", id="sendBilling", tag="Billing",
    summary="Drop every closed day of a month, also those dropped before",
    text="The lane sends them one after the other; `GET /v2/billing` states how far it is.",
    handler=send, body=SendBilling, errors=(404, 503),
    answer=OperationAnswer("How many days are wanted; of a dry run, what they hold.", SentBilling),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[BillingRequests, Any], ...]] = (SHOW, SEND)

RELAY: Final = f"{BILLING}/relayed"

LIST_RELAYED: Final = Operation(
    method="GET", path=RELAY, id="listRelayedDrops", tag="Billing",
    summary="Billing drops of senders: those that wait, were refused, or were delivered in the last seven days",
    handler=relayed, answer=Listed(RELAYED_LIST, RelayedDrop),
)  # fmt: skip
RETRY: Final = Operation(
    method="POST", path=f"{RELAY}/{{drop_id}}/retry", id="retryRelayedDrop", tag="Billing",
    summary="Send a refused drop again, before those that came after it",
    handler=retry, answer=OperationAnswer("It waits again.", WaitingDrop),
)  # fmt: skip
REMOVE: Final = Operation(
    method="DELETE", path=f"{RELAY}/{{drop_id}}", id="removeRelayedDrop", tag="Billing",
    summary="Give up a drop that waits or was refused",
    handler=remove, answer=OperationAnswer("It is given up.", status=204),
)  # fmt: skip
RELAY_OPERATIONS: Final[tuple[Operation[RelayRequests, Any], ...]] = (LIST_RELAYED, RETRY, REMOVE)
