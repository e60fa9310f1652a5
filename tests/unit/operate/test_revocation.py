"""Requests to the admin listener that are under way when their key is disabled, deleted or loses
its scope, or their session ends: no operation is carried out, and no answer goes out.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

import gateway.operate
from exporters.secret import Secret
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.common.http.connection_limits import OperatorLimits
from gateway.common.http.http_server import TcpSite
from gateway.config.values import TcpAddress
from gateway.observability.tap import Tap
from gateway.operate import service_keys
from gateway.operate.guard import Row
from gateway.operate.mcp.route import MCP_ROUTES
from gateway.operate.operation import AnyOperation, OperationCall
from gateway.operate.pages import PAGES
from gateway.operate.registry import OPERATIONS, AdminStores
from gateway.operate.server import SITE, admin_app
from gateway.operate.session import COOKIE, AdminAccess
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.listen import bound_port, listen, runner_for
from spool.settling import Outcomes
from tests.support.half_sent import HalfSent, Untouched, begin_all
from tests.support.polling import until_true
from tests.unit.operate.test_admin import figures, pages_of

TOKEN: Final = Secret("admin-token-of-the-test")
BY: Final = "ops@example.com"
EVERY_SCOPE: Final = Fixed(frozenset(scope.name for scope in CATALOGUE))
OTHER_SCOPE: Final = Fixed(frozenset({"access-control:read_role"}))
EVERY_ROW: Final[tuple[Row, ...]] = (*PAGES, *SITE, *MCP_ROUTES, *OPERATIONS)
ROWS: Final = tuple(row for row in EVERY_ROW if row.open is None)
STREAMS: Final = {"/live", "/v2/tap"}
FORM: Final = b"name=x&text=x"


@dataclass
class Rig:
    keys: KeyStore
    access: AdminAccess
    port: int
    store: Untouched
    carried_out: list[str] = field(default_factory=list)
    body_timeout_s: float = 60.0
    unforeseen: int = 0
    may_end: asyncio.Event | None = None
    """Operations wait for it, where it is set."""

    def session(self) -> dict[str, str]:
        """The headers of a page that an operator has open."""
        code = self.access.login_path().partition("=")[2]
        return {"Cookie": f"{COOKIE}={self.access.session_for_code(code)}", "Origin": f"http://127.0.0.1:{self.port}"}

    def end(self, session: dict[str, str]) -> None:
        self.access._sessions.use_up(session["Cookie"].partition("=")[2])

    async def make_key(self) -> dict[str, str]:
        made = await self.keys.create("reader", EVERY_SCOPE, by=BY)
        return {"Authorization": made.secret.reveal()}

    def note_unforeseen(self) -> None:
        self.unforeseen += 1

    def recording(self, operation: AnyOperation) -> AnyOperation:
        async def handler(_: object, call: OperationCall[Any]) -> dict[str, Any]:
            self.carried_out.append(operation.id)
            if self.may_end is not None:
                await self.may_end.wait()
            return {}

        return replace(operation, handler=handler, body=None, note=None)

    async def half_sent(self, row: Row, headers: dict[str, str]) -> HalfSent:
        path = re.sub(r"\{\w+\}", "1", row.path)
        is_form = isinstance(row, tuple) and row in SITE
        body, kind = (FORM, "application/x-www-form-urlencoded") if is_form else (b"{}", "application/json")
        return await HalfSent.begin(self.port, row.method, path, {"Content-Type": kind, **headers}, body)


class Silent:
    """A spool in which nothing settles."""

    async def settled_seq(self, lane: str) -> int:
        return 0

    async def settled_outcomes(self, *_: object, **__: object) -> Outcomes:
        return Outcomes([], 0, is_more=False, skipped=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(AdminStores):
    """Every operation of the registry, of which each call is recorded."""

    rig: Rig

    def bound(self) -> Iterator[tuple[AnyOperation, Any]]:
        return ((self.rig.recording(operation), None) for operation in OPERATIONS)


@pytest.fixture
async def rig(keys: KeyStore) -> AsyncIterator[Rig]:
    """Pages and operations whose stores are `Untouched`, behind the real guards."""
    access, store = AdminAccess(TOKEN, lambda: 1000.0, os.urandom), Untouched()
    made = Rig(keys, access, 0, store)
    names = ("keys", "service_keys", "dead_letters", "devices", "insights", "budgets", "views", "senders", "usage")
    stores = Recorded(status=figures, rig=made, **dict.fromkeys(names, store))  # type: ignore[arg-type]  # nothing is to be asked of it
    parts = pages_of(access, gate=KeyAuthenticator(keys), tap=Tap(Silent()), note_unforeseen=made.note_unforeseen)  # type: ignore[arg-type]  # no chunk settles
    app = admin_app(parts, stores, loopback=True, has_mcp=True, body_timeout_s=lambda: made.body_timeout_s)
    async with AsyncExitStack() as stack:
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        assert isinstance(listener.address, TcpAddress)
        stack.push_async_callback(listener.close)
        made.port = listener.address.port
        yield made


async def statuses_after(
    rig: Rig, rows: Sequence[Row], headers: dict[str, str], change: Callable[[], Awaitable[object]] | None
) -> dict[str, int]:
    """Each request -> how it is answered, where *change* comes when its body is half sent."""
    begun = await begin_all([partial(rig.half_sent, row, headers) for row in rows])
    if change is not None:
        await change()
    answers = await asyncio.gather(*(each.finish() for each in begun))
    return {f"{row.method} {row.path}": status for row, status in zip(rows, answers, strict=True)}


async def test_with_its_credential_as_it_was_every_request_is_carried_out(rig: Rig) -> None:
    """Else the tests below would show nothing."""
    rows = [row for row in ROWS if row.path not in {*STREAMS, "/logout"}]
    found = await statuses_after(rig, rows, rig.session(), None)
    assert [route for route, status in found.items() if status in {401, 403}] == []
    assert sorted(rig.carried_out) == sorted(operation.id for operation in OPERATIONS if operation.open is None)
    assert rig.store.asked


async def test_nothing_is_carried_out_for_a_session_that_ended_while_the_body_came(rig: Rig) -> None:
    session = rig.session()

    async def end() -> None:
        rig.end(session)

    found = await statuses_after(rig, ROWS, session, end)
    assert {route: status for route, status in found.items() if status != 401} == {}
    assert (rig.carried_out, rig.store.asked) == ([], [])


CHANGES: Final[dict[str, tuple[Callable[[KeyStore], Awaitable[object]], int]]] = {
    "disabled": (lambda keys: keys.disable("reader", by=BY), 401),
    "deleted": (lambda keys: keys.delete("reader", typed_name="reader"), 401),
    "loses its scope": (lambda keys: keys.edit("reader", by=BY, grant=OTHER_SCOPE), 403),
}


@pytest.mark.parametrize(("change", "status"), CHANGES.values(), ids=CHANGES)
async def test_nothing_is_carried_out_for_a_key_that_changed_while_the_body_came(
    rig: Rig, change: Callable[[KeyStore], Awaitable[object]], status: int
) -> None:
    rows = [row for row in ROWS if row.scope is not None]
    assert {row.path for row in rows} >= {"/mcp", "/v2/budgets", "/v2/insights/{insight_id}/comments"}
    found = await statuses_after(rig, rows, await rig.make_key(), lambda: change(rig.keys))
    assert {route: each for route, each in found.items() if each != status} == {}
    assert rig.carried_out == []


@pytest.mark.parametrize("way", ["session", "key"])
async def test_no_answer_of_what_reads_goes_out_once_its_credential_is_revoked(rig: Rig, way: str) -> None:
    """The operation runs when it is revoked."""
    rig.may_end = asyncio.Event()
    reads = [each for each in OPERATIONS if each.method == "GET" and each.open is None]
    if way == "key":
        reads, headers = [each for each in reads if each.scope is not None], await rig.make_key()
    else:
        headers = rig.session()
    async with aiohttp.ClientSession(headers=headers) as client:
        asked = [asyncio.create_task(read(client, rig.port, re.sub(r"\{\w+\}", "1", each.path))) for each in reads]
        await until_true(lambda: len(rig.carried_out) == len(reads), timeout_s=20, what="each operation runs")
        if way == "key":
            await rig.keys.disable("reader", by=BY)
        else:
            rig.end(headers)
        rig.may_end.set()
        answers = await asyncio.gather(*asked)
    assert {status for status, _ in answers} == {401}
    assert all(text.startswith(b'{"error":{"message":"the ') for _, text in answers)


async def read(client: aiohttp.ClientSession, port: int, path: str) -> tuple[int, bytes]:
    async with client.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, await response.read()


async def test_a_change_that_began_in_time_is_answered_as_it_was_carried_out(rig: Rig) -> None:
    rig.may_end, session = asyncio.Event(), rig.session()
    async with aiohttp.ClientSession(headers=session) as client:
        asked = asyncio.create_task(client.post(f"http://127.0.0.1:{rig.port}/v2/views", json={}))
        await until_true(lambda: rig.carried_out == ["createView"], timeout_s=20, what="it is made")
        rig.end(session)
        rig.may_end.set()
        assert (await asked).status == 201


@pytest.mark.parametrize(("tool", "status"), [("read_view", 401), ("change_view", 200)])
@pytest.mark.parametrize("way", ["session", "key"])
async def test_a_tool_is_answered_where_it_changed_something_and_else_not(
    rig: Rig, way: str, tool: str, status: int
) -> None:
    """The operation runs when the credential is revoked."""
    rig.may_end = asyncio.Event()
    headers = await rig.make_key() if way == "key" else rig.session()
    call = {"name": tool, "arguments": {"view_id": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accepted = {"Accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession(headers=headers | accepted) as client:
        asked = asyncio.create_task(client.post(f"http://127.0.0.1:{rig.port}/mcp", json=message))
        await until_true(lambda: rig.carried_out != [], timeout_s=20, what="it is carried out")
        if way == "key":
            await rig.keys.disable("reader", by=BY)
        else:
            rig.end(headers)
        rig.may_end.set()
        answer = await asked
    assert len(rig.carried_out) == 1
    assert answer.status == status


async def test_the_commands_listener_of_a_service_that_runs_alone_checks_again_too(keys: KeyStore) -> None:
    access, store = AdminAccess(TOKEN, lambda: 1000.0, os.urandom), Untouched()
    runner = runner_for(service_keys.key_app(store, access))  # type: ignore[arg-type]  # nothing is to be asked of it
    await runner.setup()
    await TcpSite(runner, "127.0.0.1", 0, OperatorLimits("test")).start()
    rig = Rig(keys, access, bound_port(runner), store)
    session = rig.session()

    async def end() -> None:
        rig.end(session)

    found = await statuses_after(rig, service_keys.OPERATIONS, session, end)
    assert (set(found.values()), store.asked) == ({401}, [])
    await runner.cleanup()


async def test_a_body_that_trickles_ends_the_request_and_has_no_effect(rig: Rig) -> None:
    rig.body_timeout_s = 0.05
    rows = [row for row in EVERY_ROW if row.method != "GET"]
    assert {"/login", "/mcp", "/v2/keys", "/keys", "/v2/backup"} <= {row.path for row in rows}
    begun = await begin_all([partial(rig.half_sent, row, rig.session()) for row in rows])
    answers = await asyncio.gather(*(each.answer() for each in begun))
    assert {status for status, _ in answers} == {503}
    assert all(b"the body did not arrive in time" in rest for _, rest in answers)
    assert all(b"Connection: close" in rest for _, rest in answers)
    assert (rig.carried_out, rig.store.asked) == ([], [])


@pytest.mark.parametrize("path", sorted(STREAMS))
async def test_a_stream_ends_with_the_session_that_opened_it(rig: Rig, path: str) -> None:
    session = rig.session()
    async with (
        aiohttp.ClientSession(headers=session) as client,
        client.get(f"http://127.0.0.1:{rig.port}{path}") as response,
    ):
        assert response.status == 200
        rig.end(session)
        async with asyncio.timeout(20):
            while await response.content.readline():
                pass


def test_every_stream_is_named_above() -> None:
    folder = Path(gateway.operate.__file__).parent
    found = {path.name for path in folder.rglob("*.py") if "web.StreamResponse(" in path.read_text()}
    assert found == {"tap.py", "live.py", "to_owner.py"}, "what to_owner.py passes on ends with the owner's stream"
