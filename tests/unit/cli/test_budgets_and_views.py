"""`budgets`, `views`, and `usage` and `export` by a view, on the files of a stopped gateway."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.common.storage.database import Database
from gateway.common.wall_clock import wall_ms
from gateway.stores.sql.sums.home import SqlSums
from spool.clock import rfc3339_ms
from spool.data_dir import make_data_dir
from tests.support.commands import Ended, run_telemetry_gateway
from tests.unit.usage.sums.test_tally import counted, record, store

Run = Callable[..., Ended]


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """A gateway that counted three calls of today."""
    folder, now_ms = tmp_path / "data", wall_ms()
    make_data_dir(folder)
    database = await Database.open(folder / "control.db")
    cost = {"amount": "0.5", "currency": "USD", "source": "reported"}
    calls: list[dict[str, Any]] = [
        record(attribution={"team": team}, cost=cost, started_at=rfc3339_ms(now_ms)) for team in ("core", "core", "web")
    ]
    tally = counted(*calls, now_ms=now_ms)
    await store(await SqlSums.open(database), tally, now_ms=now_ms)
    await database.close()
    return folder


@pytest.fixture
def run(data_dir: Path) -> Run:
    def run(*arguments: str, code: int = 0) -> Ended:
        ended = run_telemetry_gateway(*arguments, environ={"TELEMETRY_GATEWAY_DATA": str(data_dir)})
        assert ended.code == code, ended.err
        return ended

    return run


def test_a_budget_is_made_shown_changed_and_deleted(run: Run) -> None:
    wanted = ("--currency", "USD", "--period", "year", "--where", "team=core", "--alert", "50", "--stop-at", "90")
    made = run("budgets", "create", "Core", "--amount", "1.5", *wanted, "--json").json["budget"]
    assert (made["state"]["spent"], made["filter"], made["stop_at"]) == ("1", {"team": ["core"]}, 90)
    assert [alert["percent"] for alert in made["alerts"]] == [50]
    assert "67 %" in run("budgets", "list").out
    assert "spent 1 of 1.5 USD" in run("budgets", "show", "Core").out
    changed = run("budgets", "change", "Core", "--amount", "3", "--stop-at", "0", "--json").json["budget"]
    assert (changed["amount"], changed["stop_at"], changed["alerts"][0]["is_rearmed"]) == ("3", None, True)
    assert "no budget has this name" in run("budgets", "show", "none", code=1).err
    assert "--period" in run("budgets", "create", "x", "--amount", "1", "--currency", "USD", code=2).err
    assert (
        "currency" in run("budgets", "create", "x", "--amount", "1", "--currency", "usd", "--period", "day", code=1).err
    )
    run("budgets", "delete", made["id"])
    assert run("budgets", "list", "--json").json["budgets"] == []


def test_a_gateway_that_never_ran_is_given_budgets_and_a_wrong_option_is_named(tmp_path: Path) -> None:
    new = ("--amount", "1", "--currency", "USD", "--period", "day", "--data-dir", str(tmp_path / "new"))
    asked = run_telemetry_gateway("budgets", "list", "--data-dir", str(tmp_path / "new"))
    assert (asked.code, "--data-dir" in asked.err) == (1, True)
    wrong = run_telemetry_gateway("budgets", "create", "Core", *new, "--alert", "0")
    assert (wrong.code, "--alert" in wrong.err) == (2, True)
    made = run_telemetry_gateway("budgets", "create", "Core", *new)
    assert made.code == 0, made.err
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_usage_and_export_take_a_view(run: Run, tmp_path: Path) -> None:
    run("views", "create", "Core", "--where", "team=core", "--group-by", "team,model", "--range", "this_year")
    assert "team=core" in run("views", "list").out
    found = run("usage", "--view", "Core", "--json").json
    assert [(row["team"], row["calls"]) for row in found["usage"]] == [("core", 2)]
    assert "core" in run("usage", "--view", "Core").out
    by_day = run("usage", "--view", "Core", "--interval", "day", "--json").json
    assert [row["calls"] for row in by_day["usage"]] == [2]
    to = tmp_path / "core.ndjson"
    run("export", "--view", "Core", "--format", "ndjson", "-o", str(to))
    assert [(row["team"], row["calls"], row["cost"]) for row in map(json.loads, to.read_text().splitlines())] == [
        ("core", 2, "1")
    ]
    changed = run("views", "change", "Core", "--interval", "day", "--json").json["view"]
    assert (changed["interval"], changed["filter"]) == ("day", {"team": ["core"]})
    assert "this_year, by day" in run("views", "show", "Core").out
    assert "no view has this name" in run("usage", "--view", "none", code=1).err
    assert "--view" in run("export", code=2).err
    run("views", "delete", "Core")


def test_a_view_keeps_a_comparison_and_a_search_and_options_replace_them(run: Run, tmp_path: Path) -> None:
    whole = ("--range", "today", "--compare", "previous", "--time-zone", "Asia/Tokyo", "--search", "COR")
    run("views", "create", "Whole", "--group-by", "team", *whole)
    assert "today (Asia/Tokyo), compared with the period before, team" in run("views", "show", "Whole").out
    found = run("usage", "--view", "Whole", "--range", "last_30_days", "--json").json
    assert ([row["team"] for row in found["usage"]], found["previous"]["totals"]) == (["core"], None)
    assert "previous" in run("usage", "--view", "Whole", "--from", "2026-01-01", "--json").json
    assert run("usage", "--view", "Whole", "--interval", "day", "--range", "last_7_days", "--json").json["usage"]
    to = tmp_path / "whole.ndjson"
    run("export", "--view", "Whole", "--format", "ndjson", "-o", str(to))
    assert {row["team"] for row in map(json.loads, to.read_text().splitlines())} <= {"core"}
    changed = run("views", "change", "Whole", "--compare", "none", "--search", "", "--json").json["view"]
    assert (changed["compare"], changed["search"], changed["time_zone"]) == (None, None, "Asia/Tokyo")
    assert "time_zone: " in run("views", "create", "x", "--time-zone", "Mars", code=1).err


def test_usage_prints_the_period_before_beside_each_row(run: Run) -> None:
    text = run("usage", "--compare", "previous", "--range", "last_7_days", "--group-by", "team").out
    head, core, *_ = (line.split() for line in text.splitlines())
    assert head == ["team", "calls", "before", "cost", "cost", "before", "difference", "%"]
    assert core == ["core", "2", "-", "1", "USD", "-", "-", "-"]
    assert "Compared with " in text
