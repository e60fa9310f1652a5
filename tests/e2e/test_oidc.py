"""Sign-in by OpenID Connect with a provider that is a process of its own, and the attacks on it."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from gateway.app import Gateway
from gateway.config.loader import load_config
from gateway.operate.oidc.flow import COOKIE, groups_of, person_of
from gateway.operate.oidc.pending import LIFE_S, PendingSeals
from gateway.operate.session import COOKIE as SESSION
from tests.support.oidc_provider import CLIENT, CLIENT_SECRET, Running, running_oidc_provider
from tests.support.ports import free_port

ROLES = [
    {"group": "finops", "role": "operator"},
    {"group": "checkout-leads", "limits": {"team": ["checkout"]}},
    {"email": "boss@example.com", "role": "operator"},
    {"group": "everyone"},
]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_oidc_provider(tmp_path_factory.mktemp("oidc")) as running:
        yield running


class Browser:
    """Keeps cookies, follows nothing by itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.AsyncClient(base_url=url)

    async def begin(self, then: str = "/") -> httpx.Response:
        """Where the gateway sends it, with what the provider answers there."""
        begun = await self.client.get("/login/oidc", params={"then": then})
        assert begun.status_code == 303, begun.text
        return await self.client.get(begun.headers["Location"])

    async def sign_in(self, then: str = "/") -> httpx.Response:
        back = await self.begin(then)
        assert back.status_code == 302
        return await self.client.get(back.headers["Location"])

    async def status(self, path: str) -> int:
        return (await self.client.get(path)).status_code


@pytest.fixture
async def gateway(provider: Running, tmp_path: Path) -> AsyncIterator[Gateway]:
    provider.set()
    port = free_port()
    listen = dict.fromkeys(("http", "service"), "127.0.0.1:0") | {"grpc": "off", "admin": f"127.0.0.1:{port}"}
    oidc = {
        "issuer": provider.issuer, "client_id": CLIENT, "client_secret": CLIENT_SECRET,
        "redirect_uri": f"http://localhost:{port}/login/callback",
    }  # fmt: skip
    overrides = {
        "data_dir": str(tmp_path / "data"), "listen": listen, "workers": "off",
        "sign_in": {"oidc": oidc, "roles": ROLES},
    }  # fmt: skip
    running = await Gateway.start(load_config(None, overrides, {}))
    yield running
    await running.stop()


@pytest.fixture
async def browser(gateway: Gateway) -> AsyncIterator[Browser]:
    made = Browser(f"http://localhost:{gateway.ports.admin.port}")  # type: ignore[union-attr]  # a port
    yield made
    await made.client.aclose()


async def test_a_person_signs_in_and_has_the_role_of_the_group(browser: Browser, provider: Running) -> None:
    page = await browser.client.get("/usage", headers={"Accept": "text/html"})
    assert (page.status_code, "/login/oidc?then=%2Fusage" in page.text) == (401, True)
    answer = await browser.sign_in("/usage?range=last_7_days")
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/usage?range=last_7_days">' in answer.text
    cookies = {each.partition("=")[0]: each for each in answer.headers.get_list("Set-Cookie")}
    assert {"HttpOnly", "Max-Age=28800", "SameSite=Strict"} <= set(re.split("; ", cookies[SESSION]))
    assert "Max-Age=0" in cookies[COOKIE]
    assert await browser.status("/usage") == 200
    assert await browser.status("/v2/keys") == 403, "a viewer reads no keys"
    asked = provider.asked()
    assert asked[-1]["token"]["client_id"] == CLIENT
    query = asked[-2]["authorize"]
    assert (query["scope"], len(query["nonce"]), len(query["state"])) == ("openid email", 43, 43)


