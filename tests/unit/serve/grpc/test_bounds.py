"""What strangers may hold open over gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from gateway.app import Gateway
from gateway.serve.grpc import reflection
from tests.support.grpc_calls import Refusal, called, refused
from tests.support.polling import HANGS_S
from tests.support.running_gateway import ANY_PORT, running_gateway

MAX_CONNECTIONS = 10
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(
        tmp_path, **{"listen.grpc": ANY_PORT, "limits.max_connections": MAX_CONNECTIONS}
    ) as running:
        yield running


async def test_a_reflection_stream_too_many_is_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflection, "MAX_STREAMS", 2)
    asked = ServerReflectionRequest(list_services="")
    async with aio.insecure_channel(str(gateway.ports.grpc)) as channel:

        async def opened() -> Any:
            stream = ServerReflectionStub(channel).ServerReflectionInfo()
            await stream.write(asked)
            assert (await stream.read()).HasField("list_services_response")
            return stream

        streams = [await opened() for _ in range(2)]
        further = ServerReflectionStub(channel).ServerReflectionInfo()
        assert await further.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await streams.pop().done_writing()
        async with asyncio.timeout(HANGS_S):
            while True:
                try:
                    streams.append(await opened())
                except grpc.RpcError:
                    continue
                break
        for stream in streams:
            stream.cancel()


async def test_a_grpc_connection_too_many_is_closed(gateway: Gateway) -> None:
    address = str(gateway.ports.grpc)
    async with AsyncExitStack() as stack:
        first, *_ = channels = [aio.insecure_channel(address, options=OWN_CONNECTION) for _ in range(MAX_CONNECTIONS)]
        for channel in channels:
            await stack.enter_async_context(channel)
            assert await called(channel, b"") == b""
        further = await stack.enter_async_context(aio.insecure_channel(address, options=OWN_CONNECTION))
        assert (await refused(further, b"")).code is grpc.StatusCode.UNAVAILABLE
        await first.close()
        async with asyncio.timeout(HANGS_S):
            while isinstance(await called(further, b""), Refusal):
                pass
