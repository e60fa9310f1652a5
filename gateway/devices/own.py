"""The device that a gateway is itself. Pure."""

from importlib.metadata import version
from typing import Final

import orjson

from gateway.devices.rows import New

DISTRIBUTION: Final = "ai-telemetry-gateway"


def own_device(gateway_id: str, own_id: str | None, *, is_workstation: bool, os: str, arch: str) -> New:
    """Under *own_id*, else the gateway's own id, which lies in its data directory. *os* and *arch* as Python's `platform` has them; no name of the machine."""
    details = {
        "host": {"os": os.lower() or "unknown", "arch": arch or "unknown"},
        "client": {"name": DISTRIBUTION, "version": version(DISTRIBUTION)},
    }
    kind = "workstation" if is_workstation else "gateway"
    return New(own_id or gateway_id, kind, "gateway", orjson.dumps(details))
