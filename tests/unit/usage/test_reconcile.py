"""A provider's export beside the gateway's sums: each published form, each likely reason."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gateway.common.storage.database import Database
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.reconcile.compare import Difference, differences, family
from gateway.usage.reconcile.statements import BadStatement, Billed, Statement, read_statement
from spool.clock import rfc3339_ms
from tests.support.commands import run_telemetry_gateway
from tests.unit.usage.sums.test_tally import counted, record, store

DAY_S = 1_767_571_200
"""2026-01-05T00:00:00Z"""
DAY = "2026-01-05"


def openai(**result: Any) -> str:
    bucket = {"object": "bucket", "start_time": DAY_S, "end_time": DAY_S + 86_400, "results": [result]}
    return json.dumps({"object": "page", "data": [bucket], "has_more": False, "next_page": None})


def anthropic(**result: Any) -> str:
    bucket = {"starting_at": "2026-01-05T00:00:00Z", "ending_at": "2026-01-06T00:00:00Z", "results": [result]}
    return json.dumps({"data": [bucket], "has_more": False, "next_page": None})


OPENAI_USAGE = openai(
    object="organization.usage.completions.result", input_tokens=1000, output_tokens=500, input_cached_tokens=800,
    num_model_requests=5, project_id=None, model="gpt-4o-2024-08-06", batch=None,
)  # fmt: skip
OPENAI_COSTS = openai(
    object="organization.costs.result", amount={"value": 0.06, "currency": "usd"}, line_item="gpt-4o-2024-08-06, input"
)
ANTHROPIC_USAGE = anthropic(
    uncached_input_tokens=1500, cache_creation={"ephemeral_1h_input_tokens": 1000, "ephemeral_5m_input_tokens": 500},
    cache_read_input_tokens=200, output_tokens=500, model="claude-sonnet-4-20250514", service_tier="standard",
)  # fmt: skip
ANTHROPIC_COST = anthropic(amount="123.78912", currency="USD", model="claude-sonnet-4-20250514", cost_type="tokens")
ANTHROPIC_CSV = """\
usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,\
usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,\
web_search_count
2026-01-05,claude-sonnet-4-20250514,k,Default,standard,≤ 200k,1500,500,1000,200,500,0
"""
OPENAI_CSV = """\
start_time,end_time,start_time_iso,end_time_iso,num_model_requests,model,input_tokens,output_tokens,input_cached_tokens
1767484800,1767571200,2026-01-04T00:00:00+00:00,2026-01-05T00:00:00+00:00,,,,,
1767571200,1767657600,2026-01-05T00:00:00+00:00,2026-01-06T00:00:00+00:00,5,gpt-4o-2024-08-06,1000,500,800
"""
OPENAI_COSTS_CSV = """\
start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,line_item
1767571200,1767657600,2026-01-05T00:00:00,2026-01-06T00:00:00,0.003835980000000000000000000000,usd,
"""
OWN_CSV = 'Day,Modell,Tokens in,USD\n2026-01-05,m,"1,000",$1.5\n'
SONNET = Billed(DAY, "claude-sonnet-4-20250514", None, 3200, 500, 200, 1500)


@pytest.mark.parametrize(
    ("text", "provider", "row"),
    [
        (OPENAI_USAGE, "openai", Billed(DAY, "gpt-4o-2024-08-06", 5, 1000, 500, 800)),
        (OPENAI_COSTS, "openai", Billed(DAY, "gpt-4o-2024-08-06", cost=Decimal("0.06"))),
        (ANTHROPIC_USAGE, "anthropic", SONNET),
        (ANTHROPIC_COST, "anthropic", Billed(DAY, "claude-sonnet-4-20250514", cost=Decimal("1.2378912"))),
        (ANTHROPIC_CSV, "anthropic", SONNET),
        (OPENAI_CSV, "openai", Billed(DAY, "gpt-4o-2024-08-06", 5, 1000, 500, 800)),
        (OPENAI_COSTS_CSV, "openai", Billed(DAY, None, cost=Decimal("0.00383598"))),
    ],
    ids=[
        "openai usage",
        "openai costs",
        "anthropic usage",
        "anthropic cost",
        "anthropic csv",
        "openai csv",
        "costs csv",
    ],
)
def test_each_published_form_is_read(text: str, provider: str, row: Billed) -> None:
    assert read_statement(text, {}) == Statement(provider, [row])
    if text.startswith("{"):
        assert read_statement(f"[{text}, {text}]", {}).rows == [row, row], "several pages"


def test_a_csv_of_its_own_is_read_by_its_columns() -> None:
    columns = {"date": "Day", "model": "Modell", "input_tokens": "Tokens in", "cost": "USD"}
    assert read_statement(OWN_CSV, columns).rows == [Billed(DAY, "m", input_tokens=1000, cost=Decimal("1.5"))]
    with pytest.raises(BadStatement, match=r"no column date: name its own with --column"):
        read_statement(OWN_CSV, {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (OPENAI_USAGE.replace('"has_more": false', '"has_more": true'), "one page of several"),
        ("{}", "cannot be read as an export: KeyError"),
        ("[1]", "cannot be read"),
        ("{", "cannot be read"),
        ("", "no column date"),
        (ANTHROPIC_COST.replace("123.78912", "much"), "cannot be read"),
    ],
)
def test_a_file_that_is_no_export_is_refused_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(BadStatement, match=says):
        read_statement(text, {})


@pytest.mark.parametrize(
    "name", ["gpt-4o-2024-08-06", "gpt-4o", "gpt-4o-latest", "gpt-4o@20240806", "gpt-4o-20240806", "gpt-4o-v1:0"]
)
def test_dated_names_and_aliases_are_one_model(name: str) -> None:
    assert family(name) == "gpt-4o"


def ours(model: str = "m", day: str = DAY, **changes: Any) -> dict[str, Any]:
    """A row of an export by day and model."""
    return {
        "period_start": f"{day}T00:00:00Z", "model": model, "calls": 10, "input_tokens": 1000, "output_tokens": 100,
        "cache_read_tokens": None, "cache_creation_tokens": None, "calls_missing_usage": 0, "calls_without_price": 0,
        "cost": Decimal(1), "currency": "USD", **changes,
    }  # fmt: skip


def theirs(model: str = "m", day: str = DAY, **changes: Any) -> Billed:
    return Billed(day, model, 10, 1000, 100, cost=Decimal(1))._replace(**changes)


def found(billed: list[Billed], rows: list[dict[str, Any]]) -> list[Difference]:
    return differences(billed, rows, tolerance=Decimal("0.01"), currency="USD")


def test_equal_sums_and_small_differences_are_none() -> None:
    assert found([theirs("m-2026-01-01")], [ours("m-latest", input_tokens=1009)]) == []
    assert found([theirs(calls=None, input_tokens=None)], [ours(calls=99, input_tokens=5)]) == [], "not stated"


@pytest.mark.parametrize(
    ("billed", "rows", "measure", "says"),
    [
        ([theirs(input_tokens=2000)], [ours()], "input_tokens", "calls that bypass the gateway"),
        ([theirs()], [], "calls", "the gateway knows no such model"),
        ([theirs(), theirs(day="2026-01-08")], [ours()], "calls", "no call of it that day"),
        ([], [ours()], "", ""),
        ([theirs("x")], [ours("x"), ours()], "calls", "the file has nothing of it"),
        ([theirs(input_tokens=1800)], [ours(cache_read_tokens=800)], "input_tokens", "cache read tokens are left out"),
        ([theirs(output_tokens=200)], [ours(calls_missing_usage=3)], "output_tokens", "3 calls came to the gateway"),
        ([theirs(cost=Decimal(2))], [ours(calls_without_price=4)], "cost", "4 calls have no price"),
        ([theirs(cost=Decimal("0.5"))], [ours()], "cost", "prices: a discount"),
        ([theirs(calls=5)], [ours()], "calls", "calls of another account"),
        (
            [theirs(output_tokens=150), theirs(day="2026-01-06", output_tokens=50)],
            [ours(), ours(day="2026-01-06")],
            "output_tokens",
            "the edge of the day: with 2026-01-06",
        ),
    ],
)
def test_a_difference_names_its_likely_reason(
    billed: list[Billed], rows: list[dict[str, Any]], measure: str, says: str
) -> None:
    reasons = [each.reason for each in found(billed, rows) if each.measure == measure]
    assert bool(reasons) == bool(says)
    assert not says or says in reasons[0]


def test_costs_without_models_are_compared_by_day() -> None:
    rows = [ours("a"), ours("b", cost=Decimal(2))]
    assert found([Billed(DAY, None, cost=Decimal(3))], rows) == []
    (difference,) = found([Billed(DAY, None, cost=Decimal(4))], rows)
    assert (difference.model, difference.of) == ("(all models)", Decimal(1))


async def test_the_command_compares_a_file_with_what_was_counted(tmp_path: Path) -> None:
    """On the files of a stopped gateway: a month ago, so that its days are kept."""
    data, now_ms = tmp_path / "data", 1_767_607_200_000
    data.mkdir(mode=0o700)
    database = await Database.open(data / "control.db")
    call = record(started_at=rfc3339_ms(now_ms), response_model="gpt-4o-2024-08-06", cost=None)
    usage = {"status": "reported", "input_tokens": 1000, "output_tokens": 400, "cache_read_input_tokens": 800}
    tally = counted({**call, "usage": usage}, now_ms=now_ms)
    await store(await SqlSums.open(database), tally, now_ms=now_ms)
    await database.close()
    (tmp_path / "usage.json").write_text(OPENAI_USAGE)
    environ = {"TELEMETRY_GATEWAY_DATA": str(data)}
    ended = run_telemetry_gateway("reconcile", str(tmp_path / "usage.json"), "--json", environ=environ)
    assert ended.code == 1, ended.err
    measures = {each["measure"]: (each["billed"], each["counted"]) for each in ended.json["differences"]}
    assert measures == {"calls": (5, 1), "output_tokens": (500, 400)}
    shown = run_telemetry_gateway("reconcile", str(tmp_path / "usage.json"), environ=environ)
    assert max(map(len, shown.out.splitlines()[:3])) <= 80
    assert "2 differences: openai" in shown.out
    assert (
        run_telemetry_gateway("reconcile", str(tmp_path / "usage.json"), "--tolerance", "90%", environ=environ).code
        == 0
    )
    ended = run_telemetry_gateway("reconcile", str(tmp_path / "usage.json"), "--currency", "CRD", environ=environ)
    assert (ended.code, "Invalid value for --currency: a code of ISO 4217 such as USD is needed" in ended.err) == (
        2,
        True,
    )
