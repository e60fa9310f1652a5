"""The guard of the hot paths: what it calls slower, and that each path does its work."""

import sys
from pathlib import Path

import pytest

from benchmarks.guard import __main__ as guard
from benchmarks.guard.paths import BODIES, REQUESTS, SPANS, DocumentsPath, ReadPath, append_path, request_path
from benchmarks.guard.reference import reference_ns

COMMITTED = {"read": 2.0, "append": 0.3, "request": 4.0}


def test_a_path_is_slower_beyond_1_4_times_its_committed_ratio() -> None:
    stated = guard.verdicts({"read": 2.81, "append": 0.41, "request": 1.0}, COMMITTED)
    assert stated["read"].startswith("SLOWER: 1.4")
    assert stated["append"].startswith("ok (1.37 times")
    assert "--update guards it" in stated["request"]
    assert guard.verdicts({"read": 2.0}, {}) == {"read": "no ratio is committed: --update"}


def test_each_reader_has_ratios_and_those_of_python_cover_every_path() -> None:
    ratios = guard.read_ratios()
    assert set(ratios) == {"python", "native"}
    assert set(ratios["python"]) == {"read", "documents", "append", "request"}


def test_the_exit_code_states_a_slower_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def found(rounds: int, folder: Path) -> dict[str, float]:
        return {name: ratio * 1.5 for name, ratio in guard.read_ratios()["python"].items()}

    monkeypatch.setattr(guard, "measured", found)
    monkeypatch.setattr(guard, "NATIVE", None)
    monkeypatch.setattr(guard.os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["guard"])
    assert guard.main() == 1
    assert capsys.readouterr().out.count("SLOWER") == 4


async def test_each_path_does_its_work_and_states_its_cpu_time(tmp_path: Path) -> None:
    read = ReadPath()
    records = [parsed.calls.records for parsed in await read.read() if parsed.calls is not None]
    assert sum(map(len, records)) == len({record for each in records for record in each}) == BODIES * SPANS
    assert await read.cpu_ns() > 0
    assert await DocumentsPath().cpu_ns() > 0
    async with append_path(tmp_path / "append") as append:
        assert await append.cpu_ns() > 0
        assert append.kept() == BODIES * SPANS
    assert reference_ns() > 0


@pytest.mark.slow
async def test_a_request_of_one_span_costs_the_gateway_cpu_time(tmp_path: Path) -> None:
    with request_path(tmp_path / "request", sys.executable) as request:
        used = [await request.cpu_ns() for _ in range(2)]
    assert min(used) > REQUESTS * 1_000  # a microsecond each is less than any request takes
