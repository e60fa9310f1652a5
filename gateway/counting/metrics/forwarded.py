"""Which aggregates of other gateways repeat calls. Pure.

Each of the gateways in front of a hub drops the aggregates of a source that sent its calls to the
same gateway. Where a load balancer spreads one source over several of them, only the hub sees
both. An aggregate that one gateway forwarded is covered where **another** gateway, under the same
key of the hub, forwarded calls of its source in the aggregate's time or since: what came through
one gateway was decided there, by more than a record states.

The source is the inbound key that the record names, the service's name, and device and session
where both sides state them.
"""

from typing import Final

from gateway.common.lru import forget_oldest
from gateway.counting.metrics.sources import MAX_SIGHTINGS, keys_asked, keys_noted
from gateway.rules.points import MetricSource
from spool.record import Attribution

_TOPIC: Final = "forwarded\x00"
_TWO: Final = 2


def forwarded_source(source: int, attribution: Attribution) -> MetricSource:
    """Whose record it is, with that *attribution*; *source* is the fingerprint of the hub's key, or
    of the peer (`gateway_origin`).
    """
    key, service = attribution.get("key") or "", attribution.get("service_name") or ""
    device, session = attribution.get("device_id") or "", attribution.get("session") or ""
    return MetricSource(f"{source:x}:{key}", service, device, "", session)


def topic_of_gateway(gateway: int) -> str:
    """As what the spool keeps that a gateway forwarded calls."""
    return f"{_TOPIC}{gateway:x}"


def gateway_in(topic: str) -> int | None:
    """The gateway that `topic_of_gateway` names; None for any other topic."""
    return int(topic.removeprefix(_TOPIC), 16) if topic.startswith(_TOPIC) else None


class ForwardedCalls:
    """Source -> the two gateways that forwarded calls of it last, and when, in ms of our clock."""

    def __init__(self, most: int = MAX_SIGHTINGS) -> None:
        self._most = most
        self._last_ms: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._last_ms)

    def note(self, gateway: int, source: MetricSource, now_ms: int) -> None:
        """*gateway* forwarded calls of *source*."""
        for key in keys_noted(_TOPIC, source):
            last_ms = self._last_ms.pop(key, {})  # so that it moves to the end: the first one is the oldest
            last_ms[gateway] = max(now_ms, last_ms.get(gateway, now_ms))
            if len(last_ms) > _TWO:
                del last_ms[min(last_ms, key=last_ms.__getitem__)]
            self._last_ms[key] = last_ms
        forget_oldest(self._last_ms, self._most)

    def by_another(self, gateway: int, source: MetricSource, since_ms: int) -> bool:
        """Whether another gateway than *gateway* forwarded calls of *source* since then."""
        found = (self._last_ms.get(key, {}) for key in keys_asked(_TOPIC, source))
        return any(each != gateway and ms >= since_ms for last_ms in found for each, ms in last_ms.items())
