"""Columns of a group as few numbers, and back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.stores.sql.sums.group_keys import Column, GroupKeys


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    bits = draw(st.lists(st.integers(1, 62), min_size=1, max_size=8))
    return bits, [draw(st.integers(0, (1 << each) - 1)) for each in bits]


@given(rows())
def test_values_come_back(row: tuple[list[int], list[int]]) -> None:
    bits, values = row
    keys = GroupKeys([Column(f"c{at}", each) for at, each in enumerate(bits)])
    names: dict[str, Any] = {f"c{at}": value for at, value in enumerate(values)}
    numbers = [eval(sql, names) for sql in keys.sql]
    assert all(0 <= each < 1 << 62 for each in numbers), "SQL counts to 64 bits, with a sign"
    assert keys.values(numbers) == tuple(values)


def test_columns_share_a_number_while_they_fit() -> None:
    def widths(*bits: int) -> list[int]:
        return [sql.count("c") for sql in GroupKeys([Column("c", each) for each in bits]).sql]

    assert widths(18, 18, 18, 1) == [4]
    assert widths(18, 18, 18, 18, 1) == [3, 2]
    assert widths(62, 62) == [1, 1]
    assert sum(widths(*[20] * 10)) == 10
