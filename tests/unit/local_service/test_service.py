"""The service as a whole: its files, its start and stop, what it does when something breaks."""

import asyncio
import secrets
import socket
import sqlite3
import stat
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from structlog.testing import capture_logs

from gateway.access.errors import PepperMismatch
from gateway.access.local_key_file import kept_key
from gateway.common.contract.scopes import Fixed
from gateway.common.storage.database import Database
from gateway.local_service.service import Service, build_service
from gateway.local_service.web import CONTEXT

from .conftest import Client, Clock, ai_envelope, ai_record

READING = Fixed(frozenset({"billing:read_costs", "insights:read_insights"}))


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_every_file_is_the_owners_alone_and_holds_no_secret(client: Client, tmp_path: Path) -> None:
    await client.post("/v2/ai-telemetry/records", ai_envelope(ai_record("a")), {"Idempotency-Key": "k"})
    assert modes(tmp_path) == {0o600}
    assert client.authorization.split("_")[2].encode() not in content(tmp_path)


async def test_a_kept_reader_key_asks_the_service_after_a_restart_too(tmp_path: Path, clock: Clock) -> None:
    secrets_seen = []
    async with aiohttp.ClientSession() as session:
        for _ in range(2):
            service = Service(tmp_path, now_ms=clock)
            port = await service.start()
            key = await kept_key(
                service.keys, tmp_path / "service-key", name="local reader", grant=READING, by="gateway@localhost"
            )
            client = Client(service, port, session, key.reveal())
            assert (await client.get("/v2/insights", limit="1")).status == 200
            secrets_seen.append(key.reveal())
            await service.stop()
    assert secrets_seen[0] == secrets_seen[1]


async def test_a_port_that_is_taken_is_reported_and_the_files_are_free_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        service = Service(tmp_path)
        with pytest.raises(OSError, match="address already in use"):
            await service.start("127.0.0.1", taken.getsockname()[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["service.db", "service.pepper"]  # noqa: ASYNC240 - a test's folder
    again = Service(tmp_path)
    await again.start()
    await again.stop()


async def test_a_lost_pepper_is_reported_at_start(tmp_path: Path) -> None:
    service = Service(tmp_path)
    await service.start()
    await service.stop()
    (tmp_path / "service.pepper").write_text(secrets.token_hex(32))
    with pytest.raises(PepperMismatch):
        await Service(tmp_path).start()


async def test_a_unix_socket_serves_too(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    await service.start_unix(tmp_path / "service.sock")
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / "service.sock"))) as session:
        response = await session.get("http://localhost/v2/insights")
        assert response.status == 401
        response.release()
    await service.stop()


async def test_last_accessed_is_written_at_the_latest_when_the_service_stops(tmp_path: Path, clock: Clock) -> None:
    service = Service(tmp_path, now_ms=clock)
    port = await service.start()
    async with aiohttp.ClientSession() as session:
        client = await Client(service, port, session, "").with_scopes("reader", "insights:read_insights")
        await client.get("/v2/insights")
    await service.stop()
    database = await Database.open(tmp_path / "service.db")
    rows = await database.read(lambda connection: connection.execute("SELECT accessed_at_ms FROM keys").fetchall())
    assert rows == [(clock.time_ms,)]
    await database.close()


async def test_senders_that_repeat_each_others_records_at_once_are_counted_once(client: Client) -> None:
    batch = ai_envelope(*(ai_record(str(number)) for number in range(100)))
    replies = await asyncio.gather(*(client.post("/v2/ai-telemetry/records", batch) for _ in range(8)))
    assert {reply.json["accepted"] for reply in replies} == {100}
    assert (await client.get("/v2/ai-telemetry/summary")).json["totals"]["calls"] == 100


async def test_a_broken_file_is_answered_503_and_a_bug_500_without_a_word_of_the_payload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = build_service(tmp_path)
    with capture_logs() as logged:
        async with TestServer(app) as server, aiohttp.ClientSession() as session:
            context = app[CONTEXT]
            created = await context.keys.create("all", Fixed(frozenset({"events_v1:create_event"})), by="a@example.com")
            headers = {"Authorization": created.secret.reveal()}
            event = {"title": "CANARY", "source": "CANARY"}
            await context.database.write(lambda connection: connection.execute("ALTER TABLE events RENAME TO gone"))
            broken = await session.post(server.make_url("/events/v1/events"), json=event, headers=headers)
            assert (broken.status, broken.headers["Retry-After"]) == (503, "5")
            assert await broken.json() == {"message": "Service Unavailable"}
            context.random_bytes = lambda count: (_ for _ in ()).throw(ZeroDivisionError("CANARY"))
            bug = await session.post(server.make_url("/events/v1/events"), json=event, headers=headers)
            assert (bug.status, await bug.json()) == (500, {"message": "Internal Server Error"})
    assert [(line["event"], line["error"]) for line in logged] == [("unforeseen error", "ZeroDivisionError")]
    for text in (caplog.text, str(logged)):
        assert "CANARY" not in text
        assert created.secret.reveal() not in text


def test_a_record_and_its_answer_are_kept_together_or_not_at_all(tmp_path: Path) -> None:
    """Seen in the file: the transaction that holds the record holds the answer to its idempotency
    key.
    """

    async def one_request() -> None:
        service = Service(tmp_path)
        port = await service.start()
        async with aiohttp.ClientSession() as session:
            client = await Client(service, port, session, "").with_scopes(
                "sender", "ai-telemetry-ingest:ingest-ai-telemetry"
            )
            path = "/v2/ai-telemetry/records"
            await service.database.write(
                lambda connection: connection.execute("ALTER TABLE idempotency RENAME TO gone")
            )
            assert (await client.post(path, ai_envelope(ai_record("a")), {"Idempotency-Key": "k"})).status == 503
            await service.database.write(
                lambda connection: connection.execute("ALTER TABLE gone RENAME TO idempotency")
            )
            await service.database.write(
                lambda connection: connection.execute(
                    "CREATE TRIGGER full BEFORE INSERT ON idempotency BEGIN SELECT raise(ABORT, 'disk'); END"
                )
            )
            assert (await client.post(path, ai_envelope(ai_record("a")), {"Idempotency-Key": "k"})).status == 503
        await service.stop()

    asyncio.run(one_request())
    connection = sqlite3.connect(tmp_path / "service.db")
    assert connection.execute("SELECT count(*) FROM ai_records").fetchone() == (0,)
    connection.close()
