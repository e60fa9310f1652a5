"""The end of a gateway that is asked to stop while requests are under way."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from gateway.app import Gateway
from gateway.common.contract.intake import Sender
from gateway.config.loader import load_config
from gateway.config.values import TcpAddress
from gateway.pipeline.parsing.parse import Payload
from tests.support.grpc_calls import called
from tests.support.polling import HANGS_S
from tests.support.running_gateway import ANY_PORT, options
from tests.support.spans import call_span


async def test_at_stop_all_listeners_close_at_once_and_answer_what_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await Gateway.start(load_config(None, options(tmp_path, **{"listen.grpc": ANY_PORT}), {}))
    http, admin = gateway.ports.http, gateway.ports.admin
    assert isinstance(http, TcpAddress)
    assert isinstance(admin, TcpAddress)
    under_way, let_on = asyncio.Semaphore(0), asyncio.Event()
    put = gateway.intake.front.put

    async def slow(payload: Payload, sender: Sender) -> Any:
        under_way.release()
        await let_on.wait()
        return await put(payload, sender)

    monkeypatch.setattr(gateway.intake.front, "put", slow)
    reader, writer = await asyncio.open_connection(http.host, http.port)
    body = call_span("a", (1, 1))
    head = f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    async with aio.insecure_channel(str(gateway.ports.grpc)) as channel, asyncio.timeout(HANGS_S):
        call = asyncio.create_task(called(channel, call_span("b", (1, 1))))
        for _ in range(2):
            await under_way.acquire()
        watching = HealthStub(channel).Watch(HealthCheckRequest())
        assert (await watching.read()).status == HealthCheckResponse.SERVING
        stopping = asyncio.create_task(gateway.stop())
        assert (await watching.read()).status == HealthCheckResponse.NOT_SERVING
        for each in (http, admin):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(each.host, each.port)
        assert not call.done()
        assert not stopping.done()
        let_on.set()
        assert await call == b""
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        await stopping
    writer.close()
    await writer.wait_closed()
