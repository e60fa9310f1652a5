"""Explore in a browser: four clicks to an answer, its forms, its files, and how it looks."""

import csv
import json
import time
import urllib.request
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.browser.traffic import CALLS, post
from tests.support.browser import Browser, Looks
from tests.support.calls import EPOCH_MS
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

DAY_S = 24 * 3600
LONG = "a-feature-with-a-name-that-is-longer-than-any-column-of-a-table-should-be"


@pytest.fixture(scope="module", autouse=True)
def weeks(gateway: GatewayProcess) -> None:
    """Calls of one team and two features, of these 7 days and the 7 before."""
    for number, (feature, days_ago) in enumerate((("ranking", 1), ("ranking", 8), (LONG, 1), ("answers", 8))):
        at_s = time.time() - days_ago * DAY_S - EPOCH_MS / 1000
        resource = {"team.id": "search", "project.id": feature, "service.name": "search-assistant"}
        more = {"gen_ai.request.model": "gpt-4o", "gen_ai.response.model": "gpt-4o-2024-08-06"}
        body = call_span(f"week-{number}", (9000 + number, 800), at=at_s, resource=resource, more=more)
        post(gateway.intake_url + "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
    gateway.wait_until_delivered(at_least=len(CALLS) + 4)


@pytest.fixture
def explore(browser: Browser, gateway: GatewayProcess) -> Browser:
    """By team, with all calls."""
    browser.log_in(gateway).press("Explore")
    browser.until(lambda: "search" in browser.text or browser.visit("/usage") is None, "the teams")
    return browser


def question(browser: Browser) -> str:
    """As the page's own link holds it: forms send empty fields too."""
    return urlsplit(browser.button("Link to this question").get_attribute("href") or "").query


def asked(browser: Browser) -> dict[str, str]:
    return dict(parse_qsl(question(browser)))


def answer(browser: Browser, gateway: GatewayProcess) -> Any:
    """Of the API to the question of the page."""
    token = (gateway.data_dir / "viewer-token").read_text().strip()
    path = f"{gateway.admin_url}/v2/usage?{question(browser)}"
    sent = urllib.request.Request(path, headers={"Authorization": token})
    with urllib.request.urlopen(sent, timeout=30) as found:
        return json.load(found)


def amounts(browser: Browser) -> list[str]:
    return [
        str(each.get_attribute("value")) for each in browser.all("[aria-label^='Usage by'] tbody td:nth-child(2) data")
    ]


def test_four_clicks_from_the_start_to_the_cost_of_features_beside_the_week_before(
    explore: Browser, gateway: GatewayProcess, looks: Looks
) -> None:
    assert looks.faults("explore") == []
    explore.show_as("light", 1280)
    explore.press("search").press("gpt-4o").press("7 days")
    assert (asked(explore)["team"], asked(explore)["model"], asked(explore)["group_by"]) == (
        "search",
        "gpt-4o",
        "project",
    )
    found = answer(explore, gateway)
    rows = {row["project"]: row for row in found["usage"]}
    assert rows["ranking"]["previous"]["calls"] == 1
    assert amounts(explore) == [row["costs"]["USD"] for row in found["usage"]]
    assert "only in the period before" in explore.text
    assert looks.faults("explore features") == []


def test_a_second_dimension_and_a_search_are_in_the_address(explore: Browser, looks: Looks) -> None:
    before = explore.path
    explore.field("Then by").find_element("xpath", "./option[.='Project']").click()
    explore.until(lambda: explore.path != before, "sent by itself")
    assert asked(explore)["group_by"] == "team,project"
    explore.fill("Team contains", "SEA").press("Search")
    assert asked(explore)["search"] == "SEA"
    assert all("search" in name for name in explore.texts("tbody th.name .part:first-child"))
    assert any(LONG in name for name in explore.texts("tbody th.name"))
    assert looks.faults("explore two dimensions") == []
    explore.show_as("light", 1280)
    explore.fill("Team contains", "nobody").press("Search")
    assert "No call in this time, and no name with this text." in explore.text
    assert looks.faults("explore nothing") == []


def test_filters_go_with_a_click_and_everything_works_without_scripts(
    browser: Browser, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/usage").press("search").press("Team: search, remove")
    assert "team" not in asked(browser)
    browser.press_here("Another range or time zone")
    browser.choose("Range", "Yesterday").fill("Time zone", "Asia/Kolkata").press("Show")
    assert (asked(browser)["range"], asked(browser)["time_zone"]) == ("yesterday", "Asia/Kolkata")
    assert "the whole hour is shown" in browser.text
    browser.choose("Then by", "Project").press("Group")
    assert asked(browser)["group_by"] == "model,project"
    browser.press("Do not compare")
    assert "compare" not in asked(browser)
    assert "Before" not in browser.texts("thead th")


def test_a_range_of_ones_own_has_full_hours(explore: Browser, gateway: GatewayProcess, looks: Looks) -> None:
    explore.press_here("Another range or time zone")
    explore.choose("Range", "From and to, as below")
    assert explore.field("From").get_attribute("step") == "3600"
    assert looks.faults("explore range") == []
    explore.show_as("light", 1280)
    explore.press("Show")
    assert asked(explore)["from"].endswith("T00:00")
    assert answer(explore, gateway)["totals"]["calls"] > 0


def test_the_zone_is_that_of_who_looks(explore: Browser) -> None:
    explore.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "America/New_York"})
    try:
        explore.visit("/usage")
        explore.until(lambda: "time_zone" in explore.path, "the zone")
        assert explore.path == "/usage?time_zone=America%2FNew_York"
        assert "(America/New_York)" in explore.text
        explore.press("30 days")
        assert asked(explore)["time_zone"] == "America/New_York"
    finally:
        explore.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})


