"""The page that prices a model: lines that the price file takes as they are."""

from pathlib import Path

import pytest

from gateway.operate.site.prices import VIEW, prices
from gateway.usage.pricing.own import parse_price_file
from tests.support.shown import shown, text_of

TYPED = {"model": "our: llama", "input": "0.10", "output": "2", "cache_read": "0.05", "currency": "EUR"}


def test_the_lines_are_what_the_gateway_reads() -> None:
    lines = prices(TYPED, {}, None)["lines"]
    ((key, (rates, currency)),) = parse_price_file(lines).rates.items()
    assert (key, currency) == ((None, "our: llama"), "EUR")
    assert rates.input * 20 == rates.output
    assert rates.cache_read * 2 == rates.input
    alias = prices({"model": "fast", "same_as": "openai/gpt-4o-mini"}, {}, None)["lines"]
    assert parse_price_file(alias).aliases == {"fast": "openai/gpt-4o-mini"}


def test_dollars_are_not_written_out_and_nothing_is_shown_before_all_is_typed() -> None:
    assert "currency" not in prices({**TYPED, "currency": "USD"}, {}, None)["lines"]
    context = prices({"model": "m"}, {}, None)
    assert (context["lines"], context["errors"]) == ("", {})


@pytest.mark.parametrize(
    ("field", "typed", "words"),
    [
        ("input", "cheap", "a number such as 2.50"),
        ("output", "-1", "greater than or equal to 0"),
        ("currency", "???", "ISO 4217"),
    ],
)
def test_a_fault_is_at_its_field(field: str, typed: str, words: str) -> None:
    errors = prices({**TYPED, field: typed}, {}, None)["errors"]
    assert list(errors) == [field]
    assert words in errors[field]


def test_the_page_names_the_models_and_the_file() -> None:
    html = shown(VIEW, prices(TYPED, {"a/b": 2, "c": 3}, Path("/etc/prices.yaml")))
    text = text_of(html)
    assert text.index("c 3 Price it") < text.index("a/b 2 Price it")
    assert 'href="/prices?model=a%2Fb#price"' in html
    assert "Add the lines to your price file, /etc/prices.yaml" in text
    assert "It needs no restart." in text
    without = text_of(shown(VIEW, prices(TYPED, {}, None)))
    assert "Every model that was called has a price." in without
    assert "There is no price file yet." in without
    assert (
        "in the folder of the configuration, /etc/gateway.yaml . Add to the configuration pricing: {file: prices.yaml}"
        in text_of(shown(VIEW, prices(TYPED, {}, None, Path("/etc/gateway.yaml"))))
    )
