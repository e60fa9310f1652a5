"""What a gateway of a cell passes on to the owner, for operators: nobody gains by it."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry

from gateway.access.operators import Operators
from gateway.access.store import KeyStore
from gateway.common.contract.reach import reach_of
from gateway.common.contract.scopes import Fixed
from gateway.config.model import OperatorIdentity
from gateway.config.values import TcpAddress
from gateway.operate.keys import KeyRequests
from gateway.operate.registry import AdminStores
from gateway.operate.relayed_person import HEADER, RelayedPerson
from gateway.operate.server import admin_app
from gateway.operate.session import AdminAccess
from gateway.operate.site import live
from gateway.operate.site.live import Live
from gateway.operate.to_owner import Passing, member_app
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.http.to_owner import OwnerClient
from gateway.serve.listen import listen, runner_for
from tests.support.polling import until_true
from tests.unit.operate.test_admin import figures, pages_of
from tests.unit.operate.test_keys import TOKEN

EMAIL = "X-Forwarded-Email"
NEW = {"name": "sender", "managed": ["send-ai-telemetry"]}
OPERATORS = Operators({"ops@example.com": "operator", "reader@example.com": "viewer"})
PERSON = RelayedPerson(b"a secret of the cell")
TRUSTING, TRUSTING_OTHERS = (OperatorIdentity(header=EMAIL, trusted_proxies=(each,)) for each in ("127.0.0.0/8", "::1"))
AUTHORIZED = {"Authorization": TOKEN.reveal()}


async def ready() -> None:
    return None


@dataclass
class Edge:
    stack: AsyncExitStack
    client: aiohttp.ClientSession
    keys: KeyStore
    live: Live
    """The owner's."""
    owner_at: str | None = None
    port: int = 0

    async def listening(self, app: web.Application) -> str:
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        self.stack.push_async_callback(listener.close)
        return str(listener.address)

    async def begin(self, options: OperatorIdentity) -> None:
        owner = await self.stack.enter_async_context(OwnerClient(lambda: self.owner_at, None))
        running = asyncio.create_task(owner.run())
        self.stack.callback(running.cancel)
        access = AdminAccess(TOKEN, lambda: 1000.0, os.urandom, viewers=self.keys.viewer_tokens())
        gate = KeyAuthenticator(self.keys, divides=True)
        app = member_app(owner, access, gate, CollectorRegistry(), ready, Passing(options, PERSON), loopback=True)
        self.port = int((await self.listening(app)).rpartition(":")[2])

    async def make_key(self, *headers: tuple[str, str]) -> tuple[int, Any]:
        sent = CIMultiDict([*AUTHORIZED.items(), *headers])
        url = f"http://127.0.0.1:{self.port}/v2/keys"
        async with self.client.post(url, json=NEW, headers=sent) as answer:
            return answer.status, await answer.json()

    async def say(self, head: str) -> bytes:
        """The first bytes of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(head.replace("\n", "\r\n").encode())
        answer = await reader.read(1000)
        writer.close()
        return answer

    async def served(self, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> str:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self.stack.callback(server.close)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
async def edge(keys: KeyStore) -> AsyncIterator[Edge]:
    """Before an owner that knows two operators."""
    async with AsyncExitStack() as stack:
        access = AdminAccess(TOKEN, lambda: 1000.0, os.urandom)
        parts = replace(pages_of(access), operators=OPERATORS, identity=PERSON.identity)
        stores = AdminStores(status=figures, keys=KeyRequests(keys, operators=OPERATORS))
        app = admin_app(parts, stores, loopback=False)
        client = await stack.enter_async_context(aiohttp.ClientSession())
        made = Edge(stack, client, keys, app[live.LIVE])
        made.owner_at = await made.listening(app)
        yield made


async def test_a_person_whom_the_proxy_names_has_the_same_role_at_the_owner(edge: Edge) -> None:
    await edge.begin(TRUSTING)
    assert (await edge.make_key((EMAIL, "reader@example.com")))[0] == 403
    status, made = await edge.make_key((EMAIL, "ops@example.com"))
    assert (status, made["created_by"]) == (201, "ops@example.com")


async def test_the_groups_that_the_proxy_states_are_passed_on_and_what_a_client_states_is_not() -> None:
    for options, groups in ((TRUSTING, ("finops", "all")), (TRUSTING_OTHERS, ())):
        passing = Passing(options, PERSON, "X-Groups")
        sent = [(EMAIL, "ann@example.com"), ("x-groups", "finops, all"), (HEADER, "forged"), ("X-Other", "kept")]
        request: Any = SimpleNamespace(remote="127.0.0.1", transport=None, headers=CIMultiDict(sent))
        passed: Any = SimpleNamespace(headers=passing.headers(request))
        assert (PERSON.groups(passed), "X-Groups" in passed.headers, passed.headers["X-Other"]) == (
            groups,
            False,
            "kept",
        )


@pytest.mark.parametrize("name", [EMAIL, HEADER])
async def test_a_client_that_names_a_person_itself_is_not_believed(edge: Edge, name: str) -> None:
    """Not even where it saw what a gateway stated."""
    await edge.begin(TRUSTING_OTHERS)
    status, refused = await edge.make_key((name, PERSON.stated("ops@example.com")))
    assert (status, refused["error"]["message"][:29]) == (400, "by: 'operator' is no operator")


async def test_a_limited_credential_gets_no_metrics_of_an_edge(edge: Edge) -> None:
    """They are of all teams; callers without a credential on loopback see them."""
    await edge.begin(TRUSTING)
    seen, by = reach_of({"team": ["checkout"]}), "ops@example.com"
    token = (await edge.keys.viewer_tokens().create("leads", seen, by=by)).secret.reveal()
    key = (await edge.keys.create("reader", Fixed(frozenset({"views:read_views"})), by=by, reach=seen)).secret.reveal()
    for shown, status in ((token, 403), (key, 403), (TOKEN.reveal(), 200), ("", 200)):
        headers = {"Authorization": shown} if shown else {}
        async with edge.client.get(f"http://127.0.0.1:{edge.port}/metrics", headers=headers) as answer:
            assert answer.status == status


async def test_the_owner_believes_only_gateways_of_the_cell() -> None:
    for value, person in (
        (PERSON.stated("ops@example.com"), "ops@example.com"),
        (RelayedPerson(b"another").stated("ops@example.com"), None),
        ("b3BzQGV4YW1wbGUuY29t.", None),
        ("no base64.é", None),
    ):
        request: Any = SimpleNamespace(headers={HEADER: value})
        assert PERSON.identity(request) == person


@pytest.mark.parametrize("person", ['["ops@example.com", "admins"]', '["ops@example.com"]', "[ops", "["])
@pytest.mark.parametrize("groups", [(), ("readers",)])
def test_nobody_is_somebody_else_or_in_a_group_by_the_name_that_they_have(person: str, groups: tuple[str, ...]) -> None:
    request: Any = SimpleNamespace(headers={HEADER: PERSON.stated(person, groups)})
    assert PERSON.identity(request) == person
    assert PERSON.groups(request) == groups


async def test_a_whole_url_names_no_other_server(edge: Edge) -> None:
    """Neither in the line of a request, as of a proxy, nor as the target of CONNECT."""
    asked: list[bytes] = []

    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.close()

    at = await edge.served(other)
    await edge.begin(TRUSTING)
    head = f"\nHost: 127.0.0.1\nAuthorization: {TOKEN.reveal()}\n\n"
    assert (await edge.say(f"GET http://{at}/v2/keys HTTP/1.1{head}")).startswith(b"HTTP/1.1 200 ")
    for line in (f"CONNECT {at} HTTP/1.1", f"CONNECT @{at} HTTP/1.1", "OPTIONS * HTTP/1.1"):
        assert b"HTTP/1.1 4" in await edge.say(line + head), line
    assert asked == []


async def test_an_owner_that_never_answers_is_not_waited_for_once_there_is_another(edge: Edge) -> None:
    is_asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_asked.set()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    alive, edge.owner_at = edge.owner_at, await edge.served(silent)
    await edge.begin(TRUSTING)
    asking = asyncio.create_task(edge.make_key())
    await is_asked.wait()
    edge.owner_at = alive
    async with asyncio.timeout(10):
        status, answer = await asking
    assert (status, answer["error"]["message"]) == (503, "the owner of the cell cannot take it now: it does not answer")
    assert (await edge.make_key((EMAIL, "ops@example.com")))[0] == 201


async def test_an_answer_that_breaks_off_does_not_look_whole(edge: Edge) -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        await writer.drain()
        writer.close()

    edge.owner_at = await edge.served(half)
    await edge.begin(TRUSTING)
    async with edge.client.get(f"http://127.0.0.1:{edge.port}/v2/calls", headers=AUTHORIZED) as answer:
        with pytest.raises(aiohttp.ClientError):
            await answer.read()


def test_a_session_that_began_over_tls_stays_there() -> None:
    answer: Any = SimpleNamespace(status=303, headers=CIMultiDict({"Set-Cookie": "s=1; HttpOnly; Path=/"}))
    for is_secure, cookie in ((True, "s=1; HttpOnly; Path=/; Secure"), (False, "s=1; HttpOnly; Path=/")):
        request: Any = SimpleNamespace(secure=is_secure)
        assert Passing.response(request, answer).headers["Set-Cookie"] == cookie


async def test_a_silent_stream_ends_at_the_owner_when_its_client_leaves(edge: Edge) -> None:
    """Long before the stream has something to write, by which one would notice otherwise."""
    await edge.begin(TRUSTING)
    async with edge.client.get(f"http://127.0.0.1:{edge.port}/live", headers=AUTHORIZED) as answer:
        assert (answer.status, await answer.content.readline()) == (200, b"retry: 5000\n")
        assert edge.live.streams == 1
    await until_true(lambda: edge.live.streams == 0, timeout_s=live.HEARTBEAT_S / 2, what="the stream ends")
