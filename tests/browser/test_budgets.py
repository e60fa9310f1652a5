"""Budgets and views in a browser: lists, one of each, and the way from the page of usage."""

import json
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