def test_the_file_has_what_is_shown(explore: Browser, gateway: GatewayProcess) -> None:
    path = explore.button("CSV").get_attribute("href") or ""
    token = (gateway.data_dir / "viewer-token").read_text().strip()
    sent = urllib.request.Request(path, headers={"Authorization": token})
    with urllib.request.urlopen(sent, timeout=30) as found:
        assert found.headers["Content-Disposition"].startswith('attachment; filename="usage-')
        rows = list(csv.DictReader(found.read().decode().splitlines()))
    assert [row["cost"] for row in rows if row["absent"] != "rest" and row["cost"]] == amounts(explore)


def test_a_question_is_saved_as_a_view_and_found_again(explore: Browser, looks: Looks) -> None:
    explore.press("Last week").press("search").press_here("Save as a view")
    assert looks.faults("explore save") == []
    explore.show_as("light", 1280)
    before = asked(explore)
    explore.fill("Name of the view", "Search, last week").press("Save")
    assert "The view was saved." in explore.text
    assert asked(explore) == before
    explore.visit("/usage").press("Search, last week")
    assert {name: asked(explore).get(name) for name in before} == before
    assert explore.find("nav[aria-label='Saved views'] [aria-current]").text == "Search, last week"
    assert looks.faults("explore with a view") == []
    explore.show_as("light", 1280)
    explore.press("Views").press("Search, last week")
    assert "Last week, UTC; Team: search." in explore.text
    explore.press("Open it in Explore")
    explore.press_here("Save as a view").fill("Name of the view", "Search, last week").press("Save")
    assert "another view has it" in explore.text
    assert explore.field("Name of the view").get_attribute("value") == "Search, last week"
    assert explore.was_answered(409)


def test_a_viewer_saves_nothing(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway).visit("/usage")
    assert not browser.has_button("Save as a view")


def test_hours_and_days_are_chosen_for_the_charts(explore: Browser, looks: Looks) -> None:
    bars = len(explore.all("svg.chart g.bucket"))
    explore.press("Hours")
    assert len(explore.all("svg.chart g.bucket")) > 20 * bars
    assert asked(explore)["chart"] == "hour"
    explore.press_here("Cost in USD as a table")
    assert looks.faults("explore hours") == []
