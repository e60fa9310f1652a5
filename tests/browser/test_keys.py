"""Keys in a browser: a secret that is shown once, and the life of a key."""

import re
import urllib.error
from collections.abc import Iterator

import pytest

from benchmarks.scenario import fetch
from tests.browser.traffic import post
from tests.support.browser import Browser, Looks, Programs
from tests.support.gateway_process import GatewayProcess

SECRET = re.compile(r"tgk_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}")
NAME = "search <prod>"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def gateway(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a sender that posts without a key."""
    with GatewayProcess(tmp_path_factory.mktemp("gateway")) as gateway:
        post(gateway.intake_url + "/v1/traces", b"{}", JSON)
        yield gateway


def test_a_key_is_made_and_its_secret_shown_once(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).press("Keys")
    assert "Intake is open." in browser.text
    assert looks.faults("keys-none") == []
    browser.show_as("light", 1280)
    browser.press("New key")
    assert "127.0.0.1" in browser.find(".notice").text, "the sender that would be refused"
    assert looks.faults("key-new") == []

    browser.show_as("light", 1280)
    browser.fill("Name", NAME).fill("Labels", "team=search").fill("Requests per minute", "600")
    browser.tick("I know that they are refused until they have a key").press_by_keyboard("Create the key")
    secret = browser.find("#secret").get_attribute("value") or ""
    assert SECRET.fullmatch(secret)
    assert secret not in browser.path
    assert looks.faults("key-created") == []
    browser.button("Copy").click()
    browser.until(lambda: browser.find("#copied").text == "Copied", "copied")
    post(gateway.intake_url + "/v1/traces", b"{}", {**JSON, "Authorization": secret})

    browser.press("I have saved it")
    assert browser.find("h1").text == NAME
    for path in (browser.path, "/keys", "/keys/new", "/settings"):
        assert not SECRET.search(browser.visit(path).source)
    browser.console()
    assert not SECRET.search(gateway.log.read_text())
    assert "key changed" in gateway.log.read_text()
    assert not SECRET.search(fetch(gateway.admin_url + "/metrics").decode())


def test_a_key_with_fixed_scopes_is_edited_disabled_enabled_and_deleted(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/keys/new").fill("Name", "events").tick("Fixed scopes").tick("events_v1:create_event")
    browser.press("Create the key").press("I have saved it")
    browser.fill("Name", "usage events").fill("Description", "of the shop").fill("Labels", "team=shop\nproject=x")
    browser.tick("unit-cost_v1:manage_telemetry_records").press_by_keyboard("Save")
    assert "“usage events” is saved." in browser.text
    browser.fill("Labels", "team=shop").press("Save")
    assert browser.field("Labels").get_attribute("value") == "team=shop"
    assert browser.find("dl.pairs").text.count("unit-cost_v1:manage_telemetry_records") == 1
    browser.focus("Disable").enter().press_by_keyboard("Disable the key")
    assert "Disabled" in browser.find(".head").text
    browser.press_by_keyboard("Enable")
    assert "Enabled" in browser.find(".head").text

    label = "Type the exact name, usage events, to confirm"
    browser.fill(label, "Usage events").press("Delete the key")
    assert browser.find("#typed_name-error").text == "deleting a key needs its exact name"
    assert browser.field(label).get_attribute("value") == "Usage events"
    assert browser.was_answered(400)
    browser.scripts(run=True)
    assert looks.faults("key") == []
    browser.scripts(run=False)
    browser.fill(label, "usage events").press_by_keyboard("Delete the key")
    assert "“usage events” is deleted" in browser.text
    assert "usage events" not in browser.texts("tbody th")


def test_faults_are_shown_at_their_fields_and_what_was_typed_stays(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/keys/new").fill("Name", NAME).fill("Labels", "team")
    browser.press("Create the key")
    assert browser.find("#labels-error").text == "line 1: name=value is needed"
    browser.fill("Labels", "team=x").fill("Bytes per minute", "many").tick("Fixed scopes").press("Create the key")
    assert "a whole number from 1 on is needed" in browser.find("#bytes_per_minute-error").text
    assert browser.find("#scopes-error").text
    browser.fill("Bytes per minute", "1000").tick("events_v1:create_event").press("Create the key")
    assert browser.find("#name-error").text == f"a key named {NAME!r} exists"
    assert browser.field("events_v1:create_event").is_selected()
    assert browser.field("Labels").get_attribute("value") == "team=x"
    assert len(browser.console()) == 3


def test_a_viewer_has_no_keys(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway)
    assert not browser.has_button("Keys")
    browser.visit("/keys")
    assert browser.was_answered(403)


def test_a_key_is_replaced_without_a_gap(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).visit("/keys/new").fill("Name", "rotated").fill("Labels", "team=search")
    browser.press("Create the key")
    first = browser.find("#secret").get_attribute("value") or ""
    browser.press("I have saved it").press("Rotate")
    assert browser.field("Name").get_attribute("value") == "rotated 2"
    assert browser.field("Labels").get_attribute("value") == "team=search"
    assert looks.faults("key-rotate") == []
    browser.show_as("light", 1280)
    browser.press("Create the key")
    second = browser.find("#secret").get_attribute("value") or ""
    assert looks.faults("key-rotated") == []
    browser.show_as("light", 1280)
    for secret in (first, second):
        post(gateway.intake_url + "/v1/traces", b"{}", {**JSON, "Authorization": secret})
    browser.press("rotated").press_here("Disable").press("Disable the key")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        post(gateway.intake_url + "/v1/traces", b"{}", {**JSON, "Authorization": first})
    post(gateway.intake_url + "/v1/traces", b"{}", {**JSON, "Authorization": second})
