"""A team's own view in a browser: its token is made on the page, opens the page, and is revoked.
And the way from an identity provider's site back to the page.
"""

import re
from pathlib import Path

from tests.support.browser import Browser, Looks, Programs
from tests.support.gateway_process import GatewayProcess
from tests.support.oidc_provider import CLIENT, CLIENT_SECRET, running_oidc_provider
from tests.support.ports import free_port

SECRET = re.compile(r"tgv_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}")
OWN, OTHER = "search", "support"


def test_a_team_sees_its_own_calls_alone(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).press("Keys").press("Viewer tokens")
    browser.fill("Name", "Search leads").fill("Teams", OWN)
    assert looks.faults("viewer-tokens") == []
    browser.show_as("light", 1280)
    browser.press("Create the token")
    secret = browser.find("#secret").get_attribute("value") or ""
    assert SECRET.fullmatch(secret)
    assert looks.faults("viewer-token-created") == []
    browser.show_as("light", 1280)
    browser.press("I have saved it")
    assert f"team {OWN}" in browser.text

    browser.forget_session().visit("/login").fill("Token", secret).press("Log in")
    assert f"Viewer · team {OWN}" in browser.text
    assert browser.texts("nav.views a") == ["Overview", "Explore", "Budgets", "Insights"]
    assert looks.faults("of-a-team") == []
    browser.show_as("light", 1280)
    for path in ("/?range=7d", "/usage", "/calls", "/budgets", "/insights", "/views"):
        assert OTHER not in browser.visit(path).text, path
    assert f"{OWN}-assistant" in browser.visit("/usage?group_by=service_name").text
    assert not browser.has_button("Allocation"), "shares of others' calls are not shown to it"

    browser.forget_session().log_in(gateway).visit("/viewer-tokens")
    browser.find("td summary").click()
    browser.press("Revoke it now")
    assert "The token is revoked" in browser.text


def test_a_person_comes_back_from_the_identity_provider_with_a_session(
    programs: Programs, window: Browser, tmp_path: Path
) -> None:
    """The provider is another site."""
    port = free_port()
    with running_oidc_provider(tmp_path) as provider:
        oidc = {
            "issuer": provider.issuer, "client_id": CLIENT, "client_secret": CLIENT_SECRET,
            "redirect_uri": f"http://localhost:{port}/login/callback",
        }  # fmt: skip
        listen = {"http": "127.0.0.1:0", "grpc": "off", "service": "127.0.0.1:0", "admin": f"127.0.0.1:{port}"}
        config = {"listen": listen, "sign_in": {"oidc": oidc, "roles": [{"group": "everyone"}]}}
        with GatewayProcess(tmp_path, config=config) as gateway:
            browser = window.at(gateway)
            browser.base_url = f"http://localhost:{port}"
            browser.visit("/usage").find("a.primary").click()
            browser.until(lambda: browser.path == "/usage", "the page that was asked for")
            assert "Explore" in browser.find("h1").text
            assert browser.has_button("Log out")
            browser.console()
