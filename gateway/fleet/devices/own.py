"""The device that a gateway is itself."""

import platform
from importlib.metadata import version
from typing import Final

import orjson

from gateway.fleet.devices.rows import New

DISTRIBUTION: Final = "ai-telemetry-gateway"


def own_device(gateway_id: str, own_id: str | None, *, is_workstation: bool) -> New:
    """Under *own_id*, else the gateway's own id, which lies in its data directory.

    It has no name of the machine.
    """
    details = {
        "host": {"os": platform.system().lower() or "unknown", "arch": platform.machine() or "unknown"},
        "client": {"name": DISTRIBUTION, "version": version(DISTRIBUTION)},
    }
    kind = "workstation" if is_workstation else "gateway"
    return New(own_id or gateway_id, kind, "gateway", orjson.dumps(details))
