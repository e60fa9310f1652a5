"""The keys of a local service that runs alone, for the commands beside it: the operations that a
gateway has for the service that it embeds, on a loopback port that the data directory names, under
the admin token there.
"""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from gateway.access.store import KeyStore
from gateway.config.values import TcpAddress
from gateway.operate import keys
from gateway.operate.address_file import announce_address
from gateway.operate.guard import AccessRules, access_guard, host_guard
from gateway.operate.keys import KeyRequests
from gateway.operate.parts import PARTS, AdminParts
from gateway.operate.request_body import BodyReader
from gateway.operate.role import Role
from gateway.operate.server import BODY_TIMEOUT_S, add_safe_headers, answering, endpoint, route
from gateway.operate.session import AdminAccess, token_of
from gateway.serve.listen import listen, runner_for

ANY_PORT: Final = TcpAddress("127.0.0.1", 0)
OPERATIONS: Final = tuple(map(keys.of_service, keys.OPERATIONS))


@asynccontextmanager
async def open_to_commands(store: KeyStore, data_dir: Path) -> AsyncIterator[None]:
    """Listen for commands, and write where, until the end of the block. The caller holds the
    directory's lock.

    Raises OSError, also for a token that cannot be made.
    """
    access = AdminAccess(token_of(data_dir, Role.OPERATOR, os.urandom), time.monotonic, os.urandom)
    listener = await listen(runner_for(key_app(KeyRequests(store), access)), ANY_PORT)
    assert listener is not None  # noqa: S101 - the address is not off
    withdraw = announce_address(data_dir, listener.address)
    try:
        yield
    finally:
        withdraw()
        await listener.close()


def key_app(store: KeyRequests, access: AdminAccess) -> web.Application:
    """The application that serves the operations alone."""
    rules, bodies = AccessRules(OPERATIONS, loopback=True), BodyReader(lambda: BODY_TIMEOUT_S)
    guards = [host_guard(loopback=True, host_names=frozenset()), access_guard(rules, bodies)]
    app = web.Application(middlewares=[answering, *guards])
    app[PARTS] = AdminParts(
        status=lambda: {"edge": {}, "lanes": {}},
        not_ready=_nothing,
        registry=CollectorRegistry(),
        access=access,
        unsettled=_none,
    )
    app.on_response_prepare.append(add_safe_headers)
    app.add_routes([route(operation, endpoint(operation, store)) for operation in OPERATIONS])
    return app


async def _nothing() -> None:
    """No gateway runs, so none is not ready."""


async def _none() -> tuple[Any, ...]:
    return ()
