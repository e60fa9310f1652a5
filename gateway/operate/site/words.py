"""Figures as the page writes them. Pure. What is unknown is written as that, never as 0."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

UNKNOWN: Final = "unknown"
NONE: Final = "\N{EN DASH}"
UNITS: Final = (("d", 86400), ("h", 3600), ("min", 60))
SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")
STEP: Final = 1024


def number(n: float | Decimal | None) -> str:
    """`1,234`; unknown for None."""
    return UNKNOWN if n is None else f"{n:,}"


def words(name: str) -> str:
    """`dead_lettered` -> `dead lettered`."""
    return name.replace("_", " ")


def age(seconds: float | None) -> str:
    """`12 s`, `3 min`, `5 h`, `2 d`; a dash for None."""
    if seconds is None:
        return NONE
    for unit, length in UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def duration(seconds: float | None) -> str:
    """`12 ms`, `1.2 s`; a dash for None."""
    if seconds is None:
        return NONE
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def size(n_bytes: int | None) -> str:
    """`3.2 MiB`."""
    if n_bytes is None:
        return UNKNOWN
    n = float(n_bytes)
    for unit in SIZES[:-1]:
        if abs(n) < STEP:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= STEP
    return f"{n:.1f} {SIZES[-1]}"


def share(part: int, whole: int) -> str:
    """`12.5 %`; a dash of nothing; what is not 0 is not written as 0."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    if 0 < percent < 0.1:  # noqa: PLR2004 - the smallest that is written
        return "< 0.1 %"
    return f"{percent:.1f} %"


def when(at_ms: int) -> str:
    """`2026-01-05 10:00:00 UTC`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def rfc3339(at_ms: int) -> str:
    """For the attribute of a `time` element."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def money(amount: Decimal | None) -> str:
    """An amount to read: two decimals from 1 on, four from 0.01, else two digits that are not 0, so
    that nothing but 0 is written as 0.
    """
    if amount is None:
        return UNKNOWN
    if not amount:
        return "0.00"
    if abs(amount) >= 1:
        return f"{amount:,.2f}"
    if abs(amount) >= Decimal("0.01"):
        return f"{amount:.4f}"
    return f"{round(amount, 1 - amount.adjusted()):f}"


def short(n: float | Decimal | None) -> str:
    """`1.2 M`, for the scale of a chart."""
    if n is None:
        return UNKNOWN
    value = Decimal(n)
    for size_of, unit in ((Decimal(10**12), "T"), (Decimal(10**9), "G"), (Decimal(10**6), "M"), (Decimal(10**3), "k")):
        if abs(value) >= size_of:
            scaled = value / size_of
            return f"{scaled.quantize(Decimal('0.1')).normalize():f} {unit}"
    return f"{value.normalize():f}" if value else "0"
