"""When the upstream is asked whether it is there, and what the status states of it."""

import asyncio
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from exporters.cost_service.liveness import Liveness
from gateway.pipeline.delivery.liveness import LOOK_S, SILENT_S, UpstreamLiveness
from tests.support.lane_runs import until
from tests.support.manual_clock import ManualClock

NOW_MS = 1_767_607_200_000


class Upstream:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.says: Liveness = "ok"
        self.successes: list[float | None] = [None, None]
        self.clock = ManualClock()
        self.liveness = UpstreamLiveness(self._check, lambda: self.successes, self.clock, lambda: NOW_MS)

    async def _check(self) -> Liveness:
        self.asked += 1
        return self.says

    async def after(self, seconds: float) -> int:
        """How often it was asked, once that time went by with a look at its end."""
        self.clock.advance(seconds)
        if self.liveness.is_due():
            await self.liveness.look()
        return self.asked


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


async def test_it_is_asked_at_the_start_and_again_when_a_lane_was_silent_for_long(upstream: Upstream) -> None:
    assert await upstream.after(0) == 1
    assert await upstream.after(SILENT_S) == 1
    assert await upstream.after(1) == 2
    assert await upstream.after(SILENT_S) == 2
    upstream.successes = [upstream.clock.monotonic_s(), upstream.clock.monotonic_s()]
    assert await upstream.after(SILENT_S) == 2, "every lane got through"
    upstream.successes[0] = upstream.clock.monotonic_s()
    assert await upstream.after(1) == 3, "the other lane did not"


async def test_what_is_found_is_shown_and_logged_when_it_changes(upstream: Upstream) -> None:
    assert upstream.liveness.status() == {"liveness": None, "checked_at": None, "last_success_at": None}
    with capture_logs() as logs:
        await upstream.after(0)
        await upstream.after(SILENT_S + 1)
        upstream.says = "unreachable"
        await upstream.after(SILENT_S + 1)
    assert [line["found"] for line in logs] == ["ok", "unreachable"]
    upstream.successes[1] = upstream.clock.monotonic_s()
    upstream.clock.advance(2)
    assert upstream.liveness.status() == {
        "liveness": "unreachable",
        "checked_at": "2026-01-05T10:00:00.000Z",
        "last_success_at": "2026-01-05T09:59:58.000Z",
    }


async def test_it_goes_on_looking_until_it_is_cancelled(upstream: Upstream) -> None:
    running = asyncio.create_task(upstream.liveness.run())
    await until(lambda: upstream.clock.next_due_s() is not None)
    upstream.clock.advance(SILENT_S + LOOK_S)
    await until(lambda: upstream.asked > 1)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert upstream.asked == 2
