"""The operations on billing drops: what was dropped, that a month goes out, and the drops of
senders that this gateway forwards.
"""

from typing import Annotated, Any, Final

from pydantic import Field

from gateway.admin.operation import Answer, Call, Json, Listed, Operation
from gateway.billing.relay_tables import RELAYED, STATES
from gateway.billing.requests import BillingRequests, RelayRequests
from gateway.common.body import Body
from gateway.lists.conventions import envelope, read_request

BILLING: Final = "/v2/billing"


class SendBilling(Body):
    """Which month to drop."""

    month: Annotated[str, Field(description="a month of UTC as YYYY-MM,", examples=["2026-01"])]
    dry_run: Annotated[bool, Field(description="true, to send nothing, or false")] = False
    partial: Annotated[bool, Field(description="true, to drop days too that began before counting did, or false")] = (
        False
    )


async def show(billing: BillingRequests, call: Call[None]) -> dict[str, Any]:
    """The lane, and the days of a month."""
    return await billing.show(dict(call.query).get("month"))


async def send(billing: BillingRequests, call: Call[SendBilling]) -> dict[str, Any]:
    """Ask for a month, or state what it would hold."""
    body = call.body
    work = billing.plan if body.dry_run else billing.send
    return await work(body.month, partly_known=body.partial)


