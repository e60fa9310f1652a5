"""Usage of a month -> what could be saved of it, with the amount. Pure.

Each kind compares two costs of the same calls: `cost`, and `cost_instead`, what they would have
cost otherwise. The saving is the difference. docs/recommendations.md has each formula.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal, NamedTuple, get_args

from gateway.usage.recommendations.families import cheaper_of
from gateway.usage.sums.allocation import Cell
from gateway.usage.sums.figures import EXACT, Bucket, UsageSums
from gateway.usage.sums.grains import DAY
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tally import HOUR_MS
from spool.record import Usage

Kind = Literal["cheaper_model", "cache_unread", "reasoning", "batch_price", "failed_calls"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
FORMULAS: Final[Mapping[Kind, str]] = {
    "cheaper_model": "cost of the calls, less the price of the same tokens at the smaller model",
    "cache_unread": "price of the tokens as used, less their price as input that is neither written to a cache nor read from one",
    "reasoning": "price of the tokens as used, less their price with as many reasoning tokens as the answers have",
    "batch_price": "cost of the calls, less the price of the same tokens as a batch",
    "failed_calls": "cost of the calls, less the cost of those that did not fail",
}

LEAST_CALLS: Final = 100
"""In the month: fewer say nothing about a use."""
SHORT_OUTPUT: Final = 200
SHORT_INPUT: Final = 4_000
"""Tokens of the average call: a short answer to a prompt that a smaller model reads well."""
LEAST_REASONING_SHARE: Final = Decimal("0.1")
"""Of the output: with more, the model is used for its reasoning, and a smaller one is no equal."""
REASONING_TIMES: Final = 2
"""Reasoning tokens for each token of the answer."""
BATCH_HOURS: Final = 4
"""Hours of the day, at most, in which a service that could run as a batch calls."""
BATCH_DAYS: Final = 5
"""Of the last seven days."""
LEAST_SHARE: Final = Decimal("0.05")
"""Of the cost: a smaller difference is rounding, or a price that changed meanwhile."""

PriceOf = Callable[[str, str, Usage, int, bool], tuple[Decimal, str] | None]
"""Provider, model, tokens, calls, whether as a batch -> the price and its currency; None where none
is known.
"""


class Spent(NamedTuple):
    """Usage of one service, provider and model; dated names are in their model."""

    service: Name
    provider: Name
    model: Name
    sums: UsageSums


class Waste(NamedTuple):
    kind: Kind
    service: str | None
    """None where the calls have none."""
    provider: str
    model: str
    instead: str | None
    """The smaller model; None for other kinds."""
    currency: str
    cost: Decimal
    cost_instead: Decimal
    calls: int
    evidence: Mapping[str, int]

    @property
    def saving(self) -> Decimal:
        return EXACT.subtract(self.cost, self.cost_instead)


def wastes(spent: Iterable[Spent], price_of: PriceOf, *, least_calls: int = LEAST_CALLS) -> Iterator[Waste]:
    """Everything but batches and failed calls, whatever its amount."""
    for each in spent:
        if (row := _known(each, least_calls)) is not None:
            for found in (_cheaper_model(row, price_of), _cache_unread(row, price_of), _reasoning(row, price_of)):
                if found is not None and _is_clear(found):
                    yield found


def batch_wastes(spent: Iterable[Spent], price_of: PriceOf, *, least_calls: int = LEAST_CALLS) -> Iterator[Waste]:
    """What batch prices would save, if the service can wait (`is_batch`)."""
    for each in spent:
        if (row := _known(each, least_calls)) is not None:
            price = price_of(row.provider, row.model, row.tokens, row.calls, True)  # noqa: FBT003 as a batch
            if (
                price is not None
                and (found := row.waste("batch_price", row.cost(price[1]), price, {}))
                and _is_clear(found)
            ):
                yield found


def failed_wastes(spent: Iterable[Spent], failed: Iterable[Cell], *, least_calls: int = LEAST_CALLS) -> Iterator[Waste]:
    """What the calls that failed cost: *failed* are by service, provider and model."""
    costs = {cell.names: cell.sums for cell in failed}
    for each in spent:
        mine = costs.get((each.service, each.provider, each.model))
        if (
            mine is not None
            and (row := _known(each, least_calls)) is not None
            and _is_clear(found := _failed_calls(row, mine))
        ):
            yield found


def is_batch(hours: Sequence[Bucket]) -> bool:
    """Whether a service that called in *hours*, of the last seven days, could run as a batch: it
    calls in the same few hours of most days.
    """
    of_day = {each.start_ms // HOUR_MS % DAY for each in hours}
    days = {each.start_ms // HOUR_MS // DAY for each in hours}
    return 0 < len(of_day) <= BATCH_HOURS and len(days) >= BATCH_DAYS


class _Row(NamedTuple):
    """What is known of one service and model, whose tokens and costs are whole."""

    service: str | None
    provider: str
    model: str
    calls: int
    tokens: Usage
    costs: Mapping[str, Decimal]

    def cost(self, currency: str) -> Decimal:
        return self.costs.get(currency, Decimal(0))

    def waste(
        self,
        kind: Kind,
        cost: Decimal,
        instead: tuple[Decimal, str],
        evidence: Mapping[str, int],
        model: str | None = None,
    ) -> Waste:
        cost_instead, currency = instead
        return Waste(
            kind, self.service, self.provider, self.model, model, currency, cost, cost_instead, self.calls, evidence
        )


def is_whole(sums: UsageSums) -> bool:
    """Whether calls that did not fail have a cost, a price and tokens, and all costs one currency:
    an amount of others would be a guess.
    """
    gaps = (sums.calls_without_price, sums.calls_missing_usage, sums.calls_without_cost - sums.failed_calls)
    return max(gaps) <= 0 and len(sums.costs) <= 1


def _known(spent: Spent, least_calls: int) -> _Row | None:
    """None for names beyond a bound, too few calls, and sums that are not whole."""
    sums, service = spent.sums, spent.service
    if not isinstance(spent.provider, str) or not isinstance(spent.model, str) or service is Absent.OTHER:
        return None
    if sums.calls < least_calls or not is_whole(sums) or not sums.costs or not sums.input_tokens:
        return None
    tokens = Usage(
        input_tokens=sums.input_tokens,
        output_tokens=sums.output_tokens or 0,
        cache_read_input_tokens=sums.cache_read_tokens,
        cache_creation_input_tokens=sums.cache_creation_tokens,
        reasoning_output_tokens=sums.reasoning_tokens,
    )
    name = service if isinstance(service, str) else None
    return _Row(name, spent.provider, spent.model, sums.calls, tokens, sums.costs)


def _is_clear(found: Waste) -> bool:
    return found.cost > 0 and found.saving >= EXACT.multiply(found.cost, LEAST_SHARE)


def _cheaper_model(row: _Row, price_of: PriceOf) -> Waste | None:
    smaller, tokens = cheaper_of(row.model), row.tokens
    output, reasoning = tokens.get("output_tokens") or 0, tokens.get("reasoning_output_tokens") or 0
    of_call = {
        "output_tokens_of_a_call": output // row.calls,
        "input_tokens_of_a_call": (tokens.get("input_tokens") or 0) // row.calls,
    }
    if smaller is None or not output or reasoning > output * LEAST_REASONING_SHARE:
        return None
    if output > SHORT_OUTPUT * row.calls or of_call["input_tokens_of_a_call"] > SHORT_INPUT:
        return None
    price = price_of(row.provider, smaller, tokens, row.calls, False)  # noqa: FBT003 no batch
    return None if price is None else row.waste("cheaper_model", row.cost(price[1]), price, of_call, smaller)


def _cache_unread(row: _Row, price_of: PriceOf) -> Waste | None:
    written, read = row.tokens.get("cache_creation_input_tokens") or 0, row.tokens.get("cache_read_input_tokens") or 0
    if not written:
        return None
    plain = Usage(**{**row.tokens, "cache_creation_input_tokens": None, "cache_read_input_tokens": None})
    evidence = {"cache_creation_tokens": written, "cache_read_tokens": read}
    return _otherwise(row, price_of, "cache_unread", plain, evidence)


def _reasoning(row: _Row, price_of: PriceOf) -> Waste | None:
    reasoning, output = row.tokens.get("reasoning_output_tokens") or 0, row.tokens.get("output_tokens") or 0
    answers = output - reasoning
    if answers <= 0 or reasoning <= REASONING_TIMES * answers:
        return None
    less = Usage(**{**row.tokens, "output_tokens": 2 * answers, "reasoning_output_tokens": answers})
    return _otherwise(row, price_of, "reasoning", less, {"reasoning_tokens": reasoning, "answer_tokens": answers})


def _failed_calls(row: _Row, failed: UsageSums) -> Waste:
    (currency,) = row.costs
    cost, of_failed = row.cost(currency), failed.costs.get(currency, Decimal(0))
    percent = EXACT.divide_int(EXACT.multiply(of_failed, Decimal(100)), cost) if cost else Decimal(0)
    evidence = {"failed_calls_with_a_cost": failed.calls, "percent_of_the_cost": int(percent)}
    return row.waste("failed_calls", cost, (EXACT.subtract(cost, of_failed), currency), evidence)


def _otherwise(row: _Row, price_of: PriceOf, kind: Kind, tokens: Usage, evidence: Mapping[str, int]) -> Waste | None:
    """Both at list prices: which part of the cost the tokens have is not known otherwise."""
    now = price_of(row.provider, row.model, row.tokens, row.calls, False)  # noqa: FBT003 no batch
    instead = price_of(row.provider, row.model, tokens, row.calls, False)  # noqa: FBT003 no batch
    return None if now is None or instead is None else row.waste(kind, now[0], instead, evidence)
