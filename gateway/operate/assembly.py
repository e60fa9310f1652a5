"""Puts the admin application together."""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CollectorRegistry

from gateway.access.store import KeyStore
from gateway.config.model import Config, operators_of
from gateway.fleet.devices.store import DeviceStore
from gateway.fleet.senders.activity import Senders
from gateway.observability.budget_metrics import BudgetCollector
from gateway.observability.latency import Latencies, register
from gateway.observability.metrics import StatusCollector
from gateway.observability.status import StatusReport
from gateway.observability.tap import Tap
from gateway.observability.usage_metrics import UsageCollector
from gateway.operate.allocation import AllocationRequests
from gateway.operate.backup import BackupSource
from gateway.operate.dead_letters import DeadLetterRequests
from gateway.operate.header_sign_in import GroupsOf, groups_reader, header_sign_in, no_sign_in
from gateway.operate.identity import IdentityOf, identity_reader
from gateway.operate.keys import KeyRequests
from gateway.operate.lanes import Lanes
from gateway.operate.oidc.route import add_sign_in
from gateway.operate.parts import AdminParts, Running
from gateway.operate.registry import AdminStores
from gateway.operate.relayed_person import RelayedPerson, secret_of
from gateway.operate.server import admin_app
from gateway.operate.session import AdminAccess
from gateway.operate.spool_files import SpoolFiles
from gateway.operate.unit_cost import StreamSource
from gateway.operate.verdict import VerdictSource
from gateway.pipeline.delivery.embedded import EmbeddedService
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.receiver import Receiver
from gateway.usage.allocation.book import Allocations
from gateway.usage.billing.requests import BillingRequests, RelayRequests
from gateway.usage.budgets.book import Budgets
from gateway.usage.insights.rounds import Rounds
from gateway.usage.recommendations.book import Recommendations
from gateway.usage.sums.forgetting import UserForgetter
from gateway.usage.sums.query import UsageQueries
from gateway.usage.views.store import Views
from spool.store import Spool


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The parts of a gateway that its admin application shows and changes."""

    status: StatusReport
    latencies: Latencies
    receiver: Receiver
    rounds: Rounds
    budgets: Budgets
    views: Views
    allocation: Allocations
    recommendations: Recommendations
    spool: Spool
    spool_files: SpoolFiles
    lanes: Lanes
    keys: KeyStore
    devices: DeviceStore
    senders: Senders
    service: EmbeddedService | None
    """None where the upstream is elsewhere."""
    unit_cost: StreamSource
    usage: UsageQueries
    users: UserForgetter
    billing: BillingRequests
    billing_relay: RelayRequests
    backup: BackupSource


def who_sends(config: Config, *, is_inner: bool) -> tuple[IdentityOf, GroupsOf]:
    """How the person behind a request and the groups are known: of one that a gateway of the cell
    passes on, by that.
    """
    if is_inner:
        relayed = RelayedPerson(secret_of(config.data_dir))
        return relayed.identity, relayed.groups
    header = None if config.sign_in is None else config.sign_in.groups_header
    return identity_reader(config.operator_identity), groups_reader(config.operator_identity, header)


def build_admin(
    config: Config,
    behind: Behind,
    access: AdminAccess,
    *,
    running: Callable[[], Running],
    now_ms: Callable[[], int],
    is_inner: bool = False,
) -> web.Application:
    """The application of the admin listener. *is_inner*: as `Build` has it; what is open on
    loopback is open to nobody then, for others come from anywhere.
    """
    status, receiver, rounds, spool, service = (
        behind.status,
        behind.receiver,
        behind.rounds,
        behind.spool,
        behind.service,
    )
    registry = CollectorRegistry()
    registry.register(StatusCollector(status, receiver.figures))
    register(registry, behind.latencies)
    registry.register(BudgetCollector(behind.budgets))
    registry.register(UsageCollector(rounds.follower.counters, rounds.follower.age_s))
    operators = operators_of(config)
    identity, groups = who_sends(config, is_inner=is_inner)
    parts = AdminParts(
        status=status,
        not_ready=status.not_ready,
        registry=registry,
        access=access,
        unsettled=rounds.unsettled,
        tap=Tap(spool),
        gate=KeyAuthenticator(behind.keys, divides=True),
        now_ms=now_ms,
        running=running,
        operators=operators,
        identity=identity,
        sign_in=no_sign_in
        if config.sign_in is None or config.sign_in.groups_header is None
        else header_sign_in(identity, groups, config.sign_in.rules),
        note_unforeseen=receiver.counts.note_unforeseen,
    )
    letters = DeadLetterRequests(spool.operator(), spool.age_ms)
    stores = AdminStores(
        status=status,
        keys=KeyRequests(behind.keys, receiver.outcomes.recent.last_hour, operators),
        service_keys=None if service is None else KeyRequests(service.keys, operators=operators),
        dead_letters=letters,
        lanes=behind.lanes,
        devices=behind.devices,
        insights=rounds,
        budgets=behind.budgets,
        views=behind.views,
        allocation=AllocationRequests(behind.allocation, behind.usage),
        recommendations=behind.recommendations,
        senders=behind.senders,
        spool=behind.spool_files,
        usage=behind.usage,
        users=behind.users,
        billing=behind.billing,
        billing_relay=behind.billing_relay,
        calls=spool,
        unit_cost=behind.unit_cost,
        backup=behind.backup,
        verdict=VerdictSource(status, letters, behind.senders, now_ms),
    )
    address = config.listen.admin
    is_loopback = not is_inner and (address is None or address.is_loopback)
    app = admin_app(
        parts,
        stores,
        loopback=is_loopback,
        host_names=frozenset() if config.sign_in is None else config.sign_in.hosts,
        has_mcp=config.mcp == "on",
        body_timeout_s=lambda: receiver.limits.body_timeout_s,
    )
    if config.sign_in is not None and config.sign_in.oidc is not None:
        add_sign_in(app, config.sign_in, operators, access)
    return app
