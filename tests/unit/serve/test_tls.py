"""TLS of the listeners: certificates that change, clients that show their own, Unix sockets."""

import asyncio
import json
import socket
import ssl
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from http.client import HTTPSConnection
from pathlib import Path
from shutil import copyfile
from typing import Any

import aiohttp
import grpc
import pytest
import uvloop
from grpc import aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from structlog.testing import capture_logs

import gateway.common.http.incoming
import gateway.common.tls
from gateway.app import Gateway
from gateway.common.contract.errors import CannotStart
from gateway.common.contract.intake import Sender
from gateway.common.contract.scopes import EVENT_SCOPE, INGEST_SCOPE, Fixed
from gateway.common.tls import ServerTls, TlsFault, TlsFiles, load
from gateway.config.draft import ConfigFaults
from gateway.config.loader import load_config
from gateway.config.model import refuse_open_intake
from gateway.config.values import TcpAddress
from gateway.pipeline.parsing.parse import Payload
from tests.support.certificates import Authority, Pair
from tests.support.grpc_calls import called, refused
from tests.support.polling import HANGS_S, until_true
from tests.support.running_gateway import ANY_PORT, running_gateway
from tests.support.spans import call_span
from tests.support.tcp_proxy import TcpProxy

PROTOBUF = {"Content-Type": "application/x-protobuf"}
BY = "ops@example.com"
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


@pytest.fixture(scope="module")
def server(authority: Authority) -> Pair:
    return authority.signed("gateway")


@pytest.fixture
def current(tmp_path: Path, server: Pair) -> Pair:
    """Where the gateway reads, beside what others use."""
    pair = Pair(tmp_path / "tls.pem", tmp_path / "tls.key")
    replace(pair, server)
    return pair


def replace(pair: Pair, by: Pair) -> None:
    copyfile(by.cert, pair.cert)
    copyfile(by.key, pair.key)


def running(folder: Path, tls: dict[str, Any], **more: object) -> AbstractAsyncContextManager[Gateway]:
    return running_gateway(folder, **{"listen.grpc": ANY_PORT, "tls": tls, **more})


def trusting(authority: Authority, shown: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority.pair.cert)
    if shown is not None:
        context.load_cert_chain(*shown)
    return context


def channel_to(gateway: Gateway, authority: Authority, shown: Pair | None = None) -> Any:
    key, cert = (None, None) if shown is None else (shown.key.read_bytes(), shown.cert.read_bytes())
    credentials = grpc.ssl_channel_credentials(authority.pair.cert.read_bytes(), key, cert)
    return aio.secure_channel(str(gateway.ports.grpc), credentials, options=[("grpc.use_local_subchannel_pool", 1)])


async def posted(gateway: Gateway, context: ssl.SSLContext, body: bytes = b"") -> int:
    """The status of one request on a connection of its own."""
    url = f"https://{gateway.ports.http}/v1/traces"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.post(url, data=body, headers=PROTOBUF) as answer,
    ):
        return answer.status


async def shown_serial(address: object, context: ssl.SSLContext) -> str:
    """The serial number of the certificate that a new connection is shown."""
    assert isinstance(address, TcpAddress)
    _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    serial: str = writer.get_extra_info("peercert")["serialNumber"]
    writer.close()
    return serial


async def test_every_listener_speaks_tls(tmp_path: Path, authority: Authority, server: Pair) -> None:
    tls = dict.fromkeys(("http", "grpc", "admin", "service"), server.files)
    async with running(tmp_path, tls, **{"counting.settle": "0s"}) as gateway:
        assert await posted(gateway, trusting(authority)) == 200
        async with channel_to(gateway, authority) as channel:
            assert await called(channel, call_span("a", (1, 1))) == b""
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(authority))) as session,
            session.get(f"https://{gateway.ports.admin}/healthz") as answer,
        ):
            assert answer.status == 200
        async with aio.insecure_channel(str(gateway.ports.grpc)) as plain:
            assert (await refused(plain, b"")).code is grpc.StatusCode.UNAVAILABLE
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://{gateway.ports.http}/")
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(authority))) as session,
            session.get(f"https://{gateway.ports.service}/v2/ai-telemetry/summary") as answer,
        ):
            assert answer.status == 401
        await until_true(
            lambda: gateway.status()["lanes"]["ai_telemetry"]["delivered"] == 1,
            what="delivered without TLS",
        )
        credentials = grpc.ssl_channel_credentials(authority.pair.cert.read_bytes())
        async with aio.secure_channel(str(gateway.ports.http), credentials) as misled:
            assert "OTLP/gRPC is on port" in (await refused(misled, b"")).text


