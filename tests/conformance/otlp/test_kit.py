"""The kit itself: each of its lines can fail, and every number has one."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks.processes import PROJECT_ROOT
from tests.conformance.otlp import grpc_lines, http_wire
from tests.conformance.otlp.every_line import LINES
from tests.conformance.otlp.grpc_wire import Grpc
from tests.conformance.otlp.http_wire import Http
from tests.conformance.otlp.lines import NUMBERS, run
from tests.conformance.otlp.target import Target
from tests.conformance.otlp.wrong_servers import NO, YES, wrong_grpc, wrong_http
from tests.support.ports import free_port

CANNOT_FAIL = {"B36"}
"""Applies at the default ports only."""


@pytest.fixture(autouse=True)
def brief_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_wire, "ANSWER_TIMEOUT_S", 2.0)
    monkeypatch.setattr(grpc_lines, "PINGS_S", 0.1)


def test_every_number_of_the_checklist_has_a_check() -> None:
    assert {one.number for one in LINES} == set(NUMBERS)


async def failing(answer: bytes, destination: tuple[str, int]) -> set[str]:
    """Lines that a server fails at that gives this answer to everything."""
    async with wrong_http(answer, destination) as url, wrong_http(answer) as busy:
        target = Target(Http(url, "key"), busy_http=Http(busy), weak_key="weak", origin="https://app.example")
        target.status_url = url + "/v2/status"
        target.destination = destination
        found = [await run(one, target) for one in LINES if one.over != "grpc"]
    return {result.line.number for result in found if result.verdict == "fail"}


async def test_each_line_over_http_fails_with_a_wrong_server() -> None:
    by_yes = await failing(YES, ("127.0.0.1", free_port()))
    by_no = await failing(NO, ("127.0.0.1", free_port()))
    assert by_yes >= {"B03", "B07", "B12", "B24", "B25", "B28", "B31", "B41", "B70"}
    assert by_yes | by_no == {one.number for one in LINES if one.over != "grpc"} - CANNOT_FAIL


async def failing_calls(code: str) -> set[str]:
    """Lines that a server fails at that ends every call with *code*."""
    async with wrong_grpc(code) as address, wrong_http(YES) as url:
        target = Target(grpc=Grpc(address, "key"), busy_grpc=Grpc(address), weak_key="weak")
        target.status_url = url + "/v2/status"
        found = [await run(one, target) for one in LINES if one.over == "grpc"]
    return {result.line.number for result in found if result.verdict == "fail"}


async def test_each_line_over_grpc_fails_with_a_wrong_server() -> None:
    by_ok, by_internal = await failing_calls("OK"), await failing_calls("INTERNAL")
    assert by_ok >= {"B03", "B07", "B12", "B61", "B62", "B63", "B64", "B66", "B67"}
    assert by_ok | by_internal == {one.number for one in LINES if one.over == "grpc"} - CANNOT_FAIL


async def command(*arguments: str) -> tuple[int, str]:
    """(exit code, what it printed)."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.conformance.otlp", *arguments), cwd=PROJECT_ROOT, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode()


async def test_the_command_ends_with_1_and_its_results_are_shown_with_others(tmp_path: Path) -> None:
    kept = tmp_path / "no.json"
    async with wrong_http(NO) as url:
        code, table = await command("--http", url, "--save", str(kept))
    assert code == 1
    assert "B01  http    fail " in table
    results = json.loads(kept.read_text())
    results[0] = ["B01 http", "pass", "plain 200", "MUST"]
    kept.write_text(json.dumps(results))
    code, table = await command("--beside", f"one={kept}", f"two={kept}")
    assert code == 0
    (row,) = [text for text in table.splitlines() if text.startswith("| B01 http")]
    assert row.endswith("| pass | pass |")
