"""Single sign-on by a proxy's headers: who is admitted as what, and who is not believed."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from gateway.access.operators import ANYONE, Operators
from gateway.access.sign_in import SignedIn, SignInRule, SignInRules
from gateway.access.store import KeyStore
from gateway.common.contract.errors import Forbidden
from gateway.common.contract.reach import reach_of
from gateway.common.contract.scopes import Fixed
from gateway.config.model import OperatorIdentity
from gateway.config.values import TcpAddress
from gateway.operate.header_sign_in import groups_reader, header_sign_in
from gateway.operate.identity import identity_reader
from gateway.operate.keys import KeyRequests
from gateway.operate.registry import AdminStores
from gateway.operate.relayed_person import HEADER, RelayedPerson
from gateway.operate.server import admin_app
from gateway.operate.session import AdminAccess
from gateway.serve.authenticator import KeyAuthenticator
from gateway.serve.listen import listen, runner_for
from tests.unit.operate.test_admin import figures, pages_of
from tests.unit.operate.test_keys import TOKEN

EMAIL, GROUPS = "X-Forwarded-Email", "X-Forwarded-Groups"
CHECKOUT = reach_of({"team": ["checkout"]})
RULES = SignInRules(
    [
        SignInRule(None, "Boss@example.com", "operator"),
        SignInRule("finops", None, "operator"),
        SignInRule("checkout-leads", None, "viewer", CHECKOUT),
        SignInRule("everyone", None, "viewer"),
    ]
)
NEW = {"name": "sender", "managed": ["send-ai-telemetry"]}
TRUSTED, OTHERS = ("127.0.0.0/8",), ("192.0.2.0/24",)


class Rig:
    def __init__(self, client: aiohttp.ClientSession, keys: KeyStore) -> None:
        self.client, self.keys, self.url = client, keys, ""
        self.stack = AsyncExitStack()

    async def begin(self, proxies: tuple[str, ...] = TRUSTED, operators: Operators = ANYONE) -> None:
        """The listener is beyond loopback: nothing but the probes is open."""
        options = OperatorIdentity(header=EMAIL, trusted_proxies=proxies)
        identity, groups = identity_reader(options), groups_reader(options, GROUPS)
        parts = replace(
            pages_of(AdminAccess(TOKEN, lambda: 1000.0, os.urandom), gate=KeyAuthenticator(self.keys, divides=True)),
            identity=identity,
            sign_in=header_sign_in(identity, groups, RULES),
            operators=operators,
        )
        app = admin_app(
            parts, AdminStores(status=figures, keys=KeyRequests(self.keys, operators=operators)), loopback=False
        )
        listener = await listen(runner_for(app), TcpAddress("127.0.0.1", 0))
        assert listener is not None
        self.stack.push_async_callback(listener.close)
        self.url = f"http://{listener.address}"

    async def ask(
        self, method: str, path: str, person: str = "", *groups: str, json: object = None, **headers: str
    ) -> tuple[int, str]:
        sent = CIMultiDict([(name.replace("_", "-"), value) for name, value in headers.items()])
        sent.extend([*([(EMAIL, person)] if person else []), *((GROUPS, each) for each in groups)])
        async with self.client.request(method, self.url + path, json=json, headers=sent) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def rig(keys: KeyStore) -> AsyncIterator[Rig]:
    async with aiohttp.ClientSession() as client:
        made = Rig(client, keys)
        async with made.stack:
            yield made


def test_the_first_rule_that_fits_counts() -> None:
    for person, groups, role, reach in (
        ("ann@example.com", ["everyone", "finops"], "operator", ()),
        ("ann@example.com", ["everyone", "checkout-leads"], "viewer", CHECKOUT),
        ("BOSS@example.com", [], "operator", ()),
        ("bo@example.com", ["everyone"], "viewer", ()),
    ):
        assert RULES.of(person, groups, email=person) == SignedIn(person, role, reach)  # type: ignore[arg-type]  # roles
    for person, groups in (
        ("bo@example.com", []),
        ("finops", []),
        ("bo@example.com", ["Everyone", "boss@example.com"]),
    ):
        with pytest.raises(Forbidden, match=r"sign_in\.roles"):
            RULES.of(person, groups, email=person)


async def test_a_person_of_a_group_is_admitted_without_a_token_as_what_the_group_is(rig: Rig) -> None:
    await rig.begin()
    assert (await rig.ask("GET", "/v2/status", "ann@example.com", "other, everyone"))[0] == 200
    assert (await rig.ask("GET", "/v2/keys", "ann@example.com", "everyone"))[0] == 403
    assert (await rig.ask("GET", "/v2/keys", "ann@example.com", "finops"))[0] == 200
    status, text = await rig.ask("GET", "/v2/status", "ann@example.com", "checkout-leads")
    assert (status, "limited to team checkout" in text) == (403, True)
    status, text = await rig.ask("GET", "/v2/status", "ann@example.com", "strangers")
    assert (status, "sign_in.roles" in text) == (403, True)
    assert (await rig.ask("GET", "/v2/status"))[0] == 401
    assert (await rig.ask("GET", "/v2/status", "", "finops"))[0] == 401, "groups of nobody"
    assert (await rig.ask("GET", "/v2/status", "ann@example.com", "finops", "everyone"))[0] == 401, "stated twice"


async def test_headers_of_an_address_that_is_not_trusted_admit_nobody(rig: Rig) -> None:
    await rig.begin(OTHERS)
    assert (await rig.ask("GET", "/v2/status", "boss@example.com", "finops"))[0] == 401
    assert (await rig.ask("POST", "/v2/keys", "boss@example.com", "finops", json=NEW, Origin=rig.url))[0] == 401


async def test_what_writes_has_to_come_from_a_page_of_this_listener(rig: Rig) -> None:
    """The proxy adds its headers to whatever a browser sends, also from another site."""
    await rig.begin()
    for origin in ({}, {"Origin": "https://attacker.example"}, {"Origin": rig.url, "Sec_Fetch_Site": "cross-site"}):
        assert (await rig.ask("POST", "/v2/keys", "ann@example.com", "finops", json=NEW, **origin))[0] == 401
    status, made = await rig.ask("POST", "/v2/keys", "ann@example.com", "finops", json=NEW, Origin=rig.url)
    assert (status, '"created_by":"ann@example.com"' in made) == (201, True)


async def test_a_key_or_token_beside_the_headers_gives_no_more_than_itself(rig: Rig) -> None:
    await rig.begin()
    key = await rig.keys.create("reader", Fixed(frozenset({"views:read_views"})), by="ops@example.com")
    for shown in (key.secret.reveal(), "nobody's"):
        assert (await rig.ask("GET", "/v2/keys", "ann@example.com", "finops", Authorization=shown))[0] == 401
    token = TOKEN.reveal()
    assert (await rig.ask("GET", "/v2/keys", "ann@example.com", "everyone", Authorization=token))[0] == 403
    assert (await rig.ask("GET", "/v2/status", "ann@example.com", "checkout-leads", Authorization=token))[0] == 403
    assert (await rig.ask("GET", "/v2/keys", "ann@example.com", "finops", Authorization=token))[0] == 200


async def test_an_operator_by_group_is_one_of_the_configured_operators_where_there_are_any(rig: Rig) -> None:
    await rig.begin(operators=Operators({"ops@example.com": "operator"}))
    assert (await rig.ask("GET", "/v2/keys", "ann@example.com", "finops"))[0] == 403
    assert (await rig.ask("GET", "/v2/keys", "ops@example.com", "finops"))[0] == 200
    assert (await rig.ask("GET", "/v2/status", "ann@example.com", "everyone"))[0] == 200, "a viewer need not be"


def test_a_gateway_of_a_cell_states_the_groups_with_its_proof() -> None:
    relayed = RelayedPerson(b"a secret of the cell")
    for value, person, groups in (
        (relayed.stated("a@example.com", ["x", "y,z"]), "a@example.com", ("x", "y,z")),
        (relayed.stated("a@example.com"), "a@example.com", ()),
        (RelayedPerson(b"another").stated("a@example.com", ["x"]), None, ()),
    ):
        request: Any = SimpleNamespace(headers={HEADER: value})
        assert (relayed.identity(request), relayed.groups(request)) == (person, groups)
