"""Gateways of a cell whose wall clocks are wrong, and differ: the time is that of the database."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scenario import fetch
from tests.support.cell_processes import Cell, running_cell
from tests.support.gateway_process import GatewayProcess
from tests.support.polling import wait_until_true
from tests.support.postgres import needs_postgres
from tests.support.spans import call_span
from tests.support.wrong_clock import WrongClock

pytestmark = needs_postgres

HOUR_MS = 3_600_000
"""Longer than the window in which duplicates are known."""


class Clocks:
    """A cell of two gateways, the first of which started two hours behind and owns it; the other
    one started two hours ahead.
    """

    def __init__(self, cell: Cell, clocks: list[WrongClock]) -> None:
        self.cell, self._clocks = cell, clocks

    def step(self, gateway: GatewayProcess, ms: int) -> None:
        self._clocks[self.cell.gateways.index(gateway)].step(ms)

    def send(self, gateway: GatewayProcess, name: str) -> None:
        headers = {"Content-Type": "application/x-protobuf"}
        fetch(f"{gateway.intake_url}/v1/traces", method="POST", headers=headers, body=call_span(name, (100, 20)))

    def edge(self, received: int) -> dict[str, Any]:
        """Its counts, once so much was counted."""
        found: dict[str, Any] = {}

        def is_counted() -> bool:
            try:
                found.update(self.cell.ask(self.cell.owner(), "/v2/status")["edge"])
            except OSError:
                return False
            return bool(found["received"] >= received)

        wait_until_true(is_counted, what=f"{received} counted")
        return found


@pytest.fixture
def clocks(tmp_path: Path) -> Iterator[Clocks]:
    made = []
    for number in range(2):
        folder = tmp_path / f"clock-{number}"
        folder.mkdir()
        made.append(WrongClock(folder))
    made[0].step(-2 * HOUR_MS)
    made[1].step(2 * HOUR_MS)
    with running_cell(tmp_path, 2, environ=lambda number: made[number].environ) as cell:
        yield Clocks(cell, made)


def test_a_new_owner_whose_clock_is_ahead_knows_what_was_counted(clocks: Clocks) -> None:
    cell = clocks.cell
    first, second = cell.gateways
    assert cell.owner() is first
    clocks.send(second, "the same")
    cell.wait_until_delivered(1)
    clocks.step(second, 3 * HOUR_MS)
    assert first.stop() == 0
    clocks.send(second, "the same")
    edge = clocks.edge(2)
    assert (edge["kept"], edge["duplicate"]) == (1, 1)
    (record,) = cell.service.records()
    received = datetime.fromisoformat(record["received_at"])
    assert abs(received - datetime.now(UTC)) < timedelta(minutes=30), "stamped by the clock of the database"
    lanes = cell.ask(second, "/v2/status")["lanes"]
    assert {lane["expired"] for lane in lanes.values()} == {0}
