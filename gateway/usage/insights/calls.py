"""Detectors of calls: missing usage, error bursts. Pure."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from gateway.usage.insights.finding import Finding
from gateway.usage.insights.models import is_of_last_day
from gateway.usage.insights.thresholds import (
    ERROR_HOURS,
    ERROR_LEAST_CALLS_BEFORE,
    ERROR_LEAST_FAILED,
    ERROR_LEAST_SHARE,
    ERROR_TIMES,
    MISSING_LEAST_CALLS,
    MISSING_LEAST_RISE,
    MISSING_LEAST_SHARE,
    MISSING_MAX_SHARE,
)
from gateway.usage.insights.words import percent, shown
from gateway.usage.sums.history import History, Usage
from gateway.usage.sums.tally import OTHER


class Share(NamedTuple):
    part: int
    whole: int

    @property
    def share(self) -> float:
        return self.part / self.whole if self.whole else 0.0


def missing_usage_rising(history: History) -> Iterator[Finding]:
    """Services whose share of calls without usage rises."""
    now = shares((usage for usage in history.usage if is_of_last_day(usage, history)), service_of, without_usage)
    before = shares((usage for usage in history.usage if not is_of_last_day(usage, history)), service_of, without_usage)
    for service, found in sorted(now.items()):
        was = before.get(service, Share(0, 0))
        is_known_before = was.whole >= MISSING_LEAST_CALLS
        has_risen = found.share >= max(MISSING_LEAST_SHARE, was.share + MISSING_LEAST_RISE)
        if found.whole >= MISSING_LEAST_CALLS and ((is_known_before and has_risen) or found.share >= MISSING_MAX_SHARE):
            after = f", after {percent(was.share)} % in the week before" if is_known_before else ""
            yield Finding(
                cause="missing_usage_rising",
                source=service,
                model="",
                title=f"{shown(service) or 'calls without a service name'}: {percent(found.share)} % of the calls come without their usage{after}",
                category="data quality",
                effort="medium",
            )


def error_burst(history: History) -> Iterator[Finding]:
    """Providers whose calls fail now; and services whose calls fail while other calls of their
    providers succeed.
    """
    failing = {
        provider: share
        for provider, share in bursting(history.usage, history.now_hour, provider_of).items()
        if not is_of_one_service([usage for usage in history.usage if usage.provider == provider], history.now_hour)
    }
    elsewhere = [usage for usage in history.usage if usage.provider not in failing]
    for kind, found in (("provider", failing), ("service", bursting(elsewhere, history.now_hour, service_of))):
        for name, share in sorted(found.items()):
            yield Finding(
                cause="error_burst",
                source=f"{kind}\x00{name}",
                model="",
                title=f"{kind} {shown(name) or 'unknown'}: {percent(share.share)} % of the calls of the last hours fail",
                category="reliability",
                effort="high",
            )


def is_of_one_service(usage: Collection[Usage], now_hour: int) -> bool:
    """Whether all failed calls of a provider are one service's while other services succeed: then
    the provider is not the cause.
    """
    services = bursting(usage, now_hour, service_of)
    others = [each for each in usage if each.service_name not in services]
    answered = sum(each.calls - each.failed_calls for each in others if each.hour > now_hour - ERROR_HOURS)
    return len(services) == 1 and answered >= ERROR_LEAST_FAILED and not bursting(others, now_hour, provider_of)


def bursting(usage: Collection[Usage], now_hour: int, name_of: Callable[[Usage], str]) -> dict[str, Share]:
    """Name -> share of failed calls of the last hours, where it is well above the share before."""
    since = now_hour - ERROR_HOURS
    now = shares((each for each in usage if each.hour > since), name_of, failed)
    before = shares((each for each in usage if each.hour <= since), name_of, failed)
    return {
        name: share
        for name, share in now.items()
        if share.part >= ERROR_LEAST_FAILED
        and share.share >= ERROR_LEAST_SHARE
        and not is_ever_so(share, before.get(name, Share(0, 0)))
    }


def is_ever_so(now: Share, before: Share) -> bool:
    return before.whole >= ERROR_LEAST_CALLS_BEFORE and now.share < before.share * ERROR_TIMES


def shares(
    usage: Iterable[Usage], name_of: Callable[[Usage], str], part_of: Callable[[Usage], int]
) -> dict[str, Share]:
    """Name -> the part of its calls; series beyond the bound have no name."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in usage:
        name = name_of(each)
        if name != OTHER:
            found[name][0] += part_of(each)
            found[name][1] += each.calls
    return {name: Share(*sums) for name, sums in found.items()}


def service_of(usage: Usage) -> str:
    return usage.service_name


def provider_of(usage: Usage) -> str:
    return usage.provider


def failed(usage: Usage) -> int:
    return usage.failed_calls


def without_usage(usage: Usage) -> int:
    return usage.calls_without_usage
