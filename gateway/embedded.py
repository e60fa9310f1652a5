"""The embedded local service: the far end when no `upstream` is configured, with keys of its own for the gateway's lanes.

The gateway sends to it over a real socket like to any service: AI telemetry under a managed "Send AI Telemetry" key, the
rest under a fixed key. Both secrets, and one with read scopes for the operator, lie as files of mode 0600.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp

from exporters.secret import Secret
from gateway.config import Upstream, UpstreamKey
from gateway.keys.errors import NoSuchKey
from gateway.keys.private_file import write_private
from gateway.keys.scopes import SEND_AI_TELEMETRY, Fixed, Grant, Managed
from gateway.keys.store import KeyStore
from gateway.local_service.service import Service
from gateway.web.page import Total

FOLDER = "service"
READ_KEY_FILE = "service-key"
MADE_BY = "gateway@localhost"

CONTROL_SCOPES = (
    "ai-control-plane:enroll-device",
    "ai-control-plane:heartbeat-device",
    "ai-control-plane:ping-device",
    "events_v1:create_event",
    "unit-cost_v1:create_telemetry_stream",
    "unit-cost_v1:manage_telemetry_records",
)
READ_SCOPES = ("billing:read_costs", "insights:read_insight", "insights:read_insights", "unit-cost_v1:read_telemetry")


async def prepare_keys(service: Service, data_dir: Path) -> tuple[UpstreamKey, ...]:
    """Make the keys that are missing; the gateway's own two, as its configuration would name them."""
    telemetry = data_dir / FOLDER / "telemetry.key"
    control = data_dir / FOLDER / "control.key"
    await _key(service.keys, "gateway telemetry", Managed(frozenset({SEND_AI_TELEMETRY})), telemetry)
    await _key(service.keys, "gateway control", Fixed(frozenset(CONTROL_SCOPES)), control)
    await _key(service.keys, "operator read", Fixed(frozenset(READ_SCOPES)), data_dir / READ_KEY_FILE)
    return (
        UpstreamKey(name="telemetry", secret=_reference(telemetry), managed=(SEND_AI_TELEMETRY,)),
        UpstreamKey(name="control", secret=_reference(control), scopes=CONTROL_SCOPES),
    )


def read_if_there(path: Path) -> str | None:
    return path.read_text().strip() if path.exists() else None


def embedded_upstream(port: int, keys: tuple[UpstreamKey, ...]) -> Upstream:
    return Upstream(base_url=f"http://127.0.0.1:{port}", keys=keys)


async def _key(keys: KeyStore, name: str, grant: Grant, path: Path) -> None:
    """Leave a key whose secret lies at *path* alone; else make it anew, as nobody can know the old secret."""
    secret = read_if_there(path)
    if secret is not None and keys.authenticate(secret) is not None:
        return
    with suppress(NoSuchKey):
        await keys.delete(name, typed_name=name)
    created = await keys.create(name, grant, by=MADE_BY)
    write_private(path, created.secret.reveal().encode() + b"\n")


class ServiceSummary:
    """Asks the embedded service what it was sent, with the operator's read key."""

    def __init__(self, port: int, key_file: Path) -> None:
        self._url = f"http://127.0.0.1:{port}/v2/ai-telemetry/summary"
        self._key_file = key_file
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))

    async def totals(self, group_by: str = "provider,model") -> Sequence[Total]:
        """Billed calls by *group_by*; nothing when the service does not answer."""
        headers = {"Authorization": read_if_there(self._key_file) or ""}
        try:
            async with self._session.get(self._url, params={"group_by": group_by}, headers=headers) as response:
                response.raise_for_status()
                found: list[Total] = (await response.json())["summary"]
        except (aiohttp.ClientError, TimeoutError):
            return []
        return found

    async def close(self) -> None:
        await self._session.close()


def _reference(path: Path) -> Secret:
    return Secret(f"${{file:{path}}}")
