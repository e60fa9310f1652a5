"""Puts the admin application together."""

from aiohttp import web
from prometheus_client import CollectorRegistry

from gateway.admin.dead_letter_routes import add_operator_routes
from gateway.admin.description_route import add_description_route
from gateway.admin.device_routes import add_device_routes
from gateway.admin.insight_routes import add_insight_routes
from gateway.admin.key_routes import add_key_routes
from gateway.admin.keys import SERVICE_PATH, Store
from gateway.admin.server import AdminParts, admin_app
from gateway.admin.session import AdminAccess
from gateway.admin.spool_file_routes import add_spool_file_routes
from gateway.config.model import Config
from gateway.delivery.embedded import EmbeddedService, no_totals
from gateway.devices.store import DeviceStore
from gateway.insights.rounds import Rounds
from gateway.keys.store import KeyStore
from gateway.observability.metrics import StatusCollector
from gateway.observability.status import StatusReport
from gateway.receiver.authenticator import KeyAuthenticator
from gateway.receiver.server import Receiver
from spool.store import Spool


def build_admin(
    config: Config,
    *,
    status: StatusReport,
    access: AdminAccess,
    receiver: Receiver,
    rounds: Rounds,
    spool: Spool,
    keys: KeyStore,
    devices: DeviceStore,
    service: EmbeddedService | None,
) -> web.Application:
    """The application of the admin listener; *service* is None where the upstream is elsewhere."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(status, receiver.figures))
    parts = AdminParts(
        status,
        no_totals if service is None else service.totals,
        status.not_ready,
        registry,
        access,
        rounds.page,
        rounds.unsettled,
        KeyAuthenticator(keys),
    )
    address = config.listen.admin
    app = admin_app(parts, loopback=address is None or address.is_loopback)
    add_spool_file_routes(app, spool)
    add_operator_routes(app, spool.operator(), spool.age_ms)
    add_device_routes(app, devices)
    add_key_routes(app, Store(keys, receiver.admission.recent.last_hour))
    if service is not None:
        add_key_routes(app, Store(service.keys), SERVICE_PATH)
    add_insight_routes(app, rounds.store)
    add_description_route(app)
    return app
