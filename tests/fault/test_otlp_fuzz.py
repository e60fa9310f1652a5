"""Damaged payloads over HTTP and gRPC; `python -m tests.fault.otlp_fuzz` sends 200,000."""

from collections import Counter
from pathlib import Path
from random import Random

from tests.fault.otlp_fuzz import Summary, fuzz


def test_damaged_payloads_are_answered_and_cost_no_memory(tmp_path: Path, chance: Random) -> None:
    summary = fuzz(2000, chance.getrandbits(32), tmp_path)
    assert summary.faults() == []
    assert summary.answers.total() == 2000
    assert min(summary.answers[answer] for answer in ("200", "400", "OK", "INVALID_ARGUMENT")) > 50


def test_the_summary_finds_fault() -> None:
    bad = Summary(Counter({"200": 1, "503": 2, "INTERNAL": 1}), 1.0, [100] * 9 + [200], ["edge"], 1.0)
    assert len(bad.faults()) == 5
    assert Summary(Counter({"200": 1}), 0.0, [100] * 9 + [110], [], 1.0).faults() == []
