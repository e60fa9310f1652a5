"""What a call costs at given rates: exact integer arithmetic on token counts. Pure.

A rate is an integer of 1e-15 of the currency's unit a token, so that $0.075 a million tokens is 75
000 000 and a sum of products is exact. A price list's tiers are cliffs: which one applies follows
from the whole input, and it applies to every token.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from gateway.common.operations import money
from spool.record import Usage

_DECIMALS: Final = 15
UNIT: Final = 10**_DECIMALS
PER_MILLION_TOKENS = Decimal(UNIT) / 1_000_000


class Rates(NamedTuple):
    """Each in 1e-15 currency units a token. A kind without a price of its own costs what its whole
    does.
    """

    above_input_tokens: int
    """The tier applies when the call has more input than this; -1 for the first."""
    input: int
    output: int
    cache_read: int
    cache_creation: int
    cache_creation_1h: int
    reasoning: int


def rate(per_million: Decimal) -> int:
    """The rate of a price per million tokens. Raises ValueError when it has more than nine
    decimals.
    """
    scaled = per_million * PER_MILLION_TOKENS
    if scaled != scaled.to_integral_value():
        raise ValueError(f"a price of {per_million} per million tokens has too many decimals")
    return int(scaled)


def amount(tiers: Sequence[Rates], usage: Usage) -> str | None:
    """The price of *usage* as a decimal string; None when a whole count that it needs is unknown.

    Where no output can exist (embeddings), the caller passes 0.
    """
    input_tokens = usage.get("input_tokens")
    output_tokens = usage.get("output_tokens")
    if input_tokens is None or output_tokens is None:
        return None
    rates = tiers[0] if len(tiers) == 1 else _tier(tiers, input_tokens)
    total = 0
    if read := usage.get("cache_read_input_tokens"):
        input_tokens -= read
        total += read * rates.cache_read
    if created := usage.get("cache_creation_input_tokens"):
        input_tokens -= created
        created_1h = min(usage.get("cache_creation_1h_input_tokens") or 0, created)
        total += (created - created_1h) * rates.cache_creation + created_1h * rates.cache_creation_1h
    if reasoning := usage.get("reasoning_output_tokens"):
        output_tokens -= reasoning
        total += reasoning * rates.reasoning
    if input_tokens > 0:
        total += input_tokens * rates.input
    if output_tokens > 0:
        total += output_tokens * rates.output
    return money(total)


def _tier(tiers: Sequence[Rates], input_tokens: int) -> Rates:
    """The last tier, in rising order, that the whole input is above."""
    rates = tiers[0]
    for tier in tiers[1:]:
        if input_tokens > tier.above_input_tokens:
            rates = tier
    return rates
