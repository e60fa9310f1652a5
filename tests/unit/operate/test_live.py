"""`GET /live`: events when figures change, bounded, until the session or the gateway ends."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from exporters.secret import Secret
from gateway.config.values import TcpAddress
from gateway.observability.metrics import Status
from gateway.operate.registry import AdminStores
from gateway.operate.role import Role
from gateway.operate.server import admin_app
from gateway.operate.session import COOKIE, SESSION_LIFE_S, AdminAccess
from gateway.operate.site import live
from gateway.operate.site.live import LOOK_S, Live
from gateway.serve.listen import Listener, listen, runner_for
from tests.support.polling import HANGS_S, until_true
from tests.unit.operate.test_admin import figures, lane, pages_of

TOKEN = Secret("admin-token-of-the-test")


@dataclass
class Rig:
    url: str
    listener: Listener
    access: AdminAccess
    streams: Live
    status: Status
    now_s: float = 1000.0

    def cookie(self, role: Role = Role.VIEWER) -> dict[str, str]:
        path = self.access.login_path(role)
        return {"Cookie": f"{COOKIE}={self.access.session_for_code(path.partition('=')[2])}"}


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    monkeypatch.setattr(live, "LOOK_S", 0.02)
    made = Rig("", None, None, None, figures())  # type: ignore[arg-type]  # set below
    made.access = AdminAccess(TOKEN, lambda: made.now_s, os.urandom)
    parts = pages_of(made.access, status=lambda: made.status)
    app = admin_app(parts, AdminStores(status=lambda: made.status), loopback=True)
    made.streams = app[live.LIVE]
    listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
    assert listener is not None
    made.listener, made.url = listener, f"http://{listener.address}"
    yield made
    await listener.close()


async def event(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The fields of the next event; empty at the end of the stream, and of a comment."""
    async with asyncio.timeout(HANGS_S):
        lines = []
        while line := (await response.content.readline()).decode().rstrip("\n"):
            lines.append(line)
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines) if name}


async def test_an_event_comes_when_figures_change_and_not_before(rig: Rig) -> None:
    async with aiohttp.ClientSession(headers=rig.cookie()) as client, client.get(rig.url + "/live") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert (await event(response)).keys() == {"retry"}
        rig.status = figures(lanes={"ai_telemetry": lane(oldest_pending_age_s=99.0)})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(response.content.readline(), 0.3)
        rig.status = figures(lanes={"ai_telemetry": lane(state="held")})
        assert (await event(response))["event"] == "change"


def test_figures_are_looked_at_once_for_all_streams() -> None:
    now_s, looks = 0.0, 0

    def status() -> object:
        nonlocal looks
        looks += 1
        return {"looks": looks}

    streams = Live(status, lambda: now_s)
    assert {streams.version() for _ in range(100)} == {1}
    now_s += LOOK_S
    assert {streams.version() for _ in range(100)} == {2}
    assert looks == 2


async def test_a_silent_stream_has_a_heartbeat(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.0)
    async with aiohttp.ClientSession(headers=rig.cookie()) as client, client.get(rig.url + "/live") as response:
        assert await event(response) != {}
        assert await response.content.readline() == b": still here\n"


async def test_streams_are_bounded_and_leave_their_place(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_STREAMS", 1)
    monkeypatch.setattr(live, "HEARTBEAT_S", float("inf"))
    async with aiohttp.ClientSession(headers=rig.cookie()) as client:
        first = await client.get(rig.url + "/live")
        async with client.get(rig.url + "/live") as second:
            assert second.status == 503
        first.close()
        await until_true(lambda: not rig.streams.streams, what="the place of who left")
        async with client.get(rig.url + "/live") as third:
            assert third.status == 200


@pytest.mark.parametrize("how", ["logout", "end of the session", "stop"])
async def test_a_stream_ends_with_its_session_and_with_the_gateway(rig: Rig, how: str) -> None:
    cookie = rig.cookie()
    async with aiohttp.ClientSession(headers=cookie) as client, client.get(rig.url + "/live") as response:
        await event(response)
        if how == "logout":
            own = {"Origin": rig.url}
            async with client.post(rig.url + "/logout", headers=own, allow_redirects=False) as left:
                assert left.status == 303
        elif how == "stop":
            async with asyncio.timeout(HANGS_S):
                await rig.listener.close()
        else:
            rig.now_s += SESSION_LIFE_S
        assert await event(response) == {}
        assert response.content.at_eof()


async def test_without_a_login_there_is_no_stream(rig: Rig) -> None:
    async with aiohttp.ClientSession() as client, client.get(rig.url + "/live") as response:
        assert response.status == 401
