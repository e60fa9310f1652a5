"""Money as the record has it: a decimal string. Pure."""

from decimal import Decimal
from typing import cast

from gateway.common.varying import VaryingReal
from gateway.contract.currencies import is_currency
from spool.record import Cost

_DIGITS = ".15g"
"""What a double holds for sure; the 16th and 17th digit of its repr are binary
noise (0.020348750000000003)."""

_DOLLARS = frozenset({"$", "us$", "u$d", "dollar", "dollars", "us dollar", "us dollars"})

_MAX_AMOUNT = 10**9
"""No call costs a billion; such a number is another unit."""

_MIN_AMOUNT = 1e-30
"""What is less, whatever its sign, is nothing: written out it would be hundreds of zeros."""


def decimal_string(amount: float | VaryingReal) -> str:
    """*amount* without exponent and without binary noise."""
    if isinstance(amount, VaryingReal):
        return cast("str", amount.as_amount())
    if abs(amount) < _MIN_AMOUNT:
        return "0"
    text = format(amount, _DIGITS)
    return format(Decimal(text), "f") if "e" in text else text


def reported_cost(amount: float | None, currency: str | None) -> Cost | None:
    """The cost as the sender states it, in USD unless it names a currency; None when it is no
    amount of money, or one of a currency that nobody knows.
    """
    if amount is None or not 0 <= amount <= _MAX_AMOUNT:
        return None
    code = currency_code(currency)
    if code is None:
        return None
    return {"amount": decimal_string(amount), "currency": code, "source": "reported", "price_version": None}


def currency_code(name: str | None) -> str | None:
    """As ISO 4217 has codes; US dollars where none is named, None for another word."""
    if not name or name.lower() in _DOLLARS:
        return "USD"
    return code if is_currency(code := name.upper()) else None


def no_cost() -> Cost:
    """A gateway's cache hit: no one billed it."""
    return {"amount": "0", "currency": "USD", "source": "reported", "price_version": None}
