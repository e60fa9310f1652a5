"""Estimates: exact, by tier, by precedence; never 0 for an unknown price."""

import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, cast

import pytest
from genai_prices import Usage as ListUsage
from genai_prices import calc_price
from genai_prices.types import ModelPrice

from gateway.common.operations import money
from gateway.usage.pricing.catalogue import PRICE_VERSION, model_rates, rates_of
from gateway.usage.pricing.own import BadPriceFile, parse_price_file
from gateway.usage.pricing.prices import Prices
from gateway.usage.pricing.rates import rate
from spool.record import Record

AT_MS = 1_793_527_200_000
AT = datetime.fromtimestamp(AT_MS / 1000, UTC)


def record(provider: str | None, model: str | None, usage: dict[str, int], **more: Any) -> Record:
    return cast(
        "Record",
        {
            "billed": True,
            "operation": "chat",
            "provider": provider,
            "request_model": model,
            "response_model": None,
            "usage": {"status": "reported", **usage},
            "flags": [],
            **more,
        },
    )


def priced(prices: Prices, wanted: Record) -> Record:
    prices.price(wanted, AT_MS)
    return wanted


@pytest.mark.parametrize(
    ("provider", "listed", "model"),
    [
        ("openai", "openai", "gpt-4o-mini-2024-07-18"),
        ("openai", "openai", "o4-mini"),
        ("anthropic", "anthropic", "claude-sonnet-4-5-20250929"),
        ("gcp.gemini", "google", "gemini-2.5-flash"),
        ("gcp.vertex_ai", "google", "gemini-2.5-pro"),
        ("azure.ai.openai", "azure", "gpt-4o"),
        ("mistral_ai", "mistral", "mistral-large-latest"),
    ],
)
@pytest.mark.parametrize("input_tokens", [1, 1200, 199_999, 200_000, 200_001, 900_000])
def test_an_estimate_equals_that_of_the_price_list_itself(
    provider: str, listed: str, model: str, input_tokens: int
) -> None:
    read, created = input_tokens // 3, input_tokens // 7
    usage = {
        "input_tokens": input_tokens,
        "output_tokens": 777,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": created,
    }
    got = priced(Prices(), record(provider, model, usage))["cost"]
    assert got is not None
    said = calc_price(
        ListUsage(input_tokens=input_tokens, output_tokens=777, cache_read_tokens=read, cache_write_tokens=created),
        model_ref=model,
        provider_id=listed,
        genai_request_timestamp=AT,
    )
    assert Decimal(got["amount"]) == said.total_price
    assert got["currency"] == "USD"
    assert got["source"] == "estimated"
    assert got["price_version"] == PRICE_VERSION


def test_a_model_without_a_price_has_no_cost_and_is_counted() -> None:
    prices = Prices()
    unknown = priced(prices, record("openai", "no-such-model-7", {"input_tokens": 5, "output_tokens": 5}))
    assert unknown.get("cost") is None
    assert unknown["flags"] == ["unpriced"]
    assert prices.unpriced == {"no-such-model-7": 1}


def test_unknown_usage_is_not_priced_and_not_called_unpriced() -> None:
    prices = Prices()
    for usage in ({}, {"output_tokens": 5}, {"input_tokens": 5}):
        assert priced(prices, record("openai", "gpt-4o", usage)).get("cost") is None
    assert not prices.unpriced


def test_embeddings_have_no_output_and_are_priced_by_input() -> None:
    got = priced(Prices(), record("openai", "text-embedding-3-small", {"input_tokens": 1000}, operation="embeddings"))
    assert got["cost"] is not None
    assert got["cost"]["amount"] == "0.00002"


def test_a_reported_cost_stays_as_said() -> None:
    cost = {"amount": "0.5", "currency": "EUR", "source": "reported", "price_version": None}
    got = priced(Prices(), record("openai", "gpt-4o", {"input_tokens": 5, "output_tokens": 5}, cost=cost))
    assert got["cost"] == cost


def test_a_cache_hit_of_a_gateway_gets_no_estimate() -> None:
    got = priced(Prices(), record("openai", "gpt-4o", {"input_tokens": 5, "output_tokens": 5}, billed=False))
    assert got.get("cost") is None


def test_a_price_of_the_list_with_many_decimals_is_rounded() -> None:
    """Some are quotients: a call of such a model was not priced, and its payload failed."""
    (rates,) = rates_of(ModelPrice(input_mtok=Decimal("0.0833333333333333"), output_mtok=Decimal(1))) or ()
    assert rates.input == rate(Decimal("0.083333333"))


