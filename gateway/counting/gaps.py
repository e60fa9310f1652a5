"""Tokens by calls against tokens by metrics, per source and model: what spans lost or sampling left out. Pure.

Metrics count every call, also where spans are sampled or dropped on their way. Where they exceed the calls of the same
source and model by more than `TOLERANCE`, that is shown. Totals run from the start of this process; aggregates of an
earlier time are left out, for their calls were not seen.
"""

from typing import Final, NamedTuple, TypedDict

from gateway.counting.models import short_model

TOLERANCE: Final = 0.05
MAX_TOTALS: Final = 4096


class Whose(NamedTuple):
    sender: str
    service_name: str
    model: str
    """In short form."""


class Gap(TypedDict):
    """One source and model of which metrics tell more tokens than calls do."""

    sender: str
    service_name: str
    model: str
    tokens_by_calls: int
    tokens_by_metrics: int


class Totals:
    """Bounded: the source that was silent for longest goes first."""

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self._tokens: dict[Whose, list[int]] = {}

    def add_calls(self, sender: str, service_name: str, model: str | None, tokens: int) -> None:
        self._add(Whose(sender, service_name, short_model(model or "")), 0, tokens)

    def add_metrics(self, sender: str, service_name: str, model: str | None, tokens: int, start_ms: int) -> None:
        """Tokens of one aggregate that began at *start_ms*."""
        if start_ms >= self.since_ms:
            self._add(Whose(sender, service_name, short_model(model or "")), 1, tokens)

    def _add(self, whose: Whose, column: int, tokens: int) -> None:
        sums = self._tokens.pop(whose, None) or [0, 0]
        sums[column] += tokens
        self._tokens[whose] = sums
        if len(self._tokens) > MAX_TOTALS:
            del self._tokens[next(iter(self._tokens))]

    def gaps(self) -> list[Gap]:
        """Sources that report both, where the metrics say more; the widest first."""
        found = [
            Gap(
                sender=whose.sender,
                service_name=whose.service_name,
                model=whose.model,
                tokens_by_calls=calls,
                tokens_by_metrics=metrics,
            )
            for whose, (calls, metrics) in self._tokens.items()
            if calls and metrics > calls * (1 + TOLERANCE)
        ]
        return sorted(found, key=lambda gap: gap["tokens_by_calls"] - gap["tokens_by_metrics"])
