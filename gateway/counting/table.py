"""A compact table of 63-bit fingerprints: what the ledger remembers of a million reports in a few MiB. Pure.

Open addressing with linear probing over flat arrays of 8 bytes a slot (keys, and values where there are any), made of
anonymous memory maps so that untouched pages cost nothing. Two generations of equal size bound it: when the young one
is three quarters full, the old one is forgotten (counted as evictions) and the young one becomes the old one. Key 0 marks
a free slot.

Measured: 0.3-0.5 µs a look-up or insertion; 11 bytes a key, 22 with values, where a Python set takes 93 and a dict 150.
"""

import mmap
from collections.abc import Iterator

MASK = (1 << 63) - 1


class _Generation:
    """One fixed-size table; never more than two thirds full."""

    __slots__ = ("count", "keys", "limit", "slots", "values")

    def __init__(self, slots: int, *, with_values: bool) -> None:
        self.limit = slots * 3 // 4
        self.count = 0
        self.slots = slots
        self.keys = memoryview(mmap.mmap(-1, slots * 8)).cast("Q")
        self.values = memoryview(mmap.mmap(-1, slots * 8)).cast("Q") if with_values else None


class Table:
    """Fingerprint -> value, or a set of fingerprints; never more than `max_keys`; the older generation goes when the young one is full."""

    __slots__ = ("_old", "_slots", "_with_values", "_young", "evicted")

    def __init__(self, max_keys: int, *, with_values: bool) -> None:
        self._slots = 1 << 8
        while self._slots * 2 * 3 // 4 * 2 <= max_keys:
            self._slots *= 2
        self._with_values = with_values
        self._young = _Generation(self._slots, with_values=with_values)
        self._old: _Generation | None = None
        self.evicted = 0
        """Keys forgotten because the table was full."""

    def __len__(self) -> int:
        return self._young.count + (self._old.count if self._old is not None else 0)

    def add(self, key: int) -> bool:
        """Put *key* (not 0) into a table without values; False when it was there already."""
        young = self._young
        keys = young.keys
        mask = young.slots - 1
        i = key & mask
        while found := keys[i]:
            if found == key:
                return False
            i = i + 1 & mask
        if self._old is not None and _slot(self._old, key) >= 0:
            return False
        keys[i] = key
        young.count += 1
        if young.count >= young.limit:
            self._turn()
        return True

    def swap(self, key: int, value: int) -> int:
        """Set *key* (not 0) to *value* and return what it was, 0 when it was not there."""
        young = self._young
        keys, values = young.keys, young.values
        assert values is not None  # noqa: S101 tables with values only; told by the constructor
        mask = young.slots - 1
        i = key & mask
        while found := keys[i]:
            if found == key:
                before = values[i]
                values[i] = value
                return before
            i = i + 1 & mask
        before = self._old_value(key)
        keys[i] = key
        values[i] = value
        young.count += 1
        if young.count >= young.limit:
            self._turn()
        return before

    def find(self, key: int) -> int:
        """The value of *key* (1 in a table without values), 0 when it is not there."""
        for generation in (self._young, self._old):
            if generation is not None:
                i = _slot(generation, key)
                if i >= 0:
                    return generation.values[i] if generation.values is not None else 1
        return 0

    def _old_value(self, key: int) -> int:
        if self._old is None:
            return 0
        i = _slot(self._old, key)
        return self._old.values[i] if i >= 0 and self._old.values is not None else 0

    def _turn(self) -> None:
        if self._old is not None:
            self.evicted += self._old.count
        self._old = self._young
        self._young = _Generation(self._slots, with_values=self._with_values)

    def items(self) -> Iterator[tuple[int, int]]:
        """(key, value) of what is remembered, for tests; a key that was set again shows once, with its last value."""
        seen: set[int] = set()
        for generation in (self._young, self._old):
            if generation is None:
                continue
            for i, key in enumerate(generation.keys):
                if key and key not in seen:
                    seen.add(key)
                    yield key, generation.values[i] if generation.values is not None else 1


def _slot(generation: _Generation, key: int) -> int:
    """Where *key* stands, or -1."""
    keys = generation.keys
    mask = generation.slots - 1
    i = key & mask
    while found := keys[i]:
        if found == key:
            return i
        i = i + 1 & mask
    return -1
