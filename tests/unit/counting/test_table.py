"""The compact table against a dict; each of its implementations."""

from random import Random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.counting.calls.table import new_table
from tests.support.native import IMPLEMENTATIONS

SMALL = 768
"""Two generations of 192 keys (three quarters of 256 slots)."""
CLASH = 256
"""Keys this far apart fall on one slot."""

pytestmark = pytest.mark.parametrize("native", IMPLEMENTATIONS)
keys = st.integers(1, 400) | st.integers(1, 400).map(lambda n: n * CLASH) | st.just((1 << 63) - 1)


@given(st.lists(st.tuples(keys, st.integers(1, (1 << 63) - 1)), max_size=170))
@settings(deadline=None)
def test_what_fits_is_remembered_with_its_last_value(native: ModuleType | None, pairs: list[tuple[int, int]]) -> None:
    table = new_table(SMALL, native=native, with_values=True)
    model: dict[int, int] = {}
    for key, value in pairs:
        assert table.swap(key, value) == model.get(key, 0)
        model[key] = value
    assert dict(table.items()) == model
    assert all(table.find(key) == value for key, value in model.items())
    assert len(table) == len(model)
    assert table.evicted == 0
    assert table.find(123_456_789) == 0


@given(st.lists(keys, max_size=170))
@settings(deadline=None)
def test_a_set_says_what_is_new(native: ModuleType | None, added: list[int]) -> None:
    table = new_table(SMALL, native=native, with_values=False)
    model: set[int] = set()
    for key in added:
        assert table.add(key) == (key not in model)
        model.add(key)
    assert {key for key, _ in table.items()} == model
    assert all(table.find(key) == 1 for key in model)


@given(st.integers(0, 1 << 32), st.integers(400, 1500))
@settings(deadline=None, max_examples=30)
def test_the_oldest_go_first_and_are_counted(native: ModuleType | None, seed: int, n: int) -> None:
    """A model of two dicts: when the young one holds its limit it becomes the
    old one, and the old one is gone.
    """
    draw = Random(seed)
    pairs = [(draw.randint(1, 3000), draw.randint(1, 1 << 40)) for _ in range(n)]
    table = new_table(SMALL, native=native, with_values=True)
    limit = table.limit
    young: dict[int, int] = {}
    old: dict[int, int] = {}
    evicted = 0
    for key, value in pairs:
        assert table.swap(key, value) == young.get(key, old.get(key, 0))
        young[key] = value
        if len(young) == limit:
            evicted += len(old)
            young, old = {}, young
        assert len(table) <= SMALL
    assert table.evicted == evicted
    assert dict(table.items()) == {**old, **young}


def test_the_last_half_of_what_may_be_remembered_is(native: ModuleType | None) -> None:
    for max_keys in (1, 100, SMALL, 10_000, 100_000):
        table = new_table(max_keys, native=native, with_values=False)
        added = range(1, 3 * max(max_keys, SMALL))
        for key in added:
            assert table.add(key * 0x9E3779B97F4A7C15 & (1 << 63) - 1)
        assert len(table) <= max(max_keys, 384)
        remembered = table.limit
        assert all(table.find(key * 0x9E3779B97F4A7C15 & (1 << 63) - 1) for key in added[-remembered:])
        assert table.evicted + len(table) == len(added)


def test_a_key_of_the_old_generation_is_known_and_not_new(native: ModuleType | None) -> None:
    table = new_table(SMALL, native=native, with_values=False)
    limit = table.limit
    for key in range(1, limit + 1):
        table.add(key)
    assert not table.add(1)
    assert table.add(limit + 1)
