"""Detectors: figures -> findings. Pure.

A detector finds the same thing in every round as long as it holds; the store decides what is new,
changed or gone. There are two kinds: of the usage by the hour (`USAGE_DETECTORS`, on the gateway
and on the local service), and of how things stand now. A further one is a function, a line here,
and a section in docs/insights.md. Its thresholds are in `thresholds.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.common.contract.budgets import Crossing
from gateway.counting.coverage import AiWithoutCalls
from gateway.counting.metrics.gaps import Gap, sender_shown
from gateway.counting.readings import InputReading
from gateway.usage.insights.bases import basis_assumed, basis_contradicted
from gateway.usage.insights.budgets import budget_crossed
from gateway.usage.insights.calls import error_burst, missing_usage_rising
from gateway.usage.insights.finding import Finding
from gateway.usage.insights.models import cache_share_falling, new_model, no_price
from gateway.usage.insights.operations import DeadLetters, Device, StuckLane, dead_letters, held_lane, silent_device
from gateway.usage.insights.spikes import unusual_use
from gateway.usage.insights.words import shown
from gateway.usage.sums.history import History

MAX_FINDINGS: Final = 100
"""Of one detector in one round: the first ones, which matter most."""

USAGE_DETECTORS: Final[tuple[Callable[[History], Iterable[Finding]], ...]] = (
    unusual_use,
    new_model,
    no_price,
    missing_usage_rising,
    cache_share_falling,
    error_burst,
)
USAGE_CAUSES: Final = frozenset(
    {
        "spend_spike",
        "token_spike",
        "new_model",
        "no_price",
        "missing_usage_rising",
        "cache_share_falling",
        "error_burst",
    }
)
"""The figures of these causes outlive a restart: a finding of an earlier process that is not found
again is over.
"""


class Figures(NamedTuple):
    """Input of the detectors. Fields are only added, with a default."""

    now_ms: int = 0
    history: History = History()
    gaps: Sequence[Gap] = ()
    uncovered: Sequence[AiWithoutCalls] = ()
    prefer_metrics: frozenset[str] = frozenset()
    """Services that are billed by their metrics."""
    stuck_lanes: Sequence[StuckLane] = ()
    dead_letters: Sequence[DeadLetters] = ()
    devices: Sequence[Device] = ()
    key_names: Mapping[str, str] = MappingProxyType({})
    """The stable id that counting uses -> the key's name."""
    crossings: Sequence[Crossing] = ()
    input_readings: Sequence[InputReading] = ()
    has_prices: bool = True
    """Whether calls are priced here; else a missing price means nothing."""


def detect(figures: Figures) -> list[Finding]:
    """Every finding; at most `MAX_FINDINGS` of one detector."""
    found = [
        detector(figures.history) for detector in USAGE_DETECTORS if figures.has_prices or detector is not no_price
    ]
    found += [
        calls_lost(figures.gaps, figures.prefer_metrics, figures.key_names),
        ai_without_calls(figures.uncovered),
        basis_contradicted(figures.input_readings),
        basis_assumed(figures.input_readings),
        held_lane(figures.stuck_lanes),
        dead_letters(figures.dead_letters),
        silent_device(figures.devices, figures.now_ms),
        budget_crossed(figures.crossings),
    ]
    return [finding for each in found for finding in islice(each, MAX_FINDINGS)]


def calls_lost(gaps: Sequence[Gap], prefer_metrics: frozenset[str], key_names: Mapping[str, str]) -> Iterator[Finding]:
    """Tokens that metrics report and no call does. A service that is billed by its metrics loses
    nothing.
    """
    for gap in gaps:
        if gap["service_name"] not in prefer_metrics:
            yield Finding(
                cause="calls_lost",
                source=f"{gap['sender']}\x00{gap['service_name']}",
                model=gap["model"],
                title=f"{source_name(gap, key_names)}: {what_is_lost(gap)}; spans are sampled or lost",
                category="data quality",
                effort="medium",
            )


def ai_without_calls(uncovered: Sequence[AiWithoutCalls]) -> Iterator[Finding]:
    """Sources that report agents and steps, and no call of a model."""
    for source in uncovered:
        service = shown(source["service_name"] or "") or "a sender without a service name"
        library = f" of {shown(source['library'])}" if source["library"] else ""
        yield Finding(
            cause="ai_without_calls",
            source=f"{source['service_name'] or ''}\x00{source['library']}",
            model="",
            title=f"{service}: AI spans{library}, and no call of a model; {source['remedy']}",
            category="data quality",
            effort="low",
        )


def what_is_lost(gap: Gap) -> str:
    """In whole per cent, so that the text does not change with every export."""
    model = shown(gap["model"])
    if not gap["tokens_by_calls"]:
        return f"no call of {model} arrives, and its metrics report tokens"
    lost = (gap["tokens_by_metrics"] - gap["tokens_by_calls"]) * 100 // gap["tokens_by_metrics"]
    return f"{lost} % of the tokens of {model or 'calls without a model'} are in metrics and in no call"


def source_name(gap: Gap, key_names: Mapping[str, str]) -> str:
    sender = shown(sender_shown(gap["sender"], key_names).replace(":", " ", 1))
    return f"{shown(gap['service_name'])} ({sender})" if gap["service_name"] else sender
