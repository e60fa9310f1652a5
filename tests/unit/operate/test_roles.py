"""Each route of the admin listener admits the roles that its row names, and no other."""

import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import make_mocked_request

from exporters.secret import Secret
from gateway.app import Gateway
from gateway.common.contract.errors import CannotStart
from gateway.config.loader import load_config
from gateway.operate.guard import Row
from gateway.operate.operation import Operation
from gateway.operate.pages import PAGES
from gateway.operate.registry import OPERATIONS
from gateway.operate.role import Role
from gateway.operate.server import SITE
from gateway.operate.session import COOKIE, MAX_FLASH_CHARS, MAX_FLASHES, TOKEN_FILES, AdminAccess, Flash, open_access

ROWS: tuple[Row, ...] = (*PAGES, *SITE, *OPERATIONS)
VIEWER_WRITES = {"/logout"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """Its admin listener is beyond loopback, where nothing but the probes is open."""
    listen = dict.fromkeys(("http", "service"), "127.0.0.1:0") | {"grpc": "off", "admin": "0.0.0.0:0"}
    overrides = {"data_dir": str(tmp_path / "data"), "listen": listen, "workers": "off"}
    running = await Gateway.start(load_config(None, overrides, {}))
    yield running
    await running.stop()


def test_a_viewer_changes_nothing_and_sees_no_key() -> None:
    for row in ROWS:
        if row.open == "everywhere":
            continue
        if row.method != "GET" and row.path not in VIEWER_WRITES:
            assert row.role == Role.OPERATOR, row.path
        if "/keys" in row.path:
            assert row.role == Role.OPERATOR, row.path
    assert {row.path for row in ROWS if row.role == Role.METRICS and row.open != "everywhere"} == {"/metrics"}


async def test_every_row_admits_its_role_and_those_above_it(gateway: Gateway) -> None:
    """By token and, where the role opens one, by session; a refusal is before the handler."""
    url = f"http://127.0.0.1:{gateway.ports.admin.port}"  # type: ignore[union-attr]  # a port
    tokens = {role: (gateway.config.data_dir / TOKEN_FILES[role]).read_text().strip() for role in Role}
    assert len(set(tokens.values())) == len(Role)
    async with aiohttp.ClientSession() as client:
        for row in ROWS:
            if row.open == "everywhere":
                continue
            for role in Role:
                session = gateway.access.session_for_token(tokens[role])
                assert (session is None) == (role == Role.METRICS)
                ways = [{"Authorization": tokens[role]}, {"Authorization": f"Bearer {tokens[role]}"}]
                ways += [{"Cookie": f"{COOKIE}={session}", "Origin": url}] if session else []
                for headers in ways:
                    status = await asked(client, url, row, headers)
                    assert (status == 403) == (role < row.role), (row.method, row.path, role, headers.keys())
                    assert status != 401
            for headers in ({}, {"Authorization": "nobody's"}, {"Cookie": f"{COOKIE}=nobody"}):
                assert await asked(client, url, row, headers) == 401, (row.method, row.path)


async def test_a_refusal_names_no_more_than_what_opens_the_row(gateway: Gateway) -> None:
    """Assistants and programs repeat it to people."""
    url = f"http://127.0.0.1:{gateway.ports.admin.port}"  # type: ignore[union-attr]  # a port
    needs = {
        ("GET", "/v2/usage"): "a viewer's token",
        ("GET", "/v2/budgets"): "a key with the scope budgets:read_budgets",
        ("OPTIONS", "/mcp"): "a key or token of this gateway",
        ("GET", "/metrics"): "the metrics token",
        ("POST", "/v2/keys"): "the admin token",
    }
    async with aiohttp.ClientSession() as client:
        for (method, path), text in needs.items():
            async with client.request(method, url + path) as response:
                assert response.status == 401
                assert (await response.json())["error"]["message"].startswith(text), (method, path)


async def asked(client: aiohttp.ClientSession, url: str, row: Row, headers: dict[str, str]) -> int:
    """The status; what is sent is refused by every handler that would change something."""
    path = re.sub(r"\{\w+\}", "none", row.path)
    data = None if row.method == "GET" else b"no JSON" if isinstance(row, Operation) else b"role=none"
    async with client.request(row.method, url + path, headers=headers, data=data, allow_redirects=False) as response:
        return response.status


async def test_the_metrics_token_is_a_bearer_token_of_prometheus(gateway: Gateway) -> None:
    url = f"http://127.0.0.1:{gateway.ports.admin.port}"  # type: ignore[union-attr]  # a port
    token = (gateway.config.data_dir / "metrics-token").read_text().strip()
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as client:
        async with client.get(url + "/metrics") as response:
            assert response.status == 200
            assert "telemetry_gateway_info" in await response.text()
        async with client.post(url + "/login", data={"token": token}, allow_redirects=False) as response:
            assert response.status == 401, "it opens no session"


async def test_the_configuration_may_give_the_metrics_token(tmp_path: Path) -> None:
    """Then no file has another one."""
    (tmp_path / "given").write_text("a-token-of-the-scraper\n")
    access = open_access(tmp_path, Secret(f"${{file:{tmp_path}/given}}"))
    shown = make_mocked_request("GET", "/metrics", {"Authorization": "Bearer a-token-of-the-scraper"})
    assert access.role_of(shown) == Role.METRICS
    assert not (tmp_path / "metrics-token").exists()
    for fault in ("too-short", "with blanks in the middle of it"):
        (tmp_path / "given").write_text(fault)
        with pytest.raises(CannotStart, match="metrics_token: 16 printable"):
            open_access(tmp_path, Secret(f"${{file:{tmp_path}/given}}"))


async def test_a_message_is_shown_once_and_is_bounded() -> None:
    """Also where a live page asks in between; no cookie holds it."""
    access = AdminAccess(Secret("admin-token-of-the-test"), lambda: 0.0, os.urandom)
    session = access.session_for_code(access.login_path().partition("=")[2])
    mine, nobody = (make_mocked_request("GET", "/", {"Cookie": f"{COOKIE}={each}"}) for each in (session, "nobody"))
    for n in range(MAX_FLASHES + 3):
        access.flash(mine, Flash("done", f"{n}" * 2 * MAX_FLASH_CHARS))
    access.flash(nobody, Flash("done", "lost"))
    shown = access.flashes(mine)
    assert [flash.text for flash in shown] == [f"{n}" * MAX_FLASH_CHARS for n in range(3, MAX_FLASHES + 3)]
    assert access.flashes(mine) == access.flashes(nobody) == ()
