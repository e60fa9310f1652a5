"""Who changes a key, over the admin listener: as stated, or as the connection names them."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from gateway.access.operators import Operators
from gateway.access.store import KeyStore
from gateway.common.contract.errors import Unauthenticated
from gateway.config.model import OperatorIdentity
from gateway.config.values import TcpAddress
from gateway.operate.identity import email_in, identity_reader
from gateway.operate.keys import KeyRequests
from gateway.operate.registry import AdminStores
from gateway.operate.server import admin_app
from gateway.operate.session import AdminAccess
from gateway.serve.listen import listen, runner_for
from tests.unit.operate.test_admin import figures, pages_of
from tests.unit.operate.test_keys import TOKEN

EMAIL = "X-Forwarded-Email"
NEW = {"name": "sender", "managed": ["send-ai-telemetry"]}
OPERATORS = Operators({"ops@example.com": "operator", "reader@example.com": "viewer"})


@pytest.fixture
async def ask(keys: KeyStore) -> AsyncIterator[Any]:
    options = OperatorIdentity(header=EMAIL, trusted_proxies=("127.0.0.0/8",))
    parts = replace(
        pages_of(AdminAccess(TOKEN, lambda: 1000.0, os.urandom)),
        operators=OPERATORS,
        identity=identity_reader(options),
    )
    app = admin_app(parts, AdminStores(status=figures, keys=KeyRequests(keys, operators=OPERATORS)), loopback=True)
    async with AsyncExitStack() as stack:
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        stack.push_async_callback(listener.close)
        client = await stack.enter_async_context(aiohttp.ClientSession())

        async def ask(method: str, body: object = None, *emails: str, path: str = "/v2/keys") -> tuple[int, Any]:
            headers = CIMultiDict([("Authorization", TOKEN.reveal()), *((EMAIL, email) for email in emails)])
            sent = {"json": body} if path == "/v2/keys" else {"data": body}
            async with client.request(method, f"http://{listener.address}{path}", headers=headers, **sent) as answer:
                return answer.status, await (answer.json() if path == "/v2/keys" else answer.text())

        yield ask


async def test_a_key_is_made_by_an_operator_whom_the_proxy_or_the_body_names(ask: Any) -> None:
    status, made = await ask("POST", NEW, "ops@example.com")
    assert (status, made["created_by"]) == (201, "ops@example.com")
    status, made = await ask("POST", NEW | {"name": "second", "by": "ops@example.com"})
    assert (status, made["updated_by"]) == (201, "ops@example.com")
    status, refused = await ask("POST", NEW | {"name": "third"})
    assert status == 400
    assert refused["error"]["message"].startswith("by: 'operator' is no operator")


async def test_what_the_proxy_states_is_the_persons_role_and_no_other_is_let_in(ask: Any) -> None:
    assert (await ask("POST", NEW, "reader@example.com"))[0] == 403
    assert (await ask("GET", None, "reader@example.com"))[0] == 403, "a viewer reads no keys"
    assert (await ask("GET", None, "stranger@example.com"))[0] == 403
    assert (await ask("GET", None, "ops@example.com", "reader@example.com"))[0] == 401
    assert (await ask("POST", NEW | {"by": "reader@example.com"}, "ops@example.com"))[0] == 400


async def test_the_page_asks_who_it_is_where_the_connection_does_not_state_it(ask: Any) -> None:
    choice = "<option>ops@example.com</option>"
    status, form = await ask("GET", path="/keys/new")
    assert (status, choice in form, "reader@example.com" in form) == (200, True, False)
    status, form = await ask("GET", None, "ops@example.com", path="/keys/new")
    assert (status, choice in form) == (200, False)
    fields = {"name": "by the page", "kind": "managed", "managed": "send-ai-telemetry", "by": "ops@example.com"}
    status, made = await ask("POST", fields, path="/keys")
    assert status == 200, made
    (key,) = (await ask("GET"))[1]["keys"]
    assert (key["name"], key["created_by"]) == ("by the page", "ops@example.com")
    status, shown = await ask("GET", path=f"/keys/{key['id']}")
    assert (status, shown.count(choice)) == (200, 3), "disable, edit, delete"


def request_from(remote: str | None, *emails: str, certificate: object = None) -> Any:
    transport = SimpleNamespace(get_extra_info=lambda _: certificate)
    return SimpleNamespace(remote=remote, transport=transport, headers=CIMultiDict([(EMAIL, each) for each in emails]))


def test_only_a_trusted_proxy_is_believed() -> None:
    identity = identity_reader(OperatorIdentity(header=EMAIL, trusted_proxies=("10.0.0.0/8", "unix")))
    assert identity(request_from("10.1.2.3", "a@example.com")) == "a@example.com"
    assert identity(request_from(None, "a@example.com")) == "a@example.com"
    assert identity(request_from("192.0.2.1", "a@example.com")) is None
    assert identity(request_from("10.1.2.3")) is None
    with pytest.raises(Unauthenticated):
        identity(request_from("10.1.2.3", "a@example.com", "b@example.com"))
    off = identity_reader(OperatorIdentity())
    assert off(request_from("127.0.0.1", "a@example.com", certificate=CERTIFICATE)) is None


CERTIFICATE = {"subject": ((("commonName", "Someone"),),), "subjectAltName": (("email", "me@example.com"),)}


def test_a_certificate_names_its_e_mail() -> None:
    by_certificate = identity_reader(OperatorIdentity(certificate=True))
    assert by_certificate(request_from("192.0.2.1", certificate=CERTIFICATE)) == "me@example.com"
    assert by_certificate(request_from("192.0.2.1")) is None
    assert email_in({"subject": ((("commonName", "cn@example.com"),),)}) == "cn@example.com"
    assert email_in({"subject": ((("commonName", "Someone"),),)}) is None
