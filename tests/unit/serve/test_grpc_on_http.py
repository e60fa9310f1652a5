"""gRPC on the HTTP port: the client reads where it should go, and the operator too."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc import aio
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gateway.app import Gateway
from gateway.common.http import http2_refusal as gateway_http2
from gateway.common.http import incoming
from gateway.common.http.http2_refusal import MAX_CALLS, MAX_FRAMES, PREFACE, Http2Refusal, frame
from gateway.common.http.http_connection import MAX_UNREAD_BYTES, Connection
from gateway.config.values import TcpAddress
from tests.support.grpc_calls import refused
from tests.support.running_gateway import ANY_PORT, running_gateway

MAX_FLOOD_BYTES = 32 * 1024 * 1024


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path, **{"listen.grpc": ANY_PORT}) as running:
        yield running


async def test_a_grpc_client_reads_which_port_speaks_grpc(gateway: Gateway) -> None:
    assert isinstance(gateway.ports.grpc, TcpAddress)
    with capture_logs() as logs:
        async with aio.insecure_channel(str(gateway.ports.http)) as channel:
            for body in (b"", b"x" * 300_000):
                answer = await refused(channel, body)
                assert answer.code is grpc.StatusCode.UNIMPLEMENTED
                assert answer.text == f"this port speaks OTLP over HTTP; OTLP/gRPC is on port {gateway.ports.grpc.port}"
        another = [("grpc.use_local_subchannel_pool", 1)]
        async with aio.insecure_channel(str(gateway.ports.http), options=another) as channel:
            await refused(channel, b"")
    (line,) = [line for line in logs if line["event"] == "request refused"]
    assert line["remedy"] == f"OTLP/gRPC is on port {gateway.ports.grpc.port}"
    (entry,) = gateway.receiver.refused.status()
    assert (entry["reason"], entry["last_peer"]) == ("grpc_on_http_port", "127.0.0.1")
    assert gateway.receiver.counts.answers["none", 505] == 2


async def test_where_grpc_is_off_that_is_what_is_read(gateway: Gateway) -> None:
    gateway.receiver.grpc_at = None
    async with aio.insecure_channel(str(gateway.ports.http)) as channel:
        assert "OTLP/gRPC is off (listen.grpc)" in (await refused(channel, b"")).text
    async with aio.insecure_channel(str(gateway.ports.admin)) as channel:
        assert "no gRPC" in (await refused(channel, b"")).text


async def test_http_1_on_the_grpc_port_ends_and_leaves_others_alone(gateway: Gateway) -> None:
    def post() -> bytes:
        assert isinstance(gateway.ports.grpc, TcpAddress)
        with socket.create_connection((gateway.ports.grpc.host, gateway.ports.grpc.port), timeout=20) as connection:
            connection.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            found = b""
            while more := connection.recv(4096):
                found += more
        return found

    await asyncio.to_thread(post)
    async with aio.insecure_channel(str(gateway.ports.grpc)) as channel:
        answer = await channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(b"")
        assert answer == b""


def test_a_connection_is_ended_after_many_calls() -> None:
    refusal = Http2Refusal("elsewhere")
    out = refusal.feed(PREFACE)
    for call in range(MAX_CALLS):
        assert not refusal.is_over
        out = refusal.feed(frame(1, 0x4, 2 * call + 1, b"any"))
        assert b"elsewhere" in out
    assert refusal.is_over
    assert refusal.feed(frame(1, 0x4, 999, b"any")) == b""


@pytest.mark.parametrize(("kind", "length"), [(4, 0), (6, 8)], ids=["SETTINGS", "PING"])
def test_a_connection_is_ended_after_many_frames(kind: int, length: int) -> None:
    refusal, answers = Http2Refusal("elsewhere"), 0
    refusal.feed(PREFACE)
    while not refusal.is_over and answers < 2 * MAX_FRAMES:
        out = refusal.feed(frame(kind, 0, 0, bytes(length)))
        answers += 1
    assert answers == MAX_FRAMES
    assert out.endswith(frame(7, 0, 0, bytes(4) + (11).to_bytes(4))), "GOAWAY, ENHANCE_YOUR_CALM"


async def test_a_client_that_reads_no_answer_is_cut_off(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_http2, "MAX_FRAMES", 10**9)
    unread: list[int] = []
    answer = Connection._answer_http2

    def noted(self: Connection, refusal: Http2Refusal, data: bytes) -> None:
        assert self.transport is not None
        unread.append(self.transport.get_write_buffer_size())
        answer(self, refusal, data)

    monkeypatch.setattr(Connection, "_answer_http2", noted)
    assert isinstance(gateway.ports.http, TcpAddress)
    host, port = gateway.ports.http.host, gateway.ports.http.port

    def flood() -> int:
        """Bytes of PINGs that were sent before the connection broke."""
        pings, sent = frame(6, 0, 0, bytes(8)) * 1000, 0
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(20)
            connection.connect((host, port))
            connection.sendall(PREFACE)
            while sent < MAX_FLOOD_BYTES:
                try:
                    connection.sendall(pings)
                except ConnectionError:
                    break
                sent += len(pings)
        return sent

    assert await asyncio.to_thread(flood) < MAX_FLOOD_BYTES
    assert max(unread) <= MAX_UNREAD_BYTES


async def test_a_client_that_does_not_read_its_last_answer_is_cut_off(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "LINGER_S", 0.3)
    assert isinstance(gateway.ports.http, TcpAddress)
    ended = asyncio.Event()
    lost = Connection.connection_lost

    def noted(self: Connection, exc: Exception | None) -> None:
        lost(self, exc)
        ended.set()

    monkeypatch.setattr(Connection, "connection_lost", noted)
    monkeypatch.setattr(Connection, "_answer_http2", write_until_it_waits)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((gateway.ports.http.host, gateway.ports.http.port))
        connection.sendall(PREFACE)
        async with asyncio.timeout(8):  # the system gives up on such a connection after some 15 s
            await ended.wait()


def write_until_it_waits(connection: Connection, _: Http2Refusal, __: bytes) -> None:
    """More than the system takes on its own, so that some is left with us."""
    transport = connection.transport
    assert transport is not None
    while transport.get_write_buffer_size() < 512 * MAX_UNREAD_BYTES:
        transport.write(bytes(MAX_UNREAD_BYTES))
    transport.close()


def test_a_frame_that_no_one_announced_is_not_waited_for() -> None:
    refusal = Http2Refusal("elsewhere")
    refusal.feed(PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01")
    assert refusal.is_over


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(0, 24))
def test_any_bytes_in_any_pieces_end_or_are_passed_over(pieces: list[bytes], cut: int) -> None:
    refusal = Http2Refusal("elsewhere")
    refusal.feed(PREFACE[:cut])
    refusal.feed(PREFACE[cut:])
    for piece in pieces:
        refusal.feed(piece)
        assert len(refusal._buffer) < 17 * 1024
