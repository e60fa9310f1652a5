"""The budgets that a limited caller sees: those whose filter keeps calls inside its limit only."""

from dataclasses import replace
from typing import Protocol

from gateway.common.contract.errors import Forbidden, NotFound, TooManyKept
from gateway.common.contract.reach import Reach, is_within
from gateway.usage.budgets.body import BudgetChange, NewBudget
from gateway.usage.budgets.book import NO_SUCH_BUDGET, Standing
from gateway.usage.budgets.home import Alert
from gateway.usage.sums.limited_filter import MAX_KEPT, limited_body, number_of


class AskedBudgets(Protocol):
    """What the operations on budgets use, as `Budgets` has it."""

    def now_ms(self) -> int: ...

    def known(self) -> list[Standing]: ...

    async def standings(self) -> list[Standing]: ...

    async def standing(self, budget_id: str) -> Standing: ...

    async def alerts(self, budget_id: str) -> list[Alert]: ...

    def counted_through_ms(self) -> int | None: ...

    async def create(self, body: NewBudget, *, by: str) -> Standing: ...

    async def change(self, budget_id: str, body: BudgetChange, *, by: str) -> Standing: ...

    async def delete(self, budget_id: str) -> None: ...


class LimitedBudgets:
    """*budgets* for a caller who sees *reach*; one beyond it is not found."""

    def __init__(self, budgets: AskedBudgets, reach: Reach) -> None:
        self._budgets = budgets
        self._reach = reach

    def now_ms(self) -> int:
        return self._budgets.now_ms()

    def counted_through_ms(self) -> int | None:
        return self._budgets.counted_through_ms()

    def known(self) -> list[Standing]:
        return [_unnumbered(each) for each in self._budgets.known() if self._sees(each)]

    async def standings(self) -> list[Standing]:
        return [_unnumbered(each) for each in await self._budgets.standings() if self._sees(each)]

    async def standing(self, budget_id: str) -> Standing:
        return self._seen(await self._budgets.standing(budget_id))

    async def alerts(self, budget_id: str) -> list[Alert]:
        """Those since the budget's last change: before it, others may have been in its filter."""
        budget = (await self.standing(budget_id)).budget
        return [alert for alert in await self._budgets.alerts(budget_id) if alert.at_ms >= budget.updated_at_ms]

    async def create(self, body: NewBudget, *, by: str) -> Standing:
        """Raises Forbidden, BadPayload, NameInUse, TooManyKept."""
        _refuse_webhook(body)
        if len(await self.standings()) >= MAX_KEPT:
            raise TooManyKept(f"budgets: inside one limit {MAX_KEPT} are possible; delete some first")
        return self._seen(await self._budgets.create(limited_body(body, self._reach, is_new=True), by=by))

    async def change(self, budget_id: str, body: BudgetChange, *, by: str) -> Standing:
        """Raises Forbidden, BadPayload, NameInUse."""
        _refuse_webhook(body)
        await self.standing(budget_id)
        changed = await self._budgets.change(budget_id, limited_body(body, self._reach, is_new=False), by=by)
        return self._seen(changed)

    async def delete(self, budget_id: str) -> None:
        await self.standing(budget_id)
        await self._budgets.delete(budget_id)

    def _sees(self, each: Standing) -> bool:
        return is_within(each.budget.filter, self._reach)

    def _seen(self, found: Standing) -> Standing:
        """Raises NotFound."""
        if not self._sees(found):
            raise NotFound(NO_SUCH_BUDGET)
        return _unnumbered(found)


def _unnumbered(each: Standing) -> Standing:
    return each._replace(budget=replace(each.budget, budget_no=number_of(each.budget.budget_id)))


def _refuse_webhook(body: NewBudget | BudgetChange) -> None:
    """The configuration's webhooks are of all teams, and so are their names."""
    if body.webhook is not None:
        raise Forbidden("webhook: a limited credential cannot choose one; leave it out", reason="beyond_limit")
