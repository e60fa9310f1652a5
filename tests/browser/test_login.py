"""Into the page and out again, in a browser."""

import pytest

from gateway.operate.site.registry import VIEWS
from gateway.operate.site.view import View
from tests.support.browser import Browser, Looks
from tests.support.gateway_process import GatewayProcess


def test_the_login_form_looks_right(browser: Browser, looks: Looks) -> None:
    browser.visit("/login")
    assert looks.faults("login") == []


def test_the_admin_token_opens_the_page(browser: Browser, gateway: GatewayProcess) -> None:
    browser.visit("/login").fill("Token", (gateway.data_dir / "admin-token").read_text().strip())
    browser.press_by_keyboard("Log in")
    assert browser.path == "/"


@pytest.mark.parametrize("view", [view for view in VIEWS if "{" not in view.path], ids=lambda view: view.title)
def test_each_view_looks_right(browser: Browser, looks: Looks, gateway: GatewayProcess, view: View) -> None:
    browser.log_in(gateway)
    browser.visit(view.path)
    assert looks.faults(view.title.lower().replace(" ", "-")) == []
