"""Settled calls as a limited caller sees them: those inside its limit.

Every other record is blank, of the same length: a search reads as much of the spool for everyone,
and finds nothing in what is not the caller's.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gateway.common.contract.reach import Reach
from gateway.common.contract.tags import is_tag, tag_of, values_of
from gateway.observability.settled_calls import CallReader
from spool.record import Lane
from spool.settling import Outcomes


class LimitedCalls:
    """*reader* for a caller who sees *reach*."""

    def __init__(self, reader: CallReader, reach: Reach) -> None:
        self._reader = reader
        self._reach = reach
        self._texts = [texts for _, names in reach if (texts := plain_texts(names)) is not None]

    async def settled_seq(self, lane: Lane) -> int:
        return await self._reader.settled_seq(lane)

    async def settled_outcomes(self, lane: Lane, after_seq: int, *, max_bytes: int, max_behind: int) -> Outcomes:
        return self._blanked(
            await self._reader.settled_outcomes(lane, after_seq, max_bytes=max_bytes, max_behind=max_behind)
        )

    async def outcomes_before(self, lane: Lane, before_seq: int, *, max_bytes: int) -> Outcomes:
        return self._blanked(await self._reader.outcomes_before(lane, before_seq, max_bytes=max_bytes))

    def _blanked(self, page: Outcomes) -> Outcomes:
        items = [each if self._sees(each[1]) else (each[0], b" " * len(each[1])) for each in page.items]
        return page._replace(items=items)

    def _sees(self, record: bytes) -> bool:
        """Most records are excluded by their bytes, before they are read."""
        if not all(any(text in record for text in texts) for texts in self._texts):
            return False
        try:
            found = orjson.loads(record)
        except orjson.JSONDecodeError:
            return False
        return all(name_of(found, dimension) in names for dimension, names in self._reach)


def plain_texts(names: tuple[str, ...]) -> list[bytes] | None:
    """As JSON has them, in any writer's form; None where that is not certain."""
    is_plain = all(name.isascii() and not _ESCAPED & set(name) for name in names)
    return [f'"{name}"'.encode() for name in names] if is_plain else None


_ESCAPED: Final = frozenset('"\\/')


def name_of(record: Mapping[str, Any], dimension: str) -> str | None:
    """The record's team, project or tag; None where it has none."""
    attribution = record.get("attribution")
    if not isinstance(attribution, Mapping):
        return None
    name = tag_of(dimension)
    value = values_of(attribution, [name]).get(name) if is_tag(dimension) else attribution.get(dimension)
    return value if isinstance(value, str) else None
