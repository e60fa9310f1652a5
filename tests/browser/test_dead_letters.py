"""Dead letters in a browser: counts, list, one record, and replay and drop of a choice."""

from collections.abc import Iterator

import pytest

from tests.browser.traffic import send_calls
from tests.support.browser import Browser, Looks, Programs
from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.polling import wait_until_true
from tests.support.refusing_service import RefusingService
from tests.support.upstream_thread import upstream_in_thread

KEY = "an-outbound-key-of-the-test"
REFUSED = 12


@pytest.fixture(scope="module")
def service() -> RefusingService:
    """Refuses all records, for two reasons."""
    return RefusingService(lambda record: "bad_model" if record["usage"]["input_tokens"] % 2 else "bad_time")


@pytest.fixture(scope="module")
def gateway(
    programs: Programs, service: RefusingService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with (
        upstream_in_thread(service.respond) as upstream,
        GatewayProcess(folder, upstream=Upstream(upstream.base_url, KEY)) as gateway,
    ):
        send_calls(gateway, REFUSED)
        gateway.wait_until_delivered(at_least=REFUSED)
        yield gateway


def dead_lettered(gateway: GatewayProcess) -> list[int]:
    """Records by reason."""
    return [each["records"] for each in gateway.status()["dead_letters"]]


def test_counts_list_and_record_are_shown(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).press("Dead letters")
    assert [row.split()[:2] for row in browser.texts("table:first-of-type tbody tr")][:2] == [
        ["ai_telemetry", "bad_model"],
        ["ai_telemetry", "bad_time"],
    ]
    assert looks.faults("dead-letters") == []
    browser.show_as("light", 1280)
    browser.press("bad_model")
    assert len(browser.all("input[name=id]")) == REFUSED / 2
    assert browser.all("td:nth-child(5)")
    browser.press(browser.texts("tbody th a")[-1])
    assert "usage.input_tokens" in browser.text
    assert "refused: bad_model" in browser.text
    assert looks.faults("dead-letter") == []


def test_a_choice_is_dropped_after_its_number_was_stated(
    browser: Browser, looks: Looks, gateway: GatewayProcess
) -> None:
    before = sum(dead_lettered(gateway))
    browser.log_in(gateway).scripts(run=False)
    browser.visit("/dead-letters?reason=bad_time")
    for box in browser.all("input[name=id]")[:2]:
        box.click()
    browser.press_by_keyboard("Drop the chosen")
    assert browser.find("h1").text == "Drop 2 dead letters?"
    browser.scripts(run=True)
    assert looks.faults("dead-letters-drop") == []
    browser.scripts(run=False)
    browser.press_by_keyboard("Drop 2 dead letters")
    assert "2 dead letters were dropped." in browser.text
    wait_until_true(lambda: sum(dead_lettered(gateway)) == before - 2, what="counted")


def test_all_that_match_are_replayed(browser: Browser, gateway: GatewayProcess, service: RefusingService) -> None:
    refuses, service.refuses = service.refuses, lambda _: None
    browser.log_in(gateway).visit("/dead-letters?reason=bad_model").press("Replay all 6")
    assert browser.find("h1").text == "Replay 6 dead letters?"
    browser.press("Replay 6 dead letters")
    service.refuses = refuses
    assert "6 records are pending again." in browser.text
    gateway.wait_until_delivered(at_least=REFUSED)
    assert len(service.taken) == 6


def test_a_choice_that_is_no_choice_is_refused_in_words(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).visit("/dead-letters/replay?since=yesterday")
    assert "since: a duration such as 2h or 7d, or a time such as 2026-01-05T10:00:00Z, is needed" in browser.text
    assert browser.was_answered(400)


def test_a_viewer_neither_replays_nor_drops(browser: Browser, gateway: GatewayProcess) -> None:
    browser.log_in_as_viewer(gateway).visit("/dead-letters")
    assert browser.all("input[name=id]") == []
    assert not browser.has_button("Drop the chosen")
    browser.visit("/dead-letters/drop")
    assert "operator" in browser.text
    assert browser.was_answered(403)
