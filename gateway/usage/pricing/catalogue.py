"""Prices of the genai-prices package, as rates. The package's own snapshot is used; nothing is
fetched.

Its providers have other names than OpenTelemetry's (`PROVIDERS`). A model's price may depend on the
day, the service tier and whether it ran as a batch; what depends on tokens alone is turned into
`Rates` once and kept by the caller.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version

from genai_prices.data_snapshot import DataSnapshot, get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

from gateway.usage.pricing.rates import Rates, rate

PRICE_VERSION = f"genai-prices {version('genai-prices')}"

PROVIDERS: dict[str, str] = {
    "aws.bedrock": "aws",
    "azure.ai.inference": "azure",
    "azure.ai.openai": "azure",
    "gcp.gemini": "google",
    "gcp.gen_ai": "google",
    "gcp.vertex_ai": "google",
    "mistral_ai": "mistral",
    "moonshot_ai": "moonshotai",
    "together_ai": "together",
    "x_ai": "x-ai",
}
"""OpenTelemetry's well-known provider -> the package's id, where they differ."""

_PATH = "models/"
"""Before a model's name, as Gemini's own API has it."""
_VERSION = re.compile(r"(-\d{3}|[-@]\d{4}-?\d{2}-?\d{2})$")
"""Behind a model's name: `gemini-2.5-flash-001`, `gpt-5-mini-2026-08-01`, `…@20250929`. Versions of
a model cost the same but for few.
"""

_DECIMALS = 9
"""Of a price per million tokens: some of the package are quotients with more."""

KINDS = (
    "input_mtok",
    "output_mtok",
    "cache_read_mtok",
    "cache_write_mtok",
    "cache_write_1h_mtok",
    "output_reasoning_mtok",
)


def model_rates(
    provider: str | None, model: str, *, tier: str | None, batch: bool, at_ms: int
) -> tuple[Rates, ...] | None:
    """The model's tiers at that time, lowest first; None when the package has no token price for
    it.
    """
    found = _find(snapshot(), PROVIDERS.get(provider, provider) if provider else None, model)
    if found is None:
        return None
    context = {"processing": "batch"} if batch else {"service_tier": tier} if tier else None
    return rates_of(found.get_prices(datetime.fromtimestamp(at_ms / 1000, UTC), context))


def snapshot() -> DataSnapshot:
    """The package's models, in a snapshot that lasts one look-up: the package's own remembers every
    name that it was ever asked for.
    """
    return DataSnapshot(get_snapshot().providers, from_auto_update=False)


def _find(models: DataSnapshot, provider_id: str | None, model: str) -> ModelInfo | None:
    """The model by its name; where the package does not know this version of it, by the name
    without the version.
    """
    for name in dict.fromkeys((model, _VERSION.sub("", model.removeprefix(_PATH)))):
        try:
            return models.find_provider_model(name, None, provider_id, None)[1]
        except LookupError:
            continue
    return None


def rates_of(price: ModelPrice) -> tuple[Rates, ...] | None:
    """A price's tiers as rates; None when it does not price input and output by the token."""
    prices: dict[str, Decimal | TieredPrices] = {
        kind: value for kind in KINDS if (value := getattr(price, kind)) is not None
    }
    if "input_mtok" not in prices:
        return None
    starts = sorted({tier.start for x in prices.values() if isinstance(x, TieredPrices) for tier in x.tiers})
    return tuple(_tier(prices, start) for start in (-1, *starts))


def _tier(prices: dict[str, Decimal | TieredPrices], above: int) -> Rates:
    def at(kind: str, otherwise: int) -> int:
        value = prices.get(kind)
        return otherwise if value is None else rate(round(_price_above(value, above), _DECIMALS))

    whole_input = at("input_mtok", 0)
    output = at("output_mtok", 0)
    created = at("cache_write_mtok", whole_input)
    return Rates(
        above_input_tokens=above,
        input=whole_input,
        output=output,
        cache_read=at("cache_read_mtok", whole_input),
        cache_creation=created,
        cache_creation_1h=at("cache_write_1h_mtok", created),
        reasoning=at("output_reasoning_mtok", output),
    )


def _price_above(price: Decimal | TieredPrices, above: int) -> Decimal:
    """The price that holds for an input just above *above* tokens."""
    if isinstance(price, Decimal):
        return price
    applying = price.base
    for tier in price.tiers:
        if tier.start <= above:
            applying = tier.price
    return applying
