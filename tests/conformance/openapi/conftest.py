"""A gateway and a service, each a process of its own, with keys that hold every scope
and none that is asked for.
"""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from gateway.access.key_files import OF_SERVICE
from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.local_service.openapi.document import service_document
from gateway.operate.openapi.document import gateway_document
from gateway.products.catalogue import SOURCES
from tests.support.described import Answered, Described
from tests.support.gateway_process import GatewayProcess
from tests.support.keys_beside import BY, keys_beside
from tests.support.service_process import ServiceProcess

EVERY_SCOPE = sorted(scope.name for scope in CATALOGUE)
OTHER_SCOPE = "ai-hub:mcp"
"""Which nothing here asks for."""


class Port(NamedTuple):
    """One listener: asked, each answer is checked against its description."""

    url: str
    described: Described
    headers: Mapping[str, str]
    """With the credential that opens all of it."""
    client: httpx.Client

    def ask(
        self,
        method: str,
        path: str,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        credential: bool = True,
    ) -> httpx.Response:
        """*content*: bytes as they are, anything else as JSON."""
        body = content if isinstance(content, bytes) or content is None else orjson.dumps(content)
        sent = dict(self.headers) if credential else {}
        if body is not None:
            sent["Content-Type"] = "application/json"
        response = self.client.request(method, self.url + path, content=body, headers=sent | dict(headers or {}))
        self.check(response)
        return response

    def check(self, response: httpx.Response) -> None:
        path = response.request.url.raw_path.decode().partition("?")[0]
        self.described.check(
            Answered(response.request.method, path, response.status_code, response.headers, response.content)
        )


class GatewayPorts(NamedTuple):
    process: GatewayProcess
    senders: Port
    admin: Port
    other_key: str
    """Without any scope that the gateway asks for."""


class ServicePort(NamedTuple):
    port: Port
    other_key: str


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayPorts]:
    """What is off by default is on, so that all that is described can be asked."""
    ways = {name: {"url_token": True, "verify": "proof"} for name in SOURCES}
    with (
        GatewayProcess(
            tmp_path_factory.mktemp("gateway"),
            settle="0s",
            config={"sources": ways, "mcp": "on", "billing": {"connection": "conn-1"}, "tags": {"feature": []}},
        ) as process,
        httpx.Client() as client,
    ):
        described = Described(gateway_document())
        token = (process.data_dir / "admin-token").read_text().strip()
        admin = Port(process.admin_url, described, {"Authorization": token}, client)
        key = made_key(admin, "everything", EVERY_SCOPE)
        yield GatewayPorts(
            process,
            Port(process.intake_url, described, {"Authorization": key}, client),
            admin,
            made_key(admin, "nothing", [OTHER_SCOPE]),
        )


def made_key(admin: Port, name: str, scopes: list[str]) -> str:
    content = {"name": name, "scopes": scopes, "by": BY, "confirmed": True}
    secret: str = admin.ask("POST", "/v2/keys", content).raise_for_status().json()["secret"]
    return secret


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServicePort]:
    folder = tmp_path_factory.mktemp("service")
    process = ServiceProcess(folder)
    every, other = asyncio.run(make_service_keys(process.data_dir))
    process.start()
    try:
        with httpx.Client() as client:
            url = f"http://127.0.0.1:{process.port}"
            yield ServicePort(Port(url, Described(service_document()), {"Authorization": every}, client), other)
    finally:
        process.kill()


async def make_service_keys(data_dir: Path) -> tuple[str, str]:
    """(every scope, none that is asked for)"""
    async with keys_beside(data_dir, OF_SERVICE) as keys:
        every = await keys.create("everything", Fixed(frozenset(EVERY_SCOPE)), by=BY)
        other = await keys.create("nothing", Fixed(frozenset({OTHER_SCOPE})), by=BY)
    return every.secret.reveal(), other.secret.reveal()
