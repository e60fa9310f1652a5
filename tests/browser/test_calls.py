"""Single calls in a browser: from a group in Explore to its calls, and to one of them."""

import time

import pytest

from tests.browser.traffic import CALLS, post
from tests.support.browser import Browser, Looks
from tests.support.calls import EPOCH_MS
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span


@pytest.fixture(scope="module", autouse=True)
def reported_twice(gateway: GatewayProcess) -> None:
    """One call by two instrumentations."""
    at_s = time.time() - 60 - EPOCH_MS / 1000
    more = {"gen_ai.response.model": "gpt-4o", "gen_ai.response.id": "answer-of-both"}
    resource = {"team.id": "twice", "service.name": "an-assistant-with-a-name-that-is-too-long-for-a-column"}
    for name in ("instrumentation.one", "instrumentation.two"):
        body = call_span(name, (900, 90), at=at_s, resource=resource, more=more, scope=name)
        post(gateway.intake_url + "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    gateway.wait_until_delivered(at_least=len(CALLS) + 1)


def test_a_group_leads_to_its_calls_and_one_to_its_reports(
    browser: Browser, gateway: GatewayProcess, looks: Looks
) -> None:
    browser.log_in(gateway).visit("/usage?range=today&group_by=team")
    latest = "1 calls of twice: the latest"
    browser.until(lambda: browser.has_button(latest) or browser.visit(browser.path) is None, "the call")
    browser.press(latest)
    assert browser.path == "/calls?team=twice"
    assert sorted(row.split()[3] for row in browser.texts("tbody tr")) == ["duplicate", "kept"]
    assert looks.faults("calls") == []
    browser.show_as("light", 1280)
    next(row for row in browser.all("tbody tr") if "kept" in row.text).find_element("css selector", "th a").click()
    browser.until(lambda: browser.path.startswith("/calls/"), "the call")
    assert "several reports of it were merged" in browser.text
    assert "the same response id" in browser.text
    browser.press_here("The whole record")
    assert "answer-of-both" in browser.text
    assert looks.faults("call") == []


def test_filters_of_the_list_are_those_of_the_api(browser: Browser, gateway: GatewayProcess, looks: Looks) -> None:
    browser.log_in_as_viewer(gateway).visit("/calls").press_here("Filters")
    assert looks.faults("calls filters") == []
    browser.show_as("light", 1280)
    browser.tick("duplicate").press("Filter")
    assert "outcome=duplicate" in browser.path
    assert len(browser.all("tbody tr")) == 1
    browser.press("Outcome: duplicate, remove")
    browser.press_here("Filters").fill("Team", "nobody").press("Filter")
    assert "No call with these filters is kept." in browser.text
    assert looks.faults("calls none") == []
