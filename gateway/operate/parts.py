"""What the routes of the admin listener work on, as the application holds it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry

from gateway.access.operators import ANYONE, Operators
from gateway.common.contract.errors import GatewayError, NotFound
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.config.values import Address
from gateway.observability.metrics import Status
from gateway.observability.tap import Tap
from gateway.operate.header_sign_in import SignInOf, no_sign_in
from gateway.operate.identity import IdentityOf, no_identity
from gateway.operate.registry import AdminStores
from gateway.operate.role import Role
from gateway.operate.session import AdminAccess
from gateway.serve.authenticator import Authenticator, Headers
from gateway.usage.insights.finding import Insight


class Running(NamedTuple):
    """The gateway as it runs now."""

    config: Config
    """In force, after the last reload."""
    http: Address
    """Where senders reach it, with real ports; None for a listener that is off."""
    grpc: Address


class KeyGate(Authenticator, Protocol):
    """Of inbound keys; the caller makes sure that a limited key reads its own part alone."""

    def reach_of(self, headers: Headers) -> Reach:
        """What the key in *headers* sees; everything where they show none that is known."""


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
    tap: Tap | None = None
    """Shows calls as they settle; None: there is no `/v2/tap`."""
    gate: KeyGate | None = None
    """Admits inbound keys to the operations that have a scope; None: no key opens anything."""
    running: Callable[[], Running] | None = None
    operators: Operators = ANYONE
    identity: IdentityOf = no_identity
    """Who sends a request, as the connection states it."""
    sign_in: SignInOf = no_sign_in
    """What a person may do without a token, whom a trusted proxy signed in."""
    note_unforeseen: Callable[[], None] = lambda: None
    """Counts an error that no table entry foresaw."""


PARTS: Final = web.AppKey("parts", AdminParts)
STORES: Final = web.AppKey("stores", AdminStores)
BY: Final = web.RequestKey("by", str)
"""In a request: who sent it, as the connection states it; or the inbound key that admitted it."""
ROLE: Final = web.RequestKey("role", Role)
"""In a request: the role that its credential has; absent where it shows none that is known."""
REACH: Final = web.RequestKey[Reach]("reach")
"""In a request: what its credential sees; absent where it shows none that is known."""
ADMITS: Final = web.RequestKey[Callable[[web.Request], bool]]("admits")
"""In a request: states whether it would be admitted now. Raises what the guard raises."""


def owner_of(request: web.Request) -> str:
    """Whose request it is, where callers share what is bounded."""
    role = request.get(ROLE)
    return request.get(BY) or (request.remote or "unix" if role is None else role.name)


def is_still_admitted(request: web.Request) -> bool:
    """For what takes long: a stream asks before each write."""
    try:
        return request[ADMITS](request)
    except (GatewayError, DatabaseUnavailable):
        return False


def reach_of(request: web.Request) -> Reach:
    """What its sender sees."""
    reach: Reach = request.get(REACH, EVERYTHING)
    return reach


def stores_of(request: web.Request) -> AdminStores:
    """As its sender sees them. What cannot be divided is missing for a limited caller."""
    return request.app[STORES].limited(reach_of(request))


def running_of(request: web.Request) -> Running:
    """Raises NotFound where the application stands alone."""
    running = request.app[PARTS].running
    if running is None:
        raise NotFound("no gateway runs behind this page")
    return running()
