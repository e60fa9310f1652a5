"""Commands that are given a data directory alone find the gateway that runs on it, and send the
admin token to no one else.
"""

import json
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.config.values import TcpAddress, UnixAddress
from gateway.operate.address_file import FILE, WrittenAddress, running_address
from spool.data_lock import DataLock
from tests.support.certificates import Authority
from tests.support.commands import Ended, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.ports import free_port

ASKED = (("keys", "list"), ("spool", "status"), ("spool", "verify"), ("spool", "dead-letters", "list"))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as running:
        yield running


def ask(gateway: GatewayProcess, *arguments: str, **environ: str) -> Ended:
    """A command that is given the data directory, and the listener only by *environ*."""
    return run_telemetry_gateway(*arguments, "--data-dir", str(gateway.data_dir), "--json", environ=environ)


@contextmanager
def listening(port: int) -> Iterator[list[bytes]]:
    """Another process that took a port that became free; all that it receives."""
    heard: list[bytes] = []

    def hear(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # closed
                return
            with connection:
                heard.append(connection.recv(65536))

    with socket.create_server(("127.0.0.1", port)) as server:
        thread = threading.Thread(target=hear, args=(server,))
        thread.start()
        try:
            yield heard
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=10)


@pytest.mark.parametrize("command", ASKED, ids=" ".join)
def test_a_command_with_the_data_directory_alone_asks_the_running_gateway(
    gateway: GatewayProcess, command: tuple[str, ...]
) -> None:
    ended = ask(gateway, *command)
    assert ended.code == 0, ended.err
    if command == ("spool", "status"):
        assert ended.json["version"], "of the running gateway: the files hold none"


def test_the_file_is_the_users_own_and_gone_after_a_clean_stop(gateway: GatewayProcess) -> None:
    path = gateway.data_dir / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "http://" + path.read_text().split("\n")[0] == gateway.admin_url
    assert gateway.stop() == 0
    assert not path.exists()
    assert ask(gateway, "keys", "list").code == 0, "of the files"


def test_after_a_kill_nobody_who_took_the_port_is_sent_the_token(gateway: GatewayProcess) -> None:
    port = int(gateway.admin_url.rpartition(":")[2])
    gateway.kill()
    assert (gateway.data_dir / FILE).exists()
    lock = DataLock(gateway.data_dir)  # another command, or a gateway that is not up yet
    try:
        with listening(port) as heard:
            ended = [ask(gateway, *command) for command in ASKED]
    finally:
        lock.close()
    assert {x.code for x in ended} == {1}
    assert all("TELEMETRY_GATEWAY_LISTEN_ADMIN" in x.err for x in ended)
    assert heard == []
    gateway.restart()
    assert ask(gateway, "keys", "list").code == 0


def test_an_address_that_is_named_wins_but_for_port_0(gateway: GatewayProcess, tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    ended = ask(gateway, "keys", "list", TELEMETRY_GATEWAY_LISTEN_ADMIN=nobody)
    assert ended.code == 1
    assert nobody in ended.err
    assert ask(gateway, "keys", "list", TELEMETRY_GATEWAY_LISTEN_ADMIN="127.0.0.1:0").code == 0
    config = tmp_path / "other.yaml"
    config.write_text(json.dumps({"listen": {"admin": nobody}}))
    assert nobody in ask(gateway, "keys", "list", "--config", str(config)).err


def test_a_gateway_without_an_admin_listener_is_recognised(tmp_path: Path) -> None:
    listen: dict[str, Any] = {"http": "127.0.0.1:0", "grpc": "off", "admin": "off", "service": "127.0.0.1:0"}
    with GatewayProcess(tmp_path, config={"listen": listen}) as gateway:
        assert not (gateway.data_dir / FILE).exists()
        ended = ask(gateway, "keys", "list")
    assert ended.code == 1
    assert "no admin listener" in ended.err


def test_a_token_that_is_not_the_gateways_is_answered_with_the_remedy(gateway: GatewayProcess) -> None:
    token = gateway.data_dir / "admin-token"
    token.write_text("another-token-of-24-chars\n")
    refused = [ask(gateway, *command) for command in (("keys", "list"), ("budgets", "list"))]
    token.unlink()
    missing = ask(gateway, "budgets", "list")
    assert {ended.code for ended in (*refused, missing)} == {1}
    assert all("does not take the token of admin-token" in ended.err for ended in refused)
    assert "restart the gateway, which makes it" in missing.err
    gateway.stop()
    gateway.start()
    assert ask(gateway, "budgets", "list").code == 0


def test_a_gateway_on_a_unix_socket_is_found(tmp_path: Path) -> None:
    listen = {"http": "127.0.0.1:0", "grpc": "off", "admin": f"unix:{tmp_path / 'a.sock'}", "service": "127.0.0.1:0"}
    with GatewayProcess(tmp_path, config={"listen": listen}) as gateway:
        assert [ask(gateway, *command).code for command in ASKED] == [0] * len(ASKED)


def test_what_is_written_is_how_it_is_reached_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for address, reached in (
        (TcpAddress("0.0.0.0", 1), TcpAddress("127.0.0.1", 1)),
        (TcpAddress("::", 2), TcpAddress("::1", 2)),
        (TcpAddress("192.0.2.1", 3), TcpAddress("192.0.2.1", 3)),
        (UnixAddress(Path("a.sock")), UnixAddress(tmp_path / "a.sock")),
    ):
        written = WrittenAddress(tmp_path, address)
        assert running_address(tmp_path) == reached
        written.close()
        assert running_address(tmp_path) is None
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["127.0.0.1:1\nnet:[1]\n", "127.0.0.1:1", "", "nonsense\n\n"])
def test_an_address_in_another_network_or_half_a_file_is_none(tmp_path: Path, text: str) -> None:
    written = WrittenAddress(tmp_path, TcpAddress("127.0.0.1", 1))
    (tmp_path / FILE).write_text(text)
    assert running_address(tmp_path) is None
    written.close()


@pytest.mark.parametrize("has_clients", [False, True], ids=["TLS", "mTLS"])
def test_a_listener_with_tls_is_found_and_trusted_by_its_own_certificate(tmp_path: Path, has_clients: bool) -> None:  # noqa: FBT001 - a parameter of the test
    authority = Authority(tmp_path / "tls")
    options = dict(authority.signed("gateway").files)
    if has_clients:
        options["client_ca_file"] = str(authority.pair.cert)
    gateway = GatewayProcess(tmp_path, config={"tls": {"admin": options}})
    with gateway:
        listed = ask(gateway, "keys", "list")
        assert (listed.code, listed.err) == (0, "")
        assert f"admin: https://{gateway.admin_url.removeprefix('http://')}" in gateway.log.read_text()
        named = ask(gateway, "keys", "list", TELEMETRY_GATEWAY_LISTEN_ADMIN=gateway.admin_url.removeprefix("http://"))
        assert named.code == 0, named.err
        if not has_clients:
            assert "Secure" in cookie_of(gateway), "a browser sends it over TLS alone"
        assert gateway.stop() == 0


def cookie_of(gateway: GatewayProcess) -> str:
    """Of a browser that logged in over TLS."""
    url = gateway.admin_url.replace("http://", "https://")
    token = (gateway.data_dir / "admin-token").read_text().strip()
    return httpx.post(f"{url}/login", data={"token": token}, verify=False).headers["Set-Cookie"]
