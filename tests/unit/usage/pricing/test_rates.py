"""The arithmetic of rates against plain decimals, over any counts."""

from decimal import Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from gateway.common.operations import money
from gateway.usage.pricing.rates import UNIT, Rates, amount
from spool.record import Usage

COUNTS = st.integers(0, 1 << 40)
PARTS = st.none() | COUNTS
RATES = st.builds(Rates, st.just(-1), *[st.integers(0, 10**12)] * 6)


@given(st.integers(0, 10**40) | st.integers(0, 100).map(lambda n: n * UNIT) | st.integers(0, 45).map(lambda n: 10**n))
def test_money_is_the_exact_decimal_in_its_shortest_form(total: int) -> None:
    text = money(total)
    with localcontext() as context:
        context.prec = 80
        assert Decimal(text) * UNIT == total
    assert text == "0" or not text.startswith("00")
    assert not text.endswith(".")
    assert "." not in text or not text.endswith("0")


@given(RATES, COUNTS, COUNTS, PARTS, PARTS, PARTS, PARTS)
def test_each_token_is_paid_once_at_the_rate_of_its_kind(
    rates: Rates, given: int, output: int, read: int | None, created: int | None, hour: int | None, thought: int | None
) -> None:
    """Also where the parts are more than their whole: then the whole itself costs nothing more."""
    usage: Usage = {
        "input_tokens": given,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": created,
        "cache_creation_1h_input_tokens": hour,
        "reasoning_output_tokens": thought,
    }
    long = min(hour or 0, created or 0)
    total = (
        max(0, given - (read or 0) - (created or 0)) * rates.input
        + (read or 0) * rates.cache_read
        + ((created or 0) - long) * rates.cache_creation
        + long * rates.cache_creation_1h
        + max(0, output - (thought or 0)) * rates.output
        + (thought or 0) * rates.reasoning
    )
    assert amount([rates], usage) == money(total)


@given(COUNTS)
def test_the_tier_follows_from_the_whole_input(input_tokens: int) -> None:
    tiers = [Rates(above, *[rate] * 6) for above, rate in ((-1, 1), (200_000, 2), (1_000_000, 3))]
    rate = 1 + (input_tokens > 200_000) + (input_tokens > 1_000_000)
    assert amount(tiers, {"input_tokens": input_tokens, "output_tokens": 1}) == money((input_tokens + 1) * rate)
