"""Settings and snippets in a browser."""

import re
from collections.abc import Iterator

import pytest

from tests.browser.traffic import post
from tests.support.browser import Browser, Looks, Programs
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

KEY = re.compile(r"tgk_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}")
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
    assert f"{gateway.intake_url}/otlp/v1/sources/litellm" in " ".join(browser.texts("pre"))
    assert looks.faults("connect-one") == []
    browser.show_as("light", 1280)
    made = browser.find("#made").text
    body = call_span("a change that the page learns of", (7, 3))
    post(f"{gateway.intake_url}/otlp/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    browser.until(lambda: browser.find("#made").text != made, "up to date")
    browser.button("Copy").click()
    browser.until(lambda: "Copied" in browser.find(".snippet").text, "copied")


def test_a_sender_is_connected_with_a_key_and_its_first_call_is_shown(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).visit("/connect/openinference").fill("Name of a new key for it", "checkout")
    browser.tick("This is the first key: from now on, senders without a key are refused").press(
        "Create the key and wait for the first call"
    )
    assert "Nothing arrived yet." in browser.find("#first-call").text
    (secret,) = KEY.findall(browser.text)
    assert secret not in browser.path
    assert looks.faults("connect-key") == []
    browser.show_as("light", 1280)
    headers = {"Content-Type": "application/x-protobuf", "Authorization": secret}
    post(f"{gateway.intake_url}/otlp/v1/traces", call_span("checkout", (7, 3)), headers)
    browser.until(lambda: "7 input, 3 output" in browser.find("#first-call").text, "the first call counted")
    assert secret in browser.text, "the page was brought up to date, and the snippets have the key still"
    assert not KEY.search(browser.visit("/connect/openinference").source)


def test_a_viewer_reads_both(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway).press("Settings").press("Connect a sender").press("Claude Code")
    assert "YOUR_KEY" in browser.text
    assert browser.all("main form") == []


def test_an_unknown_sender_is_not_found(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).visit("/connect/none")
    assert "no sender has this name" in browser.text
    assert browser.was_answered(404)