def test_batch_costs_the_batch_price_of_the_list() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    standard = priced(Prices(), record("openai", "gpt-4o", usage))["cost"]
    batch = priced(Prices(), record("openai", "gpt-4o", usage, batch=True))["cost"]
    assert standard is not None
    assert batch is not None
    assert Decimal(batch["amount"]) * 2 == Decimal(standard["amount"])


def test_the_operators_price_wins_and_aliases_lead_to_prices() -> None:
    own = parse_price_file(
        """
        aliases: {Fast: openai/gpt-4o-mini, ours: our-llama}
        prices:
          - {provider: openai, model: gpt-4o, input: "1", output: "2"}
          - {model: our-llama, input: "0.10", output: "0.20", currency: EUR}
        """
    )
    prices = Prices()
    prices.use(own)
    usage = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
    assert priced(prices, record("openai", "gpt-4o", usage))["cost"] == {
        "amount": "3",
        "currency": "USD",
        "source": "estimated",
        "price_version": "operator",
    }
    listed = priced(Prices(), record("openai", "gpt-4o-mini", usage))["cost"]
    assert priced(prices, record(None, "fast", usage))["cost"] == listed
    mine = priced(prices, record("ollama", "our-llama", usage))["cost"]
    assert mine is not None
    assert (mine["amount"], mine["currency"]) == ("0.3", "EUR")


def test_a_changed_price_file_is_used_from_then_on() -> None:
    prices = Prices()
    usage = {"input_tokens": 1_000_000, "output_tokens": 0}
    before = priced(prices, record("openai", "gpt-4o", usage))["cost"]
    prices.use(parse_price_file('prices: [{model: gpt-4o, input: "7", output: "0"}]'))
    after = priced(prices, record("openai", "gpt-4o", usage))["cost"]
    assert before is not None
    assert after is not None
    assert before["amount"] != "7"
    assert after["amount"] == "7"


@pytest.mark.parametrize(
    "text",
    [
        "prices: [{model: x, input: 0.1, output: '1'}]",
        "prices: [{model: x, input: '1', output: '1', currency: CRD}]",
        "prize: []",
        "prices: [{model: x}]",
        "[",
        "prices: [{model: x, input: '-1', output: '1'}]",
        "prices: [{model: x, input: cheap, output: '1'}]",
        "prices: [{model: x, input: '1e999999', output: '1'}]",
        "- x",
        "prices: " + "[" * 3000,
    ],
)
def test_a_bad_price_file_is_refused_with_its_faults(text: str) -> None:
    with pytest.raises(BadPriceFile):
        parse_price_file(text)


def test_money_has_no_exponent_and_no_idle_zeros() -> None:
    assert money(0) == "0"
    assert money(rate(Decimal("0.075")) * 300) == "0.0000225"
    assert money(3 * 10**15) == "3"


@pytest.mark.parametrize(
    ("provider", "sent", "listed"),
    [
        ("gcp.gemini", "gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("gcp.gemini", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("openai", "gpt-5-mini-2026-08-01", "gpt-5-mini"),
    ],
)
def test_a_version_that_the_list_does_not_know_costs_what_its_model_costs(
    provider: str, sent: str, listed: str
) -> None:
    usage = {"input_tokens": 1200, "output_tokens": 340}
    cost = priced(Prices(), record(provider, sent, usage))["cost"]
    assert cost is not None
    assert cost == priced(Prices(), record(provider, listed, usage))["cost"]


@pytest.mark.parametrize("model", ["no-such-model-001", "our-own-2026-01-01", "001"])
def test_a_model_without_its_version_that_is_unknown_too_stays_unpriced(model: str) -> None:
    assert priced(Prices(), record("openai", model, {"input_tokens": 12, "output_tokens": 3})).get("cost") is None


def test_names_that_are_asked_for_once_are_not_remembered_by_the_price_list() -> None:
    """The package's own look-up keeps 300 bytes of each for ever."""

    def ask(first: int, count: int) -> None:
        for number in range(first, first + count):
            assert model_rates(None, f"an-unknown-model-{number}", tier=None, batch=False, at_ms=AT_MS) is None
            assert model_rates("openai", f"gpt-4o-{number:03}", tier=None, batch=False, at_ms=AT_MS) is not None

    ask(100, 50)
    tracemalloc.start()
    try:
        ask(200, 100)
        before_bytes, _ = tracemalloc.get_traced_memory()
        ask(300, 400)
        after_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after_bytes - before_bytes < 400 * 50


def test_a_model_that_the_file_names_now_is_unpriced_no_more() -> None:
    prices = Prices()
    for model in ("House-LLM", "other-name", "still-unknown"):
        prices.note_unpriced(model, 3)
    prices.use(parse_price_file('aliases: {other-name: gpt-4o}\nprices: [{model: house-llm, input: "1", output: "2"}]'))
    assert prices.unpriced == {"still-unknown": 3}
