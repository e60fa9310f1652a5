"""The content of a day's billing drop: FOCUS rows, their digest, the bodies that carry them.

The rows are those of `export --format focus`. The same sums give the same bytes, so a day whose
content did not change is known by its digest.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import orjson

from gateway.common.contract.billing import FOCUS, FOCUS_VERSION, MAX_PARTS, REPLACE_DAILY
from gateway.usage.export import focus
from gateway.usage.export.period import period_rows
from gateway.usage.export.rows import Row
from gateway.usage.sums.figures import EXACT, money_text
from gateway.usage.sums.grains import DAY
from gateway.usage.sums.home import SumRows
from gateway.usage.sums.timespan import TimeRange

ENVELOPE_BYTES: Final = 64 * 1024
"""Room in a body for what is not rows."""


@dataclass(frozen=True, slots=True)
class DayContent:
    hour: int
    """The first one of the day, since 1970, UTC."""
    usage_revision: int
    """Of the sums that it was made of."""
    lines: tuple[bytes, ...]
    """The rows as JSON, in an order of their own."""
    costs: dict[str, str]
    """Currency -> sum of `BilledCost`."""
    calls_without_cost: int
    """FOCUS has no row for them."""
    other_currencies: tuple[str, ...] = ()
    """Those of costs that are in no row, since ISO 4217 does not have them."""

    @property
    def text(self) -> str:
        """YYYY-MM-DD"""
        return day_text(self.hour)

    @property
    def digest(self) -> str:
        return hashlib.sha256(b"\n".join(self.lines)).hexdigest()

    def manifest(self, source: str) -> dict[str, Any]:
        """*source*: whose day it is at the upstream."""
        return {
            "day": self.text,
            "source": source,
            "revision": self.digest,
            "row_count": len(self.lines),
            "costs": self.costs,
            "calls_without_cost": self.calls_without_cost,
        }


def day_content(kept: SumRows, hour: int, *, now_hour: int) -> DayContent:
    """The day that begins with *hour*, on the caller's snapshot."""
    rows = period_rows(kept, TimeRange(hour, hour + DAY), focus.GROUP_BY, now_hour=now_hour)
    charges = [*focus.focus_rows(rows)]
    lines = sorted(orjson.dumps({name: _json(value) for name, value in charge.items()}) for charge in charges)
    others = tuple(sorted({row["currency"] for row in rows if focus.in_other_currency(row)}))
    return DayContent(hour, kept.revision(hour), tuple(lines), _costs(charges), focus.without_cost(rows), others)


def bodies(content: DayContent, source: str, max_bytes: int) -> list[bytes]:
    """The requests that carry the day, of at most *max_bytes* each unless a single row is longer.
    Raises ValueError for a day of more parts than the service takes.
    """
    parts = [*_parts(content.lines, max(1, max_bytes - ENVELOPE_BYTES))]
    if len(parts) > MAX_PARTS:
        raise ValueError(f"{content.text} has {len(parts)} parts; {MAX_PARTS} are the most")
    manifest = content.manifest(source)
    return [_body(manifest | {"part": n, "parts": len(parts)}, lines) for n, lines in enumerate(parts, 1)]


def day_text(hour: int) -> str:
    return datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%d")


def first_hour(day: str) -> int:
    """The first hour of *day*, YYYY-MM-DD. Raises ValueError."""
    return int(datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) // 3600


def month_hours(month: str) -> tuple[int, int]:
    """The first hour of *month*, YYYY-MM, and of the next. Raises ValueError."""
    first = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    later = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return int(first.timestamp()) // 3600, int(later.timestamp()) // 3600


def _body(manifest: dict[str, Any], lines: Sequence[bytes]) -> bytes:
    head = orjson.dumps(
        {
            "month": manifest["day"][:7],
            "operation": REPLACE_DAILY,
            "format": FOCUS,
            "format_version": FOCUS_VERSION,
            "manifest": manifest,
        }
    )
    return b"".join((head[:-1], b',"data":[', b",".join(lines), b"]}"))


def _parts(lines: Sequence[bytes], max_bytes: int) -> Iterator[Sequence[bytes]]:
    """*lines* in order, in parts of *max_bytes*; one empty part where there is no line."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if part and size + len(line) + 1 > max_bytes:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    yield part


def _costs(charges: Sequence[Row]) -> dict[str, str]:
    sums: dict[str, Decimal] = {}
    for charge in charges:
        currency = charge["BillingCurrency"]
        sums[currency] = EXACT.add(sums.get(currency, Decimal(0)), charge["BilledCost"])
    return {currency: money_text(amount) for currency, amount in sorted(sums.items())}


def _json(value: object) -> object:
    return money_text(value) if isinstance(value, Decimal) else value
