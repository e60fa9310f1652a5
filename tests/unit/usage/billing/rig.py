"""A lane of billing drops to a real local service on a socket."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

from gateway.common.contract.scopes import SEND_BILLING_DATA, Fixed, Managed
from gateway.local_service.misbehave import Misbehave
from gateway.local_service.service import Service
from gateway.usage.billing.lane import BillingLane
from gateway.usage.sums.home import Counted
from gateway.usage.sums.tally import HOUR_MS, Tally
from tests.support.billing_lane import CONNECTION, Homes
from tests.support.polling import HANGS_S
from tests.unit.usage.sums.test_tally import NOW_MS, counted, record

TOMORROW_MS = NOW_MS + 24 * HOUR_MS
READING = ("connections:read_billing_external_billing_drops", "connections:read_billing_external_billing_drops_month")
CHANGING = ("connections:update_billing", "connections:delete_billing")


def call(cost: str | None = "0.5", *, currency: str = "USD", **changes: Any) -> dict[str, Any]:
    price = None if cost is None else {"amount": cost, "currency": currency, "source": "reported"}
    return record(cost=price, **changes)


async def count(homes: Homes, *records: object, now_ms: int = TOMORROW_MS, counted_from: int | None = 0) -> None:
    """As the follower does, since the hour *counted_from*; None is the present day."""
    if counted_from is not None:
        begun_ms = counted_from * HOUR_MS
        await homes.sums.store(Counted(Tally(), "spool", 0, None, begun_ms, begun_ms))
    tally = counted(*records, now_ms=now_ms)
    await homes.sums.store(Counted(tally, "spool", 1, now_ms, now_ms, now_ms))


class Far:
    """The local service with an established connection, as an operator sees it."""

    def __init__(self, service: Service, port: int, secret: str, reader: str, session: aiohttp.ClientSession) -> None:
        self.service, self.port, self.secret = service, port, secret
        self._reader, self._session = reader, session

    @property
    def path(self) -> str:
        return f"/v2/connections/billing/external/{CONNECTION}/billing_drops"

    async def ask(self, method: str, path: str, content: object = None) -> Any:
        """Again where the service misbehaves."""
        url = f"http://127.0.0.1:{self.port}{path}"
        headers = {"Authorization": self._reader}
        while True:
            with suppress(aiohttp.ClientError):
                async with self._session.request(method, url, json=content, headers=headers) as response:
                    if response.status < 500:
                        return await response.json() if response.content_type == "application/json" else {}

    async def drops(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.ask("GET", f"{self.path}?limit=500"))["billing_drops"]
        return found

    async def rows(self, month: str = "2026-01") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.ask("GET", f"{self.path}/{month}?limit=500"))["rows"]
        return found

    async def costs(self) -> list[str]:
        return sorted(row["BilledCost"] for row in await self.rows())


@asynccontextmanager
async def far_end(folder: Path, misbehave: Misbehave | None = None, port: int = 0) -> AsyncIterator[Far]:
    service = Service(folder, misbehave=misbehave, random=random.Random(7))
    bound = await service.start(port=port)
    await service.establish_connection(CONNECTION)
    sender = await service.keys.create("billing", Managed(frozenset({SEND_BILLING_DATA})), by="ops@example.com")
    reader = await service.keys.create("reader", Fixed(frozenset(READING + CHANGING)), by="ops@example.com")
    try:
        async with aiohttp.ClientSession() as session:
            yield Far(service, bound, sender.secret.reveal(), reader.secret.reveal(), session)
    finally:
        await service.stop()


async def until(what: Callable[[], Any], timeout_s: float = HANGS_S) -> None:
    """Ask a home or the service again and again; it has no event for a test."""
    async with asyncio.timeout(timeout_s):
        while not await what():  # noqa: ASYNC110 - as it states
            await asyncio.sleep(0.01)


async def none_due(lane: BillingLane) -> bool:
    found = await lane.book.summary()
    return found.due == 0 and found.parts == 0
