"""Metrics of what the calls used and cost, by provider, model and team, and their age."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.observability.metrics import Name, Sample, family
from gateway.usage.sums.counters import COUNTED, Values

_SERIES: Final = ("provider", "model", "team")
_SINCE: Final = "since the gateway started; at most 300 series, further ones are (other)."

AI_CALLS: Final = Name("telemetry_gateway_ai_calls", "counter", f"Billed AI calls {_SINCE}", _SERIES)
AI_FAILED: Final = Name("telemetry_gateway_ai_failed_calls", "counter", f"Of these, failed ones {_SINCE}", _SERIES)
AI_WITHOUT_COST: Final = Name(
    "telemetry_gateway_ai_calls_without_cost", "counter", f"Calls whose cost is not known {_SINCE}", _SERIES
)
AI_MISSING_USAGE: Final = Name(
    "telemetry_gateway_ai_calls_missing_usage",
    "counter",
    f"Calls that did not fail and whose sender did not state their tokens {_SINCE}",
    _SERIES,
)
AI_TOKENS: Final = Name(
    "telemetry_gateway_ai_tokens",
    "counter",
    f"Tokens of billed calls {_SINCE} input includes cache_read and cache_creation, output includes reasoning.",
    (*_SERIES, "type"),
)
AI_COST: Final = Name(
    "telemetry_gateway_ai_cost", "counter", f"Cost of billed calls, in the currency {_SINCE}", (*_SERIES, "currency")
)
USAGE_AGE: Final = Name(
    "telemetry_gateway_usage_age_seconds", "gauge", "Seconds since every final call was in the stored sums of usage."
)
USAGE_NAMES: Final = (USAGE_AGE, AI_CALLS, AI_FAILED, AI_WITHOUT_COST, AI_MISSING_USAGE, AI_TOKENS, AI_COST)

_CALLS: Final = {
    "calls": AI_CALLS,
    "failed": AI_FAILED,
    "without_cost": AI_WITHOUT_COST,
    "missing_usage": AI_MISSING_USAGE,
}
_COLUMNS: Final = {name: column for column, name in enumerate(COUNTED)}
_TOKENS: Final = tuple(name for name in COUNTED if name not in _CALLS)


class UsageCollector(Collector):
    """Give it to a prometheus-client registry."""

    def __init__(self, values: Callable[[], Values], age_s: Callable[[], float]) -> None:
        self._values, self._age_s = values, age_s

    def describe(self) -> Iterable[Metric]:
        """The names without samples, so that registering reads no figure."""
        return [family(name, []) for name in USAGE_NAMES]

    def collect(self) -> Iterator[Metric]:
        yield family(USAGE_AGE, [((), self._age_s())])
        values = self._values()
        for counted, name in _CALLS.items():
            column = _COLUMNS[counted]
            yield family(name, [(tuple(series), counts[column]) for series, counts in values.counts.items()])
        yield family(AI_TOKENS, list(token_samples(values)))
        yield family(AI_COST, [((*series, currency), cost) for (series, currency), cost in values.costs.items()])


def token_samples(values: Values) -> Iterator[Sample]:
    for series, counts in values.counts.items():
        for kind in _TOKENS:
            if counts[_COLUMNS[kind]]:
                yield (*series, kind), counts[_COLUMNS[kind]]
