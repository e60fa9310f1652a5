"""The overview and delivery in a browser: figures, links, live updates, pause."""

from decimal import Decimal

import pytest

from tests.browser.traffic import CALLS, UNPRICED, send_call
from tests.support.browser import Browser, Looks
from tests.support.gateway_process import GatewayProcess


@pytest.fixture
def overview(browser: Browser, gateway: GatewayProcess) -> Browser:
    return browser.log_in(gateway).visit("/")


def figure(browser: Browser, title: str) -> str:
    """What stands under *title* in the headline."""
    for pair in browser.all(".stats > div"):
        name, _, value = pair.text.partition("\n")
        if name == title:
            return value
    raise AssertionError(title)


def test_the_figures_are_those_of_the_service(overview: Browser, gateway: GatewayProcess, looks: Looks) -> None:
    totals = gateway.summary()["totals"]
    assert figure(overview, "Calls").startswith(str(totals["calls"]))
    assert figure(overview, "Input tokens") == f"{totals['input_tokens']:,}"
    assert figure(overview, "Output tokens") == f"{totals['output_tokens']:,}"
    assert figure(overview, "Calls without a price").startswith("1\n")
    (cost,) = [each.get_attribute("value") for each in overview.all(".stats dd:first-of-type data")][:1]
    assert Decimal(cost or "") == Decimal(totals["cost"])
    assert overview.find("figure title").get_attribute("textContent").startswith("Cost in USD from ")
    row = next(each for each in overview.all("tbody tr") if UNPRICED in each.text)
    assert row.text.startswith(f"{UNPRICED} unknown 1 ")
    assert looks.faults("overview") == []


def test_a_link_leads_to_one_group_and_back(overview: Browser) -> None:
    overview.press("search")
    assert "Team: search" in overview.text
    mine = [call for call in CALLS if call.team == "search"]
    assert figure(overview, "Calls") == str(len(mine))
    overview.press("7 days")
    assert "range=7d" in overview.path
    assert "team=search" in overview.path, "the filter stays"
    overview.press("Team: search, remove")
    assert "team=" not in overview.path
    overview.find("#by-model").find_element("xpath", "..").find_element("tag name", "a").click()
    overview.until(lambda: overview.path.startswith("/usage?"), "the list of models")
    assert "time_zone=UTC" in overview.path, "days are those of the overview"
    overview.press("Calls")
    assert overview.find("th[aria-sort]").text == "Calls"
    assert overview.texts("tbody th.name")[0] == "gpt-4o"


def test_the_row_of_a_model_opens_to_its_dated_names(browser: Browser, gateway: GatewayProcess, looks: Looks) -> None:
    send_call(gateway, "dated", CALLS[0]._replace(model="gpt-4o-2024-08-06"))
    gateway.wait_until_delivered(at_least=len(CALLS) + 1)
    browser.log_in(gateway).visit("/usage?group_by=model&range=today")
    browser.until(
        lambda: browser.all("tbody details") or browser.visit("/usage?group_by=model&range=today") is None,
        "the dated call",
    )
    assert "gpt-4o-2024-08-06" not in browser.text, "it is closed"
    browser.focus("2 names of gpt-4o").enter()
    inside = browser.texts("tbody details li")
    assert sorted(each.split()[:3] for each in inside) == [
        ["gpt-4o", "2", "calls,"],
        ["gpt-4o-2024-08-06", "1", "call,"],
    ]
    assert looks.faults("usage with the names of a model") == []


def test_figures_come_by_themselves_and_leave_what_a_person_did(overview: Browser, gateway: GatewayProcess) -> None:
    """Focus, an opened table and the window's place stay."""
    overview.until(lambda: overview.find("#live-state").text == "Live", "live")
    overview.press_here(overview.find("#over-time summary").text)
    overview.focus("7 days")
    before = figure(overview, "Calls")
    send_call(gateway, "live-1")
    overview.until(lambda: figure(overview, "Calls") != before, "the new call")
    assert overview.find("#over-time").get_attribute("open") is not None
    assert overview.focused() == "7 days"


