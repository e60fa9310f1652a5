"""What the routes of the admin listener work on, as the application holds it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from gateway.admin.registry import AdminStores
from gateway.admin.role import Role
from gateway.admin.session import AdminAccess
from gateway.common.wall_clock import wall_ms
from gateway.insights.finding import Insight
from gateway.observability.metrics import Status
from gateway.receiver.authenticator import Authenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """What the pages show and the guard asks."""

    status: Callable[[], Status]
    not_ready: Callable[[], Awaitable[str | None]]
    """Why the gateway cannot keep data now; None when it can."""
    registry: CollectorRegistry
    access: AdminAccess
    unsettled: Callable[[], Awaitable[Sequence[Insight]]]
    """Insights that someone should still look at."""
    now_ms: Callable[[], int] = wall_ms
    """The wall clock."""
    gate: Authenticator | None = None
    """Admits inbound keys to the operations that have a scope; None: no key opens anything."""


PARTS: Final = web.AppKey("parts", AdminParts)
STORES: Final = web.AppKey("stores", AdminStores)
ROLE: Final = web.RequestKey("role", Role)
"""In a request: the role that its credential has; absent where it shows none that is known."""
