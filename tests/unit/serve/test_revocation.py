"""Requests of senders that are under way when their key is disabled, deleted or loses its scope:
on every route that takes a body, none reaches the intake.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from gateway.access.store import KeyStore
from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.common.http.http_server import TcpSite
from gateway.config.loader import load_config
from gateway.products.catalogue import SOURCES
from gateway.serve.assembly import build_receiver
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.http.server import make_server
from gateway.serve.listen import bound_port, runner_for
from gateway.serve.receiver import Receiver
from gateway.serve.routes import BodyRoute, Route
from tests.support.half_sent import HalfSent, Untouched, begin_all

BY: Final = "ops@example.com"
EVERY_SCOPE: Final = Fixed(frozenset(scope.name for scope in CATALOGUE))
OTHER_SCOPE: Final = Fixed(frozenset({"access-control:read_role"}))

Change = Callable[[KeyStore], Awaitable[object]]
CHANGES: Final[dict[str, tuple[Change, int]]] = {
    "disabled": (lambda keys: keys.disable("sender", by=BY), 401),
    "deleted": (lambda keys: keys.delete("sender", typed_name="sender"), 401),
    "loses its scope": (lambda keys: keys.edit("sender", by=BY, grant=OTHER_SCOPE), 403),
}


class Rig(NamedTuple):
    receiver: Receiver
    port: int
    intake: Untouched
    keys: KeyStore
    secret: str
    connections: Callable[[], int]
    """That are open."""

    async def begin(self, route: Route, method: str) -> HalfSent:
        path = route.path.replace("{token}", self.secret).replace("{", "").replace("}", "")
        headers = {"Authorization": self.secret, "Content-Type": "application/json"}
        return await HalfSent.begin(self.port, method, path, headers)

    def taking_bodies(self) -> list[tuple[Route, str]]:
        return [
            (route, method)
            for route in self.receiver.routes.routes
            for method in sorted(route.methods & {"POST", "PUT", "PATCH"})
        ]


@pytest.fixture
async def rig(tmp_path: Path, keys: KeyStore) -> AsyncIterator[Rig]:
    sources = {f"sources.{name}.url_token": True for name in SOURCES}
    config = load_config(None, {"data_dir": str(tmp_path / "data"), **sources}, {})
    intake = Untouched(takes_together=False)
    receiver = build_receiver(config, intake, KeyAuthenticator(keys))
    runner = runner_for(make_server(receiver))
    await runner.setup()
    await TcpSite(runner, "127.0.0.1", 0, receiver).start()
    made = await keys.create("sender", EVERY_SCOPE, by=BY)
    server = runner.server
    assert server is not None
    yield Rig(receiver, bound_port(runner), intake, keys, made.secret.reveal(), lambda: len(server.connections))
    await runner.cleanup()


async def statuses_after(rig: Rig, change: Change | None) -> dict[str, int]:
    """Each request -> how it is answered, where *change* comes when its body is half sent."""
    requests = rig.taking_bodies()
    begun = await begin_all([partial(rig.begin, route, method) for route, method in requests])
    if change is not None:
        await change(rig.keys)
    answers = await asyncio.gather(*(each.finish() for each in begun))
    return {f"{method} {route.path}": status for (route, method), status in zip(requests, answers, strict=True)}


async def test_with_its_key_as_it_was_every_request_reaches_the_intake(rig: Rig) -> None:
    """Else the tests below would show nothing."""
    found = await statuses_after(rig, None)
    assert len(found) > 150
    assert len(rig.intake.asked) == len(found)
    assert set(found.values()) == {503}


@pytest.mark.parametrize(("change", "status"), CHANGES.values(), ids=CHANGES)
async def test_no_request_is_carried_out_whose_key_changed_while_its_body_came(
    rig: Rig, change: Change, status: int
) -> None:
    found = await statuses_after(rig, change)
    assert {route: each for route, each in found.items() if each != status} == {}
    assert rig.intake.asked == []


@pytest.mark.parametrize(("change", "status"), CHANGES.values(), ids=CHANGES)
async def test_a_request_whose_head_repeats_the_one_before_is_refused_as_well(
    rig: Rig, change: Change, status: int
) -> None:
    """Such a head is known again without the parser."""
    route = next(each for each in rig.receiver.routes.routes if isinstance(each, BodyRoute))
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
    head = (
        f"POST {route.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {rig.secret}\r\n"
        "Content-Type: application/x-protobuf\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    ).encode()
    for known in range(2):
        writer.write(head + b"\n\x00")
        assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == b"503"
        await reader.read(1 << 16)
        assert len(rig.intake.asked) == known + 1
    writer.write(head + b"\n")
    assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == b"100"
    await change(rig.keys)
    writer.write(b"\x00")
    assert (await reader.readuntil(b"\r\n\r\n")).split()[1] == str(status).encode()
    assert len(rig.intake.asked) == 2
    writer.close()
