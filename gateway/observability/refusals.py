"""Requests that were refused, for an operator who wonders why nothing arrives. In memory, bounded,
without anything that a sender chose.

An entry is one status, reason and route: how often, when last, from which peer, and under which key
where it was known. Never a path or query of the request's own, and never what it showed as a key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypedDict

import structlog

from gateway.common.contract.json_types import Count, Time
from spool.clock import rfc3339_ms

log = structlog.get_logger()

MAX_ENTRIES = 100
"""The one that was silent longest goes first."""
QUIET_MS = 600_000
"""What is refused for one status, reason and route is logged once, and again
after this long without a line."""
MAX_QUIET = 10_000
"""Of those that a line was logged for; all that there can be are fewer."""
LOGGED = frozenset({
    HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
})  # fmt: skip
"""What someone here or at the sender can remedy. Others are the sender's bytes."""


class RefusedStatus(TypedDict):
    """One entry of `refused` in `GET /v2/status`."""

    status: int
    """HTTP."""
    reason: str
    """docs/operations.md has the list."""
    route: str
    """As it is listed here; `none` for a path that no route takes."""
    requests: Count
    last_at: Time
    last_peer: str
    last_key: str | None
    """Name of the key that the last one came under."""


@dataclass(slots=True)
class _Entry:
    requests: int = 0
    last_ms: int = 0
    peer: str = ""
    key: str | None = None


class RefusedRequests:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._entries: dict[tuple[int, str, str], _Entry] = {}
        """The one refused last stands last."""
        self._logged_ms: dict[tuple[int, str, str], int] = {}
        """Outlives the entry, or a peer that asks for all routes in turn would get a line for each
        request."""

    def note(
        self, status: int, reason: str, route: str, peer: str, key: str | None = None, remedy: str | None = None
    ) -> None:
        """Count one refused request under its route and reason; *remedy* stands in the log."""
        now_ms = self._now_ms()
        entry = self._entries.pop((status, reason, route), None) or _Entry()
        if len(self._entries) >= MAX_ENTRIES:
            del self._entries[next(iter(self._entries))]
        self._entries[status, reason, route] = entry
        entry.requests += 1
        entry.last_ms, entry.peer, entry.key = now_ms, peer, key
        if status in LOGGED and self._is_news((status, reason, route), now_ms):
            more = {} if remedy is None else {"remedy": remedy}
            log.warning("request refused", status=status, reason=reason, route=route, peer=peer, key=key, **more)

    def _is_news(self, what: tuple[int, str, str], now_ms: int) -> bool:
        """Whether a line about *what* is due; noted as logged then."""
        before_ms = self._logged_ms.get(what)
        is_due = len(self._logged_ms) < MAX_QUIET if before_ms is None else now_ms - before_ms >= QUIET_MS
        if is_due:
            self._logged_ms[what] = now_ms
        return is_due

    def status(self) -> list[RefusedStatus]:
        """The one refused last first."""
        return [
            {
                "status": status,
                "reason": reason,
                "route": route,
                "requests": entry.requests,
                "last_at": rfc3339_ms(entry.last_ms),
                "last_peer": entry.peer,
                "last_key": entry.key,
            }
            for (status, reason, route), entry in reversed(self._entries.items())
        ]
