"""Insights in a browser: the list, one of them, its status and comments."""

import json
import urllib.request

import pytest

from tests.browser.traffic import UNPRICED
from tests.support.browser import Browser, Looks
from tests.support.gateway_process import GatewayProcess

COMMENT = "<b>Looked at</b>: the price comes on Monday."


@pytest.fixture(scope="module", autouse=True)
def by_hand(gateway: GatewayProcess) -> None:
    """Two insights beside the one that was found."""
    token = (gateway.data_dir / "admin-token").read_text().strip()
    for title in ("One that was made by hand", "Another one"):
        body = json.dumps({"title": title, "category": "models", "effort": "high", "cost_impact": "12.50"}).encode()
        urllib.request.urlopen(
            urllib.request.Request(gateway.admin_url + "/v2/insights", body, {"Authorization": token}), timeout=30
        ).close()


def test_the_list_is_sorted_filtered_and_paged_by_links(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).press("Insights")
    assert len(browser.all("tbody tr")) == 3
    assert looks.faults("insights") == []

    browser.show_as("light", 1280)
    browser.press("Insight")
    titles = browser.texts("tbody th")
    assert titles == sorted(titles)
    browser.press("Insight")
    assert browser.texts("tbody th") == titles[::-1]
    assert browser.find("th[aria-sort]").get_attribute("aria-sort") == "descending"

    browser.tick("on hold").press("Filter")
    assert "No insight has this status." in browser.text
    assert "sort_order=desc" in browser.path, "the order stays"
    browser.press("Show all")

    browser.visit("/insights?limit=2").press("Next")
    assert len(browser.all("tbody tr")) == 1
    browser.press("Previous")
    assert len(browser.all("tbody tr")) == 2


def test_the_status_is_set_and_a_comment_written_by_the_keyboard(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).visit("/insights").press(title_of(browser))
    assert "Add the model to your price file" in browser.text
    browser.press_by_keyboard("in progress")
    assert "The status is “in progress” now." in browser.text
    assert not browser.has_button("in progress")
    assert [entry.split()[0] for entry in browser.texts(".history li")] == ["new", "in"]
    assert browser.texts(".history li")[1].endswith("by operator")
    browser.fill("Your comment", COMMENT).press_by_keyboard("Add the comment")
    assert browser.texts(".comment .text") == [COMMENT]
    browser.find(".comment summary").click()
    browser.fill("New text", "Changed.").press("Save the comment")
    assert browser.texts(".comment .text") == ["Changed."]
    assert "changed by operator" in browser.find(".comment").text
    assert looks.faults("insight") == []


def test_it_works_without_scripts(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/insights").press(title_of(browser)).press("on hold")
    assert "The status is “on hold” now." in browser.text
    browser.fill("Your comment", " ").press("Add the comment")
    assert "Nothing was changed" in browser.text
    assert browser.find("#text-error").text == "text of 1 to 10000 characters is needed"
    assert browser.field("Your comment").get_attribute("aria-invalid") == "true"
    assert browser.was_answered(400)


def test_a_viewer_reads_and_changes_nothing(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway).visit("/insights").press(title_of(browser))
    assert browser.all("main form") == []


def title_of(browser: Browser) -> str:
    return next(title for title in browser.texts("tbody th") if UNPRICED in title)
