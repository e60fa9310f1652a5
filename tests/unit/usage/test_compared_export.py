"""Files of what Explore shows: rows by currency that add up, and Parquet with the digits of CSV."""

import io
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from gateway.usage.export.compared import REST, columns, compared_rows
from gateway.usage.export.files import write_csv, write_parquet
from gateway.usage.sums.answering import Answer, Before, Line
from gateway.usage.sums.figures import UsageSums, together
from gateway.usage.sums.names import Absent
from gateway.usage.sums.timespan import TimeRange

WITHIN, EARLIER = TimeRange(490_000, 490_024), TimeRange(489_976, 490_000)


def sums(calls: int, costs: Mapping[str, str], **more: Any) -> UsageSums:
    return UsageSums(calls, costs={name: Decimal(amount) for name, amount in costs.items()}, **more)


def answer(*lines: Line, beyond: UsageSums | None = None, beyond_before: UsageSums | None = None) -> Answer:
    now = together([*(line.sums for line in lines), *([beyond] if beyond else [])])
    before = [line.previous for line in lines if line.previous] + ([beyond_before] if beyond_before else [])
    return Answer(WITHIN, lines, len(lines), beyond, now, Before(EARLIER, beyond_before, together(before)))


def test_a_group_has_a_row_for_each_currency_of_either_period_and_its_counts_in_the_first() -> None:
    line = Line(("core",), sums(3, {"EUR": "0.5", "USD": "2"}), sums(2, {"USD": "1", "GBP": "4"}))
    rows = list(compared_rows(answer(line), [line], ("team",)))
    assert [(row["currency"], row["calls"], row["previous_calls"]) for row in rows] == [
        ("USD", 3, 2),
        ("EUR", None, None),
        ("GBP", None, None),
    ]
    assert [(row["cost"], row["previous_cost"], row["cost_difference"], row["cost_percent"]) for row in rows] == [
        (Decimal(2), Decimal(1), Decimal(1), Decimal(100)),
        (Decimal("0.5"), None, Decimal("0.5"), None),
        (None, Decimal(4), Decimal(-4), Decimal(-100)),
    ]


def test_what_no_row_has_is_the_last_one_so_that_columns_add_up() -> None:
    line = Line((Absent.UNKNOWN,), sums(3, {"USD": "2"}), None)
    found = answer(line, beyond=sums(1, {"USD": "0.25"}), beyond_before=sums(5, {"USD": "8"}))
    unknown, rest = compared_rows(found, [line], ("team",))
    assert (unknown["team"], unknown["absent"], unknown["previous_cost"]) == (None, "team=unknown", None)
    assert (rest["absent"], rest["cost"], rest["previous_cost"], rest["calls"]) == (
        REST,
        Decimal("0.25"),
        Decimal(8),
        1,
    )
    assert list(compared_rows(answer(line), [line], ("team",)))[-1]["absent"] != REST


def test_parquet_has_the_digits_of_csv() -> None:
    line = Line(("core",), sums(3, {"USD": "2.000000000000000001"}), sums(1, {"USD": "0.000000000000000007"}))
    csv, parquet, head = io.BytesIO(), io.BytesIO(), columns(("team",), compares=True)
    write_csv(csv, head, compared_rows(answer(line), [line], ("team",)))
    write_parquet(parquet, head, compared_rows(answer(line), [line], ("team",)))
    (row,) = pq.read_table(io.BytesIO(parquet.getvalue())).to_pylist()
    text = csv.getvalue().decode()
    for name in ("cost", "previous_cost", "cost_difference", "cost_percent"):
        assert isinstance(row[name], Decimal)
        assert f",{row[name].normalize():f}" in text, name
    assert row["cost_difference"] == Decimal("1.999999999999999994")
    assert row["cost_percent"] == Decimal("28571428571428571342.86")


def test_without_a_comparison_there_are_no_columns_of_it() -> None:
    assert not {name for name in columns(("team",), compares=False) if name.startswith(("previous", "cost_"))}
