"""Attribution that calls inherit from spans above them which came in other payloads. Pure, bounded.

Remembered are the spans that state a user, session, team or project (`MAX_BEARERS`, the latest; in
memory only: a restart forgets attribution, never a call). As long as there are any, so is of each
span that is no call the span above it. The way up from a call ends where a span is not known, and
after `MAX_DEPTH` spans.
"""

from collections.abc import Callable, Iterable, Mapping

from gateway.common.lru import forget_oldest
from gateway.counting.calls.table import new_table
from gateway.rules.ancestors import MAX_DEPTH

MAX_BEARERS = 20_000
"""About 500 bytes each."""


class Inheritance:
    """Span (its key) -> what it states, and the way up to it."""

    __slots__ = ("above", "bearers")

    def __init__(self, max_keys: int) -> None:
        self.above = new_table(max_keys, with_values=True)
        """Key of a span that is no call -> key of the span above it."""
        self.bearers: dict[int, Mapping[str, str]] = {}
        """Key of a span -> what it states."""

    def __len__(self) -> int:
        return len(self.bearers)

    def bear(self, stated: Iterable[tuple[int, Mapping[str, str]]]) -> None:
        """Spans that state something were received."""
        for key, fields in stated:
            self.bearers.pop(key, None)
            self.bearers[key] = fields
        forget_oldest(self.bearers, MAX_BEARERS)

    def stated_above(self, key: int, above_call: Callable[[int], int]) -> dict[str, str]:
        """What the span with *key* and those above it state, the nearest first; *above_call*: key
        of the span above a call, 0 where that is not known.
        """
        found: dict[str, str] = {}
        for _ in range(MAX_DEPTH):
            if not key:
                break
            found = {**self.bearers.get(key, {}), **found}
            key = self.above.find(key) or above_call(key)
        return found
