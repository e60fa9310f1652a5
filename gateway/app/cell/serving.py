"""The listeners of a gateway of a cell."""

from collections.abc import Iterable
from functools import partial

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from gateway.access.store import KeyStore
from gateway.app.building import Build
from gateway.app.cell.edge import EdgeParts
from gateway.app.cell.owning import Owning
from gateway.app.listening import Ports, port_of
from gateway.config.values import Address
from gateway.observability.cell import MemberCollector, MemberFigures
from gateway.operate.address_file import announce_address
from gateway.operate.parts import PARTS
from gateway.operate.relayed_person import RelayedPerson, secret_of
from gateway.operate.session import AdminAccess
from gateway.operate.to_owner import Passing, member_app
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.http.server import make_server
from gateway.serve.http.to_owner import OwnerClient
from gateway.serve.listen import OWNER_AND_GROUP, OWNER_ONLY, Closing, bind


async def bound(
    build: Build, parts: EdgeParts, owning: Owning, keys: KeyStore, access: AdminAccess, owner: OwnerClient
) -> Ports:
    """All listeners. *owner*: for what operators ask. Raises CannotStart."""
    config, receiver, closing = build.config, parts.receiver, Closing()
    build.stack.push_async_callback(closing.close)
    http, tls = config.listen.http, build.context_of("http")
    ports = Ports(
        await bind(closing, "listen.http", make_server(receiver), http, receiver, OWNER_AND_GROUP, tls),
        await _bound_grpc(build, parts, keys, closing),
        await _bound_admin(build, parts, owning, (access, KeyAuthenticator(keys, divides=True)), owner, closing),
        None,
    )
    receiver.http_at, receiver.grpc_at = port_of(ports.http), port_of(ports.grpc)
    return ports


async def _bound_grpc(build: Build, parts: EdgeParts, keys: KeyStore, closing: Closing) -> Address:
    if build.config.listen.grpc is None:
        return None
    from gateway.serve.grpc.assembly import listen_for_grpc  # noqa: PLC0415 - h2 is not loaded where it is off

    return await listen_for_grpc(closing, build.config, parts.receiver, parts.intake, keys, build.tls.get("grpc"))


async def _bound_admin(
    build: Build,
    parts: EdgeParts,
    owning: Owning,
    admits: tuple[AdminAccess, KeyAuthenticator],
    owner: OwnerClient,
    closing: Closing,
) -> Address:
    config, address = build.config, build.config.listen.admin
    is_loopback = address is None or address.is_loopback
    groups_header = None if config.sign_in is None else config.sign_in.groups_header
    passing = Passing(config.operator_identity, RelayedPerson(secret_of(config.data_dir)), groups_header)
    hosts = frozenset[str]() if config.sign_in is None else config.sign_in.hosts
    registry = registry_of(parts, owning)
    app = member_app(owner, *admits, registry, parts.not_ready, passing, loopback=is_loopback, host_names=hosts)
    at = await bind(closing, "listen.admin", app, address, None, OWNER_ONLY, build.context_of("admin"))
    if at is not None:
        files = build.tls["admin"].files if "admin" in build.tls else None
        build.stack.callback(announce_address(config.data_dir, at, files))
    return at


def registry_of(parts: EdgeParts, owning: Owning) -> CollectorRegistry:
    """The metrics of this gateway, and of the owner while it is that."""
    registry, receiver = CollectorRegistry(), parts.receiver
    shown, of_owner = partial(figures, parts, owning), partial(owner_metrics, owning)
    registry.register(MemberCollector(shown, receiver.figures, parts.edge.append_seconds, of_owner))
    return registry


def figures(parts: EdgeParts, owning: Owning) -> MemberFigures:
    alive = owning.alive()
    return {
        "owns": owning.owns,
        "epoch": owning.owner.epoch,
        "takeovers": owning.takeovers,
        "members": {"alive": alive, "silent": max(0, len(owning.members) - alive)},
        "journal_bytes": parts.edge.journal_bytes,
        "is_unavailable": parts.edge.fault is not None,
    }


def owner_metrics(owning: Owning) -> Iterable[Metric]:
    """Without those of the process, which are this gateway's as well."""
    gateway = owning.gateway
    return () if gateway is None else gateway.admin[PARTS].registry.collect()
