"""Delivery and the overview of a cell in a browser, at a gateway that does not own it."""

from collections.abc import Iterator

import pytest

from tests.support.browser import Browser, Looks, Programs
from tests.support.cell_processes import Cell, running_cell
from tests.support.gateway_process import GatewayProcess
from tests.support.postgres import needs_postgres

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def cell(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    with running_cell(tmp_path_factory.mktemp("cell")) as cell:
        yield cell


@pytest.fixture(scope="module")
def gateway(cell: Cell) -> GatewayProcess:
    return cell.others()[0]


def states(browser: Browser) -> list[str]:
    """Of the gateways of the cell, in the order of the page."""
    rows = browser.all("[aria-label^='Gateways of the cell'] tbody tr")
    return [row.find_element("css selector", "td").text for row in rows]


def test_delivery_shows_owner_gateways_and_journal(browser: Browser, gateway: GatewayProcess, looks: Looks) -> None:
    browser.log_in(gateway).press("Delivery")
    assert sorted(states(browser)) == ["alive", "alive", "owner"]
    assert "It is the first owner." in browser.text
    assert "The owner keeps up." in browser.text
    assert looks.faults("delivery of a cell") == []


def test_a_silent_gateway_and_another_release_are_named_at_the_top(
    browser: Browser, cell: Cell, gateway: GatewayProcess, looks: Looks
) -> None:
    """A row of a gateway that is gone, as one that was killed leaves it, and of one of an older
    release that was seen just now, and for the next minute.
    """
    browser.log_in(gateway)
    copied = "SELECT id || '-{0}', '{0}', '{1}', forms, NULL, NULL, secrets, started_at, clock_timestamp() {2} FROM member LIMIT 1"
    cell.change("INSERT INTO member " + copied.format("gone", "0.1.0", "- interval '5 min'"))
    cell.change("INSERT INTO member " + copied.format("older", "0.1.0", "+ interval '1 min'"))
    browser.until(lambda: browser.visit("/") is not None and "different releases" in browser.text, "both")
    verdict = browser.find("#verdict").text
    assert "gateway gone of the cell has been silent for 5 minutes" in verdict
    assert "the gateways of the cell are of different releases: 0.1.0, " in verdict
    assert looks.faults("overview of a cell") == []
    browser.press("Delivery")
    assert sorted(states(browser)) == ["alive", "alive", "alive", "owner", "silent"]
    assert looks.faults("delivery of a cell with a silent gateway") == []
