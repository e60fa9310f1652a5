"""HTTP/1.1 by hand, over TCP, TLS and Unix sockets: nothing between a check and the bytes."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no types

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
ANSWER_TIMEOUT_S = 60.0


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def media(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def is_status(self) -> bool:
        """Whether the body is a google.rpc.Status with a message, in the encoding it names."""
        try:
            if self.media == JSON:
                return bool(json.loads(self.body).get("message"))
            return self.media == PROTOBUF and bool(Status.FromString(self.body).message)
        except Exception:  # noqa: BLE001 - neither JSON nor protobuf
            return False

    def json(self) -> Any:
        return json.loads(self.body or b"null")


class Connection:
    """One connection; requests and answers as the check sends and reads them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        with suppress(ConnectionError):  # refused unread: the answer may be there all the same
            await self._writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """The next status line and headers, also of a 100."""
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for text in lines[1:]:
            name, colon, value = text.partition(":")
            if colon:
                name = name.lower()
                headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
        return int(lines[0].split()[1]), headers

    async def reply(self, method: str = "POST") -> Reply:
        """The next answer, behind any 100 Continue."""
        status, headers = await self.head()
        while status == 100:
            status, headers = await self.head()
        if method == "HEAD" or status in (204, 304):
            return Reply(status, headers, b"")
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return Reply(status, headers, await self._body(headers))

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
                body += await self._reader.readexactly(size)
                await self._reader.readexactly(2)
            await self._reader.readuntil(b"\r\n")
            return body
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        return await self._reader.read()

    async def is_closed(self) -> bool:
        """Whether the server ends the connection, with nothing more to read."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self._reader.read() == b""
        except ConnectionError:
            return True

    def abort(self) -> None:
        """Gone without a word."""
        self._writer.transport.abort()


@dataclass
class Http:
    """An OTLP/HTTP address: `http://…`, `https://…` (with the certificates in *ca_file*), or
    `unix:/path`.
    """

    address: str
    key: str | None = None
    ca_file: str | None = None
    client_cert: tuple[str, str] | None = None
    """Files of certificate and key."""
    statuses: Counter[int] = field(default_factory=Counter)
    """Of every answer that was read by `post` and `ask`."""

    def __post_init__(self) -> None:
        self.unix_path = self.address.removeprefix("unix:") if self.address.startswith("unix:") else None
        url = urlsplit(self.address if self.unix_path is None else "http://localhost")
        self.host = url.netloc
        self.base_path = url.path.rstrip("/")
        self._name, self.port = url.hostname, url.port
        self._tls = self._tls_context() if url.scheme == "https" else None

    def _tls_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.client_cert is not None:
            context.load_cert_chain(*self.client_cert)
        return context

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        if self.unix_path is not None:
            pair = await asyncio.open_unix_connection(self.unix_path)
        else:
            port = self.port or (443 if self._tls else 80)
            pair = await asyncio.open_connection(self._name, port, ssl=self._tls)
        connection = Connection(*pair)
        try:
            yield connection
        finally:
            connection.abort()

    def request(
        self,
        path: str,
        body: bytes = b"",
        *,
        method: str = "POST",
        media: str | None = PROTOBUF,
        headers: Mapping[str, str] | None = None,
        length: int | None = -1,
    ) -> bytes:
        """Its bytes; *length* -1 is the body's, None sends none. A header "" is left out."""
        sent = {"Host": self.host}
        if media is not None:
            sent["Content-Type"] = media
        if length is not None:
            sent["Content-Length"] = str(len(body) if length < 0 else length)
        if self.key is not None:
            sent["Authorization"] = f"Bearer {self.key}"
        sent |= headers or {}
        lines = [f"{method} {self.base_path}{path} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items() if v)]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    async def ask(self, path: str, body: bytes = b"", *, method: str = "POST", **more: Any) -> Reply:
        """One request on a connection of its own."""
        async with self.connected() as connection:
            await connection.send(self.request(path, body, method=method, **more))
            reply = await connection.reply(method)
        self.statuses[reply.status] += 1
        return reply

    async def post(
        self, signal: str, body: bytes, media: str | None = PROTOBUF, headers: Mapping[str, str] | None = None
    ) -> Reply:
        return await self.ask(f"/v1/{signal}", body, media=media, headers=headers)
