"""What keeps data from being taken is logged when it begins and when it ends, and no more often."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.observability.intake_log import PAUSE_S, SLOW_PAUSE_S, IntakeLog
from spool.errors import SpoolFull
from spool.histogram import ANSWER_S, Histogram
from tests.support.polling import until_true
from tests.support.running_gateway import running_gateway


@dataclass
class Rig:
    reason: str | None = None
    held_s: float | None = None
    now_s: float = 1000.0
    commits: Histogram = field(default_factory=lambda: Histogram(ANSWER_S))
    log: IntakeLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = IntakeLog(self.not_ready, self.commits, lambda: self.held_s, lambda: self.now_s)

    async def not_ready(self) -> str | None:
        return self.reason

    async def look(self, *, after_s: float = 1.0) -> list[dict[str, Any]]:
        """The lines of one look."""
        self.now_s += after_s
        with capture_logs() as lines:
            await self.log.run_maintenance()
        return [dict(line) for line in lines]


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_a_refusal_is_logged_once_with_its_reason_and_its_end_with_how_long_it_was(rig: Rig) -> None:
    assert await rig.look() == []
    rig.reason = "the disk is full"
    assert await rig.look() == [{"event": "data is refused", "log_level": "error", "reason": "the disk is full"}]
    assert await rig.look(after_s=30) == []
    rig.reason = None
    assert await rig.look(after_s=30) == [{"event": "data is kept again", "log_level": "info", "refused_s": 60.0}]


async def test_a_refusal_that_comes_and_goes_writes_a_line_in_ten_seconds(rig: Rig) -> None:
    lines = []
    for number in range(100):
        rig.reason = None if number % 2 else "the spool is full"
        lines += await rig.look()
    assert len(lines) <= 100 / PAUSE_S


async def test_telemetry_that_waits_for_an_enrolment_is_stated_and_its_end_too(rig: Rig) -> None:
    rig.held_s = 2.04
    (line,) = await rig.look()
    assert (line["event"], line["oldest_s"]) == ("telemetry waits for an enrolment", 2.0)
    rig.held_s = None
    (line,) = await rig.look(after_s=20)
    assert (line["event"], line["held_s"]) == ("telemetry no longer waits for an enrolment", 20.0)


async def test_slow_commits_are_counted_in_one_line_a_minute(rig: Rig) -> None:
    for _ in range(3):
        rig.commits.observe(1.5)
    rig.commits.observe(1.0)
    (line,) = await rig.look()
    assert (line["event"], line["commits"], line["longer_than_s"]) == ("slow commits", 3, 1.0)
    rig.commits.observe(40)
    assert await rig.look() == []
    (line,) = await rig.look(after_s=SLOW_PAUSE_S)
    assert line["commits"] == 1


async def test_a_gateway_whose_spool_is_full_logs_that(tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with running_gateway(tmp_path) as running:
            running.spool.settings = replace(running.spool.settings, max_bytes=1)
            await until_true(lambda: any(x["event"] == "data is refused" for x in lines), what="logged")
            with pytest.raises(SpoolFull):
                running.spool.admit(1)
