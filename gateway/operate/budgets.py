"""The operations on budgets.

Beside the admin token and a session, an inbound key with the operation's own scope may call them.
The state is served to keys on the senders' port too (`gateway.serve.http.forwarded`).
"""

from typing import Any, Final, TypedDict

from gateway.common.lists.conventions import envelope, read_request
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.usage.budgets.body import BudgetChange, NewBudget
from gateway.usage.budgets.book import Standing
from gateway.usage.budgets.limited import AskedBudgets, LimitedBudgets
from gateway.usage.budgets.listing import (
    BUDGET_LIST,
    BudgetDetail,
    BudgetJson,
    BudgetState,
    Clock,
    alert_item,
    budget_item,
    budget_page,
    state_item,
)

MAX_ALERTS: Final = 100
"""That the answer of one budget shows."""


class BudgetAnswer(TypedDict):
    budget: BudgetDetail


class BudgetStateAnswer(TypedDict):
    state: BudgetState


async def listed(budgets: AskedBudgets, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    request = read_request(BUDGET_LIST, call.query)
    return envelope(BUDGET_LIST, request, budget_page(await budgets.standings(), request, clock_of(budgets)))


async def create(budgets: AskedBudgets, call: OperationCall[NewBudget]) -> BudgetAnswer:
    return await one(budgets, await budgets.create(call.body, by=call.by))


async def show(budgets: AskedBudgets, call: OperationCall[None]) -> BudgetAnswer:
    return await one(budgets, await budgets.standing(call.path["budget_id"]))


async def change(budgets: AskedBudgets, call: OperationCall[BudgetChange]) -> BudgetAnswer:
    return await one(budgets, await budgets.change(call.path["budget_id"], call.body, by=call.by))


async def delete(budgets: AskedBudgets, call: OperationCall[None]) -> None:
    await budgets.delete(call.path["budget_id"])


async def state(budgets: AskedBudgets, call: OperationCall[None]) -> BudgetStateAnswer:
    """From memory: asked before every call of an AI gateway."""
    return {"state": state_item(await budgets.standing(call.path["budget_id"]), clock_of(budgets))}


async def one(budgets: AskedBudgets, standing: Standing) -> BudgetAnswer:
    """The budget with its latest alerts."""
    alerts = await budgets.alerts(standing.budget.budget_id)
    item = budget_item(standing, clock_of(budgets))
    return {"budget": {**item, "alerts": [alert_item(each) for each in alerts[:MAX_ALERTS]]}}


def clock_of(budgets: AskedBudgets) -> Clock:
    return Clock(budgets.now_ms(), budgets.counted_through_ms())


# ---- the table

BUDGETS: Final = "/v2/budgets"

_TAG: Final = "Budgets"
_ONE: Final = BUDGETS + "/{budget_id}"

LIST: Final = Operation(
    method="GET", path=BUDGETS, id="listBudgets", summary="Budgets, each with what is spent", tag=_TAG,
    limited=LimitedBudgets, scope="budgets:read_budgets", handler=listed, answer=Listed(BUDGET_LIST, BudgetJson),
)  # fmt: skip
CREATE: Final = Operation(
    method="POST", path=BUDGETS, id="createBudget", summary="Make a budget", tag=_TAG,
    limited=LimitedBudgets, scope="budgets:create_budget", handler=create, body=NewBudget, errors=(409, 503),
    answer=OperationAnswer("The budget is made, and compared with what is counted.", BudgetAnswer, 201),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_ONE, id="readBudget", summary="One budget with its latest alerts", tag=_TAG,
    limited=LimitedBudgets, scope="budgets:read_budget", handler=show, answer=OperationAnswer("The budget.", BudgetAnswer),
)  # fmt: skip
CHANGE: Final = Operation(
    method="PATCH", path=_ONE, id="changeBudget", tag=_TAG, summary="Change some of its fields",
    text="A threshold that alerted in this period alerts again only if this change made it no longer crossed.",
    limited=LimitedBudgets, scope="budgets:update_budget", handler=change, body=BudgetChange, errors=(409, 503),
    answer=OperationAnswer("The budget as it is now.", BudgetAnswer),
)  # fmt: skip
DELETE: Final = Operation(
    method="DELETE", path=_ONE, id="deleteBudget", tag=_TAG, summary="Delete it with its alerts",
    limited=LimitedBudgets, scope="budgets:delete_budget", handler=delete, answer=OperationAnswer("The budget is gone.", status=204),
)  # fmt: skip
STATE: Final = Operation(
    method="GET", path=_ONE + "/state", id="readBudgetState", tag=_TAG,
    summary="What is spent and left, and whether to stop",
    text="Answered from memory: for the hooks of AI gateways.",
    limited=LimitedBudgets, scope="budgets:read_budget", handler=state, answer=OperationAnswer("The state.", BudgetStateAnswer),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[AskedBudgets, Any], ...]] = (LIST, CREATE, SHOW, CHANGE, DELETE, STATE)
