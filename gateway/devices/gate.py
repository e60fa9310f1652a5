"""Telemetry of a device that the service does not know yet, held back until it does (`devices.gate: hold`).

Records travel in the order of their acceptance, so what came since the first contact of such a device waits with it, whoever sent it: mostly for
the second that an enrolment takes. After `LONGEST_MS` it goes on, enrolled or not; so it does when the service refuses the device.
"""

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.devices.store import DeviceStore

LONGEST_MS: Final = 15 * 60_000
EARLIER_MS: Final = 60_000
"""What came so long before the first contact waits too: the record may be in a chunk that was begun before."""


class EnrolmentGate:
    def __init__(self, store: DeviceStore, now_ms: Callable[[], int]) -> None:
        """*now_ms*: the clock of ages, as of the store."""
        self._store = store
        self._now_ms = now_ms
        self._first_ms: int | None = None
        """First contact of the device that holds telemetry back; as of the last look."""

    @property
    def held_s(self) -> float | None:
        """How long telemetry has been held back; None while none is."""
        return None if self._first_ms is None else round(max(0, self._now_ms() - self._first_ms) / 1000, 3)

    async def held_from_ms(self) -> int | None:
        """What was received from then on is not to be sent yet; None when nothing is held. Raises DatabaseUnavailable."""
        self._first_ms = await self._first_contact_ms() if self._store.figures.enrolments else None
        return None if self._first_ms is None else self._first_ms - EARLIER_MS

    async def _first_contact_ms(self) -> int | None:
        return await self._store.read(partial(first_contact_of_unknown, since_ms=self._now_ms() - LONGEST_MS))


def first_contact_of_unknown(connection: sqlite3.Connection, since_ms: int) -> int | None:
    """Of the devices whose first enrolment is under way, the earliest after *since_ms*. A gateway is not who its telemetry comes from."""
    (first_ms,) = connection.execute(
        "SELECT min(first_seen_ms) FROM devices"
        " WHERE first_seen_ms > ? AND enrolled_ms IS NULL AND state IN ('pending', 'enrolling') AND kind <> 'gateway'",
        (since_ms,),
    ).fetchone()
    return None if first_ms is None else int(first_ms)
