"""The local service as a whole: the application, and `Service`,
which runs it embedded or alone.

service = Service(data_dir / "service") port = await service.start("127.0.0.1", 4320) created =
await service.keys.create("telemetry", Managed(frozenset({SEND_AI_TELEMETRY})),
by="ops@example.com") await service.stop()
"""

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from random import Random

from aiohttp import web

from gateway.access.key import SERVICE_PREFIX, RandomBytes
from gateway.access.pepper import load_pepper
from gateway.access.store import KeyStore
from gateway.common import unix_socket
from gateway.common.http.connection_limits import OperatorLimits
from gateway.common.http.http_server import TcpSite, UnixSocketSite
from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.wall_clock import wall_ms
from gateway.local_service import devices
from gateway.local_service.amounts import add_sql_functions
from gateway.local_service.billing_connections import establish
from gateway.local_service.finding import Finder
from gateway.local_service.insights import Insight, add_insight, open_insights
from gateway.local_service.misbehave import Misbehave
from gateway.local_service.web import CONTEXT, Context, add_routes, answer_errors, runner_of
from gateway.stores.sql.database import make_tables
from gateway.stores.sql.keys import PART
from gateway.stores.sqlite.keys import SqliteKeys

DATABASE_NAME = "service.db"
PEPPER_NAME = "service.pepper"
FLUSH_INTERVAL_S = 60
BODY_TIMEOUT_S = 60.0
FINDER = web.AppKey("finder", Finder)

MIGRATIONS = (
    "0001_service.sql",
    "0002_insights_aside.sql",
    "0004_idempotency_by_key.sql",
    "0005_billing.sql",
    "0006_unit_cost_streams.sql",
)
"""0003 moves insights into a part of their own (`open_insights`)."""


def build_service(
    data_path: Path,
    *,
    misbehave: Misbehave | None = None,
    now_ms: Callable[[], int] = wall_ms,
    random: Random | None = None,
    random_bytes: RandomBytes = secrets.token_bytes,
    body_timeout_s: float = BODY_TIMEOUT_S,
) -> web.Application:
    """The application, to be run with `runner_of`; its files are in the folder
    *data_path*, opened when it starts.

    *random* decides about misbehaviour and may be seeded; *random_bytes* makes keys and ids,
    and is replaced by tests only.
    """
    draw = random or Random()  # noqa: S311 - decides about misbehaviour only

    async def opened(app: web.Application) -> AsyncIterator[None]:
        """The running service; its sockets and files are closed at the end of the block."""
        database = await Database.open(data_path / DATABASE_NAME, setup=add_sql_functions)
        try:
            await database.migrate("service", [_migration(name) for name in MIGRATIONS])
            await open_insights(database, _migration("0003_insights_moved.sql"))
            await make_tables(database, PART)  # before the pepper, as in gateway.stores.sqlite.keys
            pepper = load_pepper(data_path / PEPPER_NAME, random_bytes)
            keys = await KeyStore.open(
                await SqliteKeys.open(database),
                prefix=SERVICE_PREFIX,
                pepper=pepper,
                now_ms=now_ms,
                random_bytes=random_bytes,
            )
            app[CONTEXT] = Context(database, keys, now_ms, draw, random_bytes, misbehave, body_timeout_s)
            app[FINDER] = await Finder.open(database, now_ms)
            tasks = [asyncio.create_task(_flush_periodically(keys)), asyncio.create_task(app[FINDER].run())]
            yield
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await keys.close()
        finally:
            await database.close()

    app = web.Application(middlewares=[answer_errors])
    app.cleanup_ctx.append(opened)
    add_routes(app)
    return app


class Service:
    """One running service. `keys` and the operator's verbs work between `start` and `stop`."""

    def __init__(
        self,
        data_path: Path,
        *,
        misbehave: Misbehave | None = None,
        now_ms: Callable[[], int] = wall_ms,
        random: Random | None = None,
        random_bytes: RandomBytes = secrets.token_bytes,
        body_timeout_s: float = BODY_TIMEOUT_S,
    ) -> None:
        self._app = build_service(
            data_path,
            misbehave=misbehave,
            now_ms=now_ms,
            random=random,
            random_bytes=random_bytes,
            body_timeout_s=body_timeout_s,
        )
        self._runner = runner_of(self._app)
        self._limits = OperatorLimits("service")

    @property
    def keys(self) -> KeyStore:
        return self._context.keys

    @property
    def database(self) -> Database:
        return self._context.database

    async def start(self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Open the files, listen, and return the port; 0 picks a free one. Raises OSError,
        DatabaseUnavailable.
        """
        await self._runner.setup()
        try:
            await TcpSite(self._runner, host, port, self._limits, tls).start()
        except BaseException:
            await self._runner.cleanup()
            raise
        bound: int = self._runner.addresses[0][1]
        return bound

    async def listen_on_loopback(self) -> int:
        """Listen without TLS on one more port, that of its own gateway. After `start`."""
        await TcpSite(self._runner, "127.0.0.1", 0, self._limits).start()
        bound: int = self._runner.addresses[-1][1]
        return bound

    async def start_unix(self, path: Path) -> None:
        """Listen on a Unix socket in place of a port."""
        await self._runner.setup()
        bound = unix_socket.new()
        bound.bind(str(path))
        await UnixSocketSite(self._runner, bound, self._limits).start()

    async def stop(self) -> None:
        """Finish requests in flight, then close the files."""
        await self._runner.cleanup()

    async def add_insight(self, insight: Insight) -> None:
        insight_id = self._context.random_bytes(16).hex()
        await self._context.database.write(lambda connection: add_insight(connection, insight, insight_id))

    async def look_for_insights(self) -> None:
        """Run the detectors now. Raises DatabaseUnavailable."""
        await self._app[FINDER].look()

    async def establish_connection(self, connection_id: str) -> None:
        """A billing connection under this id, unless it is there. Raises DatabaseUnavailable."""
        context = self._context
        await context.database.write(
            partial(establish, connection_id=connection_id, name=connection_id, by="", now_ms=context.now_ms())
        )

    async def block_device(self, device_id: str) -> bool:
        """False when there is no such device."""
        return await self._change_device(device_id, "blocked")

    async def unblock_device(self, device_id: str) -> bool:
        return await self._change_device(device_id, "active")

    async def forget_device(self, device_id: str) -> bool:
        return await self._context.database.write(lambda connection: devices.forget(connection, device_id))

    async def _change_device(self, device_id: str, status: str) -> bool:
        return await self._context.database.write(
            lambda connection: devices.change_status(connection, device_id, status)
        )

    @property
    def _context(self) -> Context:
        return self._app[CONTEXT]


async def _flush_periodically(keys: KeyStore) -> None:
    while True:
        await asyncio.sleep(FLUSH_INTERVAL_S)
        with suppress(DatabaseUnavailable):  # the noted times are kept for the next flush
            await keys.flush_last_accessed()


def _migration(name: str) -> str:
    return (files("gateway.local_service.migrations") / name).read_text()