async def relayed(relay: RelayRequests, call: Call[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    request = read_request(RELAYED.shape, call.query)
    return envelope(RELAYED.shape, request, await relay.page(request))


async def retry(relay: RelayRequests, call: Call[None]) -> dict[str, Any]:
    await relay.retry(call.path["drop_id"])
    return {"id": call.path["drop_id"], "state": "waiting"}


async def remove(relay: RelayRequests, call: Call[None]) -> None:
    await relay.remove(call.path["drop_id"])


# ---- the table

_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_COSTS: Final[Json] = {"type": "object", "additionalProperties": {"type": "string"}, "examples": [{"USD": "12.50"}]}
_TEXT: Final[Json] = {"type": "string"}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_COUNT_OR_NULL: Final[Json] = {"type": ["integer", "null"], "minimum": 0}
_WITHOUT_COST: Final[Json] = {"description": "FOCUS has no row for them."}
_MONTH: Final[Json] = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"}


def _object(**properties: Json) -> Json:
    return {"type": "object", "required": [*properties], "properties": properties}


LANE: Final = _object(
    connection=_TEXT,
    state={"type": "string", "enum": ["ok", "retrying", "held", "off"]},
    reason=_TEXT_OR_NULL | {"description": "Why it is not ok."},
    days_due=_COUNT | {"description": "Closed days whose usage is not in force at the upstream as it is counted."},
    days_refused=_COUNT,
    days_dropped=_COUNT | {"description": "In force at the upstream."},
    last_dropped_at={"type": ["string", "null"], "format": "date-time"},
)
_DAY: Final = _object(
    day={"type": "string", "format": "date"},
    state={
        "type": "string",
        "enum": ["open", "partial", "due", "dropped", "refused"],
        "description": "`partial`: it began before counting did, and is dropped only when asked for.",
    },
    row_count=_COUNT_OR_NULL | {"description": "This and the next four are of what is in force at the upstream."},
    costs={"oneOf": [_COSTS, {"type": "null"}]},
    calls_without_cost=_COUNT_OR_NULL | _WITHOUT_COST,
    dropped_at={"type": ["string", "null"], "format": "date-time"},
    revision=_TEXT_OR_NULL | {"description": "Digest of the rows."},
    refused=_TEXT_OR_NULL | {"description": "Why the upstream refused the day."},
)
_PLANNED: Final = _object(
    day={"type": "string", "format": "date"},
    row_count=_COUNT,
    costs=_COSTS,
    calls_without_cost=_COUNT | _WITHOUT_COST,
    revision=_TEXT,
    change={"type": "string", "enum": ["new", "changed", "none"], "description": "Beside what is in force."},
    refused=_TEXT_OR_NULL | {"description": "Why the upstream refuses it; null also while no gateway runs."},
)

SHOW: Final = Operation(
    method="GET", path=BILLING, id="showBilling", tag="Billing",
    summary="Days that were dropped to the billing connection, or are due",
    handler=show,
    query=({"name": "month", "in": "query", "description": "Of UTC; the current one without it.", "schema": _MONTH},),
    errors=(400, 404, 503),
    answer=Answer("The lane and the days of the month that hold usage.", _object(
        connection=_TEXT, month=_MONTH, lane={"oneOf": [{"$ref": "#/components/schemas/BillingStatus"}, {"type": "null"}]},
        days={"type": "array", "items": _DAY},
    )),
)  # fmt: skip
SEND: Final = Operation(
    method="POST", path=f"{BILLING}/send", id="sendBilling", tag="Billing",
    summary="Drop every closed day of a month, also those dropped before",
    text="The lane sends them one after the other; `GET /v2/billing` states how far it is.",
    handler=send, body=SendBilling, errors=(404, 503),
    answer=Answer("How many days are wanted; of a dry run, what they hold.", _object(
        month=_MONTH, dry_run={"type": "boolean"}, is_running={"type": "boolean"}, wanted=_COUNT,
        left_out=_COUNT | {"description": "Days that began before counting did, where `partial` is false."},
        days={"type": "array", "items": _PLANNED, "description": "Of a dry run."},
    )),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[BillingRequests, Any], ...]] = (SHOW, SEND)

RELAY: Final = f"{BILLING}/relayed"
RELAY_LANE: Final = _object(
    connection=_TEXT,
    state={"type": "string", "enum": ["ok", "retrying", "held", "off"]},
    reason=_TEXT_OR_NULL | {"description": "Why it is not ok."},
    waiting=_COUNT | {"description": "Drops that the upstream does not have yet, or of whose day it lacks parts."},
    waiting_bytes=_COUNT,
    refused=_COUNT,
)
RELAYED_DROP: Final = _object(
    id=_TEXT,
    connection=_TEXT,
    month=_MONTH,
    operation=_TEXT,
    row_count=_COUNT,
    bytes=_COUNT,
    key=_TEXT_OR_NULL | {"description": "Name of the key under which it came; null on open intake."},
    state={
        "type": "string",
        "enum": [*STATES],
        "description": "`sent`: the upstream has it, and lacks other parts of its day. `expired`: given up for room.",
    },
    refused=_TEXT_OR_NULL | {"description": "Why the upstream refused it."},
    accepted_at={"type": "string", "format": "date-time"},
    ended_at={"type": ["string", "null"], "format": "date-time"},
)

RELAYED_LIST: Final = Operation(
    method="GET", path=RELAY, id="listRelayedDrops", tag="Billing",
    summary="Billing drops of senders: those that wait, were refused, or were delivered in the last seven days",
    handler=relayed, answer=Listed(RELAYED.shape, "RelayedDrop"),
)  # fmt: skip
RETRY: Final = Operation(
    method="POST", path=f"{RELAY}/{{drop_id}}/retry", id="retryRelayedDrop", tag="Billing",
    summary="Send a refused drop again, before those that came after it",
    handler=retry, answer=Answer("It waits again.", _object(id=_TEXT, state=_TEXT)),
)  # fmt: skip
REMOVE: Final = Operation(
    method="DELETE", path=f"{RELAY}/{{drop_id}}", id="removeRelayedDrop", tag="Billing",
    summary="Give up a drop that waits or was refused",
    handler=remove, answer=Answer("It is given up.", status=204),
)  # fmt: skip
RELAY_OPERATIONS: Final[tuple[Operation[RelayRequests, Any], ...]] = (RELAYED_LIST, RETRY, REMOVE)
