"""Socket files: taken from no live server, and none but one's own removed."""
# ruff: noqa: ASYNC240 - a look at a socket file waits for nothing

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from grpc import aio

from gateway.cli.start_checks import bind_once
from gateway.common.contract.errors import CannotStart
from gateway.config.values import UnixAddress
from tests.support.grpc_calls import called
from tests.support.running_gateway import running_gateway

LISTENERS = ["http", "grpc", "admin"]


@pytest.fixture
def path() -> Iterator[Path]:
    """Short, as the path of a socket has to be."""
    folder = Path(mkdtemp(prefix="gw"))
    yield folder / "s"
    shutil.rmtree(folder)


@pytest.fixture
async def live(path: Path) -> AsyncIterator[list[bytes]]:
    """Another server at *path*: what it was sent."""
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read())
        writer.close()

    async with await asyncio.start_unix_server(hear, path):
        yield heard


@pytest.mark.parametrize("listener", LISTENERS)
async def test_the_socket_of_a_live_server_is_left_to_it(
    tmp_path: Path, path: Path, live: list[bytes], listener: str
) -> None:
    before = path.stat().st_ino
    with pytest.raises(CannotStart, match=rf"listen\.{listener}: unix:.*stop what listens there, or set another"):
        async with running_gateway(tmp_path, **{f"listen.{listener}": f"unix:{path}"}):
            pass
    with pytest.raises(CannotStart, match=rf"listen\.{listener}: unix:.*a server answers there; stop it, or set ano"):
        await bind_once(f"listen.{listener}", UnixAddress(path))
    assert path.stat().st_ino == before
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"still there")
    writer.write_eof()
    assert await reader.read() == b""
    assert b"still there" in live
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("listener", LISTENERS)
async def test_the_socket_of_a_killed_process_is_replaced_and_that_of_a_successor_stays(
    tmp_path: Path, path: Path, listener: str
) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))
    successor = path.with_name("successor")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(successor))
        async with running_gateway(tmp_path, **{f"listen.{listener}": f"unix:{path}"}):
            if listener == "grpc":
                async with aio.insecure_channel(f"unix:{path}") as channel:
                    assert await called(channel, b"") == b""
            else:
                _, writer = await asyncio.open_unix_connection(path)
                writer.close()
                await writer.wait_closed()
            assert {each.name for each in path.parent.iterdir()} == {"s", "successor"}
            successor.replace(path)
        assert path.is_socket()
    path.unlink()


@pytest.mark.parametrize("listener", LISTENERS)
async def test_another_file_is_left_alone(tmp_path: Path, path: Path, listener: str) -> None:
    path.write_text("kept")
    with pytest.raises(CannotStart, match=rf"listen\.{listener}: unix:"):
        async with running_gateway(tmp_path, **{f"listen.{listener}": f"unix:{path}"}):
            pass
    assert path.read_text() == "kept"
