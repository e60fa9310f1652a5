"""Telemetry of a device that the service does not know yet, held back until it
does (`devices.gate: hold`).

Records travel in the order of their acceptance, so what came since the first contact of such a
device waits with it, whatever sent it. It goes on when the service knows the device or refuses it,
and `LONGEST_MS` after the first contact in any case.
"""

from collections.abc import Callable
from typing import Final

import structlog

from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.devices.store import DeviceStore

LONGEST_MS: Final = 15 * 60_000
MARGIN_MS: Final = 60_000
"""How long before the first contact a chunk may have been begun that its record is in."""

log = structlog.get_logger()


class EnrolmentGate:
    def __init__(self, store: DeviceStore, *, settle_ms: int, now_ms: Callable[[], int]) -> None:
        """*settle_ms*: what was received so long before the first contact may be merged with what
        the device sends. *now_ms*: as the store's.
        """
        self._store = store
        self._before_ms = settle_ms + MARGIN_MS
        self._now_ms = now_ms
        self._first_ms: int | None = None
        """The last answer."""
        self._blind_ms: int | None = None
        """Since when it cannot be read; None while it can."""

    async def held_from_ms(self) -> int | None:
        """What was received from then on is not to be let go yet; None when nothing is held."""
        self._first_ms = await self._first_contact_ms() if self._store.figures.enrolments else None
        return None if self._first_ms is None else self._first_ms - self._before_ms

    async def _first_contact_ms(self) -> int | None:
        now_ms = self._now_ms()
        try:
            found = await self._store.read(lambda kept: kept.first_contact_of_unknown(now_ms - LONGEST_MS))
        except DatabaseUnavailable as error:
            if self._blind_ms is None:
                log.warning("which devices wait to be enrolled cannot be read: telemetry waits", error=str(error))
                self._blind_ms = now_ms
            first_ms = self._blind_ms if self._first_ms is None else min(self._blind_ms, self._first_ms)
            return first_ms if now_ms - first_ms < LONGEST_MS else None
        self._blind_ms = None
        return found
