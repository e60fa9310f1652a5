"""Budgets in memory: `gateway.usage.budgets.home` with plain dictionaries."""

from collections import Counter
from dataclasses import dataclass, field, replace

from gateway.usage.budgets.budget import DAY_MS, Budget
from gateway.usage.budgets.home import Alert, Delivery, Waiting


@dataclass
class KeptAlert:
    alert: Alert
    webhook: str | None
    body: bytes | None


@dataclass
class MemoryBudgetRows:
    budgets: dict[str, Budget] = field(default_factory=dict)
    alerts: dict[int, KeptAlert] = field(default_factory=dict)
    """By their numbers, in order."""
    last_alert: int = 0

    def every(self) -> dict[str, Budget]:
        return {each.budget_id: each for each in sorted(self.budgets.values(), key=lambda each: each.budget_no)}

    def put(self, budget: Budget) -> None:
        before = self.budgets.get(budget.budget_id, budget)
        self.budgets[budget.budget_id] = replace(budget, budget_no=before.budget_no)

    def delete(self, budget_id: str) -> bool:
        self.alerts = {no: each for no, each in self.alerts.items() if each.alert.budget_id != budget_id}
        return self.budgets.pop(budget_id, None) is not None

    def add_alert(self, alert: Alert, webhook: str | None, body: bytes | None) -> bool:
        def of_period(each: Alert) -> tuple[object, ...]:
            return each.budget_id, each.threshold, each.period, each.first_day

        held = [each.alert for each in self.alerts.values()]
        if any(not each.is_rearmed and of_period(each) == of_period(alert) for each in held):
            return False
        self.last_alert += 1
        self.alerts[self.last_alert] = KeptAlert(alert, webhook, body)
        return True

    def drop_alerts(self, budget_id: str, before_day: int) -> None:
        self.alerts = {
            no: each
            for no, each in self.alerts.items()
            if each.alert.budget_id != budget_id or each.alert.end_day >= before_day
        }

    def rearm(self, alert_id: str) -> None:
        for each in self.alerts.values():
            if each.alert.alert_id == alert_id:
                each.alert = each.alert._replace(is_rearmed=True)

    def alerts_of(self, budget_id: str) -> list[Alert]:
        return [each.alert for each in reversed(self.alerts.values()) if each.alert.budget_id == budget_id]

    def alerts_since(self, since_ms: int, budget_id: str | None = None) -> list[Alert]:
        return [
            each.alert
            for each in self.alerts.values()
            if budget_id in {None, each.alert.budget_id}
            and not each.alert.is_rearmed
            and max(each.alert.end_day * DAY_MS, each.alert.at_ms) > since_ms
        ]

    def waiting_webhooks(self) -> dict[str, int]:
        return dict(Counter(each.webhook for _, each in self._waiting() if each.webhook is not None))

    def next_waiting(self, webhook: str) -> Waiting | None:
        waiting = [(each.alert.attempts, no, each) for no, each in self._waiting() if each.webhook == webhook]
        if not waiting:
            return None
        attempts, no, each = min(waiting, key=lambda one: one[:2])
        return Waiting(no, each.alert.alert_id, webhook, each.body or b"", attempts, each.alert.at_ms)

    def note_attempt(self, alert_no: int, outcome: Delivery, now_ms: int) -> None:
        each, ended = self.alerts.get(alert_no), outcome != "pending"
        if each is not None:
            each.alert = each.alert._replace(
                attempts=each.alert.attempts + 1, delivery=outcome, ended_at_ms=now_ms if ended else None
            )
            each.body = None if ended else each.body

    def _waiting(self) -> list[tuple[int, KeptAlert]]:
        return [(no, each) for no, each in self.alerts.items() if each.alert.delivery == "pending"]
