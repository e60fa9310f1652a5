"""Telemetry of a device that the service does not know yet, held back until it does (`devices.gate: hold`).

Records travel in the order of their acceptance, so what came since the first contact of such a device waits with it, whoever sent it. It goes on
when the service knows the device or refuses it, and `LONGEST_MS` after the first contact in any case.
"""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from gateway.devices.store import DeviceStore
from gateway.keys.errors import DatabaseUnavailable

LONGEST_MS: Final = 15 * 60_000
MARGIN_MS: Final = 60_000
"""How long before the first contact a chunk may have been begun that its record is in."""

log = structlog.get_logger()


class EnrolmentGate:
    def __init__(self, store: DeviceStore, *, settle_ms: int, now_ms: Callable[[], int]) -> None:
        """*settle_ms*: what was received so long before the first contact may be merged with what the device sends. *now_ms*: as the store's."""
        self._store = store
        self._before_ms = settle_ms + MARGIN_MS
        self._now_ms = now_ms
        self._first_ms: int | None = None
        """The last answer."""

    async def held_from_ms(self) -> int | None:
        """What was received from then on is not to be let go yet; None when nothing is held."""
        since_ms = self._now_ms() - LONGEST_MS
        if not self._store.figures.enrolments:
            self._first_ms = None
        else:
            try:
                self._first_ms = await self._store.read(partial(first_contact_of_unknown, since_ms=since_ms))
            except DatabaseUnavailable as error:
                log.warning("whether a device is enrolled cannot be read: what is held stays so", error=str(error))
                if self._first_ms is not None and self._first_ms <= since_ms:
                    self._first_ms = None
        return None if self._first_ms is None else self._first_ms - self._before_ms


def first_contact_of_unknown(connection: sqlite3.Connection, since_ms: int) -> int | None:
    """Of the devices whose first enrolment is under way, the earliest after *since_ms*. A gateway is not who its telemetry comes from, a laptop's is."""
    (first_ms,) = connection.execute(
        "SELECT min(first_seen_ms) FROM devices"
        " WHERE first_seen_ms > ? AND enrolled_ms IS NULL AND state IN ('pending', 'enrolling')"
        " AND (origin <> 'gateway' OR kind <> 'gateway')",
        (since_ms,),
    ).fetchone()
    return None if first_ms is None else int(first_ms)
