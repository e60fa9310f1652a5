"""What takes requests: the receiver of senders, the admin application, and the listeners of both;
the last step of a start.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from gateway.app.building import Build
from gateway.app.delivering import Delivering
from gateway.app.stores import Stores
from gateway.app.watching import Watching
from gateway.config.model import Config
from gateway.config.values import Address, TcpAddress
from gateway.local_service.forgetting import forget_users
from gateway.observability.latency import Latencies, LoopLag
from gateway.observability.telemetry.assembly import build_push
from gateway.operate.address_file import announce_address
from gateway.operate.archive.staging import CONTROL, SERVICE
from gateway.operate.assembly import Behind, build_admin
from gateway.operate.backup import BackupSource, LiveBackup
from gateway.operate.no_files import NoFiles
from gateway.operate.parts import PARTS, Running
from gateway.operate.session import AdminAccess, open_access
from gateway.pipeline.assembly import USER_SECRET_FILE
from gateway.serve.assembly import open_routes
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.http.billing_drops import billing_drop_routes
from gateway.serve.http.forwarded import budget_state_route, liveness_route
from gateway.serve.http.server import make_server
from gateway.serve.listen import OWNER_AND_GROUP, OWNER_ONLY, Closing, bind
from gateway.serve.receiver import Receiver
from gateway.serve.routes import Route
from gateway.usage.billing.requests import BillingRequests, RelayRequests
from gateway.usage.sums.forgetting import UserForgetter


@dataclass(frozen=True, slots=True)
class Ports:
    """What is bound, with real ports; None where a listener is off."""

    http: Address
    grpc: Address
    admin: Address
    service: Address


@dataclass(slots=True)
class Live:
    """What a reload changes, and what is known once all listen."""

    config: Config
    ports: Ports = Ports(None, None, None, None)

    def running(self) -> Running:
        return Running(self.config, self.ports.http, self.ports.grpc)


@dataclass(frozen=True, slots=True)
class Listening:
    receiver: Receiver
    further: Sequence[Route]
    """Of the receiver, beyond those of senders."""
    admin: web.Application
    access: AdminAccess
    live: Live


async def start_listening(
    build: Build, stores: Stores, delivering: Delivering, watching: Watching, receiver: Receiver
) -> Listening:
    """Complete the receiver, make the admin application, bind all listeners. Raises CannotStart."""
    reading = KeyAuthenticator(stores.keys, divides=True)
    further = [
        liveness_route(watching.rounds, reading),
        budget_state_route(watching.budgets, reading),
        *billing_drop_routes(delivering.relay),
    ]
    receiver.use(*open_routes(build.config, delivering.ingest.intake, further))
    access, live = (
        open_access(build.config.data_dir, build.config.metrics_token, stores.keys.viewer_tokens()),
        Live(build.config),
    )
    admin = admin_of(build, stores, delivering, watching, receiver, access, live)
    live.ports = await bound(build, stores, delivering, receiver, admin)
    return Listening(receiver, further, admin, access, live)


def admin_of(
    build: Build,
    stores: Stores,
    delivering: Delivering,
    watching: Watching,
    receiver: Receiver,
    access: AdminAccess,
    live: Live,
) -> web.Application:
    """The application of the admin listener, with the gateway's own telemetry pushed where that is
    configured.
    """
    pushes: Counter[tuple[str, str]] = Counter()
    billing = watching.billing
    behind = Behind(
        status=watching.status,
        latencies=latencies(build, stores, delivering, receiver, pushes),
        receiver=receiver,
        rounds=watching.rounds,
        budgets=watching.budgets,
        views=watching.views,
        allocation=watching.allocation,
        recommendations=watching.recommendations,
        spool=stores.spool,
        spool_files=NoFiles() if stores.files is None else stores.files.spool,
        lanes=delivering.delivery.lanes,
        keys=stores.keys,
        devices=stores.devices,
        senders=stores.senders.senders,
        service=delivering.delivery.service,
        unit_cost=delivering.ingest.metering,
        usage=watching.usage,
        users=user_forgetter(build, stores, delivering, watching),
        billing=BillingRequests(None if billing is None else billing.book, billing, build.now_ms),
        billing_relay=RelayRequests(delivering.relay.home, delivering.relay),
        backup=backup_of(build, stores, delivering),
    )
    admin = build_admin(
        build.config, behind, access, running=live.running, now_ms=build.now_ms, is_inner=build.is_inner
    )
    if build.config.telemetry is not None:
        registry = admin[PARTS].registry
        pushing = build_push(build.config.telemetry, registry, build.tracer, stores.instance_id, pushes)
        build.stack.push_async_callback(pushing.close)  # pushed last when all listeners are closed
        build.run(pushing.run(), "own telemetry")
    return admin


def latencies(
    build: Build, stores: Stores, delivering: Delivering, receiver: Receiver, pushes: Counter[tuple[str, str]]
) -> Latencies:
    lag, front = LoopLag(), delivering.ingest.intake.front
    build.run(lag.run(), "event loop lag")
    return Latencies(
        receiver.counts.seconds,
        front.core.append_seconds,
        stores.spool.commit_seconds,
        delivering.ingest.settler.lag_seconds,
        delivering.delivery.lanes.attempts,
        lag.seconds,
        pushes,
        build.tracer,
        front.parser.pids,
    )


def backup_of(build: Build, stores: Stores, delivering: Delivering) -> BackupSource:
    if stores.files is None:
        return NoFiles()
    databases = {CONTROL: stores.files.control}
    if (service := delivering.delivery.service) is not None:
        databases[SERVICE] = service.database
    return LiveBackup(build.config.data_dir, stores.files.spool, databases, build.now_ms)


def user_forgetter(build: Build, stores: Stores, delivering: Delivering, watching: Watching) -> UserForgetter:
    service = delivering.delivery.service
    delivered = None if service is None else partial(forget_users, service.database)
    secret_file = build.config.data_dir / USER_SECRET_FILE
    named_in = (watching.budgets.forget_users, watching.views.forget_users, watching.allocation.forget_users)
    return UserForgetter(stores.spool.operator(), watching.usage, secret_file, delivered, named_in)


async def bound(
    build: Build, stores: Stores, delivering: Delivering, receiver: Receiver, admin: web.Application
) -> Ports:
    """All listeners. Raises CannotStart."""
    config, service = build.config, delivering.delivery.service
    http, admin_tls = build.context_of("http"), build.context_of("admin")
    served, closing = make_server(receiver), Closing()
    build.stack.push_async_callback(closing.close)
    ports = Ports(
        http=await bind(closing, "listen.http", served, config.listen.http, receiver, OWNER_AND_GROUP, http),
        grpc=await _listen_for_grpc(build, stores, delivering, receiver, closing),
        admin=await bind(closing, "listen.admin", admin, config.listen.admin, None, OWNER_ONLY, admin_tls),
        service=None if service is None else TcpAddress("127.0.0.1", service.port),
    )
    if ports.admin is not None and not build.is_inner:
        files = build.tls["admin"].files if "admin" in build.tls else None
        build.stack.callback(announce_address(config.data_dir, ports.admin, files))
    receiver.http_at, receiver.grpc_at = port_of(ports.http), port_of(ports.grpc)
    return ports


async def _listen_for_grpc(
    build: Build, stores: Stores, delivering: Delivering, receiver: Receiver, closing: Closing
) -> Address:
    if build.config.listen.grpc is None:
        return None
    from gateway.serve.grpc.assembly import listen_for_grpc  # noqa: PLC0415 - h2 is not loaded where it is off

    tls = build.tls.get("grpc")
    return await listen_for_grpc(closing, build.config, receiver, delivering.ingest.intake, stores.keys, tls)


def port_of(address: Address) -> str | None:
    """`port 4317`, or the path of a Unix socket; None where nothing listens."""
    if address is None:
        return None
    return f"port {address.port}" if isinstance(address, TcpAddress) else str(address)
