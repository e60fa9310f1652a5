"""A lane of billing drops over a real control.db, to a real local service on a socket."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from exporters.clock import SystemClock
from exporters.cost_service.billing import BillingCalls
from exporters.cost_service.client import CostServiceClient
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.secret import Secret
from gateway.billing.book import BillingBook, BillingSettings
from gateway.billing.lane import BillingLane
from gateway.contract.scopes import SEND_BILLING_DATA, Fixed, Managed
from gateway.local_service.misbehave import Misbehave
from gateway.local_service.service import Service
from gateway.storage.database import Database
from gateway.usage import rollups
from gateway.usage.tally import HOUR_MS
from tests.unit.usage.test_tally import NOW_MS, counted, record

CONNECTION = "conn-1"
GATEWAY = "gw-1"
TOMORROW_MS = NOW_MS + 24 * HOUR_MS
READING = ("connections:read_billing_external_billing_drops", "connections:read_billing_external_billing_drops_month")
CHANGING = ("connections:update_billing", "connections:delete_billing")


def call(cost: str | None = "0.5", *, currency: str = "USD", **changes: Any) -> dict[str, Any]:
    price = None if cost is None else {"amount": cost, "currency": currency, "source": "reported"}
    return record(cost=price, **changes)


async def count(database: Database, *records: object, now_ms: int = TOMORROW_MS, counted_from: int | None = 0) -> None:
    """As the follower does, since the hour *counted_from*; None is the present day."""
    tally = counted(*records, now_ms=now_ms)

    def store(connection: Any) -> None:
        if counted_from is not None:
            connection.execute("UPDATE usage_rollup_state SET counted_from = ?", (counted_from,))
        rollups.add(connection, tally.sums, now_hour=now_ms // HOUR_MS)
        rollups.note_as_of(connection, now_ms)

    await database.write(store)


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


def settings_of(**changes: Any) -> BillingSettings:
    return BillingSettings(
        **{
            "connection": CONNECTION, "upstream": "test", "every_s": 3600.0, "close_after_s": 900.0, "since_hour": 0,
            **changes,
        }
    )  # fmt: skip


@asynccontextmanager
async def lane_to(
    port: int,
    secret: str,
    database: Database,
    *,
    now_ms: Callable[[], int] = lambda: TOMORROW_MS,
    settings: BillingSettings | None = None,
    gateway_id: str = GATEWAY,
) -> AsyncIterator[BillingLane]:
    """A running lane; every wait of it is as in production."""
    async with AsyncExitStack() as stack:
        key = KeySetting("billing", Secret(secret), lambda scope: scope.startswith("connections:create_billing_ext"))
        client = CostServiceClient(Endpoint(f"http://127.0.0.1:{port}"), Keyring([key]), gateway_id)
        stack.push_async_callback(client.close)
        book = await BillingBook.open(database, settings or settings_of(), gateway_id, now_ms)
        lane = BillingLane(
            book, BillingCalls(client, CONNECTION), clock=SystemClock(), chance=lambda: 0.0, count=partial(_nothing)
        )
        stack.push_async_callback(lane.stop)
        await lane.start()
        yield lane


async def _nothing() -> None:
    return


async def until(what: Callable[[], Any], timeout_s: float = 20.0) -> None:
    """Ask control.db or the service again and again; it has no event for a test."""
    async with asyncio.timeout(timeout_s):
        while not await what():  # noqa: ASYNC110 - as it states
            await asyncio.sleep(0.01)


async def none_due(lane: BillingLane) -> bool:
    found = await lane.book.summary()
    return found.due == 0 and found.parts == 0
