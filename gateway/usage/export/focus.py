"""Usage as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification. Pure.

One row is what one model of one provider cost one team, with one set of tags, in one day, in one
currency. The cost of a
call is known as a whole: a row for each kind of tokens would need a share of it that nobody stated,
so a row holds all tokens, and the kinds stand in columns of our own (`x_`). A charge whose cost is
not known is no row, since FOCUS knows no unknown cost, and neither is one in a currency that ISO
4217 does not have: `without_cost` counts the calls that are left out.

Every column is there that version 1.0 requires, the newest that `focus-validator` checks. Prices of
a unit, regions, resources and commitments are not known, and null.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from gateway.common.contract.currencies import is_currency
from gateway.usage.export.rows import Row
from gateway.usage.sums.grains import TAGS
from gateway.usage.sums.tags import tags_in

GROUP_BY: Final = ("provider", "model", "team", TAGS)
SERVICES: Final = {
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "aws.bedrock": "Amazon Web Services",
    "azure.ai.openai": "Microsoft",
    "azure.ai.inference": "Microsoft",
    "gcp.vertex_ai": "Google Cloud",
    "gcp.gemini": "Google",
    "mistral_ai": "Mistral AI",
    "cohere": "Cohere",
    "deepseek": "DeepSeek",
    "groq": "Groq",
    "perplexity": "Perplexity",
    "x_ai": "xAI",
    "ibm.watsonx.ai": "IBM",
}
"""Provider -> its name; others stand as they are."""
UNKNOWN: Final = "Unknown"
_NOT_KNOWN: Final = dict.fromkeys((
    "AvailabilityZone", "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountName",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "ContractedUnitPrice", "ListUnitPrice", "RegionId", "RegionName",
    "ResourceId", "ResourceName", "ResourceType",
))  # fmt: skip
_OWN: Final = {
    "x_Provider": "provider", "x_Model": "model", "x_Calls": "calls", "x_FailedCalls": "failed_calls",
    "x_CallsWithoutCost": "calls_without_cost", "x_InputTokens": "input_tokens", "x_OutputTokens": "output_tokens",
    "x_CachedInputTokens": "cache_read_tokens", "x_CacheWriteTokens": "cache_creation_tokens",
    "x_ReasoningTokens": "reasoning_tokens",
}  # fmt: skip


def focus_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """Those with a cost, as FOCUS has them."""
    return (focus_row(row) for row in rows if row["cost"] is not None and is_currency(row["currency"]))


def without_cost(rows: Iterable[Row]) -> int:
    """Calls whose cost is not known, or in no currency of ISO 4217 alone."""
    return sum((row["calls"] if in_other_currency(row) else row["calls_without_cost"]) or 0 for row in rows)


def in_other_currency(row: Row) -> bool:
    """Whether the cost of *row* is in no currency of ISO 4217."""
    return row["currency"] is not None and not is_currency(row["currency"])


def focus_row(row: Row) -> Row:
    """*row* is grouped by `GROUP_BY`."""
    issuer = SERVICES.get(row["provider"] or "", row["provider"]) or UNKNOWN
    tokens = None if row["input_tokens"] is None else row["input_tokens"] + (row["output_tokens"] or 0)
    unit = None if tokens is None else "Tokens"
    month_start, month_end = _month(row["period_start"])
    sku = f"{row['provider'] or UNKNOWN}/{row['model'] or UNKNOWN}"
    costs = dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"), row["cost"])
    return {
        **costs,
        "BillingAccountId": row["team"] or UNKNOWN,
        "BillingAccountName": row["team"] or UNKNOWN,
        "BillingCurrency": row["currency"],
        "BillingPeriodStart": month_start,
        "BillingPeriodEnd": month_end,
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeDescription": f"AI inference: {row['model'] or UNKNOWN}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": row["period_start"],
        "ChargePeriodEnd": row["period_end"],
        "ConsumedQuantity": tokens,
        "ConsumedUnit": unit,
        "InvoiceIssuerName": issuer,
        "PricingCategory": "Standard",
        "PricingQuantity": tokens,
        "PricingUnit": unit,
        "ProviderName": issuer,
        "PublisherName": issuer,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Generative AI",
        "ServiceName": f"{issuer} inference",
        "SkuId": row["model"] or UNKNOWN,
        "SkuMeter": "Tokens",
        "SkuPriceId": f"{sku}/{row['currency']}",
        "SubAccountId": row["team"],
        "SubAccountName": row["team"],
        "SubAccountType": None if row["team"] is None else "Team",
        "Tags": json.dumps({**({} if row["team"] is None else {"team": row["team"]}), **tags_in(row[TAGS] or "")}),
        **_NOT_KNOWN,
        **{name: row[of] for name, of in _OWN.items()},
        "x_EstimatedCost": row["estimated_cost"] or Decimal(0),
    }


def _month(start: str) -> tuple[str, str]:
    """The first moment of the month, and of the next."""
    day: Any = datetime.fromisoformat(start).replace(day=1, hour=0)
    later = day.replace(year=day.year + day.month // 12, month=day.month % 12 + 1)
    return day.strftime("%Y-%m-%dT%H:%M:%SZ"), later.strftime("%Y-%m-%dT%H:%M:%SZ")


COLUMNS: Final = tuple(
    focus_row(
        dict.fromkeys((*_OWN.values(), "team", TAGS, "currency", "cost", "estimated_cost", "period_end"))
        | {"period_start": "2026-01-01T00:00:00Z"}
    )
)
