"""Requests over HTTP that are under way while the gateway stops."""

import asyncio
from pathlib import Path

from gateway.app import Gateway
from gateway.config.loader import load_config
from gateway.config.values import TcpAddress
from tests.support.polling import HANGS_S, until_true
from tests.support.running_gateway import options
from tests.support.spans import call_span

OK = b"HTTP/1.1 200 OK\r\n"


async def test_a_body_that_began_before_the_stop_is_read_and_answered(tmp_path: Path) -> None:
    gateway = await Gateway.start(load_config(None, options(tmp_path), {}))
    assert isinstance(gateway.ports.http, TcpAddress)
    address = gateway.ports.http.host, gateway.ports.http.port
    body = call_span("a", (1, 1))
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    idle, idle_writer = await asyncio.open_connection(*address)
    reader, writer = await asyncio.open_connection(*address)
    async with asyncio.timeout(HANGS_S):
        idle_writer.write(head.encode() + body)
        assert await idle.readuntil(b"\r\n") == OK
        writer.write(head.encode() + body[:10])
        await until_true(lambda: gateway.receiver.budget.used_bytes > 0, what="begun")
        stopping = asyncio.create_task(gateway.stop())
        await idle.read()  # until it is closed
        writer.write(body[10:])
        assert await reader.readuntil(b"\r\n") == OK
        await stopping
    for each in (idle_writer, writer):
        each.close()
        await each.wait_closed()
