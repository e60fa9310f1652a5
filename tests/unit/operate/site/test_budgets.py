"""The pages of budgets, from answers of the operations."""

from typing import Any

from gateway.common.lists.conventions import ListRequest, Page, Sort, envelope
from gateway.operate.site.budgets import DETAIL, VIEW, bar_of, budget, budgets
from gateway.usage.budgets.listing import BUDGET_LIST
from tests.support.shown import shown, text_of

PERIOD = {"kind": "month", "start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"}


def one(**state: Any) -> dict[str, Any]:
    known = {
        "id": "0" * 32, "name": "<b>Core", "period": PERIOD, "amount": "100", "currency": "USD", "spent": "80.5",
        "remaining": "19.5", "ratio": 0.805, "forecast": None, "forecast_ratio": None, "calls": 7,
        "calls_without_cost": 2, "other_costs": {"EUR": "3"}, "stop_at": 80, "hard_stop": True, "counted_through": None,
    }  # fmt: skip
    return {
        "id": "0" * 32, "name": "<b>Core", "amount": "100", "currency": "USD", "period": "month",
        "filter": {"team": ["core", None]}, "thresholds": [{"of": "actual", "percent": 80}], "stop_at": 80, "webhook": None,
        "created_at": "2026-01-01T00:00:00.000Z", "created_by": "operator", "updated_at": "2026-01-02T00:00:00.000Z",
        "updated_by": "operator", "state": {**known, **state}, "alerts": [],
    }  # fmt: skip


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return envelope(BUDGET_LIST, ListRequest(Sort("name", "asc")), Page(items, len(items), None, None))


def test_the_list_shows_each_budget_with_a_bar_and_what_is_unknown() -> None:
    html = shown(VIEW, budgets(listed(one())))
    text = text_of(html)
    assert "80 %" in text
    assert "80.50 100 USD unknown month from 2026-01-01 2" in text
    assert "&lt;b&gt;Core" in html
    assert '<rect class="in" width="80" height="6"/>' in html
    assert "No budget yet" in text_of(shown(VIEW, budgets(listed())))


def test_the_bar_ends_at_the_amount_and_shows_the_forecast_behind() -> None:
    bars = [
        bar_of({"ratio": ratio, "forecast_ratio": ahead})
        for ratio, ahead in ((0.5, 0.75), (0.5, 2), (3, 9), (-1, None))
    ]
    assert [(bar["spent"], bar["ahead"], bar["mark"]) for bar in bars] == [
        (50, 25, "in"), (50, 50, "near"), (100, 0, "over"), (0, 0, "in"),
    ]  # fmt: skip


def test_one_budget_shows_its_filter_and_its_alerts() -> None:
    alert = {
        "id": "a", "of": "actual", "percent": 80, "period": PERIOD, "at": "2026-01-20T10:00:00.000Z", "amount": "100",
        "currency": "USD", "spent": "80.1", "forecast": None, "is_rearmed": False,
        "webhook": {"outcome": "pending", "attempts": 2, "ended_at": None},
    }  # fmt: skip
    text = text_of(shown(DETAIL, budget({**one(), "alerts": [alert]})))
    assert "Team core, unknown" in text
    assert "2026-01-20 10:00:00 UTC 80 % spent month from 2026-01-01 80.1 100 USD pending, tries: 2" in text
    assert "In another currency 3 EUR" in text