def test_the_opened_names_of_a_model_stay_open_when_figures_come(overview: Browser, gateway: GatewayProcess) -> None:
    summary = "[id='names-of-gpt-4o'] summary"
    send_call(gateway, "dated-and-opened", CALLS[0]._replace(model="gpt-4o-2024-08-06"))
    overview.until(lambda: overview.all(summary), "the dated call")
    overview.until(lambda: overview.find("#live-state").text == "Live", "live")
    overview.focus(overview.find(summary).accessible_name).enter()
    before = figure(overview, "Calls")
    send_call(gateway, "live-2")
    overview.until(lambda: figure(overview, "Calls") != before, "the new call")
    assert overview.find("[id='names-of-gpt-4o']").get_attribute("open") is not None


def test_a_pause_is_remembered(overview: Browser, gateway: GatewayProcess) -> None:
    overview.press_here("Pause")
    assert overview.find("#pause").get_attribute("aria-pressed") == "true"
    overview.visit("/delivery")
    assert overview.find("#live-state").text == "Paused"
    overview.visit("/")
    before = figure(overview, "Calls")
    send_call(gateway, "paused-1")
    assert figure(overview, "Calls") == before
    overview.press_here("Pause")
    overview.until(lambda: figure(overview, "Calls") != before, "the new call")
    assert overview.find("#pause").get_attribute("aria-pressed") == "false"


def test_without_scripts_the_page_is_whole_and_offers_no_pause(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/")
    assert figure(browser, "Calls")
    assert not browser.find("#pause").is_displayed()
    browser.press("30 days").press("Delivery")
    assert "received" in browser.text


def test_who_logs_out_is_out(overview: Browser) -> None:
    overview.press_by_keyboard("Log out")
    assert overview.path == "/login"
    overview.visit("/delivery")
    assert overview.field("Token")
    assert overview.was_answered(401)


def test_a_login_goes_on_to_the_page_that_was_asked_for(browser: Browser, gateway: GatewayProcess) -> None:
    browser.visit("/delivery?x=1").fill("Token", "not the token").press("Log in")
    assert "That is no token" in browser.find("#token-error").text
    assert browser.field("Token").get_attribute("aria-invalid") == "true"
    token = (gateway.data_dir / "admin-token").read_text().strip()
    browser.fill("Token", token).press("Log in")
    assert browser.path == "/delivery?x=1"
    assert browser.was_answered(401)


def test_the_first_stop_of_the_keyboard_is_past_the_navigation(overview: Browser) -> None:
    overview.tab()
    assert overview.focused() == "Skip to content"
    overview.enter()
    assert overview.driver.execute_script("return document.activeElement.id") == "content"


def test_delivery_states_each_lane(browser: Browser, gateway: GatewayProcess, looks: Looks) -> None:
    browser.log_in(gateway).press("Delivery")
    row = next(each for each in browser.all("tbody tr") if each.text.startswith("ai_telemetry"))
    assert "ok" in row.text
    assert gateway.service_url in row.text
    assert " UTC " in row.text, "its last success"
    assert looks.faults("delivery") == []


def test_a_viewer_sees_the_figures_and_no_keys(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway)
    assert figure(browser, "Calls")
    assert "Viewer" in browser.text
    assert not browser.has_button("Keys")
    assert [form.get_attribute("action") for form in browser.all("form[method=post]")] == [
        gateway.admin_url + "/logout"
    ]


def test_the_verdict_leads_to_the_lines_that_price_a_model(
    browser: Browser, gateway: GatewayProcess, looks: Looks
) -> None:
    browser.log_in(gateway).visit("/")
    verdict = browser.find("#verdict")
    assert f"{UNPRICED} has no price; 1 call has no cost." in verdict.text
    assert "Nothing that was accepted is lost" in verdict.text
    browser.press("Price it about prices")
    browser.fill("Input", "cheap").fill("Output", "2").press("Show the lines to add")
    assert browser.find("#input-error").text == "a number such as 2.50 is needed"
    browser.fill("Input", "0.50").press("Show the lines to add")
    assert browser.find("#snippet-lines").text.split("\n") == [
        "prices:",
        f"- {{model: {UNPRICED}, input: '0.50', output: '2'}}",
    ]
    assert looks.faults("prices") == []
