"""Part 3.1: deleting a key revokes access at once, also for requests that are under way: on every
route of the local service, when the head and half of the body have arrived.
"""

import asyncio
import hashlib
import re
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import pytest

from gateway.access.store import KeyStore
from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.common.storage.database import Database
from gateway.local_service.routes import ROUTES, Route
from gateway.local_service.service import Service
from tests.conformance.service_interface.endpoints import INSIGHT, body_of, prepared
from tests.support.half_sent import HalfSent
from tests.support.polling import until_true
from tests.unit.local_service.conftest import ADMIN, Client

EVERY_SCOPE: Final = Fixed(frozenset(scope.name for scope in CATALOGUE))
OTHER_SCOPE: Final = Fixed(frozenset({"access-control:read_role"}))
WRITES: Final = tuple(route for route in ROUTES if route.writes)
READS: Final = tuple(route for route in ROUTES if not route.writes)

Change = Callable[[KeyStore], Awaitable[object]]
CHANGES: Final[dict[str, tuple[Change, int]]] = {
    "disabled": (lambda keys: keys.disable("sender", by=ADMIN), 401),
    "deleted": (lambda keys: keys.delete("sender", typed_name="sender"), 401),
    "loses its scope": (lambda keys: keys.edit("sender", by=ADMIN, grant=OTHER_SCOPE), 403),
}


async def stored(database: Database) -> str:
    """A digest of every row but those of the keys."""

    def dump(connection: sqlite3.Connection) -> str:
        kept = (
            line
            for line in connection.iterdump()
            if not line.startswith(('INSERT INTO "keys"', 'INSERT INTO "key_facts"'))
        )
        return hashlib.sha256("\n".join(kept).encode()).hexdigest()

    return await database.read(dump)


async def statuses_after(client: Client, change: Change | None) -> dict[str, int]:
    """Each request that writes -> how it is answered, where *change* comes when its body is half
    sent.
    """
    made = await prepared(client)
    secret = (await client.service.keys.create("sender", EVERY_SCOPE, by=ADMIN)).secret.reveal()
    before = await stored(client.service.database)
    headers = {"Authorization": secret, "Content-Type": "application/json"}

    def begin(route: Route) -> Awaitable[HalfSent]:
        body = body_of(route)
        content = b"{}" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        return HalfSent.begin(client.port, route.method, made.path(route), headers, content)

    begun = await asyncio.gather(*map(begin, WRITES))
    if change is not None:
        await change(client.service.keys)
    answers = await asyncio.gather(*(each.finish() for each in begun))
    assert (await stored(client.service.database) == before) == (change is not None)
    return {f"{route.method} {route.path}": status for route, status in zip(WRITES, answers, strict=True)}


async def test_3_1_with_its_key_as_it_was_every_request_is_carried_out(client: Client) -> None:
    """Else the tests below would show nothing."""
    found = await statuses_after(client, None)
    assert len(found) > 25
    assert [route for route, status in found.items() if status in {401, 403, 408}] == []


@pytest.mark.parametrize(("change", "status"), CHANGES.values(), ids=CHANGES)
async def test_3_1_nothing_is_done_for_a_key_that_changed_while_the_body_came(
    client: Client, change: Change, status: int
) -> None:
    found = await statuses_after(client, change)
    assert {route: each for route, each in found.items() if each != status} == {}


@pytest.mark.parametrize(("change", "status"), CHANGES.values(), ids=CHANGES)
async def test_3_1_nothing_is_read_for_a_key_that_changed_while_the_request_waited(
    client: Client, change: Change, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads wait for one another: here, until the key is another one."""
    made, read, waiting = await prepared(client), Database.read, 0
    made_key = await client.service.keys.create("sender", EVERY_SCOPE, by=ADMIN)
    sender = client.with_authorization(made_key.secret.reveal())

    def counted(self: Database, question: Any) -> Any:
        nonlocal waiting
        waiting += 1
        return read(self, question)

    monkeypatch.setattr(Database, "read", counted)
    async with client.service.database.snapshot():
        asked = [asyncio.create_task(sender.get(made.path(route))) for route in READS]
        await until_true(lambda: waiting == len(READS), timeout_s=20, what="every request waits")
        await change(client.service.keys)
    answers = await asyncio.gather(*asked)
    assert {reply.status for reply in answers} == {status}


async def test_a_body_that_trickles_ends_the_request_and_has_no_effect(tmp_path: Path) -> None:
    service = Service(tmp_path / "service", body_timeout_s=0.05)
    port = await service.start()
    headers = {"Authorization": (await service.keys.create("all", EVERY_SCOPE, by=ADMIN)).secret.reveal()}
    before = await stored(service.database)
    begun = await asyncio.gather(
        *(HalfSent.begin(port, route.method, re.sub(r"\{\w+\}", "1", route.path), headers) for route in WRITES)
    )
    answers = await asyncio.gather(*(each.answer() for each in begun))
    assert {status for status, _ in answers} == {408}
    assert all(b"The body did not arrive in time" in rest and b"Connection: close" in rest for _, rest in answers)
    assert await stored(service.database) == before
    await service.stop()


async def test_a_body_that_came_too_slowly_may_come_again_under_its_idempotency_key(tmp_path: Path) -> None:
    """Errors of a body that was read are repeated under it."""
    service = Service(tmp_path / "service", body_timeout_s=0.05)
    port = await service.start()
    key = (await service.keys.create("all", EVERY_SCOPE, by=ADMIN)).secret.reveal()
    headers, path = {"Authorization": key, "Idempotency-Key": "k1"}, "/v2/insights"
    slow = await HalfSent.begin(port, "POST", path, headers)
    assert (await slow.answer())[0] == 408
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"http://127.0.0.1:{port}{path}", json=INSIGHT) as response,
    ):
        assert response.status == 201
    await service.stop()
