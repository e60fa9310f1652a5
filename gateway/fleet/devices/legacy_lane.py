"""What an earlier release left in the spool's `devices` lane: enrolments and heartbeats that were
pending there are taken over into control.db.

They stay counted where they were, as delivered: to the devices, which enrol the same ones
under the same enrolment ids.
"""

from typing import Any

import orjson

from exporters.base import Delivered, Outcome, Retry
from gateway.common.contract.device_identity import is_device_id
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.devices.rows import New
from gateway.fleet.devices.store import DeviceStore
from spool.record import Batch


class EarlierItems:
    """An exporter, so that a pump gives it what waits."""

    def __init__(self, store: DeviceStore) -> None:
        self._store = store

    async def send(self, batch: Batch) -> Outcome:
        new = {device.device_id: device for device in map(device_in, batch.records) if device is not None}
        try:
            await self._store.meet(list(new.values()))
        except DatabaseUnavailable as error:
            return Retry(str(error), answered=False)
        return Delivered()

    async def close(self) -> None:
        """The store's owner closes it."""


def device_in(record: bytes) -> New | None:
    """The device that a record of the lane reports."""
    try:
        decoded: Any = orjson.loads(record)
        device_id, body = decoded["device_id"], decoded.get("body") or {}
        details = {name: body[name] for name in ("host", "client", "labels") if isinstance(body.get(name), dict)}
        kind = body.get("kind", "workstation")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None
    if not (isinstance(device_id, str) and is_device_id(device_id) and isinstance(kind, str)):
        return None
    return New(device_id, kind, "heartbeat", orjson.dumps(details))
