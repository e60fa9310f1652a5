"""Senders in a browser: the list, its warnings and its filters."""

import urllib.error

import pytest

from tests.browser.traffic import post
from tests.support.browser import Browser, Looks
from tests.support.gateway_process import GatewayProcess


def test_the_list_names_each_sender_and_what_is_refused(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    with pytest.raises(urllib.error.HTTPError, match="400"):
        post(gateway.intake_url + "/v1/traces", b"\xff", {"Content-Type": "application/x-protobuf"})
    browser.log_in(gateway).press("Senders")
    assert "search-assistant" in browser.text
    assert "requests are refused: bad_payload" in browser.text
    assert looks.faults("senders") == []
    browser.show_as("light", 1280)
    browser.tick("silent").press("Filter")
    assert "No sender matches." in browser.text
    browser.press("Show all").press("Requests")
    assert "sort_key=requests" in browser.path
