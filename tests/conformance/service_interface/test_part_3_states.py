"""Part 3: the states of a key and of an insight, as who uses the key sees them, also on
a connection that is open.
"""

import asyncio
import itertools
from pathlib import Path

import pytest

from gateway.access.errors import NoSuchKey, NotConfirmed
from gateway.common.contract.scopes import Fixed
from gateway.local_service.service import Service
from tests.conformance.service_interface import published
from tests.conformance.service_interface.endpoints import INSIGHT
from tests.unit.local_service.conftest import ADMIN, Client, Clock

READ = "insights:read_insights"


class Connection:
    """One TCP connection that stays open over many requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str) -> None:
        self._reader = reader
        self._writer = writer
        self._secret = secret

    @classmethod
    async def of(cls, client: Client) -> "Connection":
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        return cls(reader, writer, client.authorization)

    async def status(self) -> int:
        """Of one more `GET /v2/insights`."""
        head = f"GET /v2/insights HTTP/1.1\r\nHost: localhost\r\nAuthorization: {self._secret}\r\n\r\n"
        self._writer.write(head.encode())
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length:"))
        await self._reader.readexactly(length)
        return int(lines[0].split()[1])

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def test_3_1_a_key_is_enabled_when_made(client: Client) -> None:
    created = await client.service.keys.create("a key", Fixed(frozenset({READ})), by=ADMIN)
    assert created.key.status == "Enabled"
    assert (await client.with_authorization(created.secret.reveal()).get("/v2/insights")).status == 200


async def test_3_1_disable_enable_and_delete_count_from_the_next_request_of_an_open_connection(client: Client) -> None:
    keys = client.service.keys
    connection = await Connection.of(await client.with_scopes("a key", READ))
    assert await connection.status() == 200
    assert (await keys.disable("a key", by=ADMIN)).status == "Disabled"
    assert await connection.status() == 401
    assert (await keys.enable("a key", by=ADMIN)).status == "Enabled"
    assert await connection.status() == 200
    await keys.delete("a key", typed_name="a key")
    assert await connection.status() == 401
    await connection.close()


@pytest.mark.parametrize("status", ["Enabled", "Disabled"])
async def test_3_1_an_edit_leaves_the_status_and_moves_last_modified(client: Client, clock: Clock, status: str) -> None:
    keys = client.service.keys
    made = (await keys.create("a key", Fixed(frozenset({READ})), by=ADMIN)).key
    if status == "Disabled":
        await keys.disable("a key", by=ADMIN)
    clock.time_ms += 5_000
    edited = await keys.edit("a key", by="other@example.com", description="new")
    assert (edited.status, edited.updated_by) == (status, "other@example.com")
    assert edited.modified_at_ms == made.modified_at_ms + 5_000


async def test_3_1_an_edit_of_scopes_counts_on_an_open_connection(client: Client) -> None:
    connection = await Connection.of(await client.with_scopes("a key", "budgets:read_budget"))
    assert await connection.status() == 403
    await client.service.keys.edit("a key", by=ADMIN, grant=Fixed(frozenset({READ})))
    assert await connection.status() == 200
    await client.service.keys.edit("a key", by=ADMIN, grant=Fixed(frozenset({"budgets:read_budget"})))
    assert await connection.status() == 403
    await connection.close()


@pytest.mark.parametrize("typed", ["", "a ke", "A KEY", "a key ", "a  key"])
async def test_3_1_delete_takes_the_exact_name(client: Client, typed: str) -> None:
    user = await client.with_scopes("a key", READ)
    with pytest.raises(NotConfirmed):
        await client.service.keys.delete("a key", typed_name=typed)
    assert (await user.get("/v2/insights")).status == 200


async def test_3_1_a_deleted_key_no_longer_exists_and_its_name_is_free(client: Client) -> None:
    keys = client.service.keys
    old = await client.with_scopes("a key", READ)
    await keys.disable("a key", by=ADMIN)
    await keys.delete("a key", typed_name="a key")
    with pytest.raises(NoSuchKey):
        await keys.show("a key")
    with pytest.raises(NoSuchKey):
        await keys.enable("a key", by=ADMIN)
    new = await client.with_scopes("a key", READ)
    assert (await old.get("/v2/insights")).status == 401
    assert (await new.get("/v2/insights")).status == 200


async def test_3_1_states_outlast_a_restart(tmp_path: Path, clock: Clock) -> None:
    service = Service(tmp_path, now_ms=clock)
    await service.start()
    on = await service.keys.create("stays on", Fixed(frozenset({READ})), by=ADMIN)
    off = await service.keys.create("stays off", Fixed(frozenset({READ})), by=ADMIN)
    await service.keys.disable("stays off", by=ADMIN)
    await service.stop()
    again = Service(tmp_path, now_ms=clock)
    await again.start()
    assert again.keys.authenticate(on.secret.reveal()) is not None
    assert again.keys.authenticate(off.secret.reveal()) is None
    await again.stop()


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(published.INSIGHT_STATUSES, 2)))
async def test_3_2_an_insight_goes_from_each_state_to_each_other(client: Client, before: str, after: str) -> None:
    made = (await client.post("/v2/insights", {**INSIGHT, "status": before})).json["insight"]
    assert made["status"] == before
    assert (await client.patch(f"/v2/insights/{made['id']}", {"status": after})).status == 200
    (item,) = (await client.get("/v2/insights")).json["insights"]
    assert item["status"] == after


async def test_3_2_there_is_no_other_state(client: Client) -> None:
    assert (await client.post("/v2/insights", {**INSIGHT, "status": "open"})).status == 400
    assert (await client.get("/v2/insights")).json["pagination"]["total_count"] == 0
