"""Devices that the spool names and control.db lacks: it was restored from a backup, or could not be
written when they spoke first.

Records that wait are looked through after each start, beside everything else; who is named there
and is not known is met as if it spoke now.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Final

import orjson
import structlog

from gateway.common.contract.device_identity import is_device_id
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.devices.intake import client_of
from gateway.fleet.devices.rows import New
from gateway.fleet.devices.store import DeviceStore
from spool.errors import SpoolError
from spool.record import AI_TELEMETRY
from spool.store import SettledReader

log = structlog.get_logger()

NAMED: Final = re.compile(rb""""device_id":("(?:[^"\\]|\\.)*")""")
"""Within a text the quotes would be escaped, so this is the record's own field."""
TOGETHER: Final = 200
MAX_DEVICES: Final = 50_000
SHARE: Final = 0.1
"""Of the time: a large backlog is to be sent meanwhile."""


async def add_named(spool: SettledReader, store: DeviceStore) -> None:
    """Introduce the devices that records of earlier releases name; once, in pages."""
    try:
        for some in _in_groups(sorted(await named_in(spool))):
            strangers = store.strangers(some)
            await store.meet([New(name, "server", "telemetry", client_of(None)) for name in strangers])
    except (SpoolError, DatabaseUnavailable) as error:
        log.warning("devices that the spool names could not be looked for", error=str(error))


async def named_in(spool: SettledReader) -> set[str]:
    """The devices of all records that wait, or the first `MAX_DEVICES`. Raises SpoolError."""
    quoted: set[bytes] = set()
    began_s = time.perf_counter()
    async for body in spool.pending_bodies(AI_TELEMETRY):
        quoted.update(await asyncio.to_thread(NAMED.findall, body))
        if len(quoted) >= MAX_DEVICES:
            break
        await asyncio.sleep((time.perf_counter() - began_s) * (1 / SHARE - 1))
        began_s = time.perf_counter()
    return {name for name in map(orjson.loads, quoted) if is_device_id(name)}


def _in_groups(names: list[str]) -> Iterator[list[str]]:
    return (names[start : start + TOGETHER] for start in range(0, len(names), TOGETHER))
