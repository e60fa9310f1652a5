"""Exports of usage: columns that add up, formulas that stay text, FOCUS as published."""

import csv
import io
import json
import os
import sys
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest

from gateway.cli.exporting import write_rows
from gateway.usage.export import focus
from gateway.usage.export.files import NoParquet, write_csv, write_ndjson, write_parquet
from gateway.usage.export.rows import columns, rows_of
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.tags import set_text
from tests.support.focus import focus_faults

GROUPS = focus.GROUP_BY
TAGS = set_text({"feature": "search"})


def sums(calls: int, costs: dict[str, str], **changes: Any) -> dict[str, Any]:
    return {**dict.fromkeys(COUNTS, 0), "calls": calls, "costs": costs, "estimated_costs": {}, **changes}


def group(model: str, calls: int, costs: dict[str, str], **changes: Any) -> dict[str, Any]:
    return {"provider": "openai", "model": model, "team": "core", "tags": TAGS, **sums(calls, costs, **changes)}


def answer(*groups: dict[str, Any], total: dict[str, Any]) -> dict[str, Any]:
    return {"from": "2025-12-31T00:00:00Z", "to": "2026-01-01T00:00:00Z", "usage": list(groups), "totals": total}


EURO = group("a", 3, {"EUR": "0.5", "USD": "1.000000000000000001"}, input_tokens=100, output_tokens=20)


def test_columns_add_up_where_a_group_costs_several_currencies() -> None:
    rows = list(rows_of(answer(EURO, total=sums(3, EURO["costs"], input_tokens=100, output_tokens=20)), GROUPS))
    assert [(row["currency"], row["cost"], row["calls"], row["input_tokens"]) for row in rows] == [
        ("USD", Decimal("1.000000000000000001"), 3, 100),
        ("EUR", Decimal("0.5"), None, None),
    ]


def test_what_is_beyond_the_bound_is_a_row_of_its_own() -> None:
    total = sums(10, {"EUR": "0.5", "USD": "3"}, input_tokens=150, output_tokens=20)
    rows = list(rows_of(answer(EURO, total=total), GROUPS))
    assert (rows[-1]["calls"], rows[-1]["input_tokens"], rows[-1]["output_tokens"]) == (7, 50, None)
    assert (rows[-1]["cost"], rows[-1]["currency"]) == (Decimal("1.999999999999999999"), "USD")
    assert (rows[-1]["model"], rows[-1]["absent"]) == (None, "provider=other model=other team=other tags=other")


def test_a_cost_beyond_the_bound_is_listed_alone_where_no_call_is_left() -> None:
    costs = {"EUR": "0.75", "USD": "1.000000000000000001"}
    rows = list(rows_of(answer(EURO, total=sums(3, costs, input_tokens=100, output_tokens=20)), GROUPS))
    assert [(row["cost"], row["currency"], row["calls"]) for row in rows[2:]] == [(Decimal("0.25"), "EUR", 0)]


def test_a_currency_that_the_total_folded_is_no_fault() -> None:
    rows = list(rows_of(answer(EURO, total=sums(3, {"USD": "1.000000000000000001"})), GROUPS))
    assert [(row["cost"], row["currency"]) for row in rows] == [
        (Decimal("1.000000000000000001"), "USD"),
        (Decimal("0.5"), "EUR"),
    ]


def test_unknown_is_empty_and_not_0() -> None:
    unpriced = group("m", 1, {}, calls_without_cost=1, input_tokens=None)
    (row,) = rows_of(answer(unpriced, total=sums(1, {}, calls_without_cost=1, input_tokens=None)), GROUPS)
    assert (row["cost"], row["currency"], row["input_tokens"]) == (None, None, None)
    (read,) = as_csv([row])
    assert (read["cost"], read["input_tokens"], read["calls"]) == ("", "", "1")


def as_csv(rows: list[dict[str, Any]], head: list[str] | None = None) -> list[dict[str, str]]:
    out = io.BytesIO()
    write_csv(out, head or columns(GROUPS), rows)
    return list(csv.DictReader(io.StringIO(out.getvalue().decode(), newline="")))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", '=HYPERLINK("x","y")', "a,b\nc"])
def test_a_name_is_no_formula_of_a_spreadsheet(name: str) -> None:
    found = group(name, 1, {"USD": "-1"})
    (read,) = as_csv(list(rows_of(answer(found, total=sums(1, {"USD": "-1"})), GROUPS)))
    assert read["model"] == (name if name.startswith("a") else f"'{name}")
    assert read["cost"] == "-1", "a number stays one"


