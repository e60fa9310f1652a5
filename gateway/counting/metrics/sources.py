"""Which source reports what: whether an aggregate is billed, or
repeats calls that were counted. Pure.

A *source* is the inbound key (else the peer) and the service's name; and its device, instance and
session where both sides state them. An aggregate waits, and when its time is up it is suppressed

1. where the operator bills this service by its calls, which is the default: when the source sent
   calls in the aggregate's time or since (`calls_reported`);
2. when the source reports the same tokens under a metric of a better rank (`repeated_metric`).

SourceActivity are kept by fingerprint, each under every combination of what it states and
what it leaves open, so that a question is at most eight look-ups; the oldest go first when
there are more than `MAX_SIGHTINGS`.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from typing import Final

from gateway.common.lru import forget_oldest
from gateway.counting.metrics.grouping import Family
from gateway.rules.conventions.metric_tables import SHAPE_COUNTER_RANK
from gateway.rules.fingerprint import fingerprint
from gateway.rules.points import MetricSource

MAX_SIGHTINGS: Final = 100_000
"""About 15 MB; a reporter that states device, instance and session has eight."""
MAX_PERIOD_MS: Final = 24 * 3600 * 1000
"""Calls are looked for through an aggregate's period, at most this long."""
RENEW_MS: Final = 1_000
"""A sighting younger than this is not noted again."""

CALLS: Final = "calls"
KNOWN: Final = "known metric"
"""Tokens under any metric that a table knows."""
CALLS_REPORTED: Final = "suppressed.calls_reported"
_ANY = "*"
_STATED = "="


def family_topic(family: Family) -> str:
    return f"metric\x00{family.rank}\x00{family.scope}"


def cost_topic(scope: str, model: str | None) -> str:
    return f"cost\x00{scope}\x00{model or ''}"


class SourceActivity:
    """(topic, reporter) -> when it was seen last, in ms of our clock."""

    def __init__(self, most: int = MAX_SIGHTINGS) -> None:
        self._most = most
        self._last_ms: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._last_ms)

    def note(self, topic: str, reporter: MetricSource, now_ms: int) -> None:
        """*reporter* was seen to report *topic*."""
        last_ms = self._last_ms
        for key in keys_noted(topic, reporter):
            last_ms.pop(key, None)  # so that it moves to the end: the first one is the oldest
            last_ms[key] = now_ms
        forget_oldest(last_ms, self._most)

    def is_fresh(self, topic: str, reporter: MetricSource, since_ms: int) -> bool:
        """Whether this very reporter was noted since then."""
        return self._last_ms.get(_exact(topic, reporter), since_ms - 1) >= since_ms

    def seen_since(self, topic: str, reporter: MetricSource, since_ms: int) -> bool:
        """Whether the source was seen to report *topic* since then: by a reporter that contradicts
        nothing *reporter* states.
        """
        last_ms = self._last_ms
        return any(last_ms.get(key, since_ms - 1) >= since_ms for key in keys_asked(topic, reporter))


def keys_noted(topic: str, reporter: MetricSource) -> Iterator[int]:
    """The keys under which a sighting is kept; the one that states all comes first."""
    return _keys(topic, reporter, [(_STATED + value, _ANY) for value in reporter[2:]])


@lru_cache(maxsize=1024)
def _exact(topic: str, reporter: MetricSource) -> int:
    """The key that states all."""
    sender, service, device, instance, session = reporter
    return hash((_base(topic, sender, service), _STATED + device, _STATED + instance, _STATED + session))


def keys_asked(topic: str, reporter: MetricSource) -> Iterator[int]:
    """The keys of sightings that fit *reporter*: equal, or silent, wherever it states something;
    anything where it does not.
    """
    return _keys(topic, reporter, [(_STATED + value, _STATED) if value else (_ANY,) for value in reporter[2:]])


def _keys(topic: str, reporter: MetricSource, choices: Iterable[tuple[str, ...]]) -> Iterator[int]:
    base = _base(topic, reporter.sender, reporter.service_name)
    return (hash((base, *chosen)) for chosen in product(*choices))


@lru_cache(maxsize=1024)
def _base(topic: str, sender: str, service: str) -> int:
    return fingerprint("reporter", topic, sender, service)


def since_ms(received_ms: int, period_ms: int, window_ms: int) -> int:
    """From when on calls of the source cover an aggregate received at *received_ms*
    that sums up *period_ms*.
    """
    return received_ms - window_ms - min(max(period_ms, 0), MAX_PERIOD_MS)


def outcome(
    sightings: SourceActivity, reporter: MetricSource, family: Family, since: int, prefer_metrics: frozenset[str]
) -> str | None:
    """Why the aggregate is not billed; None when it is."""
    if reporter.service_name not in prefer_metrics and sightings.seen_since(CALLS, reporter, since):
        return CALLS_REPORTED
    return "suppressed.repeated_metric" if is_repeated(sightings, reporter, family, since) else None


def is_repeated(sightings: SourceActivity, reporter: MetricSource, family: Family, since: int) -> bool:
    """Whether the source reports the same tokens under a metric of a better rank; of one that was
    found by its shape, under any metric that a table knows.
    """
    if family.rank >= SHAPE_COUNTER_RANK and sightings.seen_since(KNOWN, reporter, since):
        return True
    return any(
        sightings.seen_since(family_topic(family._replace(rank=rank)), reporter, since)
        for rank in range(1, family.rank)
    )
