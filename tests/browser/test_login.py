"""Into the page and out again, in a browser."""

from tests.browser.traffic import UNPRICED
from tests.support.browser import Browser, Looks
from tests.support.gateway_process import GatewayProcess


def test_the_login_form_looks_right(browser: Browser, looks: Looks) -> None:
    browser.visit("/login")
    assert looks.faults("login") == []


def test_the_admin_token_opens_the_page(browser: Browser, gateway: GatewayProcess) -> None:
    browser.visit("/login").fill("Admin token", (gateway.data_dir / "admin-token").read_text().strip())
    browser.press_by_keyboard("Open")
    assert browser.path == "/"


def test_the_page_looks_right(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway)
    assert UNPRICED in browser.text
    assert looks.faults("overview", but={"meta-refresh"}) == []
