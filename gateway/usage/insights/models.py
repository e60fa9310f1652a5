"""Detectors of models: new ones, unpriced ones, falling cache reads. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from gateway.usage.insights.finding import Finding
from gateway.usage.insights.thresholds import (
    CACHE_FALLS_TO,
    CACHE_LEAST_SHARE,
    CACHE_LEAST_TOKENS,
    DAY_HOURS,
    NEW_MODEL_AFTER_HOURS,
    NEW_MODEL_REPORTED_HOURS,
    UNPRICED_HOURS,
)
from gateway.usage.insights.words import day_text, percent, rounded, shown
from gateway.usage.sums.history import History, Usage
from gateway.usage.sums.tally import OTHER


def new_model(history: History) -> Iterator[Finding]:
    """Models with a recent first call, where the history is long enough to know that it was the
    first.
    """
    reported_from = max(history.now_hour - NEW_MODEL_REPORTED_HOURS, history.began_hour + NEW_MODEL_AFTER_HOURS)
    for provider, model, first_hour in sorted(history.models, key=lambda x: (-x.first_hour, x)):
        if reported_from < first_hour <= history.now_hour:
            by = f" of {shown(provider)}" if provider else ""
            yield Finding(
                cause="new_model",
                source=provider,
                model=model,
                title=f"{shown(model)}: a new model{by} is in use, first called on {day_text(first_hour)}",
                category="spend",
                effort="low",
            )


def no_price(history: History) -> Iterator[Finding]:
    """Models whose calls carry no cost; resolved by one hour in which every call of the model has
    one.
    """
    calls: dict[str, int] = defaultdict(int)
    last_called: dict[str, int] = {}
    last_unpriced: dict[str, int] = {}
    for usage in history.usage:
        if usage.hour > history.now_hour - UNPRICED_HOURS:
            calls[usage.model] += usage.calls_without_price
            last_called[usage.model] = max(last_called.get(usage.model, 0), usage.hour)
            if usage.calls_without_price:
                last_unpriced[usage.model] = max(last_unpriced.get(usage.model, 0), usage.hour)
    for model, hour in sorted(last_unpriced.items(), key=lambda x: (-calls[x[0]], x)):
        if hour == last_called[model]:
            count = "1 call" if calls[model] == 1 else f"{rounded(calls[model])} calls"
            yield Finding(
                cause="no_price",
                source="",
                model=model,
                title=f"{shown(model) or 'calls without a model'}: no price is known; {count} without a cost in the last 7 days",
                category="pricing",
                effort="low",
            )


def cache_share_falling(history: History) -> Iterator[Finding]:
    """Models whose share of input read from a cache is smaller than in the week before."""
    now: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    before: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for usage in history.usage:
        if usage.model and usage.model != OTHER:
            sums = (now if is_of_last_day(usage, history) else before)[usage.provider, usage.model]
            sums[0] += usage.cacheable_tokens
            sums[1] += usage.cache_read_tokens
    for (provider, model), (tokens, reads) in sorted(now.items()):
        tokens_before, reads_before = before[provider, model]
        if min(tokens, tokens_before) < CACHE_LEAST_TOKENS:
            continue
        share, share_before = reads / tokens, reads_before / tokens_before
        if share_before >= CACHE_LEAST_SHARE and share <= share_before * CACHE_FALLS_TO:
            yield Finding(
                cause="cache_share_falling",
                source=provider,
                model=model,
                title=(
                    f"{shown(model)}: {percent(share)} % of its input is read from a cache,"
                    f" after {percent(share_before)} % in the week before"
                ),
                category="spend",
                effort="medium",
            )


def is_of_last_day(usage: Usage, history: History) -> bool:
    return usage.hour > history.now_hour - DAY_HOURS
