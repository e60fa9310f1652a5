"""Detectors of spend and tokens beyond the usual, by model and by team. Pure.

What is usual of a window: the same window on each of the seven days before it, by their median; or
the one of a week ago, where that is higher, so that a weekly job is no spike. Where nothing is
known of a week ago, the highest of those that are known: the days before a first Monday may have
been a weekend. Windows without any report are skipped (the gateway was off, nobody worked), nor do
those before the first report of this model or team. The current hour counts as far as it has come:
it can only add.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from statistics import median_high
from typing import NamedTuple

from gateway.usage.insights.finding import Finding
from gateway.usage.insights.thresholds import (
    DAY,
    DAY_HOURS,
    HOUR,
    LEAST_EXTRA_TOKENS,
    LEAST_EXTRA_UNITS,
    LEAST_SHARE_OF_DAY,
    LEAST_WINDOWS,
    OVER_BUSIEST,
    TIMES_FROM_NOTHING,
    WEEK_DAYS,
    Window,
)
from gateway.usage.insights.words import amount, hour_text, is_main, money, rounded, shown, times
from gateway.usage.sums.history import History, Usage
from gateway.usage.sums.tally import OTHER, PICO

Hours = Mapping[int, int]
"""Hour -> how much."""


class Subject(NamedTuple):
    """Whose it is."""

    kind: str
    """`model` or `team`."""
    name: str
    provider: str
    """Of a model."""
    currency: str
    """"" for tokens."""

    @property
    def text(self) -> str:
        return f"team {shown(self.name)}" if self.kind == "team" else shown(self.name)


class Spike(NamedTuple):
    value: int
    usual: int
    hour: int | None
    """The hour that stands out; None when the last 24 hours do."""

    @property
    def extra(self) -> int:
        return self.value - self.usual


def unusual_use(history: History) -> Iterator[Finding]:
    """Spikes of spend; and of tokens, of those whose spend shows none: one cause has one
    finding.
    """
    by_spend = summed(history, lambda usage: usage.cost_pico, of_currency=True)
    spend = spikes(history, by_spend, least_extra=LEAST_EXTRA_UNITS * PICO)
    for subject, spike in spend.items():
        extra = f"{amount(spike.extra, subject.currency)} more than expected"
        title = f"{subject.text}: {described(spike, 'spend')}; {extra}"
        yield spike_finding("spend_spike", subject, title, cost_impact=money(spike.extra))
    reported = {subject._replace(currency="") for subject in spend}
    by_tokens = summed(history, lambda usage: usage.tokens, of_currency=False)
    for subject, spike in spikes(history, by_tokens, least_extra=LEAST_EXTRA_TOKENS).items():
        if subject not in reported:
            extra = f"{rounded(spike.extra)} tokens more than expected"
            yield spike_finding("token_spike", subject, f"{subject.text}: {described(spike, 'use of tokens')}; {extra}")


def spike_finding(cause: str, subject: Subject, title: str, *, cost_impact: str | None = None) -> Finding:
    """The finding of one spike, with its cost and its factor."""
    return Finding(
        cause=cause,
        source=source_of(subject),
        model=subject.name if subject.kind == "model" else "",
        title=title,
        category="spend",
        effort="medium",
        cost_impact=cost_impact,
    )


def described(spike: Spike, what: str) -> str:
    when = "of the last 24 hours" if spike.hour is None else f"in the hour of {hour_text(spike.hour)}"
    if not spike.usual:
        return f"{what} {when}, where there usually is none"
    return f"{what} {when} is {times(spike.value / spike.usual)} the usual"


def source_of(subject: Subject) -> str:
    """Distinguishes the causes of one detector, beside the model."""
    currency = "" if is_main(subject.currency) else subject.currency
    return "\x00".join((subject.kind, subject.provider if subject.kind == "model" else subject.name, currency))


def summed(history: History, value: Callable[[Usage], int], *, of_currency: bool) -> dict[Subject, dict[int, int]]:
    """Hourly usage of each model and each team."""
    found: dict[Subject, dict[int, int]] = {}
    for usage in history.usage:
        if of_currency and not usage.currency:
            continue
        n, currency = value(usage), usage.currency if of_currency else ""
        subjects = (Subject("model", usage.model, usage.provider, currency), Subject("team", usage.team, "", currency))
        for subject in subjects:
            if subject.name and subject.name != OTHER:
                hours = found.setdefault(subject, {})
                hours[usage.hour] = hours.get(usage.hour, 0) + n
    return found


def spikes(history: History, by_subject: Mapping[Subject, Hours], *, least_extra: int) -> dict[Subject, Spike]:
    """Those that stand out, the largest extra first."""
    alive = {usage.hour for usage in history.usage}
    found = {
        subject: spike
        for subject, hours in by_subject.items()
        if (spike := spike_in(hours, alive, history.now_hour, least_extra)) is not None
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1].extra, item[0])))


def spike_in(hours: Hours, alive: Collection[int], now_hour: int, least_extra: int) -> Spike | None:
    """The spike of the last 24 hours as a whole; else that of the hour in them that stands out
    most.
    """
    day = total(hours, now_hour, DAY.hours)
    usual_day = usual(hours, alive, now_hour, DAY) if day > least_extra else None
    if usual_day is None:
        return None
    if stands_out(day, usual_day, DAY, least_extra):
        return Spike(day, usual_day, None)
    least = max(least_extra, int(usual_day * LEAST_SHARE_OF_DAY))
    found = [
        Spike(value, expected, hour)
        for hour in range(now_hour - DAY_HOURS + 1, now_hour + 1)
        if (value := hours.get(hour, 0)) > least
        and (expected := usual(hours, alive, hour, HOUR))
        and stands_out(value, expected, HOUR, least)
        and value >= busiest_before(hours, hour) * OVER_BUSIEST
    ]
    return max(found, key=lambda spike: (spike.extra, spike.hour), default=None)


def busiest_before(hours: Hours, last_hour: int) -> int:
    """The maximum of one hour in the week before: a job that moved to another hour is no spike."""
    return max(hours.get(hour, 0) for hour in range(last_hour - WEEK_DAYS * DAY_HOURS, last_hour))


def stands_out(value: int, expected: int, window: Window, least_extra: int) -> bool:
    if not expected:
        return value >= least_extra * TIMES_FROM_NOTHING
    return value >= expected * window.times and value - expected >= least_extra


def usual(hours: Hours, alive: Collection[int], last_hour: int, window: Window) -> int | None:
    """The usual amount of the window that ends with *last_hour*; None without enough history."""
    first_known = min(hours)
    before = {
        end: total(hours, end, window.hours)
        for end in range(last_hour - DAY_HOURS, last_hour - (WEEK_DAYS + 1) * DAY_HOURS, -DAY_HOURS)
        if end - window.hours + 1 >= first_known
        and any(hour in alive for hour in range(end - window.hours + 1, end + 1))
    }
    if len(before) < LEAST_WINDOWS:
        return None
    end_week_ago = last_hour - WEEK_DAYS * DAY_HOURS
    is_week_known = end_week_ago in before
    often = median_high(before.values()) if is_week_known else max(before.values())
    # Credits may outweigh the spend: then there usually is none.
    return max(often, total(hours, end_week_ago, window.hours), 0)


def total(hours: Hours, last_hour: int, n: int) -> int:
    return sum(hours.get(hour, 0) for hour in range(last_hour - n + 1, last_hour + 1))
