"""Puts the admin application together."""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry

from gateway.admin.backup import BackupSource
from gateway.admin.dead_letters import DeadLetterRequests
from gateway.admin.identity import identity_reader
from gateway.admin.keys import KeyRequests
from gateway.admin.lanes import Lanes
from gateway.admin.parts import AdminParts, Running
from gateway.admin.registry import AdminStores
from gateway.admin.server import admin_app
from gateway.admin.session import AdminAccess
from gateway.billing.requests import BillingRequests, RelayRequests
from gateway.budgets.book import Budgets
from gateway.config.model import Config, operators_of
from gateway.delivery.embedded import EmbeddedService
from gateway.devices.store import DeviceStore
from gateway.insights.rounds import Rounds
from gateway.keys.store import KeyStore
from gateway.observability.budget_metrics import BudgetCollector
from gateway.observability.latency import Latencies, register
from gateway.observability.metrics import StatusCollector
from gateway.observability.status import StatusReport
from gateway.observability.tap import Tap
from gateway.observability.usage_metrics import UsageCollector
from gateway.receiver.authenticator import KeyAuthenticator
from gateway.receiver.server import Receiver
from gateway.senders.activity import Senders
from gateway.usage.forgetting import UserForgetter
from gateway.usage.query import UsageQueries
from gateway.views.store import Views
from spool.store import Spool


def build_admin(
    config: Config,
    *,
    running: Callable[[], Running],
    status: StatusReport,
    latencies: Latencies,
    access: AdminAccess,
    receiver: Receiver,
    rounds: Rounds,
    budgets: Budgets,
    views: Views,
    spool: Spool,
    lanes: Lanes,
    keys: KeyStore,
    devices: DeviceStore,
    senders: Senders,
    service: EmbeddedService | None,
    usage: UsageQueries,
    users: UserForgetter,
    billing: BillingRequests,
    billing_relay: RelayRequests,
    now_ms: Callable[[], int],
    backup: BackupSource,
) -> web.Application:
    """The application of the admin listener; *service* is None where the upstream is elsewhere."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(status, receiver.figures))
    register(registry, latencies)
    registry.register(BudgetCollector(budgets))
    registry.register(UsageCollector(rounds.follower.counters, rounds.follower.age_s))
    operators = operators_of(config)
    parts = AdminParts(
        status=status,
        not_ready=status.not_ready,
        registry=registry,
        access=access,
        unsettled=rounds.unsettled,
        tap=Tap(spool),
        gate=KeyAuthenticator(keys),
        now_ms=now_ms,
        running=running,
        operators=operators,
        identity=identity_reader(config.operator_identity),
        note_unforeseen=receiver.counts.note_unforeseen,
    )
    stores = AdminStores(
        status=status,
        keys=KeyRequests(keys, receiver.admission.recent.last_hour, operators),
        service_keys=None if service is None else KeyRequests(service.keys, operators=operators),
        dead_letters=DeadLetterRequests(spool.operator(), spool.age_ms),
        lanes=lanes,
        devices=devices,
        insights=rounds,
        budgets=budgets,
        views=views,
        senders=senders,
        spool=spool,
        usage=usage,
        users=users,
        billing=billing,
        billing_relay=billing_relay,
        calls=spool,
        backup=backup,
    )
    address = config.listen.admin
    is_loopback = address is None or address.is_loopback
    return admin_app(
        parts,
        stores,
        loopback=is_loopback,
        has_mcp=config.mcp == "on",
        body_timeout_s=lambda: receiver.limits.body_timeout_s,
    )
