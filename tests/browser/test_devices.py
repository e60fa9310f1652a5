"""Devices in a browser: the list, one of them, and what can be done with it."""

import json
import urllib.request

import pytest

from tests.browser.traffic import DEVICE, send_json
from tests.support.browser import Browser, Looks
from tests.support.gateway_process import GatewayProcess
from tests.support.polling import wait_until_true

ODD = "a/device with <b>marks</b>?&="


@pytest.fixture(scope="module", autouse=True)
def devices(gateway: GatewayProcess) -> None:
    """Two more, one with an id that needs to be quoted; all known to the upstream."""
    for name in (ODD, "build-server"):
        said = {"client": {"name": "claude-code", "version": "2.1"}, "labels": {"team": "search"}}
        send_json(gateway, f"/v1/devices/{quote(name)}/heartbeat", {"instance_id": "one", "sequence": 1, **said})
    wait_until_true(lambda: states_of(gateway).count("enrolled") >= 3, what="all enrolled")


def quote(name: str) -> str:
    return urllib.request.quote(name, safe="")


def states_of(gateway: GatewayProcess) -> list[str]:
    token = (gateway.data_dir / "admin-token").read_text().strip()
    request = urllib.request.Request(gateway.admin_url + "/v2/devices", headers={"Authorization": token})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [device["state"] for device in json.loads(answer.read())["devices"]]


def test_the_list_filters_and_sorts(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).press("Devices")
    assert {DEVICE, ODD, "build-server"} <= set(browser.texts("tbody th"))
    assert "name=claude-code, version=2.1" in browser.text
    assert looks.faults("devices") == []
    browser.show_as("light", 1280)
    browser.choose("State", "blocked").press("Filter")
    assert "No device matches." in browser.text
    browser.press("Show all").press("Last contact")
    assert "sort_key=last_contact_at" in browser.path


@pytest.mark.parametrize("name", [DEVICE, ODD])
def test_a_device_is_blocked_and_unblocked(browser: Browser, looks: Looks, gateway: GatewayProcess, name: str) -> None:
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/devices").press(name)
    assert browser.find("h1").text == name
    browser.press_by_keyboard("Block")
    assert "The device is blocked." in browser.text
    assert "an operator blocked it" in browser.text
    assert f"device_id={quote(name).replace('%20', '+')}" in str(
        browser.button("of the last 30 days").get_attribute("href")
    )
    assert not browser.has_button("Block")
    browser.press_by_keyboard("Unblock")
    assert "The device is enrolled again." in browser.text
    if name == ODD:
        browser.scripts(run=True)
        assert looks.faults("device") == []


def test_the_upstream_is_asked_and_a_device_forgotten(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).visit("/devices").press("build-server").press("Ask the upstream")
    assert "The upstream says that the device is known" in browser.text
    browser.press("Forget")
    assert "The device is forgotten." in browser.text
    assert "build-server" not in browser.texts("tbody th")


def test_a_viewer_sees_no_button(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway).visit(f"/devices/{quote(ODD)}")
    assert browser.find("h1").text == ODD
    assert browser.all("main form") == []
