"""Sources of AI spans without calls: an agent framework reports its agents, and nothing reports the
calls of their models. Pure: no clock, no I/O. Bounded, of one process.

1. A source is a service and an instrumentation scope. Calls and usage metrics of the same service,
   by whatever instrumentation, cover it for `COVERED_MS`.
2. So does a call of another service in a trace of it: a gateway that reports its calls, say.
3. What is left after `WAIT_MS`, in which calls may still arrive, and has `LEAST_SPANS` spans is
   uncovered, until `FORGOTTEN_MS` after its last span.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from gateway.common.contract.json_types import Count
from gateway.common.lru import forget_oldest

COVERED_MS: Final = 60 * 60 * 1000
WAIT_MS: Final = 2 * 60 * 1000
"""Calls and the agents above them are exported by processes of their own, some every minute."""
LEAST_SPANS: Final = 3
"""A single step may be a cached answer or an agent that called no model."""
FORGOTTEN_MS: Final = 24 * 60 * 60 * 1000
MAX_SOURCES: Final = 1_000
MAX_SERVICES: Final = 10_000
MAX_TRACES: Final = 10_000
"""Of calls, remembered while there is a source that may be uncovered."""
_MAX_SAMPLES: Final = 64

AiSource = tuple[str | None, str, int, Sequence[bytes]]
"""Service, scope, spans of one payload, and traces of some of them."""

REMEDY: Final = "turn on the instrumentation of the model client in the process that sends these spans"
_REMEDIES: Final = (
    ("crewai", "instrument LiteLLM or the provider's SDK, through which CrewAI calls models, beside CrewAI"),
    (
        "autogen",
        "instrument the provider's SDK (OpenAI, Anthropic), through which AutoGen calls models, beside AutoGen",
    ),
)


class AiWithoutCalls(TypedDict):
    """One service and instrumentation scope that reports agents and steps, where nothing reports
    the calls of their models.
    """

    service_name: str | None
    library: str
    """The instrumentation scope; empty where that is no name."""
    spans: Count
    """Since it was first seen; no call belongs to any of them."""
    remedy: str
    """What to turn on."""


@dataclass(slots=True)
class _Source:
    first_ms: int
    last_ms: int
    spans: int = 0
    traces: dict[bytes, None] = field(default_factory=dict)


class Coverage:
    """What one gateway saw of AI spans and of calls."""

    def __init__(self) -> None:
        self._called: dict[str | None, int] = {}
        """Service -> when it last reported usage."""
        self._sources: dict[tuple[str | None, str], _Source] = {}
        self._traces: dict[bytes, None] = {}
        """Of calls."""

    @property
    def watches_traces(self) -> bool:
        """Whether traces of calls are of interest."""
        return bool(self._sources)

    def see_usage(self, services: Iterable[str | None], now_ms: int) -> None:
        """These services reported calls, or metrics of usage."""
        for service in services:
            self._called.pop(service, None)
            self._called[service] = now_ms
        forget_oldest(self._called, MAX_SERVICES)

    def see_calls(self, traces: Iterable[bytes]) -> None:
        """Calls of these traces were reported."""
        self._traces.update(dict.fromkeys(traces))
        forget_oldest(self._traces, MAX_TRACES)

    def see_ai_spans(self, sources: Iterable[AiSource], now_ms: int) -> None:
        """These sources reported AI spans that are no calls."""
        for service, scope, n, traces in sources:
            if self._is_covered(service, now_ms):
                continue
            source = self._sources.setdefault((service, scope), _Source(now_ms, now_ms))
            source.last_ms, source.spans = now_ms, source.spans + n
            source.traces.update(dict.fromkeys(traces))
            forget_oldest(source.traces, _MAX_SAMPLES)
        forget_oldest(self._sources, MAX_SOURCES)

    def uncovered(self, now_ms: int) -> list[AiWithoutCalls]:
        """The sources without calls as of now, by name; what is covered since is forgotten."""
        for key, source in list(self._sources.items()):
            is_old = now_ms - source.last_ms > FORGOTTEN_MS
            if is_old or self._is_covered(key[0], now_ms) or not source.traces.keys().isdisjoint(self._traces):
                del self._sources[key]
        return [
            {"service_name": service, "library": scope, "spans": source.spans, "remedy": _remedy(scope)}
            for (service, scope), source in sorted(self._sources.items(), key=lambda x: (x[0][0] or "", x[0][1]))
            if source.spans >= LEAST_SPANS and now_ms - source.first_ms >= WAIT_MS
        ]

    def _is_covered(self, service: str | None, now_ms: int) -> bool:
        return service in self._called and now_ms - self._called[service] <= COVERED_MS


def _remedy(scope: str) -> str:
    return next((remedy for name, remedy in _REMEDIES if name in scope.lower()), REMEDY)
