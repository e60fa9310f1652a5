"""Allocation rules in a browser: from calls without a team to the rules that give them one."""

import json
import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.traffic import post, send_traffic
from tests.support.browser import Browser, Looks, Programs
from tests.support.calls import EPOCH_MS
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

UNNAMED = {"batch": 3, "web": 2}
"""Service -> its calls without a team."""
BY_SERVICE = "/usage?range=last_7_days&group_by=service_name&unknown=team&time_zone=UTC"


@pytest.fixture(scope="module")
def gateway(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    config = {"tags": {"customer": []}, "counting": {"settle": "200ms", "metrics_settle": "200ms"}}
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), config=config) as gateway:
        send_traffic(gateway)
        at_s = time.time() - 5 - EPOCH_MS / 1000
        for service, count in UNNAMED.items():
            for number in range(count):
                body = call_span(f"{service}-{number}", (1000, 100), at=at_s, resource={"service.name": service})
                post(gateway.intake_url + "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        gateway.wait_until_delivered(at_least=4 + sum(UNNAMED.values()))
        yield gateway


def calls_by_team(gateway: GatewayProcess) -> dict[str | None, int]:
    token = (gateway.data_dir / "viewer-token").read_text().strip()
    path = f"{gateway.admin_url}/v2/usage?group_by=team&range=last_7_days"
    with urllib.request.urlopen(urllib.request.Request(path, headers={"Authorization": token}), timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return {row["team"]: row["calls"] for row in found["usage"]}


def test_calls_without_a_team_are_given_one_where_one_stands(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    before = calls_by_team(gateway)
    browser.log_in(gateway).visit(BY_SERVICE)
    assert looks.faults("explore without a team") == []
    browser.show_as("light", 1280)
    browser.press("Give these calls a team: batch")
    assert browser.texts(".rule .boxes label") == ["Service: batch"]
    known = [each.get_attribute("value") for each in browser.all("#known-names option")]
    assert known == ["batch", "web"], "services of calls without a team"
    browser.fill("Give them to by rule 1", "search = 60\nchat = 30").press("Show what it moves")
    assert browser.find("#shares-0-error").text == "they add up to 90; 100 is needed"
    assert browser.was_answered(400)
    browser.fill("Give them to by rule 1", "search = 60\n\nchat = x").press_by_keyboard("Save")
    assert browser.find("#shares-0-error").text.startswith("line 2: a number as text, such as 60 or 33.4")
    assert browser.was_answered(400)
    assert looks.faults("allocation fault") == []
    browser.show_as("light", 1280)
    browser.fill("Give them to by rule 1", "search = 34\nchat = 66 %").press("Show what it moves")
    assert "Nothing is saved yet." in browser.text
    assert moved(browser) == {"search": (2, 3), "chat": (0, 2), "none": (5, 2)}
    assert "Rule 1 gives away 3 calls, USD 0.0105." in browser.texts("#preview li")
    assert looks.faults("allocation preview") == []
    browser.show_as("light", 1280)
    assert calls_by_team(gateway) == before, "a preview changes nothing"
    browser.fill("Note (optional)", "as agreed").press("Save")
    assert "Version 1 is saved." in browser.text
    assert calls_by_team(gateway) == {"search": 3, "support": 2, "chat": 2, None: 2}


def test_rules_are_ordered_removed_and_brought_back_without_scripts(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/allocation").press("a project").fill("Give them to by rule 1", "rest").press("Add a rule")
    browser.choose("Only those of, in rule 2", "Team").fill("Name for rule 2", "support")
    browser.press("Add the name to rule 2").fill("Give them to by rule 2", "desk").press("Move up: rule 2")
    assert browser.texts(".rule .boxes label") == ["Team: support"]
    assert [each.get_attribute("value") for each in browser.all(".rule textarea")] == ["desk", "rest"]
    browser.send_from("Note (optional)")
    assert moved(browser) == {"rest": (0, 7), "desk": (0, 2), "none": (9, 0)}
    browser.press("Save")
    stale = browser.find("[name=version]").get_attribute("value")
    browser.press("Remove rule 1").press("Show what it moves")
    assert moved(browser) == {"rest": (7, 9), "desk": (2, 0)}
    browser.press("Save")
    assert len(browser.all(".rule")) == 1
    browser.press("Bring back version 1")
    assert "These are the rules of version 1." in browser.text
    assert [each.get_attribute("value") for each in browser.all(".rule textarea")] == ["desk = 100", "rest = 100"]
    browser.scripts(run=True)
    assert looks.faults("allocation brought back") == []
    browser.show_as("light", 1280)
    browser.driver.execute_script("document.querySelector('[name=version]').value = arguments[0]", stale)
    browser.press("Save")
    assert "Somebody saved another version meanwhile." in browser.text
    assert browser.was_answered(409)
    browser.visit("/allocation/project?version=1").press("Save")
    assert "Version 3 is saved." in browser.text
    assert browser.texts(".history summary")[0].endswith(": As version 1")
    browser.press("Explore shows them by service")
    assert "No call in this time with these filters." in browser.text
    browser.visit("/allocation/project").press("Remove rule 1").press("Remove rule 1").press("Save")
    assert "It has no rules: nothing is given any more." in browser.text


def test_a_viewer_reads_the_rules_and_changes_none(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    rules = [{"match": {"service_name": ["batch"]}, "shares": [{"name": "acme", "percent": "100"}]}]
    body = json.dumps({"target": "tag:customer", "rules": rules}).encode()
    token = (gateway.data_dir / "admin-token").read_text().strip()
    post(gateway.admin_url + "/v2/allocation/definitions", body, {"Authorization": token})
    browser.log_in_as_viewer(gateway).visit(BY_SERVICE)
    assert not browser.has_button("Give these calls a team")
    browser.press("Allocation")
    assert looks.faults("allocation") == []
    browser.show_as("light", 1280)
    browser.press("Open the rules for tag customer")
    assert "Service: batch" in browser.text
    assert not browser.has_button("Save")
    assert [form.get_attribute("action") for form in browser.all("form[method=post]")] == [
        gateway.admin_url + "/logout"
    ]
    browser.visit("/allocation/colour")
    assert browser.was_answered(404)


def moved(browser: Browser) -> dict[str, tuple[int, ...]]:
    """Name -> its calls now and then, as the preview shows them."""
    rows = [
        [cell.text for cell in row.find_elements("css selector", "th, td")] for row in browser.all("#preview tbody tr")
    ]
    return {name: tuple(int((re.findall(r"(\d+) call", each) or ["0"])[0]) for each in sides) for name, *sides in rows}
