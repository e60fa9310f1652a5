"""Rows of usage lead to their budget, or to the form of a new one."""

from decimal import Decimal

import pytest

from gateway.operate.site.budget_links import BudgetLinks
from gateway.usage.budgets.book import Standing
from gateway.usage.budgets.budget import Budget, Span, Spend
from gateway.usage.sums.names import Absent
from gateway.usage.sums.saved_filter import Kept


def standing(name: str, kept: Kept, spent: str) -> Standing:
    made = Budget(f"id-{name}", 1, name, Decimal(100), "USD", "month", kept, (), None, None, 0, "ops", 0, "ops")
    return Standing(made, Spend(Span(0, 31), Decimal(spent)))


STANDINGS = (
    standing("team", {"team": ("core",)}, "100"),
    standing("smaller", {"team": ("core",)}, "42"),
    standing("unknown", {"team": (None,), "model": ("m",)}, "12.6"),
    standing("two", {"team": ("core", "search")}, "1"),
)


def test_the_budget_with_exactly_these_filters_is_shown_the_most_spent_first() -> None:
    links = BudgetLinks(STANDINGS, can_set=True)
    found = links.of([("team", "core")])
    assert found == ("/budgets/id-team", "team", "100 %", True)
    assert links.of([("model", "m"), ("team", Absent.UNKNOWN)]) == ("/budgets/id-unknown", "unknown", "13 %", False)
    assert links.of([("team", "search")]) == ("/budgets/new?team=search", "", "", False), (
        "that of two teams is not its own"
    )


def test_a_form_is_offered_to_who_may_set_one_and_for_names_that_a_budget_can_keep() -> None:
    links = BudgetLinks((), can_set=True)
    assert links.of([]) == ("/budgets/new", "", "", False)
    found = links.of([("team", "a&b"), ("user", Absent.UNKNOWN), ("model", Absent.UNKNOWN)])
    assert found is not None
    assert found.path == "/budgets/new?team=a%26b&unknown=user%2Cmodel"
    tag = links.of([("tag:feature", "answers"), ("tag:customer", Absent.UNKNOWN)])
    assert tag is not None
    assert tag.path == "/budgets/new?tag=feature%3Danswers&unknown=tag%3Acustomer"
    viewer = BudgetLinks((), can_set=False)
    assert (viewer.of([]), bool(viewer)) == (None, False)
    assert bool(BudgetLinks(STANDINGS, can_set=False))


@pytest.mark.parametrize("absent", [Absent.OTHER, Absent.FORGOTTEN])
def test_what_has_no_name_has_no_budget(absent: Absent) -> None:
    assert BudgetLinks(STANDINGS, can_set=True).of([("team", absent)]) is None
