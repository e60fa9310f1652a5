"""A running local service on loopback, and a client that speaks to it as the gateway would: bare
key, JSON, real sockets.
"""

import io
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from gateway.common.contract.scopes import CATALOGUE, Fixed
from gateway.local_service.misbehave import Misbehave
from gateway.local_service.service import Service

NOW_MS = 1_767_607_200_000
"""2026-01-05T10:00:00Z"""
ADMIN = "admin@example.com"


class Clock:
    def __init__(self) -> None:
        self.time_ms = NOW_MS

    def __call__(self) -> int:
        return self.time_ms


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """Decoded; tests state what they expect of it by comparing."""
        return orjson.loads(self.body)


class Client:
    """Keeps its connections open, as the gateway does."""

    def __init__(self, service: Service, port: int, session: aiohttp.ClientSession, authorization: str) -> None:
        self.service = service
        self.port = port
        self.session = session
        self.authorization = authorization

    def with_authorization(self, value: str) -> "Client":
        return Client(self.service, self.port, self.session, value)

    async def with_scopes(self, name: str, *scopes: str) -> "Client":
        created = await self.service.keys.create(name, Fixed(frozenset(scopes)), by=ADMIN)
        return self.with_authorization(created.secret.reveal())

    async def get(self, path: str, **params: str) -> Reply:
        return await self._send("GET", path, params=params)

    async def post(self, path: str, content: object, headers: Mapping[str, str] | None = None) -> Reply:
        body = content if isinstance(content, bytes) else orjson.dumps(content)
        return await self._send("POST", path, body=body, headers=headers)

    async def patch(self, path: str, content: object, headers: Mapping[str, str] | None = None) -> Reply:
        return await self._send("PATCH", path, body=orjson.dumps(content), headers=headers)

    async def put(self, path: str, content: object, headers: Mapping[str, str] | None = None) -> Reply:
        return await self._send("PUT", path, body=orjson.dumps(content), headers=headers)

    async def delete(self, path: str) -> Reply:
        return await self._send("DELETE", path)

    async def ask(self, method: str, path: str) -> Reply:
        """Any endpoint, with an empty object where it takes a body."""
        return await self._send(method, path, body=b"" if method == "GET" else b"{}")

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        sent = {"Authorization": self.authorization, **(headers or {})}
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.session.request(method, url, data=io.BytesIO(body), headers=sent, params=params) as response:
            return Reply(response.status, await response.read(), response.headers)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def misbehave() -> Misbehave | None:
    return None


@pytest.fixture
async def client(tmp_path: Path, clock: Clock, misbehave: Misbehave | None) -> AsyncIterator[Client]:
    """A client whose key holds every scope."""
    service = Service(tmp_path / "service", now_ms=clock, misbehave=misbehave)
    port = await service.start()
    async with aiohttp.ClientSession() as session:
        bare = Client(service, port, session, "")
        yield await bare.with_scopes("everything", *(scope.name for scope in CATALOGUE))
    await service.stop()


def ai_record(record_id: str, **changes: object) -> dict[str, object]:
    return {
        "schema": "inference/1",
        "record_id": record_id,
        "kind": "call",
        "billed": True,
        "source": {"format": "otlp.traces", "convention": "gen_ai", "library": None, "library_version": None},
        "operation": "chat",
        "provider": "openai",
        "request_model": "gpt-4o-mini",
        "response_model": "gpt-4o-mini-2024-07-18",
        "started_at": "2026-01-05T10:00:01.250Z",
        "usage": {"status": "reported", "input_tokens": 1200, "cache_read_input_tokens": 300, "output_tokens": 120},
        "cost": {"amount": "0.004210", "currency": "USD", "source": "reported", "price_version": None},
        "status": "ok",
        "attribution": {"team": "core", "labels": {}},
        "flags": [],
        **changes,
    }


def ai_envelope(*records: object) -> dict[str, object]:
    return {
        "schema": "ai-telemetry/1",
        "batch_id": "0199-batch",
        "gateway_id": "gw-7f3a",
        "sent_at": "2026-01-05T10:00:05Z",
        "records": list(records),
    }
