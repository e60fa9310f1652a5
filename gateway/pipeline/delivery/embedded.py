"""The embedded local service: the upstream when no `upstream` is configured, with keys of its
own for the gateway's lanes.

The gateway sends to it over a real socket like to any service: AI telemetry under a managed
"Send AI Telemetry" key, billing drops under a managed "Send Billing Data" key, the rest under a
fixed key. The secrets, and one with read scopes for the operator, lie as files of mode 0600.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Self

from exporters.cost_service.liveness import LIVENESS_SCOPE
from exporters.secret import Secret
from gateway.access.local_key_file import kept_key
from gateway.common.contract.errors import CannotStart, not_bound
from gateway.common.contract.scopes import (
    CREATE_STREAM_SCOPE,
    DELETE_STREAM_SCOPE,
    ENROLL_SCOPE,
    EVENT_SCOPE,
    HEARTBEAT_SCOPE,
    PING_SCOPE,
    READ_COSTS_SCOPE,
    READ_UNIT_COST_SCOPE,
    SEND_AI_TELEMETRY,
    SEND_BILLING_DATA,
    UNIT_COST_SCOPE,
    Fixed,
    Grant,
    Managed,
)
from gateway.config.model import Upstream, UpstreamKey
from gateway.config.values import Address, TcpAddress
from gateway.local_service.service import BODY_TIMEOUT_S, Service

NO_SERVICE_ADDRESS = "listen.service must be host:port while there is no upstream"
FOLDER = "service"
READ_KEY_FILE = "service-key"
MADE_BY = "gateway@localhost"

CONTROL_SCOPES = (
    ENROLL_SCOPE,
    HEARTBEAT_SCOPE,
    PING_SCOPE,
    EVENT_SCOPE,
    CREATE_STREAM_SCOPE,
    DELETE_STREAM_SCOPE,
    UNIT_COST_SCOPE,
    READ_UNIT_COST_SCOPE,
    LIVENESS_SCOPE,
)
READ_SCOPES = (
    READ_COSTS_SCOPE,
    "insights:read_insight",
    "insights:read_insights",
    READ_UNIT_COST_SCOPE,
    "connections:read_billings",
    "connections:read_billing",
    "connections:read_billing_external_billing_drops",
    "connections:read_billing_external_billing_drops_month",
)


async def prepare_keys(service: Service, data_dir: Path) -> tuple[UpstreamKey, ...]:
    """Make the keys that are missing; the gateway's own three, as its
    configuration would name them.
    """
    telemetry = data_dir / FOLDER / "telemetry.key"
    control = data_dir / FOLDER / "control.key"
    billing = data_dir / FOLDER / "billing.key"
    grants: tuple[tuple[str, Grant, Path], ...] = (
        ("gateway telemetry", Managed(frozenset({SEND_AI_TELEMETRY})), telemetry),
        ("gateway control", Fixed(frozenset(CONTROL_SCOPES)), control),
        ("gateway billing", Managed(frozenset({SEND_BILLING_DATA})), billing),
        ("operator read", Fixed(frozenset(READ_SCOPES)), data_dir / READ_KEY_FILE),
    )
    for name, grant, path in grants:
        await kept_key(service.keys, path, name=name, grant=grant, by=MADE_BY)
    return (
        UpstreamKey(name="telemetry", secret=_reference(telemetry), managed=(SEND_AI_TELEMETRY,)),
        UpstreamKey(name="control", secret=_reference(control), scopes=CONTROL_SCOPES),
        UpstreamKey(name="billing", secret=_reference(billing), managed=(SEND_BILLING_DATA,)),
    )


class EmbeddedService:
    """The local service in this process, listening; made by `start`."""

    def __init__(self, service: Service, port: int, data_dir: Path, own_port: int) -> None:
        self._service = service
        self._data_dir = data_dir
        self._own_port = own_port
        self.port = port
        """Of `listen.service`."""
        self.keys = service.keys
        self.database = service.database

    @classmethod
    async def start(
        cls,
        address: Address,
        data_dir: Path,
        now_ms: Callable[[], int],
        tls: ssl.SSLContext | None = None,
        *,
        body_timeout_s: float = BODY_TIMEOUT_S,
    ) -> Self:
        """Raises CannotStart, which names `listen.service`.

        With *tls* the gateway itself asks it on a loopback port of its own: the certificate is for
        the name that others know.
        """
        if not isinstance(address, TcpAddress):
            raise CannotStart(NO_SERVICE_ADDRESS)
        service = Service(data_dir / FOLDER, now_ms=now_ms, body_timeout_s=body_timeout_s)
        try:
            port = await service.start(address.host, address.port, tls)
            own_port = port if tls is None else await service.listen_on_loopback()
        except OSError as error:
            raise not_bound("listen.service", address, error) from error
        return cls(service, port, data_dir, own_port)

    async def upstream(self) -> Upstream:
        """It recognises a repeated event by its id, so none needs to become a dead letter."""
        keys = await prepare_keys(self._service, self._data_dir)
        return Upstream(base_url=f"http://127.0.0.1:{self._own_port}", keys=keys, knows_event_ids=True)

    async def establish_connection(self, connection_id: str) -> None:
        """The billing connection that the gateway drops to. Raises DatabaseUnavailable."""
        await self._service.establish_connection(connection_id)

    async def stop(self) -> None:
        await self._service.stop()


def _reference(path: Path) -> Secret:
    return Secret(f"${{file:{path}}}")
