"""Connections that no key was shown on, whatever they send."""

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from benchmarks.grpc_connection import frame, text_of
from gateway.app import Gateway
from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from gateway.common.http import incoming
from gateway.config.values import TcpAddress
from gateway.serve.grpc import connection, frame_guard, streams
from gateway.serve.grpc.connection import GrpcConnection
from gateway.serve.grpc.frame_guard import FRAMES_AT_ONCE, FREE_FRAMES
from tests.support.grpc_calls import TRACES
from tests.support.http2_client import Http2Client, http2, message
from tests.support.large_uploads import UNKNOWN_FIELD
from tests.support.otlp_bytes import field
from tests.support.polling import HANGS_S, until_true
from tests.support.running_gateway import ANY_PORT, running_gateway
from tests.support.spans import call_span

HEADERS, SETTINGS, PING, CONTINUATION, UNKNOWN = 1, 4, 6, 9, 0xEE
END_HEADERS = 4
UNAUTHENTICATED = 16
CALL = b"\x83\x86" + b"".join(
    b"\0" + text_of(name) + text_of(value)
    for name, value in ((":path", TRACES), (":authority", "localhost"), ("content-type", "application/grpc"))
)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path, **{"listen.grpc": ANY_PORT, "listen.admin": "off"}) as running:
        yield running


