"""HEAD is the GET without its body, on every route of each listener."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.config.loader import load_config
from gateway.local_service.routes import ROUTES
from gateway.operate.pages import PAGES
from gateway.operate.registry import OPERATIONS
from gateway.operate.server import SITE
from gateway.products.catalogue import SOURCES

PROOF = {"verify": "proof"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    overrides = {
        "data_dir": str(tmp_path / "data"),
        "listen": dict.fromkeys(("http", "admin", "service"), "127.0.0.1:0") | {"grpc": "off"},
        "sources": dict.fromkeys(SOURCES, PROOF),
        "workers": "off",
    }
    running = await Gateway.start(load_config(None, overrides, {}))
    yield running
    await running.stop()


async def answered(url: str, method: str, headers: dict[str, str]) -> tuple[int, dict[str, str], int]:
    """Status, the headers that are not of the moment, length of the body."""
    moment = {"Date", "Set-Cookie", "Connection"}
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, url, headers=headers, allow_redirects=False) as response,
    ):
        kept = {name: value for name, value in response.headers.items() if name not in moment}
        return response.status, kept, len(await response.read())


async def assert_head_is_get(url: str, headers: dict[str, str]) -> int:
    status, found, size = await answered(url, "GET", headers)
    head_status, head_found, head_size = await answered(url, "HEAD", headers)
    assert (head_status, head_size) == (status, 0), url
    assert head_found.keys() == found.keys(), url
    assert head_found.get("Content-Type") == found.get("Content-Type"), url
    if "/v2/status" not in url and "/metrics" not in url:  # their figures move
        assert head_found.get("Content-Length") == str(size), url
    return status


async def test_every_get_of_the_admin_listener(gateway: Gateway) -> None:
    """With the token, without a credential, and with a key of every scope."""
    token = (gateway.config.data_dir / "admin-token").read_text().strip()
    every = Fixed(frozenset(scope.name for scope in CATALOGUE))
    key = (await gateway.keys.create("every scope", every, by="test")).secret.reveal()
    paths = [row.path.replace("{", "").replace("}", "") for row in (*PAGES, *SITE, *OPERATIONS) if row.method == "GET"]
    for endless in ("/live", "/v2/tap"):
        paths.remove(endless)
    statuses: dict[str, list[int]] = {path: [] for path in paths}
    for path in paths:
        for headers in ({"Authorization": token}, {}, {"Authorization": key}):
            statuses[path].append(await assert_head_is_get(f"http://{gateway.ports.admin}{path}", headers))
    assert statuses["/v2/insights"] == [200, 401, 200]
    assert [statuses[path][:2] for path in ("/v2/keys", "/v2/devices", "/v2/dead-letters")] == [[200, 401]] * 3
    assert statuses["/v2/keys/id"][0] == 404


async def test_every_get_of_the_senders_port(gateway: Gateway) -> None:
    every = Fixed(frozenset(scope.name for scope in CATALOGUE))
    key = (await gateway.keys.create("every scope", every, by="test")).secret.reveal()
    handshakes = [source.path for source in SOURCES.values()]
    for path in ("/v2/insights", *handshakes):
        for headers in ({"Authorization": key}, {}):
            status = await assert_head_is_get(f"http://{gateway.ports.http}{path}", headers)
            assert status == (401 if path == "/v2/insights" and not headers else 200)


async def test_every_get_of_the_local_service(gateway: Gateway) -> None:
    key = (gateway.config.data_dir / "service-key").read_text().strip()
    for path in (*(route.path for route in ROUTES if route.method == "GET"), "/openapi.json"):
        url = f"http://{gateway.ports.service}{path.replace('{', '').replace('}', '')}"
        for headers in ({"Authorization": key}, {}):
            await assert_head_is_get(url, headers)
