"""Every operation of the admin listener that takes and answers JSON, and the
stores that they work on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.observability.limited_calls import LimitedCalls
from gateway.observability.metrics import Status
from gateway.observability.settled_calls import CallReader
from gateway.operate import (
    allocation,
    backup,
    billing,
    budgets,
    calls,
    costs,
    dead_letters,
    devices,
    insights,
    keys,
    lanes,
    recommendations,
    senders,
    spool_files,
    unit_cost,
    usage,
    users,
    verdict,
    viewer_tokens,
    views,
)
from gateway.operate.allocation import AllocationRequests
from gateway.operate.backup import BackupSource
from gateway.operate.dead_letters import DeadLetterRequests
from gateway.operate.devices import Devices
from gateway.operate.insights import Insights, LimitedInsights
from gateway.operate.keys import KeyOperation, KeyRequests
from gateway.operate.lanes import Lanes
from gateway.operate.operation import AnyOperation, Operation
from gateway.operate.senders import SenderSource
from gateway.operate.spool_files import SpoolFiles, StatusSource
from gateway.operate.unit_cost import StreamSource
from gateway.operate.verdict import VerdictSource
from gateway.serve.authenticator import not_divisible
from gateway.usage.billing.requests import BillingRequests, RelayRequests
from gateway.usage.budgets.limited import AskedBudgets, LimitedBudgets
from gateway.usage.recommendations.book import Recommendations
from gateway.usage.sums.forgetting import UserForgetter
from gateway.usage.sums.query import UsageQueries
from gateway.usage.views.limited import LimitedViews
from gateway.usage.views.store import Views

S = TypeVar("S")

SERVICE_KEY_OPERATIONS: Final[tuple[KeyOperation, ...]] = tuple(map(keys.of_service, keys.OPERATIONS))

OPERATIONS: Final[tuple[AnyOperation, ...]] = (
    spool_files.STATUS,
    verdict.SHOW,
    *usage.OPERATIONS,
    *costs.OPERATIONS,
    *calls.OPERATIONS,
    *unit_cost.OPERATIONS,
    *users.OPERATIONS,
    *billing.OPERATIONS,
    *billing.RELAY_OPERATIONS,
    *insights.OPERATIONS,
    *budgets.OPERATIONS,
    *views.OPERATIONS,
    *allocation.OPERATIONS,
    *recommendations.OPERATIONS,
    *keys.OPERATIONS,
    *SERVICE_KEY_OPERATIONS,
    *viewer_tokens.OPERATIONS,
    *devices.OPERATIONS,
    *senders.OPERATIONS,
    *dead_letters.OPERATIONS,
    *lanes.OPERATIONS,
    *spool_files.OPERATIONS,
    *backup.OPERATIONS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminStores:
    """What the operations work on; an operation without its store is not served."""

    status: StatusSource
    keys: KeyRequests | None = None
    service_keys: KeyRequests | None = None
    """Those of the embedded local service; None where it is not embedded."""
    dead_letters: DeadLetterRequests | None = None
    lanes: Lanes | None = None
    devices: Devices | None = None
    insights: Insights | None = None
    budgets: AskedBudgets | None = None
    views: Views | None = None
    recommendations: Recommendations | None = None
    senders: SenderSource | None = None
    spool: SpoolFiles | None = None
    usage: UsageQueries | None = None
    users: UserForgetter | None = None
    billing: BillingRequests | None = None
    billing_relay: RelayRequests | None = None
    calls: CallReader | None = None
    unit_cost: StreamSource | None = None
    backup: BackupSource | None = None
    allocation: AllocationRequests | None = None
    verdict: VerdictSource | None = None

    def limited(self, reach: Reach) -> "AdminStores":
        """As a caller has them who sees *reach*: what cannot be divided is missing."""
        if not reach:
            return self
        return AdminStores(
            status=_no_status,
            usage=self.usage and self.usage.limited(reach),
            calls=self.calls and LimitedCalls(self.calls, reach),
            budgets=self.budgets and LimitedBudgets(self.budgets, reach),
            views=self.views and LimitedViews(self.views, reach),
            insights=self.insights and LimitedInsights(self.insights, reach),
        )

    def bound(self) -> Iterator[tuple[AnyOperation, Any]]:
        """Each operation with its store."""
        yield from _bound((spool_files.STATUS,), self.status)
        yield from _bound((verdict.SHOW,), self.verdict)
        yield from _bound(keys.OPERATIONS, self.keys)
        yield from _bound(SERVICE_KEY_OPERATIONS, self.service_keys)
        yield from _bound(viewer_tokens.OPERATIONS, self.keys)
        yield from _bound(dead_letters.OPERATIONS, self.dead_letters)
        yield from _bound(lanes.OPERATIONS, self.lanes)
        yield from _bound(devices.OPERATIONS, self.devices)
        yield from _bound(usage.OPERATIONS, self.usage)
        yield from _bound(costs.OPERATIONS, self.usage)
        yield from _bound(calls.OPERATIONS, self.calls)
        yield from _bound(unit_cost.OPERATIONS, self.unit_cost)
        yield from _bound(users.OPERATIONS, self.users)
        yield from _bound(billing.OPERATIONS, self.billing)
        yield from _bound(billing.RELAY_OPERATIONS, self.billing_relay)
        yield from _bound(insights.OPERATIONS, self.insights)
        yield from _bound(budgets.OPERATIONS, self.budgets)
        yield from _bound(views.OPERATIONS, self.views)
        yield from _bound(allocation.OPERATIONS, self.allocation)
        yield from _bound(recommendations.OPERATIONS, self.recommendations)
        yield from _bound(senders.OPERATIONS, self.senders)
        yield from _bound(spool_files.OPERATIONS, self.spool)
        yield from _bound(backup.OPERATIONS, self.backup)


def _no_status() -> Status:
    """Of all teams, so of no one's."""
    raise not_divisible(EVERYTHING)


def _bound(operations: Sequence[Operation[S, Any]], store: S | None) -> Iterator[tuple[AnyOperation, S]]:
    if store is not None:
        yield from ((operation, store) for operation in operations)
