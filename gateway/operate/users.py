"""The operation that forgets a user."""

from typing import Annotated, Any, Final, TypedDict

from pydantic import Field

from gateway.common.body import Body
from gateway.common.contract.json_types import Count
from gateway.operate.operation import Operation, OperationAnswer, OperationCall
from gateway.usage.sums.forgetting import UserForgetter

BEYOND: Final = (
    "the upstream and every exporter's target: they keep what was delivered; ask them to delete or anonymise the user",
    "backups of this gateway, and files that an exporter wrote",
    "what senders and operators put into usage events, unit-cost records, billing drops, device labels, comments, and names of keys, budgets and views",
)
"""What a user's name may be in that the gateway does not remove it from."""


class ForgetUser(Body):
    """Whom to forget."""

    user: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            description="the name as the sender states it, not hashed, of 1 to 1024 characters,",
        ),
    ]
    dry_run: Annotated[bool, Field(description="true, to count only, or false")] = False


class ForgottenUser(TypedDict):
    dry_run: bool
    usage_rows: Count
    records: Count
    dead_letters: Count
    delivered_records: Count
    """In the embedded local service."""
    filters: Count
    """Budgets and views whose filter names the user."""
    waiting: Count
    beyond_reach: list[str]


async def forget(users: UserForgetter, call: OperationCall[ForgetUser]) -> ForgottenUser:
    """What named the user, and what is beyond reach."""
    removed = await users.forget(call.body.user, dry_run=call.body.dry_run)
    return {
        "dry_run": call.body.dry_run,
        "usage_rows": removed.usage_rows,
        "records": removed.spool.records,
        "dead_letters": removed.spool.dead_letters,
        "delivered_records": removed.delivered,
        "filters": removed.filters,
        "waiting": removed.spool.waiting,
        "beyond_reach": list(BEYOND),
    }


FORGET: Final = Operation(
    method="POST", path="/v2/users/forget", id="forgetUser", tag="Usage",
    summary="Remove a user from sums and records; totals stay as they are",
    text="`waiting` records settle or are in a batch that is being sent, whose bytes never change: ask again later.",
    handler=forget, body=ForgetUser,
    answer=OperationAnswer("What named the user.", ForgottenUser),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[UserForgetter, Any], ...]] = (FORGET,)
