"""Settings and snippets in a browser."""

from collections.abc import Iterator

import pytest

from tests.browser.traffic import post
from tests.support.browser import Browser, Looks, Programs
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

SECRET = "CANARY-7Q-of-a-source"


@pytest.fixture(scope="module")
def gateway(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    config = {"sources": {"vercel": {"secret": SECRET}}, "http": {"base_path": "/otlp"}}
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), config=config) as gateway:
        yield gateway


def test_what_is_set_is_shown_with_its_origin_and_no_secret(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).press("Settings")
    rows = {row.split()[0]: row for row in browser.texts("tbody tr") if row}
    assert "file line 1" in rows["http.base_path"]
    assert "a reload" in rows["http.base_path"]
    assert "***" in rows["sources.vercel.secret"]
    assert SECRET not in browser.source
    assert "spool.max_age" not in browser.text
    browser.find("summary").click()
    assert "spool.max_age" in browser.text
    assert looks.faults("settings") == []


def test_a_snippet_with_the_address_of_this_gateway_is_copied(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).visit("/settings").press("Connect a sender")
    assert looks.faults("connect") == []
    browser.show_as("light", 1280)
    browser.press("LiteLLM")
    assert f"{gateway.intake_url}/otlp/v1/sources/litellm" in browser.find("pre").text
    assert looks.faults("connect-one") == []
    browser.show_as("light", 1280)
    made = browser.find("#made").text
    body = call_span("a change that the page learns of", (7, 3))
    post(f"{gateway.intake_url}/otlp/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    browser.until(lambda: browser.find("#made").text != made, "up to date")
    browser.button("Copy").click()
    browser.until(lambda: "Copied" in browser.find(".snippet").text, "copied")


def test_a_viewer_reads_both(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway).press("Settings").press("Connect a sender").press("Claude Code")
    assert "YOUR_KEY" in browser.text
    assert browser.all("main form") == []


def test_an_unknown_sender_is_not_found(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).visit("/connect/none")
    assert "no sender has this name" in browser.text
    assert browser.was_answered(404)