def test_ndjson_has_null_and_money_as_text() -> None:
    out = io.BytesIO()
    rows = list(rows_of(answer(EURO, total=sums(3, EURO["costs"], input_tokens=100, output_tokens=20)), GROUPS))
    write_ndjson(out, columns(GROUPS), rows)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["cost"], first["calls"]) == ("1.000000000000000001", 3)
    assert (second["cost"], second["calls"]) == ("0.5", None)


def test_parquet_keeps_types_and_digits() -> None:
    out = io.BytesIO()
    rows = list(rows_of(answer(EURO, total=sums(3, EURO["costs"], input_tokens=100, output_tokens=20)), GROUPS))
    write_parquet(out, columns(GROUPS), rows)
    table = pq.read_table(io.BytesIO(out.getvalue())).to_pylist()
    assert [(row["model"], row["cost"], row["calls"]) for row in table] == [
        ("a", Decimal("1.000000000000000001"), 3),
        ("a", Decimal("0.500000000000000000"), None),
    ]


def test_parquet_without_its_library_states_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NoParquet, match=r"pip install 'ai-telemetry-gateway\[parquet\]'"):
        write_parquet(io.BytesIO(), columns(GROUPS), [])


def test_focus_has_its_mandatory_columns_and_no_cost_that_is_not_known() -> None:
    unpriced = group("m", 4, {}, calls_without_cost=4)
    total = sums(7, EURO["costs"], input_tokens=100, output_tokens=20, calls_without_cost=4)
    rows = list(rows_of(answer(EURO, unpriced, total=total), GROUPS))
    assert focus.without_cost(rows) == 4
    charges = list(focus.focus_rows(rows))
    assert [(row["BillingCurrency"], row["BilledCost"], row["ConsumedQuantity"]) for row in charges] == [
        ("USD", Decimal("1.000000000000000001"), 120),
        ("EUR", Decimal("0.5"), None),
    ]
    first = charges[0]
    assert (first["BillingPeriodStart"], first["BillingPeriodEnd"]) == ("2025-12-01T00:00:00Z", "2026-01-01T00:00:00Z")
    assert (first["ChargePeriodStart"], first["ChargePeriodEnd"]) == ("2025-12-31T00:00:00Z", "2026-01-01T00:00:00Z")
    assert (first["ProviderName"], first["SkuId"], first["Tags"]) == (
        "OpenAI",
        "a",
        '{"team": "core", "feature": "search"}',
    )
    assert first["SkuPriceId"] == "openai/a/USD"
    assert (first["ServiceCategory"], first["ServiceSubcategory"]) == ("AI and Machine Learning", "Generative AI")
    assert {name for name, value in first.items() if value is not None} >= FOCUS_NOT_NULL
    (read, _) = as_csv(charges, list(focus.COLUMNS))
    assert read["EffectiveCost"] == "1.000000000000000001"


FOCUS_NOT_NULL = {
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
    "ChargeCategory", "ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost",
    "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
    "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId", "SkuPriceId",
}  # fmt: skip
"""What FOCUS 1.2 requires of a usage charge."""


@pytest.mark.slow
def test_the_specifications_own_validator_finds_no_fault_and_would() -> None:
    nobody = {**dict.fromkeys(GROUPS), **sums(1, {"USD": "7"}, input_tokens=None)}
    nobody["absent"] = dict.fromkeys(GROUPS, "unknown")
    total = sums(5, {"EUR": "0.5", "USD": "9.000000000000000001"}, input_tokens=150, output_tokens=20)
    charges = list(focus.focus_rows(rows_of(answer(EURO, nobody, total=total), GROUPS)))
    assert [row["BilledCost"] for row in charges] == [
        Decimal("1.000000000000000001"), Decimal("0.5"), Decimal(7), Decimal(1),
    ]  # fmt: skip
    assert focus_faults(charges) == []
    charges[0] |= {"BillingCurrency": "dollars", "BilledCost": None, "PricingCategory": "Cheap"}
    assert [fault.partition(":")[0] for fault in focus_faults(charges)] == [
        "BilledCost_NotNull", "BillingCurrency_IsCurrencyCode", "PricingCategory_Enum_1.0",
    ]  # fmt: skip


def test_a_terminal_is_written_no_control_characters() -> None:
    rows = [{"model": "m\x1b]0;x\x07\u202e\nend", "calls": 3}]
    main, terminal = os.openpty()
    with os.fdopen(main, "rb") as screen, os.fdopen(terminal, "wb") as to:
        write_rows("csv", to, ["model", "calls"], rows)
        to.flush()
        assert [screen.readline().strip() for _ in range(2)] == [b"model,calls", "m�]0;x���end,3".encode()]
    file = io.BytesIO()
    write_rows("csv", file, ["model", "calls"], rows)
    assert list(csv.reader(io.StringIO(file.getvalue().decode(), newline="")))[1] == [rows[0]["model"], "3"]