async def test_a_connection_without_a_handshake_is_ended(
    tmp_path: Path, server: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gateway.common.http.incoming.HANDSHAKE_S <= 10
    monkeypatch.setattr(gateway.common.http.incoming, "HANDSHAKE_S", 0.3)
    tls = dict.fromkeys(("http", "grpc", "admin", "service"), server.files)
    async with running(tmp_path / "tcp", tls) as running_one:
        ports = running_one.ports
        for address in (ports.http, ports.grpc, ports.admin, ports.service):
            assert isinstance(address, TcpAddress)
            assert await ended(*await asyncio.open_connection(address.host, address.port))
    path = tmp_path / "s"
    async with running(tmp_path / "unix", {"http": server.files}, **{"listen.http": f"unix:{path}"}):
        assert await ended(*await asyncio.open_unix_connection(path))


HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""A handshake begins so; the rest of it, which it announces, never comes."""


@pytest.mark.parametrize(
    "sent", [b"", HELLO, HELLO + bytes(100), b"GET / HTTP/1.1\r\n\r\n"], ids=["0", "11", "111", "plain"]
)
async def test_handshakes_that_stall_keep_no_one_out(
    tmp_path: Path, authority: Authority, server: Pair, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(gateway.common.http.incoming, "MAX_SERVED", 8)
    monkeypatch.setattr(gateway.common.http.incoming, "PATIENCE_TLS_S", 0.2)
    async with running(tmp_path, {"http": server.files, "grpc": server.files}) as running_one:
        opened = []
        for address in (running_one.ports.http, running_one.ports.grpc):
            assert isinstance(address, TcpAddress)
            for _ in range(60):
                _, writer = await asyncio.open_connection(address.host, address.port)
                writer.write(sent)
                opened.append(writer)
        assert await posted(running_one, trusting(authority)) == 200
        async with channel_to(running_one, authority) as channel:
            assert await called(channel, b"") == b""
        for writer in opened:
            writer.transport.abort()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_what_comes_before_the_handshake_begins_is_part_of_it(
    tmp_path: Path, authority: Authority, server: Pair, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """uvloop reads whatever is asked of it before: a quick client comes too early for TLS."""

    async def quick_clients() -> list[int]:
        async with running(tmp_path, {"http": server.files}) as running_one:
            address = running_one.ports.http
            assert isinstance(address, TcpAddress)
            return [await asyncio.to_thread(quick_client, address, trusting(authority)) for _ in range(40)]

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(quick_clients()) == [200] * 40


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_request_that_comes_with_the_end_of_the_handshake_waits_for_tls(
    tmp_path: Path, authority: Authority, server: Pair, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Else its answer would be written to the connection below TLS, in plain."""
    had_work = []

    async def request() -> int:
        loop: Any = asyncio.get_running_loop()
        start_tls = loop.start_tls

        async def start_tls_slowly(plain: Any, connection: Any, *args: Any, **options: Any) -> Any:
            made = await start_tls(plain, connection, *args, **options)
            await until_true(lambda: bool(connection._held), what="request")
            had_work.append(connection.has_work)
            return made

        async with running(tmp_path, {"http": server.files}) as running_one:
            loop.start_tls = start_tls_slowly
            assert isinstance(running_one.ports.http, TcpAddress)
            return await asyncio.to_thread(quick_client, running_one.ports.http, trusting(authority))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(request()) == 200
    assert had_work == [False]


def quick_client(address: TcpAddress, tls: ssl.SSLContext) -> int:
    """Another one for each request: their first bytes come with the connection, as it were."""
    connection = HTTPSConnection(address.host, address.port, context=tls, timeout=HANGS_S)
    connection.request("POST", "/v1/traces", b"", PROTOBUF)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


async def ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Whether the other side closes the connection, to which nothing is sent."""
    async with asyncio.timeout(HANGS_S):
        found = await reader.read()
    writer.close()
    await writer.wait_closed()
    return found == b""


@pytest.mark.parametrize("how", ["by change", "by reload"])
async def test_a_new_certificate_is_taken_and_open_connections_stay(
    tmp_path: Path, authority: Authority, current: Pair, how: str
) -> None:
    tls = {"http": current.files, "grpc": current.files}
    async with running(tmp_path, tls) as gateway:
        context, addresses = trusting(authority), (gateway.ports.http, gateway.ports.grpc)
        before = [await shown_serial(address, context) for address in addresses]
        async with TcpProxy(port_of(gateway.ports.http)) as http, TcpProxy(port_of(gateway.ports.grpc)) as rpc:
            credentials = grpc.ssl_channel_credentials(authority.pair.cert.read_bytes())
            reader, writer = await asyncio.open_connection("127.0.0.1", http.port, ssl=context)
            async with aio.secure_channel(f"127.0.0.1:{rpc.port}", credentials) as channel:
                watching = HealthStub(channel).Watch(HealthCheckRequest())
                assert (await watching.read()).status == HealthCheckResponse.SERVING
                for changed in (False, True):
                    if changed:
                        replace(current, authority.signed(f"renewed {how}"))
                        await taken(gateway, how)
                    writer.write(POST)
                    async with asyncio.timeout(HANGS_S):
                        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
                        await reader.readuntil(b"\r\n\r\n")
                    assert await called(channel, b"") == b""
                after = [await shown_serial(address, context) for address in addresses]
                assert after[0] == after[1]
                assert not {*before} & {*after}
                assert (http.accepted, rpc.accepted) == (1, 1), "one connection each, all along"
                assert not watching.done()
                watching.cancel()
            writer.close()
            await writer.wait_closed()


POST = (
    b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n"
)


def port_of(address: object) -> Callable[[], int]:
    assert isinstance(address, TcpAddress)
    return lambda: address.port


def served_tls(gateway: Gateway) -> Any:
    """What each listener of *gateway* serves TLS with, by the listener's name."""
    return gateway._build.tls


async def taken(gateway: Gateway, how: str) -> None:
    """Let *gateway* see that files have changed."""
    if how == "by reload":
        gateway.reload(gateway.config)
        return
    for each in served_tls(gateway).values():
        await each.run_maintenance()


async def test_files_that_do_not_fit_leave_what_is_in_use(tmp_path: Path, authority: Authority, current: Pair) -> None:
    other = authority.signed("another")
    async with running(tmp_path, {"http": current.files}) as gateway:
        tls, context = served_tls(gateway)["http"], trusting(authority)
        before = await shown_serial(gateway.ports.http, context)
        with capture_logs() as logs:
            copyfile(other.cert, current.cert)  # half of a renewal
            await tls.run_maintenance()
            await tls.run_maintenance()
            assert await shown_serial(gateway.ports.http, context) == before
        (line,) = [line for line in logs if line["log_level"] == "error"]
        assert "is not the key of the certificate" in line["fault"]
        copyfile(other.key, current.key)
        await tls.run_maintenance()
        assert await shown_serial(gateway.ports.http, context) != before


@pytest.mark.parametrize("renewals", [1, 100])
def test_files_that_change_while_they_are_read_are_read_again(
    authority: Authority, current: Pair, monkeypatch: pytest.MonkeyPatch, renewals: int
) -> None:
    pairs = [authority.signed(name) for name in ("renewed while read", "renewed once more")]
    made_context, made = gateway.common.tls.made_context, 0

    def made_behind_a_renewal(files: TlsFiles, protocols: Sequence[str]) -> ssl.SSLContext:
        nonlocal made
        if made < renewals:
            replace(current, pairs[made % 2])
        made += 1
        return made_context(files, protocols)

    monkeypatch.setattr(gateway.common.tls, "made_context", made_behind_a_renewal)
    if renewals > 1:
        with pytest.raises(TlsFault, match=r"tls\.http: its files change while they are read"):
            load(TlsFiles("tls.http", *current))
        assert made < 10
        return
    loaded = load(TlsFiles("tls.http", *current))
    assert (loaded.cert, loaded.key) == (pairs[0].cert.read_bytes(), pairs[0].key.read_bytes())
    assert loaded.stamp == TlsFiles("tls.http", *current).stamp()


async def test_files_whose_rights_change_are_read_again(current: Pair) -> None:
    tls = ServerTls(TlsFiles("tls.http", *current))
    current.key.chmod(0o640)
    with capture_logs() as logs:
        await tls.run_maintenance()
    assert [line["event"] for line in logs] == ["certificate reloaded"]


async def test_clients_without_a_certificate_of_the_authority_do_not_get_in(
    tmp_path: Path, folder: Path, authority: Authority, server: Pair
) -> None:
    stranger = Authority(folder, "stranger").signed("checkout-bot of strangers")
    own = authority.signed("checkout-bot")
    checked = {**server.files, "client_ca_file": str(authority.pair.cert)}
    async with running(tmp_path, {"http": checked, "grpc": checked}) as gateway:
        for shown in (None, stranger):
            with pytest.raises((aiohttp.ClientError, OSError)):
                await posted(gateway, trusting(authority, shown))
            async with channel_to(gateway, authority, shown) as channel:
                assert (await refused(channel, b"")).code is grpc.StatusCode.UNAVAILABLE
        assert await posted(gateway, trusting(authority, own)) == 200
        await gateway.keys.create("checkout-bot", Fixed(frozenset({INGEST_SCOPE})), by=BY)
        assert await posted(gateway, trusting(authority, own)) == 401, "clients: check asks for the key besides"


def resumed(address: object, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLSession | None:
    """The session of a new connection that offers *session*.

    Raises OSError where the server ends the connection, which TLS 1.3 does after the handshake.
    """
    assert isinstance(address, TcpAddress)
    with (
        socket.create_connection((address.host, address.port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="localhost", session=session) as connection,
    ):
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        if not connection.recv(1):
            raise ConnectionResetError("ended by the server")
        made = connection.session
        with suppress(OSError):
            connection.unwrap()  # a session whose connection breaks is not resumed
        return made


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
async def test_a_session_does_not_survive_the_removal_of_its_authority(
    tmp_path: Path, folder: Path, authority: Authority, server: Pair, version: ssl.TLSVersion
) -> None:
    own, clients = authority.signed("former bot"), tmp_path / "clients.pem"
    copyfile(authority.pair.cert, clients)
    successor = Authority(folder, f"successor {version.name}")
    current = successor.signed(f"present bot {version.name}")
    admitted = {**server.files, "client_ca_file": str(clients), "clients": "admit"}
    async with running(tmp_path, {"http": admitted, "grpc": admitted}) as gateway:
        for listener, address in (("http", gateway.ports.http), ("grpc", gateway.ports.grpc)):
            copyfile(authority.pair.cert, clients)
            await served_tls(gateway)[listener].run_maintenance()
            context = trusting(authority, own)
            context.set_alpn_protocols(["h2"])
            context.minimum_version = context.maximum_version = version
            try:
                session = await asyncio.to_thread(resumed, address, context, None)
            except ssl.SSLError:
                assert version is ssl.TLSVersion.TLSv1_2, "it resumes by session id"
                session = None
            copyfile(successor.pair.cert, clients)
            await served_tls(gateway)[listener].run_maintenance()
            for offered in (None, session):
                with pytest.raises(OSError):  # noqa: PT011 an alert or a reset, by the version
                    await asyncio.to_thread(resumed, address, context, offered)
        assert await posted(gateway, trusting(authority, current)) == 200
        async with channel_to(gateway, authority, current) as channel:
            assert await called(channel, b"") == b""


async def test_the_subject_of_a_certificate_is_the_name_of_a_key(
    tmp_path: Path, authority: Authority, server: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    admitted = {**server.files, "client_ca_file": str(authority.pair.cert), "clients": "admit"}
    bot, viewer, no_one = (authority.signed(name) for name in ("shop bot", "shop viewer", "no one"))
    workload = authority.signed("workload", subject="/O=Shop")  # no common name: the DNS name counts
    async with running(tmp_path, {"http": admitted, "grpc": admitted}) as gateway:
        for name, scope in (("shop bot", INGEST_SCOPE), ("localhost", INGEST_SCOPE), ("shop viewer", EVENT_SCOPE)):
            await gateway.keys.create(name, Fixed(frozenset({scope})), by=BY, labels={"team": "shop"})
        senders: list[Sender] = []
        put = gateway.intake.front.put

        async def noted(payload: Payload, sender: Sender) -> Any:
            senders.append(sender)
            return await put(payload, sender)

        monkeypatch.setattr(gateway.intake.front, "put", noted)
        for shown, status, code in (
            (bot, 200, None),
            (workload, 200, None),
            (viewer, 403, grpc.StatusCode.PERMISSION_DENIED),
            (no_one, 401, grpc.StatusCode.UNAUTHENTICATED),
        ):
            assert await posted(gateway, trusting(authority, shown)) == status
            async with channel_to(gateway, authority, shown) as channel:
                answer = await called(channel, b"")
                assert answer == b"" if code is None else not isinstance(answer, bytes) and answer.code is code
        assert [sender.key for sender in senders] == ["shop bot", "shop bot", "localhost", "localhost"]
        assert all(("team", "shop") in sender.fixes for sender in senders)
        await gateway.keys.disable("shop bot", by=BY)
        assert await posted(gateway, trusting(authority, bot)) == 401
        reasons = {entry["reason"] for entry in gateway.receiver.refused.status()}
        assert reasons == {"subject_unknown_or_disabled", "scope_missing"}


async def test_senders_reach_unix_sockets(tmp_path: Path) -> None:
    http, rpc = tmp_path / "http.sock", tmp_path / "grpc.sock"
    listen = {"listen.http": f"unix:{http}", "listen.grpc": f"unix:{rpc}"}
    for _ in range(2):  # the second start finds no socket of the first
        async with running(tmp_path, {}, **listen) as gateway:
            assert {stat.S_IMODE(path.stat().st_mode) for path in (http, rpc)} == {0o660}
            async with aio.insecure_channel(f"unix:{rpc}") as channel:
                assert await called(channel, call_span("a", (1, 1))) == b""
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(http))) as session,
                session.post("http://localhost/v1/traces", data=b"", headers=PROTOBUF) as answer,
            ):
                assert answer.status == 200
            peers = {sender.peer for sender in gateway.receiver.outcomes.recent.last_hour()}
            assert peers == {"unix"}
        assert not http.exists()
        assert not rpc.exists()


def test_a_certificate_that_ends_soon_is_logged_once_a_day(authority: Authority, server: Pair) -> None:
    files = TlsFiles("tls.http", *server)
    ends_ms = int(load(files).ends.timestamp() * 1000)
    now_ms = [ends_ms - 20 * DAY_MS]
    with capture_logs() as logs:
        tls = ServerTls(files, now_ms=lambda: now_ms[0])
        assert logs == []
        for left_days, lines in ((13, 1), (12.5, 1), (11, 2), (-1, 3)):
            now_ms[0] = ends_ms - int(left_days * DAY_MS)
            tls.warn()
            assert len(logs) == lines
    assert "it ended at" in logs[-1]["state"]


@pytest.mark.parametrize(
    ("break_files", "said"),
    [
        (lambda pair: pair.key.write_text("no key"), "tls.http: "),
        (lambda pair: pair.cert.write_text("no certificate"), "tls.http.cert_file: "),
        (lambda pair: pair.key.unlink(), "tls.http.key_file: "),
    ],
    ids=["key", "certificate", "missing"],
)
async def test_bad_files_stop_the_start(
    tmp_path: Path, current: Pair, break_files: Callable[[Pair], Any], said: str
) -> None:
    break_files(current)
    with pytest.raises(TlsFault, match=said):
        load(TlsFiles("tls.http", *current))
    with pytest.raises(CannotStart, match=said):
        async with running(tmp_path, {"http": current.files}):
            pass


def test_options_that_contradict_each_other_are_faults(tmp_path: Path, server: Pair) -> None:
    for tls, said in (
        ({"http": {**server.files, "clients": "admit"}}, "clients: admit needs client_ca_file"),
        ({"admin": {**server.files, "client_ca_file": "x", "clients": "admit"}}, "clients: admit is for senders"),
        ({"http": {"cert_file": "x"}}, "tls.http.key_file: is required"),
    ):
        with pytest.raises(ConfigFaults, match=said):
            load_config(None, {"tls": tls}, {})
    file = tmp_path / "gateway.yaml"
    file.write_text(json.dumps({"tls": {"grpc": {"cert_file": "a.pem", "key_file": "b.key"}}}))
    made = load_config(file, None, {}).tls.grpc
    assert made is not None
    assert made.cert_file == tmp_path / "a.pem"


def test_an_address_beyond_loopback_needs_no_key_where_certificates_admit(server: Pair) -> None:
    admitted = {**server.files, "client_ca_file": str(server.cert), "clients": "admit"}
    overrides: dict[str, object] = {"listen.http": "0.0.0.0:4318", "tls": {"http": admitted}}
    assert refuse_open_intake(load_config(None, overrides, {}), 0) is None
    overrides["tls"] = {"http": {**admitted, "clients": "check"}}
    assert refuse_open_intake(load_config(None, overrides, {}), 0) is not None
