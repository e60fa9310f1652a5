"""The form of a budget and the body of its operations."""

from typing import Any

import pytest
from multidict import MultiDict

from gateway.operate.site.budget_form import body_of, name_for, typed_of, values_of, values_of_new
from gateway.operate.site.view import FormFault
from gateway.usage.budgets.body import NewBudget

BUDGET: dict[str, Any] = {
    "name": "Core", "amount": "12.5", "currency": "EUR", "period": "week", "filter": {"team": ["core", None], "model": ["a=b"]},
    "thresholds": [{"of": "actual", "percent": 50}, {"of": "forecast", "percent": 90}, {"of": "actual", "percent": 80}],
    "stop_at": 120, "webhook": "finops",
}  # fmt: skip


def form(**changed: str) -> MultiDict[str]:
    """As a browser sends the form of `BUDGET`."""
    values = values_of(BUDGET) | changed
    boxes = [("filter", value) for value in values.pop("filter").split("\n") if value]
    return MultiDict([*values.items(), *boxes])


def test_a_form_that_was_not_touched_changes_nothing() -> None:
    body = body_of(typed_of(form()))
    order = [BUDGET["thresholds"][each] for each in (0, 2, 1)]
    assert body == {**BUDGET, "thresholds": order}
    assert NewBudget.checked(body).amount == "12.5"


def test_a_name_is_added_and_an_unticked_one_is_gone() -> None:
    sent = form(add_dimension="team", add_name=" search ")
    kept = [value for value in sent.getall("filter") if value != "team"]
    del sent["filter"]
    sent.extend([("filter", value) for value in kept])
    assert body_of(typed_of(sent))["filter"] == {"team": ["core", "search"], "model": ["a=b"]}


def test_a_form_without_the_field_of_the_webhook_leaves_it() -> None:
    sent = form()
    del sent["webhook"]
    assert "webhook" not in body_of(typed_of(sent))
    assert body_of(typed_of(form(webhook="")))["webhook"] is None


@pytest.mark.parametrize(
    ("field", "typed"),
    [("actual", "50; 80"), ("actual", "half"), ("forecast", "-1"), ("stop_at", "80, 90"), ("actual", "9" * 7)],
)
def test_what_is_no_percentage_is_a_fault_of_its_field(field: str, typed: str) -> None:
    with pytest.raises(FormFault) as fault:
        body_of(typed_of(form(**{field: typed})))
    assert list(fault.value.fields) == [field]
    assert fault.value.typed[field] == typed


def test_a_new_budget_is_named_after_what_it_counts() -> None:
    values = values_of_new({"team": ["core"], "project": [None]}, "USD")
    assert (values["name"], values["filter"]) == ("core · unknown project", "team=core\nproject")
    assert (values["actual"], values["forecast"]) == ("50, 80, 100", "100")
    assert name_for({}) == "All calls"
    assert len(name_for({"user": ["x" * 300]})) == 100
