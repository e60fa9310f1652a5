"""What tokens cost today, by the prices of calls."""

from collections.abc import Callable
from decimal import Decimal
from typing import cast

from gateway.usage.pricing.prices import Prices
from gateway.usage.recommendations.waste import PriceOf
from spool.record import Record, Usage


def price_of(prices: Prices, now_ms: Callable[[], int]) -> PriceOf:
    """By the tier of the average call. A model without a price is not counted as one."""

    def price(provider: str, model: str, tokens: Usage, calls: int, batch: bool) -> tuple[Decimal, str] | None:  # noqa: FBT001 as `PriceOf`
        record = cast(
            "Record",
            {
                "kind": "aggregate", "billed": True, "operation": "chat", "provider": provider, "response_model": model,
                "usage": tokens, "calls": calls, "batch": batch, "flags": [],
            },
        )  # fmt: skip
        prices.silent().price(record, now_ms())
        cost = record.get("cost")
        return None if cost is None else (Decimal(cost["amount"]), cost["currency"])

    return price
