"""One frame of `top`: 80 columns, 24 lines, unknown stays unknown."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any

from rich.console import Console

from gateway.cli.top import Seen, frame
from gateway.usage.sums.request import GROUPS

LANE = {"state": "ok", "pending": 0, "oldest_pending_age_s": None, "delivered": 10, "dead_lettered": 0}
LANES = ("ai_telemetry", "usage_events", "unit_cost", "devices")
SUMS = {"calls": 3, "input_tokens": None, "output_tokens": 5, "costs": {}, "calls_without_cost": 3}


def status(received: int = 0, delivered: int = 10) -> dict[str, Any]:
    lanes = {name: {**LANE, "delivered": delivered} for name in LANES}
    return {"version": "1.2.3", "edge": {"received": received}, "lanes": lanes}


def shown(seen: Seen, width: int = 80) -> str:
    out = StringIO()
    Console(file=out, width=width, height=24).print(frame(seen, datetime(2026, 1, 5, 10, tzinfo=UTC)))
    return out.getvalue()


def crowded() -> Seen:
    """All names as long as they come, more of everything than fits."""
    seen = Seen("/var/lib/" + "x" * 200)
    names = [{"provider": "p" * 60, "model": f"{n}" * 90, **SUMS} for n in range(20)]
    seen.look(status(0), {}, 0.0)
    seen.look(status(300, 40), {"totals": SUMS, GROUPS.root: names}, 10.0)
    for n in range(20):
        line = {"service": f"{n}" * 80, "key": "k" * 70, "status": "error", "provider": None, "model": "m" * 90}
        seen.note({**line, "duration_ms": 1000 * n, "output_tokens": None}, 10.0)
    return seen


def test_a_frame_fits_a_terminal_of_80_columns_and_24_lines() -> None:
    lines = shown(crowded()).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_rates_are_those_between_two_looks() -> None:
    text = shown(crowded(), 300)
    assert "in 30.0/s" in text
    (lane,) = [line for line in text.splitlines() if line.startswith("ai_telemetry")]
    assert " 3.0 " in lane
    seen = Seen("x")
    seen.look(status(), {}, 0.0)
    assert "in -/s" in shown(seen)


def test_what_is_unknown_is_no_zero() -> None:
    text = shown(crowded(), 300)
    assert "3 calls, cost unknown, 3 calls without a cost, tokens unknown in, 5 out" in text
    assert "today: unknown" in shown(Seen("x"))


def test_one_call_is_a_call() -> None:
    seen = Seen("x")
    one = {**SUMS, "calls": 1, "calls_without_cost": 1}
    seen.look(status(), {"totals": one, GROUPS.root: []}, 0.0)
    assert "1 call, cost unknown, 1 call without a cost" in shown(seen)


def test_the_slowest_calls_and_the_busiest_senders_are_listed_first() -> None:
    seen = crowded()
    for _ in range(3):
        line = {"service": "busy", "key": None, "status": "ok", "provider": "openai", "model": "gpt-4o"}
        seen.note({**line, "duration_ms": 60_000, "output_tokens": 9}, 10.0)
    text = shown(seen, 300)
    assert text.index("openai/gpt-4o") > text.index("slowest")
    assert text.index("busy") < text.index("slowest")
    assert "60.0" in text
    seen.look(status(), {}, 100.0)
    assert "60.0" not in shown(seen, 300), "a minute later"
