"""Decimals without loss: parse, write, and the SQL functions that add them. Pure.

SQLite adds 64-bit integers exactly and quickly, and knows no decimals. A cost is stored as whole
picounits (1e-12 of its currency) where it is such a number, which prices per million tokens are;
anything finer or larger stays text and is added by `decimal_sum`.
"""

import sqlite3
from decimal import Context, Decimal, InvalidOperation

EXACT = Context(prec=200)
"""Far more digits than any number below can have, so that nothing is rounded."""
AMOUNT_MAX_CHARS = 64
PICO_PLACES = 12
_MAX_EXPONENT = 40
_INT64 = 2**63


def parse_decimal(text: str) -> Decimal | None:
    """A finite number of everyday size; None for anything else."""
    if len(text) > AMOUNT_MAX_CHARS or not text.isascii() or "_" in text:
        return None
    try:
        number = Decimal(text.strip(), EXACT)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) <= _MAX_EXPONENT else None


def decimal_text(number: Decimal) -> str:
    """Plain digits: no exponent, no trailing zeros, no negative zero."""
    return format(number.normalize(EXACT), "f") if number else "0"


def cost_columns(amount: Decimal) -> tuple[int | None, str | None]:
    """(whole picounits, None), or (None, decimal text) where it is no such number."""
    pico = EXACT.scaleb(amount, PICO_PLACES)
    if pico == pico.to_integral_value() and abs(pico) < _INT64:
        return int(pico), None
    return None, decimal_text(amount)


def add_sql_functions(connection: sqlite3.Connection) -> None:
    """`decimal_sum(text)` (an aggregate) and `decimal_add(text, text)`."""
    connection.create_aggregate("decimal_sum", 1, _DecimalSum)  # type: ignore[arg-type]  # typeshed knows integers only
    connection.create_function("decimal_add", 2, _decimal_add, deterministic=True)


class _DecimalSum:
    def __init__(self) -> None:
        self._total = Decimal(0)

    def step(self, text: str | None) -> None:
        if text is not None:
            self._total = EXACT.add(self._total, Decimal(text))

    def finalize(self) -> str:
        return decimal_text(self._total)


def _decimal_add(left: str, right: str) -> str:
    return decimal_text(EXACT.add(Decimal(left), Decimal(right)))
