"""Repeats in the log: one line a cause in an interval, its traceback once, with a count."""

import subprocess
import sys

from gateway.cli.log_limit import MAX_CAUSES, Line, Repeats
from tests.support.retained import largest

LOGS = """
import logging, structlog
from gateway.cli.logging import configure_logging
configure_logging()
def fail(n):
    try:
        raise OSError(n)
    except OSError:
        logging.getLogger("spool").exception("try %d", n)
        structlog.get_logger().exception("a lane ended", lane="a")
for n in range(300):
    fail(n)
    structlog.get_logger().warning("maintenance failed", part="spool")
    structlog.get_logger().warning("maintenance failed", part="keys")
    structlog.get_logger().info("of each its line")
    structlog.get_logger().error("not reloaded", always=True)
    logging.getLogger("other").warning("the same")
"""


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_cause_is_logged_once_in_an_interval_and_then_with_its_count() -> None:
    clock = Clock()
    repeats = Repeats(60.0, clock)
    assert repeats.line("a", "a") == Line(is_logged=True)
    assert [repeats.line("a", "a").is_logged for _ in range(9)] == [False] * 9
    assert repeats.line("b", "b").is_logged
    clock.now_s += 60
    assert repeats.line("a", "a") == Line(is_logged=True, repeats=9, is_first=False)
    assert not repeats.line("a", "a").is_logged


def test_what_ended_is_counted_too_and_once() -> None:
    clock = Clock()
    repeats = Repeats(60.0, clock)
    for _ in range(5):
        repeats.line("a", "the disk")
    assert repeats.ended() == []
    clock.now_s += 60
    assert repeats.ended() == [("the disk", 4)]
    assert repeats.ended() == []


def test_causes_that_no_one_repeats_do_not_gather() -> None:
    repeats = Repeats(60.0, Clock())
    for n in range(10 * MAX_CAUSES):
        assert repeats.line(n, "n").is_logged
    assert largest(repeats) == MAX_CAUSES


def test_three_hundred_failures_are_a_handful_of_lines_with_one_traceback_each() -> None:
    ended = subprocess.run([sys.executable, "-c", LOGS], capture_output=True, text=True, timeout=60, check=True)
    text = ended.stderr
    assert text.count("Traceback") == 2
    assert text.count("maintenance failed") == 2, "one of each part"
    assert text.count("the same") == 1
    assert text.count("of each its line") == text.count("not reloaded") == 300, "neither is limited"