@pytest.fixture
async def keyed(gateway: Gateway) -> str:
    """A key, without which nothing is taken from now on."""
    made = await gateway.keys.create("app", Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")
    return made.secret.reveal()


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[Http2Client]:
    assert isinstance(gateway.ports.grpc, TcpAddress)
    async with http2(gateway.ports.grpc.host, gateway.ports.grpc.port) as connected:
        yield connected


def reasons(gateway: Gateway) -> list[str]:
    return [entry["reason"] for entry in gateway.receiver.refused.status()]


@pytest.mark.parametrize(
    ("frames", "code", "reason"),
    [
        # A field of one byte each, 12,000 times: of which h2 decodes as many as fit into 16 KiB.
        (
            frame(HEADERS, END_HEADERS, 1, CALL + b"\x40\x01x\x01a")
            + frame(HEADERS, END_HEADERS, 3, CALL + b"\xbe" * 12_000),
            ErrorCodes.ENHANCE_YOUR_CALM,
            "headers_too_large",
        ),
        (
            frame(HEADERS, 0, 1, CALL) + frame(CONTINUATION, 0, 1, bytes(9000)) * 2,
            ErrorCodes.ENHANCE_YOUR_CALM,
            "headers_too_large",
        ),
        (frame(PING, 0, 0, bytes(8)) * (FREE_FRAMES + 10), ErrorCodes.ENHANCE_YOUR_CALM, "too_many_frames"),
        ((1 << 20).to_bytes(3) + bytes(6), ErrorCodes.FRAME_SIZE_ERROR, "frame_too_large"),
        (frame(HEADERS, END_HEADERS, 2, CALL), ErrorCodes.PROTOCOL_ERROR, "malformed_http2"),
        (frame(HEADERS, END_HEADERS, 1, b"\xff" * 20), ErrorCodes.PROTOCOL_ERROR, "malformed_http2"),
    ],
)
async def test_what_no_client_needs_ends_the_connection_and_is_noted(
    gateway: Gateway, client: Http2Client, keyed: str, frames: bytes, code: ErrorCodes, reason: str
) -> None:
    await client.flush()
    client.write(frames)
    goaway = await client.closed()
    assert goaway is not None
    assert goaway.error_code == code
    assert reasons(gateway)[0] == reason


async def test_one_connection_may_make_many_calls_and_pings(gateway: Gateway, client: Http2Client) -> None:
    for number in range(300):
        stream = client.call()
        for _ in range(5):
            client.h2.ping(bytes(8))
        await client.send(stream, message(call_span(f"{number}", (1, 1))), end=True)
        assert (await client.answer(stream)).status == 0
    assert gateway.spool.edge()["kept"] == 300
    assert reasons(gateway) == []


async def test_one_connection_may_make_many_calls_that_fail_under_its_key(
    gateway: Gateway, client: Http2Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sender does that tries again while the gateway is full."""
    monkeypatch.setattr(frame_guard, "FREE_FRAMES_PER_S", 0)
    for _ in range(FREE_FRAMES // 2):
        stream = client.call()
        await client.send(stream, message(b"\xff"), end=True)
        assert (await client.answer(stream)).status == 3, "INVALID_ARGUMENT"
    assert "too_many_frames" not in reasons(gateway)


async def test_streams_beyond_what_was_announced_are_refused_alone(
    gateway: Gateway, client: Http2Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 3)
    begun = [client.call() for _ in range(5)]
    for stream in begun[3:]:
        assert (await client.answer(stream)).reset == ErrorCodes.REFUSED_STREAM
    for stream in begun[:3]:
        await client.send(stream, message(b""), end=True)
        assert (await client.answer(stream)).status == 0
    again = client.call()
    await client.send(again, message(b""), end=True)
    assert (await client.answer(again)).status == 0


async def test_unknown_settings_and_a_large_table_of_headers_are_not_kept(
    gateway: Gateway, client: Http2Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[streams.Streams] = []
    begin = streams.Streams.__init__

    def noted(self: streams.Streams, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        made.append(self)

    monkeypatch.setattr(streams.Streams, "__init__", noted)
    await client.flush()
    for number in range(20):
        pairs = [(0x1000 + 64 * number + at, 1) for at in range(60)] + [(int(SettingCodes.HEADER_TABLE_SIZE), 1 << 31)]
        client.write(frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", *pair) for pair in pairs)))
    stream = client.call()
    await client.send(stream, message(b""), end=True)
    assert (await client.answer(stream)).status == 0
    assert set(made[0].h2.remote_settings) <= set(SettingCodes)
    assert made[0].h2.encoder.header_table_size == streams.HEADER_TABLE_BYTES


async def test_an_answer_that_its_client_does_not_take_ends_with_the_call(
    gateway: Gateway, client: Http2Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "UNREAD_S", 0.05)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    stream = client.call()
    await client.send(stream, message(call_span("a", (1, 1))), end=True)
    answer = await client.answer(stream)
    assert (answer.body, answer.reset) == (b"", ErrorCodes.CANCEL)
    assert gateway.spool.edge()["kept"] == 1
    again = client.call()
    client.h2.increment_flow_control_window(100, again)
    await client.send(again, message(call_span("a", (1, 1))), end=True)
    assert (await client.answer(again)).status == 0


async def test_a_window_that_opens_later_lets_the_answer_through(gateway: Gateway, client: Http2Client) -> None:
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 2})
    stream = client.call()
    await client.send(stream, message(b""), end=True)
    await until_true(lambda: gateway.receiver.counts.answers[TRACES, 200] == 1, what="answered")
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
    answer = await client.answer(stream)
    assert (answer.status, answer.body) == (0, message(b""))


async def test_what_is_no_call_of_grpc_is_answered_by_http(client: Http2Client) -> None:
    for fields in ([(":method", "GET")], [(":method", "POST"), ("content-type", "application/json")]):
        stream = client.h2.get_next_available_stream_id()
        first, *others = fields
        client.h2.send_headers(stream, [first, (":scheme", "http"), (":path", TRACES), (":authority", "a"), *others])
        assert (await client.answer(stream)).fields[":status"] == "415"


@pytest.mark.parametrize("sent", [b"", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(HEADERS, 0, 1, CALL)])
async def test_a_connection_that_begins_no_call_is_closed(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connection, "LOOK_S", 0.01)
    monkeypatch.setattr(connection, "FIRST_CALL_S", 0.05)
    monkeypatch.setattr(incoming, "LOOK_S", 0.01)
    monkeypatch.setattr(incoming, "SILENT_S", 0.05)
    assert isinstance(gateway.ports.grpc, TcpAddress)
    reader, writer = await asyncio.open_connection(gateway.ports.grpc.host, gateway.ports.grpc.port)
    writer.write(sent)
    async with asyncio.timeout(HANGS_S):
        await reader.read()
    writer.close()


async def test_a_client_that_vanished_is_noticed(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOOK_S", 0.01)
    monkeypatch.setattr(connection, "PING_AFTER_S", 0.05)
    monkeypatch.setattr(connection, "PONG_S", 0.05)
    assert isinstance(gateway.ports.grpc, TcpAddress)
    async with http2(gateway.ports.grpc.host, gateway.ports.grpc.port) as silent:
        stream = silent.call()
        await silent.send(stream, message(b""), end=True)
        assert (await silent.answer(stream)).status == 0
        # It reads no further, and so answers no ping.
        await until_true(lambda: not connections(gateway), what="noticed")


def connections(gateway: Gateway) -> list[GrpcConnection]:
    import gc  # noqa: PLC0415 - nothing else knows them

    return [each for each in gc.get_objects() if type(each) is GrpcConnection and each._transport is not None]


async def test_an_admitted_connection_is_read_no_faster_than_its_frames_are_worked_on(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 0
    work = GrpcConnection._work

    def counted(self: GrpcConnection) -> None:
        nonlocal most
        most = max(most, sum(map(len, self._pieces)))
        work(self)

    monkeypatch.setattr(GrpcConnection, "_work", counted)
    assert isinstance(gateway.ports.grpc, TcpAddress)
    async with http2(gateway.ports.grpc.host, gateway.ports.grpc.port) as client:
        preface = client.h2.data_to_send()
        before = frame(UNKNOWN, 0, 0, bytes(4 * incoming.PIECE_BYTES - len(preface) - 9))
        # The call is in the second part of what is handed on at once, with much behind it.
        call = frame(UNKNOWN, 0, 0, b"") * (FRAMES_AT_ONCE + 10) + frame(HEADERS, END_HEADERS, 1, CALL)
        client.write(preface + before + call + frame(UNKNOWN, 0, 0, bytes(256)) * 64_000)
        await client.flush()
        await until_true(lambda: any(each._is_admitted for each in connections(gateway)), what="admitted")
        await until_true(lambda: not any(each._pieces for each in connections(gateway)), what="read")
    assert most <= 2 * incoming.READ_BYTES


async def test_a_key_that_is_refused_ends_no_call_of_others_on_its_connection(
    gateway: Gateway, client: Http2Client, keyed: str
) -> None:
    body = message(field(UNKNOWN_FIELD, bytes(4 * incoming.MAX_BYTES)))
    upload = client.call(more=[("authorization", keyed)])
    await client.send(upload, body[:1000])
    stranger = client.call(more=[("authorization", "wrong")], end=True)
    assert (await client.answer(stranger)).status == UNAUTHENTICATED
    await client.send(upload, body[1000:], end=True)
    assert (await client.answer(upload)).status == 0


async def test_a_connection_on_which_only_refused_keys_are_shown_is_not_admitted_any_more(
    gateway: Gateway, client: Http2Client, keyed: str
) -> None:
    call = client.call(more=[("authorization", keyed)])
    await client.send(call, message(b""), end=True)
    assert (await client.answer(call)).status == 0
    (connection,) = connections(gateway)
    assert connection.incoming is not None
    assert connection.incoming.is_admitted
    stranger = client.call(more=[("authorization", "wrong")], end=True)
    assert (await client.answer(stranger)).status == UNAUTHENTICATED
    assert not connection.incoming.is_admitted
