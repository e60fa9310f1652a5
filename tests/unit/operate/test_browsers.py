"""What a browser does is no fault of the gateway. It leaves while a page, a form or a stream is
under way, and it sends parameters and forms that no page has.
"""

import asyncio
import re
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

import aiohttp
import pytest
from structlog.testing import capture_logs
from yarl import URL

from gateway.app import Gateway
from gateway.config.values import TcpAddress
from gateway.operate.pages import PAGES
from gateway.operate.server import SITE
from gateway.operate.session import COOKIE
from gateway.operate.site import live
from tests.support.polling import until_true
from tests.support.running_gateway import running_gateway

FORM: Final = "application/x-www-form-urlencoded"
ROWS: Final = tuple(row for row in (*PAGES, *SITE) if row.path not in {"/logout", "/v2/backup"})
LEAVES_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""A linger of 0 s: the connection is reset."""


class Browser(NamedTuple):
    gateway: Gateway
    port: int
    cookie: str

    @property
    def unforeseen(self) -> int:
        return self.gateway.receiver.counts.unforeseen

    def url(self, path: str, parameter: str) -> str:
        filled = re.sub(r"\{\w+\}", lambda _: quote(parameter, safe="") or "x", path)
        return f"http://127.0.0.1:{self.port}{filled}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie, "Origin": f"http://127.0.0.1:{self.port}", "Accept": "text/html"}

    async def leave(self, method: str, path: str, body: bytes, n_bytes: int, *, reset: bool, reads: bool) -> None:
        """Send *n_bytes* of the body, and leave; with *reads*, once the answer has begun."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        sent = {
            **self.headers,
            "Content-Type": FORM,
            "Content-Length": str(len(body)),
            "Host": f"127.0.0.1:{self.port}",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body[:n_bytes])
        await writer.drain()
        if reads:
            await reader.readline()
        if reset:
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LEAVES_AT_ONCE)
        writer.close()


@pytest.fixture
async def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    monkeypatch.setattr(live, "LOOK_S", 0.02)
    monkeypatch.setattr(live, "HEARTBEAT_S", 0.0)
    async with running_gateway(tmp_path) as gateway:
        assert isinstance(gateway.ports.admin, TcpAddress)
        code = gateway.access.login_path().partition("=")[2]
        yield Browser(gateway, gateway.ports.admin.port, f"{COOKIE}={gateway.access.session_for_code(code)}")


@pytest.mark.parametrize("reset", [False, True], ids=["closes", "resets"])
async def test_leaving_is_no_unforeseen_error(browser: Browser, *, reset: bool) -> None:
    form = b"name=x&text=x&managed=send-ai-telemetry"
    with capture_logs() as lines:
        for row in ROWS:
            path, is_form = re.sub(r"\{\w+\}", "1", row.path), row.method == "POST"
            for n_bytes in (0, 5, len(form)) if is_form else (0,):
                await browser.leave(row.method, path, form if is_form else b"", n_bytes, reset=reset, reads=False)
            await browser.leave(row.method, path, form if is_form else b"", len(form), reset=reset, reads=True)
        streams = browser.gateway.admin[live.LIVE]
        await until_true(lambda: streams.streams == 0, timeout_s=20, what="the gateway notices that all left")
    assert [line for line in lines if line["log_level"] in {"error", "critical"}] == []
    assert browser.unforeseen == 0


NASTY: Final = ("9" * 400, "9223372036854775808", "\x00", "\xed\xa0\x80", "<script>")
"""Each breaks something that reads it without care: a number of Python, one of SQLite, text."""
NAMES: Final = (
    "limit", "cursor", "sort_key", "sort_order", "status", "from", "to", "range", "interval", "group_by", "provider", "model", "team", "user", "key",
    "device_id", "currency", "month", "state", "kind", "lane", "reason", "id", "once", "then", "view", "name", "record_id", "dimension", "code",
)  # fmt: skip


async def test_no_parameter_or_form_is_an_unforeseen_error(browser: Browser) -> None:
    views = [row for row in ROWS if row.method == "GET" and row.path not in {"/live", "/v2/tap"}]
    with capture_logs() as lines:
        async with aiohttp.ClientSession(headers=browser.headers) as client:
            for value in NASTY:
                every = urlencode([(name, value) for name in NAMES])
                for row in ROWS:
                    if row.method == "POST":
                        await ask(client, "POST", browser.url(row.path, value), every)
                for row in views:
                    await ask(client, "GET", browser.url(row.path, value))
                    for name in NAMES:
                        await ask(client, "GET", f"{browser.url(row.path, '1')}?{urlencode({name: value})}")
    assert browser.unforeseen == 0
    assert [line for line in lines if line["log_level"] in {"error", "critical"}] == []


async def ask(client: aiohttp.ClientSession, method: str, url: str, form: str = "") -> None:
    headers = {"Content-Type": FORM} if form else {}
    async with client.request(
        method, URL(url, encoded=True), data=form or None, headers=headers, allow_redirects=False
    ) as response:
        await response.read()
        assert response.status != 503, (method, url, form)