async def test_an_operator_makes_a_key_under_the_own_name_and_a_limited_viewer_sees_its_team(
    browser: Browser, provider: Running
) -> None:
    provider.set(claims={"groups": ["everyone", "finops"]})
    await browser.sign_in()
    new = {"name": "sender", "managed": ["send-ai-telemetry"]}
    assert (await browser.client.post("/v2/keys", json=new)).status_code == 401, "no page of this listener sent it"
    other = {"Origin": "https://attacker.example"}
    assert (await browser.client.post("/v2/keys", json=new, headers=other)).status_code == 401
    made = await browser.client.post("/v2/keys", json=new, headers={"Origin": browser.url})
    assert made.json()["created_by"] == "ann@example.com"
    provider.set(claims={"groups": "checkout-leads"})
    await browser.sign_in()
    assert await browser.status("/v2/keys") == 403
    assert "limited to team checkout" in (await browser.client.get("/v2/status")).text
    assert "team checkout" in (await browser.client.get("/")).text
    assert (await browser.client.post("/logout", headers={"Origin": browser.url})).status_code == 303
    assert await browser.status("/usage") == 401


async def test_an_e_mail_gives_a_role_where_the_provider_verified_it(browser: Browser, provider: Running) -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({"email": "Boss@example.com"}, 200),
        ({"email": "boss@example.com", "email_verified": None}, 403),
        ({"email": "boss@example.com", "email_verified": False}, 403),
        ({"sub": "boss@example.com", "email": None}, 403),
    ]
    for claims, status in cases:
        provider.set(claims=claims)
        await browser.sign_in()
        assert await browser.status("/v2/keys") == status, claims


async def test_who_has_no_role_gets_no_session(browser: Browser, provider: Running) -> None:
    provider.set(claims={"groups": ["strangers"]})
    answer = await browser.sign_in()
    assert (answer.status_code, "sign_in.roles" in answer.text) == (403, True)
    assert SESSION not in browser.client.cookies


async def test_a_key_of_the_provider_that_is_new_is_read(browser: Browser, provider: Running) -> None:
    assert (await browser.sign_in()).status_code == 200
    for _ in range(2):
        provider.set(rotates=True)
        assert (await browser.sign_in()).status_code == 200


WRONG: dict[str, Any] = {
    "not signed": {"signed": "none"},
    "signed with the shared secret": {"signed": "shared"},
    "signed with another key": {"signed": "other"},
    "signed with a key that is not published": {"signed": "unknown"},
    "with a cut signature": {"signed": "cut"},
    "of another issuer": {"claims": {"iss": "https://attacker.example"}},
    "for another client": {"claims": {"aud": "another"}},
    "for two clients, without azp": {"claims": {"aud": [CLIENT, "another"]}},
    "for another azp": {"claims": {"azp": "another"}},
    "of another sign-in": {"claims": {"nonce": "of another one"}},
    "without a nonce": {"claims": {"nonce": None}},
    "expired": {"claims": {"exp": 1_700_000_000}},
    "without an end": {"claims": {"exp": None}},
    "of tomorrow": {"claims": {"iat": 4_000_000_000}},
    "without a subject": {"claims": {"sub": None}},
}


async def test_a_token_that_is_wrong_opens_no_session(browser: Browser, provider: Running) -> None:
    for what, wrong in WRONG.items():
        provider.set(**wrong)
        answer = await browser.sign_in()
        assert answer.status_code == 401, what
        assert SESSION not in browser.client.cookies, what
        assert "another one" not in answer.text


async def test_a_state_is_of_one_browser_and_used_once(browser: Browser) -> None:
    back = (await browser.begin()).headers["Location"]
    stranger = Browser(browser.url)
    assert (await stranger.client.get(back)).status_code == 401, "another browser, without the cookie"
    await stranger.begin()
    assert (await stranger.client.get(back)).status_code == 401, "the attacker's answer in a victim's browser"
    cookie = browser.client.cookies[COOKIE]
    assert (await browser.client.get(back)).status_code == 200
    again = await browser.client.get(back, headers={"Cookie": f"{COOKIE}={cookie}"})
    assert (again.status_code, "already used" in again.text) == (401, True)
    forged = cookie.replace(cookie[5], "A" if cookie[5] != "A" else "B", 1)
    for value in (forged, "", "a.b", cookie.partition(".")[0]):
        assert (await browser.client.get(back, headers={"Cookie": f"{COOKIE}={value}"})).status_code == 401
    for value in (b"\x80.\x80", b"a.\xc3\xa9"):
        headers = {b"Cookie": COOKIE.encode() + b"=" + value}
        assert (await browser.client.get(back, headers=headers)).status_code == 401, "bytes that are no text"
    await stranger.client.aclose()


