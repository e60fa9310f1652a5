"""Who posted on open intake in the last hour: those that the first key would shut out. In memory,
bounded, without any header but a name.

Of a request is kept the peer's address, the product that its User-Agent begins with,
and the route it took: nothing of what it showed as a key, and nothing of its own path
or query, which may hold one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

MAX_SENDERS = 1000
"""The one that was silent longest goes first."""
MAX_PATHS = 16
MAX_NAME_CHARACTERS = 48
HOUR_MS = 3_600_000

_PRODUCT = re.compile(
    r"([A-Za-z]{1,24}[0-9]{0,2}(?:[-_.][A-Za-z]{1,24}[0-9]{0,2}){0,3})(?![^/ \t])(/v?[0-9]{1,4}(?:\.[0-9]{1,4}){0,2}(?![0-9]))?"
)
"""`OTel-OTLP-Exporter-Python/1.30.0`: words with a digit or two at their ends, and a version in
numbers. No key looks like that."""


class RecentSender(NamedTuple):
    peer: str
    """Address without port, or `unix`."""
    product: str
    """What its User-Agent begins with; empty where it names none."""
    paths: tuple[str, ...]
    """Routes as they are listed, such as `/v1/devices/{device_id}/heartbeat`; the first few."""
    last_seen_ms: int
    requests: int
    """Since it was first seen, or seen again after an hour of silence."""


@dataclass(slots=True)
class _Seen:
    last_seen_ms: int
    requests: int = 0
    paths: set[str] = field(default_factory=set)


class RecentSenders:
    """Called for each request that open intake let in, when it ends; *most* 0 remembers no one."""

    def __init__(self, now_ms: Callable[[], int], *, most: int = MAX_SENDERS) -> None:
        self._now_ms = now_ms
        self._most = most
        self._seen: dict[tuple[str, str], _Seen] = {}
        """The one seen last stands last."""

    def note(self, peer: str, product: str, path: str, n_requests: int = 1) -> None:
        """Remember who sent requests without a key."""
        if not self._most:
            return
        now_ms = self._now_ms()
        who = (peer, product)
        seen = self._seen.pop(who, None)
        if seen is None or now_ms - seen.last_seen_ms > HOUR_MS:
            seen = _Seen(now_ms)
            if len(self._seen) >= self._most:
                del self._seen[next(iter(self._seen))]
        self._seen[who] = seen
        seen.last_seen_ms = now_ms
        seen.requests += n_requests
        if len(seen.paths) < MAX_PATHS:
            seen.paths.add(path)

    def last_hour(self) -> list[RecentSender]:
        """The one seen last first."""
        since_ms = self._now_ms() - HOUR_MS
        return [
            RecentSender(peer, product, tuple(sorted(seen.paths)), seen.last_seen_ms, seen.requests)
            for (peer, product), seen in reversed(self._seen.items())
            if seen.last_seen_ms >= since_ms
        ]


@lru_cache(maxsize=256)
def product_of(user_agent: str) -> str:
    """The product that a User-Agent begins with; empty where what stands there may be
    anything else, such as a key.
    """
    found = _PRODUCT.match(user_agent)
    return "" if found is None or len(found[1]) > MAX_NAME_CHARACTERS else found[1] + (found[2] or "")
