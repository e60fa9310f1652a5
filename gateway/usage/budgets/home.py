"""Where budgets and their alerts are kept, as this room uses it."""

from decimal import Decimal
from typing import Literal, NamedTuple, Protocol

from gateway.common.contract.budgets import Measure
from gateway.common.storage.home import Home
from gateway.usage.budgets.budget import Budget, Period, Span, Threshold

Delivery = Literal["none", "pending", "delivered", "failed"]


class Alert(NamedTuple):
    """A threshold that was crossed in a period."""

    alert_id: str
    budget_id: str
    of: Measure
    percent: int
    period: Period
    first_day: int
    end_day: int
    at_ms: int
    amount: Decimal
    """This and the next three: as they were then."""
    currency: str
    spent: Decimal
    forecast: Decimal | None
    is_rearmed: bool
    delivery: Delivery
    attempts: int
    ended_at_ms: int | None
    """When it was delivered, or given up."""

    @property
    def threshold(self) -> Threshold:
        return Threshold(self.of, self.percent)

    @property
    def span(self) -> Span:
        return Span(self.first_day, self.end_day)


class Waiting(NamedTuple):
    """A call of a webhook that is pending."""

    alert_no: int
    alert_id: str
    webhook: str
    """"" for the one of all budgets."""
    body: bytes
    attempts: int
    at_ms: int
    """When the alert was raised."""


class BudgetRows(Protocol):
    """What is kept of budgets, inside one commit or snapshot."""

    def every(self) -> dict[str, Budget]:
        """By id, in the order in which they were made."""

    def put(self, budget: Budget) -> None:
        """Store it, in place of the one with its id."""

    def delete(self, budget_id: str) -> bool:
        """With its alerts; whether it was there."""

    def add_alert(self, alert: Alert, webhook: str | None, body: bytes | None) -> bool:
        """Store *alert*, unless its threshold has one in its period that is not rearmed; whether it
        was stored. *webhook*: name of the one to call with *body*, None for none.
        """

    def drop_alerts(self, budget_id: str, before_day: int) -> None:
        """Those of periods that ended before that day."""

    def rearm(self, alert_id: str) -> None:
        """Its threshold may raise an alert again."""

    def alerts_of(self, budget_id: str) -> list[Alert]:
        """The latest first."""

    def alerts_since(self, since_ms: int, budget_id: str | None = None) -> list[Alert]:
        """Alerts that are not rearmed, and were raised after *since_ms* or in a period that ended
        after it, in order; of one budget, or of all.
        """

    def waiting_webhooks(self) -> dict[str, int]:
        """Names of the webhooks that are to be called -> how many alerts wait for each."""

    def next_waiting(self, webhook: str) -> Waiting | None:
        """What *webhook* is to be called with next, the least tried first: an alert that its
        receiver never takes holds up no other.
        """

    def note_attempt(self, alert_no: int, outcome: Delivery, now_ms: int) -> None:
        """Count a try of the webhook that ended with *outcome*; `pending` is tried again."""


BudgetHome = Home[BudgetRows]
