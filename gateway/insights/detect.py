"""Detectors: the gateway's figures -> findings. Pure.

A detector is a function of `Figures`. It finds the same thing in every round as long as that holds; what is new, has changed
or is gone is told by the store. A further one is a function here and its name in `DETECTORS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.counting.gaps import Gap
from gateway.insights.finding import Finding

DATA_QUALITY: Final = "data quality"
PRICING: Final = "pricing"
MOST_FINDINGS: Final = 1_000
"""Of one detector in one round: the first ones, which are the widest."""


class Figures(NamedTuple):
    """What detectors look at. Fields are only added, with a default."""

    gaps: Sequence[Gap] = ()
    unpriced: Mapping[str, int] = {}
    """Model -> calls that no price was found for."""
    prefer_metrics: frozenset[str] = frozenset()
    """Services that are billed by their metrics."""


Detector = Callable[[Figures], Iterable[Finding]]


def calls_lost(figures: Figures) -> Iterator[Finding]:
    """Tokens that metrics tell of and no call does. A service that is billed by its metrics loses nothing by it."""
    for gap in figures.gaps[:MOST_FINDINGS]:
        if gap["service_name"] not in figures.prefer_metrics:
            yield Finding(
                cause="calls_lost",
                source=f"{gap['sender']}\x00{gap['service_name']}",
                model=gap["model"],
                title=f"{source_name(gap)}: {what_is_lost(gap)}; spans are sampled or lost",
                category=DATA_QUALITY,
                effort="medium",
            )


def what_is_lost(gap: Gap) -> str:
    """In whole per cent, so that the text does not change with every export."""
    if not gap["tokens_by_calls"]:
        return f"no call of {gap['model']} arrives, and its metrics tell of tokens"
    lost = (gap["tokens_by_metrics"] - gap["tokens_by_calls"]) * 100 // gap["tokens_by_metrics"]
    return f"{lost} % of the tokens of {gap['model'] or 'calls without a model'} are in metrics and in no call"


def source_name(gap: Gap) -> str:
    sender = gap["sender"].replace(":", " ", 1)
    return f"{gap['service_name']} ({sender})" if gap["service_name"] else sender


def no_price(figures: Figures) -> Iterator[Finding]:
    """Models whose calls carry no cost."""
    for model, calls in sorted(figures.unpriced.items(), key=lambda x: -x[1])[:MOST_FINDINGS]:
        told = "1 call" if calls == 1 else f"{calls} calls"
        yield Finding(
            cause="no_price",
            source="",
            model=model,
            title=f"{model}: no price is known; {told} without a cost since the gateway started",
            category=PRICING,
            effort="low",
        )


DETECTORS: Final[tuple[Detector, ...]] = (calls_lost, no_price)


def detect(figures: Figures, detectors: Iterable[Detector] = DETECTORS) -> list[Finding]:
    """What all of *detectors* find."""
    return [finding for detector in detectors for finding in detector(figures)]
