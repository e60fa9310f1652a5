"""Names and figures in titles. Pure.

Names come from payloads: they are cut, and hold nothing that is not printed. Figures are rounded,
so that a text changes when something did and not with every call.
"""

from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Final

MAX_SHOWN_CHARS: Final = 60
MAIN_CURRENCY: Final = "USD"
_TWO_DIGITS = Context(prec=2)


def shown(name: str) -> str:
    """*name*, cut, on one line; `?` replaces unprintable characters."""
    line = "".join(char if char.isprintable() else "?" for char in name[: MAX_SHOWN_CHARS + 1])
    return line if len(line) <= MAX_SHOWN_CHARS else line[: MAX_SHOWN_CHARS - 1] + "…"


def rounded(n: int) -> str:
    """Two digits of *n*: `12`, `about 1200`."""
    rounded_n = int(_TWO_DIGITS.create_decimal(n))
    return str(n) if rounded_n == n else f"about {rounded_n}"


def money(pico: int) -> str:
    """Two digits of an amount in 1e-12, as a decimal string."""
    number = _TWO_DIGITS.create_decimal(Decimal(pico).scaleb(-12)).normalize()
    return format(number, "f")


def amount(pico: int, currency: str) -> str:
    return f"{money(pico)} {shown(currency)}"


def is_main(currency: str) -> bool:
    return currency == MAIN_CURRENCY


def percent(share: float) -> int:
    """In tens, so that the text is stable."""
    return round(share * 10) * 10


def times(ratio: float) -> str:
    """`2.5 times` in halves, `12 times` from ten on in whole ones."""
    factor = min(int(ratio * 2) / 2 if ratio < 10 else float(int(ratio)), 1_000.0)  # noqa: PLR2004 two digits
    return f"{factor:g} times"


def hour_text(hour: int) -> str:
    """`2026-01-05 10:00 UTC`"""
    return f"{datetime.fromtimestamp(hour * 3600, UTC):%Y-%m-%d %H:%M} UTC"


def day_text(hour: int) -> str:
    """`2026-01-05`"""
    return f"{datetime.fromtimestamp(hour * 3600, UTC):%Y-%m-%d}"
