"""A lane of billing drops, and a process that runs one until it is killed. It
imports what the gateway does and no more: each process that is forked has to.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from exporters.clock import SystemClock
from exporters.cost_service.billing import BillingCalls
from exporters.cost_service.client import CostServiceClient
from exporters.http_client import Endpoint
from exporters.keyring import Keyring, KeySetting
from exporters.pump import BatchLimits
from exporters.secret import Secret
from gateway.common.storage.database import Database
from gateway.common.wall_clock import wall_ms
from gateway.stores.sql.billing.days import open_billing
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.billing import lane as lanes
from gateway.usage.billing.book import BillingBook, BillingSettings
from gateway.usage.billing.home import BillingHome
from gateway.usage.billing.lane import BillingLane
from gateway.usage.sums.home import SumHome

CONNECTION = "conn-1"
GATEWAY = "gw-1"


def settings_of(**changes: Any) -> BillingSettings:
    return BillingSettings(
        **{
            "connection": CONNECTION, "upstream": "test", "every_s": 3600.0, "close_after_s": 900.0, "since_hour": 0,
            **changes,
        }
    )  # fmt: skip


class Homes(NamedTuple):
    """Of billing, and of the sums whose days are dropped."""

    billing: BillingHome
    sums: SumHome


async def homes_in(database: Database) -> Homes:
    sums = await SqlSums.open(database)
    return Homes(await open_billing(database), sums)


@asynccontextmanager
async def lane_to(
    port: int,
    secret: str,
    homes: Homes,
    *,
    now_ms: Callable[[], int] = wall_ms,
    settings: BillingSettings | None = None,
    gateway_id: str = GATEWAY,
) -> AsyncIterator[BillingLane]:
    """A running lane; every wait of it is as in production."""
    async with AsyncExitStack() as stack:
        key = KeySetting("billing", Secret(secret), lambda scope: scope.startswith("connections:create_billing_ext"))
        client = CostServiceClient(Endpoint(f"http://127.0.0.1:{port}"), Keyring([key]), gateway_id)
        stack.push_async_callback(client.close)
        book = await BillingBook.open(*homes, settings or settings_of(), gateway_id, now_ms)
        lane = BillingLane(
            book, BillingCalls(client, CONNECTION), clock=SystemClock(), chance=lambda: 0.0, count=_nothing
        )
        stack.push_async_callback(lane.stop)
        await lane.start()
        yield lane


async def _nothing() -> None:
    return


def send(path: Path, port: int, secret: str, now_ms: int) -> None:
    """A process that drops what is due in many small parts, until it is killed."""
    lanes.LIMITS = BatchLimits(max_records=1, max_bytes=68_000, in_flight=1, parks_suspects=False)  # type: ignore[misc]

    async def run() -> None:
        homes = await homes_in(await Database.open(path))
        async with lane_to(port, secret, homes, now_ms=lambda: now_ms):
            await asyncio.Event().wait()

    asyncio.run(run())
