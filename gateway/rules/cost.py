"""Money as the record has it: a decimal string. Pure."""

from gateway.common.contract.currencies import is_currency
from gateway.common.operations import decimal_string
from spool.record import Cost

_DOLLARS = frozenset({"$", "us$", "u$d", "dollar", "dollars", "us dollar", "us dollars"})

_MAX_AMOUNT = 10**9
"""No call costs a billion; such a number is another unit."""


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