async def test_a_code_that_was_not_begun_here_is_refused_by_the_provider(browser: Browser) -> None:
    """PKCE: the verifier is of the browser that began."""
    stolen = parse_qs(urlsplit((await browser.begin()).headers["Location"]).query)["code"][0]
    own = Browser(browser.url)
    state = parse_qs(urlsplit((await own.begin()).headers["Location"]).query)["state"][0]
    answer = await own.client.get("/login/callback", params={"code": stolen, "state": state})
    assert (answer.status_code, SESSION in own.client.cookies) == (401, False)
    await own.client.aclose()


async def test_nobody_is_sent_to_another_site(browser: Browser) -> None:
    for then in (
        "https://attacker.example", "//attacker.example", "/\\attacker.example", "javascript:alert(1)", '/"><script>',
    ):  # fmt: skip
        answer = await browser.sign_in(then)
        assert 'content="0; url=/"' in answer.text, then
        assert "attacker" not in answer.text
        assert "script" not in answer.text


async def test_a_session_that_someone_fixed_is_not_taken(browser: Browser) -> None:
    browser.client.cookies.set(SESSION, "chosen-by-an-attacker", domain="localhost.local")
    fixed = {"Cookie": f"{SESSION}=chosen-by-an-attacker"}
    back = (await browser.begin()).headers["Location"]
    answer = await browser.client.get(
        back, headers={"Cookie": f"{COOKIE}={browser.client.cookies[COOKIE]}; {fixed['Cookie']}"}
    )
    assert answer.status_code == 200
    assert "chosen-by-an-attacker" not in str(answer.headers)
    stranger = Browser(browser.url)
    assert (await stranger.client.get("/usage", headers=fixed)).status_code == 401
    await stranger.client.aclose()


async def test_what_the_provider_refuses_is_said_in_a_word(browser: Browser, provider: Running) -> None:
    provider.set(refuses="access_denied")
    answer = await browser.sign_in()
    assert (answer.status_code, "refused: access_denied" in answer.text) == (401, True)
    provider.set(refuses="<b>harm")
    assert "harm" not in (await browser.sign_in()).text


async def test_a_provider_that_states_something_else_is_not_asked(browser: Browser, provider: Running) -> None:
    wrong: list[dict[str, Any]] = [
        {"issuer": "https://other.example"}, {"token_endpoint": "http://other.example/token"}, {"jwks_uri": None},
    ]  # fmt: skip
    for discovery in wrong:
        provider.set(discovery=discovery)
        answer = await browser.client.get("/login/oidc")
        assert (answer.status_code, "identity provider" in answer.text) == (502, True), discovery


def test_a_sign_in_that_is_too_old_is_begun_again() -> None:
    now_s = 0.0
    seals = PendingSeals(lambda: now_s, lambda n: bytes(range(n)))
    pending, cookie = seals.begin("/")
    now_s = LIFE_S
    assert seals.finish(cookie, pending.state) is None
    now_s = LIFE_S - 1
    assert seals.finish(cookie, pending.state) == pending
    assert seals.finish(cookie, pending.state) is None


def test_groups_and_person_are_read_of_what_a_provider_states() -> None:
    for claims, path, groups in (
        ({"groups": ["a", 1, "b"]}, "groups", ("a", "b")),
        ({"groups": "a"}, "groups", ("a",)),
        ({"realm_access": {"roles": ["a"]}}, "realm_access.roles", ("a",)),
        ({"https://example.com/groups": ["a"]}, "https://example.com/groups", ("a",)),
        ({"groups": {"a": 1}}, "groups", ()),
        ({}, "groups", ()),
    ):
        assert groups_of(claims, path) == groups
    assert person_of({"sub": "s", "email": "a@b.c"}) == "a@b.c"
    assert person_of({"sub": "s", "email": "a@b.c", "email_verified": False}) == "s"
    assert person_of({"sub": "s", "email": "a@b.c", "email_verified": "false"}) == "s", "as some write it"
    assert person_of({"sub": "s", "email": "no address"}) == "s"
