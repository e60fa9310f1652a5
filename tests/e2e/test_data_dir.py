"""A data directory named by mistake, a port that is taken, and the rights to Unix
sockets, as a real gateway has them.
"""

import os
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.support.commands import run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A Unix socket's path has room for some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def open_umask() -> Iterator[None]:
    """As some have it who share everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def names_in(folder: Path) -> list[str]:
    return [found.name for found in folder.iterdir()]


@pytest.mark.parametrize(
    "command", [("run",), ("keys", "create", "--name", "sender", "--managed", "send-ai-telemetry")]
)
def test_a_command_on_a_folder_that_many_use_changes_nothing_there(tmp_path: Path, command: tuple[str, ...]) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    ended = run_telemetry_gateway(*command, "--data-dir", str(shared))
    assert ended.code == 1
    assert "many use it" in ended.err
    assert "name a folder of the gateway's own" in ended.err
    assert "Traceback" not in ended.err
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777
    assert list(shared.iterdir()) == []


@pytest.mark.usefixtures("open_umask")
async def test_a_unix_socket_has_its_rights_whatever_the_umask_is(tmp_path: Path, short_path: Path) -> None:
    http, admin = short_path / "http.sock", short_path / "admin.sock"
    listen = {"http": f"unix:{http}", "grpc": "off", "admin": f"unix:{admin}", "service": "127.0.0.1:0"}
    with GatewayProcess(tmp_path, config={"listen": listen}) as gateway:
        assert stat.S_IMODE(http.stat().st_mode) == 0o660
        assert stat.S_IMODE(admin.stat().st_mode) == 0o600
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(http))) as session:
            json = {"Content-Type": "application/json"}
            async with session.post("http://localhost/v1/traces", data=b'{"resourceSpans":[]}', headers=json) as answer:
                assert answer.status == 200
        gateway.kill()
        gateway.restart()
        assert stat.S_IMODE(admin.stat().st_mode) == 0o600
        assert gateway.stop() == 0
        assert names_in(short_path) == []


@pytest.mark.parametrize(
    ("command", "option"),
    [(("run", "--listen-http"), "listen.http"), (("run", "--listen-grpc"), "listen.grpc"), (("run", "--listen-admin"), "listen.admin"), (("service", "run", "--listen"), "--listen")],
)  # fmt: skip
def test_a_port_that_is_taken_is_reported_with_its_option_and_the_remedy(
    tmp_path: Path, command: tuple[str, ...], option: str
) -> None:
    others = {f"TELEMETRY_GATEWAY_LISTEN_{name}": "127.0.0.1:0" for name in ("HTTP", "GRPC", "ADMIN", "SERVICE")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run_telemetry_gateway(*command, address, "--data-dir", str(tmp_path / "data"), environ=others)
    assert (ended.code, "Traceback" in ended.err) == (1, False)
    assert f"Error: {option}: {address} cannot be listened on: Address already in use" in ended.err
    assert "; stop what listens there, or set another address" in ended.err
