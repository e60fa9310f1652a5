"""Each change of a lane in the log, and no more than that."""

from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from gateway.observability.lane_log import PAUSE_S, LaneLog
from gateway.observability.metrics import LaneStatus

CHANGED = "lane state changed"


@dataclass
class Rig:
    """One lane, and the log of what happens to it."""

    lane: LaneStatus
    now_s: float = 1000.0
    log: LaneLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = LaneLog(lambda: {"a": self.lane}, lambda: self.now_s)

    async def becomes(self, state: str, reason: str | None = None, *, after_s: float = 1.0) -> list[tuple[str, str]]:
        """(level, state) of the lines that one look then logs."""
        self.now_s += after_s
        self.lane |= {"state": state, "reason": reason}  # type: ignore[typeddict-item]  # the states that there are
        with capture_logs() as lines:
            await self.log.run_maintenance()
        self.lines = lines
        return [(line["log_level"], line["state"]) for line in lines if line["event"] == CHANGED]


@pytest.fixture
def rig() -> Rig:
    lane: LaneStatus = {
        "kept": 7,
        "delivered": 4,
        "pending": 3,
        "dead_lettered": 0,
        "expired": 0,
        "oldest_pending_age_s": 1.0,
        "state": "ok",
        "reason": None,
    }
    return Rig(lane)


async def test_a_change_is_logged_at_once_with_its_reason_and_a_state_that_lasts_is_not(rig: Rig) -> None:
    assert await rig.becomes("ok") == []
    assert await rig.becomes("retrying", "HTTP 503") == [("warning", "retrying")]
    (line,) = rig.lines
    assert (line["lane"], line["before"], line["reason"], line["pending"]) == ("a", "ok", "HTTP 503", 3)
    assert await rig.becomes("retrying", "HTTP 502") == []
    assert await rig.becomes("ok", after_s=PAUSE_S) == [("info", "ok")]


async def test_a_lane_that_comes_and_goes_writes_a_line_in_ten_seconds_that_counts_its_changes(rig: Rig) -> None:
    await rig.becomes("ok")
    lines = [await rig.becomes(state, after_s=0.5) for _ in range(100) for state in ("retrying", "ok")]
    assert len([line for line in lines if line]) <= 100 / PAUSE_S + 1
    assert await rig.becomes("held", after_s=PAUSE_S) == [("warning", "held")]
    assert rig.lines[0]["changes"] > 10


async def test_a_lane_that_sends_nothing_is_named_once_while_something_waits(rig: Rig) -> None:
    looks = []
    for _ in range(3):
        assert await rig.becomes("off", "no key") == [], "it was so at the start"
        looks.append(len(rig.lines))
    assert looks == [1, 0, 0]
    rig.lane["pending"] = 0
    assert await rig.becomes("off", "no key") == []
    rig.lane["pending"] = 1
    await rig.becomes("off", "no key")
    (line,) = rig.lines
    assert (line["event"], line["lane"], line["pending"]) == ("records wait in a lane that sends nothing", "a", 1)
