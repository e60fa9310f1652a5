"""Budgets and views in a browser: lists, one of each, and the way from the page of usage."""

import json
import re
import urllib.request

import pytest

from tests.support.browser import Browser, Looks
from tests.support.gateway_process import GatewayProcess

ROWS = {
    "/v2/budgets": (
        {"name": "All of it, with a <b>long</b> name", "amount": "0.0001", "currency": "USD", "period": "year", "stop_at": 100},
        {"name": "Room", "amount": "100000", "currency": "USD", "period": "year", "filter": {"team": [None, "core"]}},
    ),
    "/v2/views": ({"name": "By model", "group_by": ["provider", "model"], "range": "this_year"},),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def made(gateway: GatewayProcess) -> None:
    token = (gateway.data_dir / "admin-token").read_text().strip()
    for path, bodies in ROWS.items():
        for body in bodies:
            sent = urllib.request.Request(gateway.admin_url + path, json.dumps(body).encode(), {"Authorization": token})
            urllib.request.urlopen(sent, timeout=30).close()


def test_budgets_are_listed_with_a_bar_and_each_has_its_page(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).press("Budgets")
    assert len(browser.all("tbody tr")) == 2
    assert len(browser.all("svg.spend rect")) == 4
    assert looks.faults("budgets") == []
    browser.show_as("light", 1280)
    browser.press("All of it, with a <b>long</b> name")
    assert "every call" in browser.text
    assert looks.faults("budget") == []


def test_a_view_is_chosen_on_the_page_of_usage(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).visit("/usage").press("By model")
    assert browser.find("nav[aria-label='Saved views'] [aria-current]").text == "By model"
    browser.press("Views").press("By model")
    assert "This year, UTC" in browser.text
    assert looks.faults("view") == []
    browser.show_as("light", 1280)
    browser.press("Views")
    assert len(browser.all("tbody tr")) == 1
    assert looks.faults("views") == []


def test_a_budget_is_set_changed_and_deleted_where_one_stands(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).visit("/budgets/new?team=search&unknown=project")
    assert browser.field("Name").get_attribute("value") == "search · unknown project"
    assert "In the last 30 days such calls cost USD" in browser.text
    assert looks.faults("budget new") == []
    browser.show_as("light", 1280)
    browser.fill("Amount", "1,000").press("Set the budget")
    assert 'a decimal number above 0 as text such as "1000"' in browser.find("#amount-error").text
    assert browser.was_answered(400)
    browser.fill("Amount", "1000").fill("Alert when this share is spent, %", "75, 90 %").press("Set the budget")
    assert "The budget “search · unknown project” is set." in browser.text
    assert "75 % spent, 90 % spent, 100 % forecast" in browser.text
    assert "search" in browser.find("dl.pairs").text
    browser.press_here("Change this budget")
    assert looks.faults("budget change") == []
    browser.show_as("light", 1280)
    browser.field("Project: unknown").click()
    browser.fill("Amount", "12.5").fill("Name to add", "support").press("Save")
    facts = browser.find("dl.pairs").text
    assert "of 12.5 USD" in facts
    assert "search, support" in facts
    assert "Project" not in facts
    browser.press_here("Delete this budget").press("Delete the budget")
    assert "The budget is deleted." in browser.text
    assert not browser.has_button("search · unknown project")


def test_explore_leads_to_the_budget_of_what_it_shows_and_of_each_row(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).visit("/usage?range=last_7_days&group_by=team,model&project=&unknown=project&time_zone=UTC")
    browser.press("Set a budget for search · gpt-4o")
    assert browser.field("Name").get_attribute("value") == "search · gpt-4o · unknown project"
    browser.driver.back()
    browser.press("Budget for this").fill("Name", "No project").fill("Amount", "0.001").press("Set the budget")
    browser.visit("/usage?range=last_7_days&unknown=project&time_zone=UTC")
    link = next(each for each in browser.all(".acts a") if "No project" in each.text)
    assert re.fullmatch(r"Budget No project: \d+ % spent", link.text)
    browser.visit("/usage?range=last_7_days&group_by=project&time_zone=UTC")
    (cell,) = browser.texts("[aria-label='Usage by project'] tbody td:last-child")
    assert re.fullmatch(r"\d+ %\nof budget No project", cell)
    assert looks.faults("explore with a budget") == []
    browser.show_as("light", 1280)
    browser.visit("/?range=7d").press("Set a budget for gpt-4o")
    assert [box.get_attribute("value") for box in browser.all("[name=filter]")] == ["model=gpt-4o"]


def test_a_view_is_renamed_and_deleted(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).visit("/usage").press_here("Save as a view").fill("Name of the view", "Mine").press("Save")
    browser.press("Views").press("Mine").press_here("Rename or delete this view")
    assert looks.faults("view change") == []
    browser.show_as("light", 1280)
    browser.fill("Name", "Ours").press("Rename")
    assert browser.find("h1").text == "Ours"
    browser.visit("/usage?range=last_month&group_by=user&time_zone=UTC").press_here("Save as a view")
    assert looks.faults("explore save") == []
    browser.show_as("light", 1280)
    browser.choose("Or change a view to this question", "Ours").press("Change it")
    assert browser.find("nav[aria-label='Saved views'] [aria-current]").text == "Ours"
    browser.press("Views").press("Ours")
    assert "Last month" in browser.text
    browser.press_here("Rename or delete this view").press("Delete the view")
    assert "The view is deleted." in browser.text
    assert not browser.has_button("Ours")


def test_a_viewer_changes_no_budget_and_no_view(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway).press("Budgets")
    assert not browser.has_button("New budget")
    browser.press("Room")
    assert [form.get_attribute("action") for form in browser.all("form[method=post]")] == [
        gateway.admin_url + "/logout"
    ]
