"""SIGHUP: what changed in the configuration takes effect in the running process, a bad one changes
nothing, and neither ends it.
"""

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from benchmarks.bodies import Shape, Template
from tests.support.gateway_process import GatewayProcess
from tests.support.kill_load import Load
from tests.support.upstream import Reply, Seen, running_upstream

SPAN = b'{"resourceSpans":[]}'
JSON = {"Content-Type": "application/json"}
TELEMETRY = "ai-telemetry-ingest:ingest-ai-telemetry"
RELOADED = "configuration reloaded"
NOT_RELOADED = "not reloaded: the configuration before stays"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as gateway:
        yield gateway


def change(gateway: GatewayProcess, **options: object) -> None:
    """Lay *options* over the configuration's file (top-level keys)."""
    file = gateway.data_dir.parent / "config.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), **options}))


def hang_up(gateway: GatewayProcess, says: str = RELOADED) -> str:
    """SIGHUP; what the gateway logged from then on, once *says* is in it."""
    before = len(gateway.log.read_text())
    os.kill(gateway.process.pid, signal.SIGHUP)

    def logged() -> str | None:
        text = gateway.log.read_text()[before:]
        return text if says in text and text.endswith("\n") else None

    return gateway.process.wait_until(logged, what=says)


async def post(gateway: GatewayProcess, path: str, body: bytes, headers: Mapping[str, str]) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.post(gateway.intake_url + path, data=body, headers=headers) as answer,
    ):
        return answer.status


async def test_limits_change_without_a_restart_and_a_bad_file_leaves_them(gateway: GatewayProcess) -> None:
    large = SPAN + b" " * 4096
    assert await post(gateway, "/v1/traces", large, JSON) == 200
    change(gateway, limits={"max_body_bytes": "2KiB"})
    hang_up(gateway)
    assert await post(gateway, "/v1/traces", large, JSON) == 413
    change(gateway, limits={"max_body_bytes": "many", "max_bodies": 1})
    said = hang_up(gateway, NOT_RELOADED)
    assert "limits.max_body_bytes: must be a size" in said
    assert "limits.max_bodies: unknown option" in said
    assert await post(gateway, "/v1/traces", large, JSON) == 413
    assert await post(gateway, "/v1/traces", SPAN, JSON) == 200
    change(gateway, limits={})
    hang_up(gateway)
    assert await post(gateway, "/v1/traces", large, JSON) == 200
    assert gateway.stop() == 0


@pytest.mark.parametrize("content", ["{", None])
def test_a_file_that_cannot_be_read_ends_nothing(gateway: GatewayProcess, content: str | None) -> None:
    file = gateway.data_dir.parent / "config.yaml"
    file.unlink()
    if content is not None:
        file.write_text(content)
    hang_up(gateway, NOT_RELOADED)
    assert gateway.stop() == 0


def test_options_that_need_a_restart_are_named(gateway: GatewayProcess) -> None:
    change(gateway, spool={"max_bytes": "1GiB"}, limits={"body_timeout": "30s"}, auth="none")
    said = hang_up(gateway, "need a restart")
    assert "['auth', 'spool.max_bytes']" in said
    assert "['auth', 'spool.max_bytes']" in hang_up(gateway, "need a restart"), "they still do"
    change(gateway, spool={}, auth="keys")
    assert "need a restart" not in hang_up(gateway)


def test_the_level_of_the_log_follows(gateway: GatewayProcess) -> None:
    change(gateway, log_level="warning", auth="none")
    said = hang_up(gateway, "need a restart")
    assert RELOADED not in said, "it is of a lower level"
    change(gateway, log_level="info", auth="keys")
    hang_up(gateway)


def test_the_format_of_the_log_follows_and_the_line_names_what_changed(gateway: GatewayProcess) -> None:
    change(gateway, log_format="json", limits={"max_body_bytes": "2MiB"})
    (line,) = hang_up(gateway).splitlines()
    reloaded = json.loads(line)
    assert (reloaded["event"], reloaded["changed"]) == (RELOADED, ["limits.max_body_bytes", "log_format"])
    change(gateway, log_format="console", limits={"max_body_bytes": "2MiB"})
    said = hang_up(gateway)
    assert RELOADED in said
    assert "{" not in said


def test_a_price_file_with_a_fault_is_stated_and_the_prices_stay(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("{}")
    with GatewayProcess(tmp_path, config={"pricing": {"file": str(prices)}}) as gateway:
        hang_up(gateway, "price file read")
        prices.write_text("prices: 7")
        assert "pricing.file" in hang_up(gateway, NOT_RELOADED)
        assert gateway.stop() == 0


async def test_the_secret_of_a_source_changes(tmp_path: Path) -> None:
    def signed(secret: str) -> dict[str, str]:
        return {**JSON, "x-vercel-signature": hmac.new(secret.encode(), SPAN, hashlib.sha1).hexdigest()}

    secret = tmp_path / "vercel"
    secret.write_text("the first one")
    with GatewayProcess(tmp_path, config={"sources": {"vercel": {"secret": f"${{file:{secret}}}"}}}) as gateway:
        assert await post(gateway, "/v1/sources/vercel", SPAN, signed("the first one")) == 200
        secret.write_text("the second one")
        hang_up(gateway)
        assert await post(gateway, "/v1/sources/vercel", SPAN, signed("the first one")) == 401
        assert await post(gateway, "/v1/sources/vercel", SPAN, signed("the second one")) == 200


def upstream_group(base_url: str, *keys: tuple[str, str], scope: str = TELEMETRY) -> dict[str, Any]:
    named = [{"name": name, "secret": secret, "scopes": [scope]} for name, secret in keys]
    return {"upstream": {"base_url": base_url, "keys": named}}


async def test_the_keys_of_the_upstream_change_and_what_was_held_goes_out(tmp_path: Path) -> None:
    old, new = secrets.token_hex(16), secrets.token_hex(16)

    def only_new(seen: Seen) -> Reply:
        return Reply(202 if seen.headers.get("Authorization") == new else 401)

    async with running_upstream() as upstream:
        upstream.respond = only_new
        gateway = GatewayProcess(tmp_path, config=upstream_group(upstream.base_url, ("first", old)))
        try:
            await asyncio.to_thread(gateway.start)
            await Load(Template(Shape(spans=5, attributes=15)), lambda: gateway.intake_url).send_one()
            await until(gateway, lambda: gateway.status()["lanes"]["ai_telemetry"]["state"] == "held")
            change(gateway, **upstream_group(upstream.base_url, ("second", new), ("first", old)))
            await asyncio.to_thread(hang_up, gateway)
            status = await asyncio.to_thread(gateway.wait_until_delivered)
            assert status["lanes"]["ai_telemetry"]["delivered"] == 5
            change(gateway, **upstream_group(upstream.base_url, ("third", new), scope="events_v1:create_event"))
            said = await asyncio.to_thread(hang_up, gateway, "need a restart")
            assert "upstream.keys" in said, "a lane would be turned off"
            assert new not in gateway.log.read_text()
        finally:
            gateway.kill()


async def until(gateway: GatewayProcess, condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(gateway.process.wait_until, lambda: condition() or None, what="so")


def test_a_hang_up_while_it_starts_ends_nothing(tmp_path: Path) -> None:
    gateway = GatewayProcess(tmp_path)
    process = gateway.spawn()
    ports = tmp_path / "ports.json"

    def ready() -> bool | None:
        if "SigIgn" in (status := Path(f"/proc/{process.pid}/status").read_text()) and _takes(status, signal.SIGHUP):
            os.kill(process.pid, signal.SIGHUP)
        return ports.exists() or None

    try:
        process.wait_until(ready, what="ready")
        assert process.terminate() == 0
    finally:
        process.kill()


def _takes(status: str, number: int) -> bool:
    """Whether the process ignores or handles the signal by now."""
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith(("SigIgn", "SigCgt")))
    return bool((int(masks["SigIgn"], 16) | int(masks["SigCgt"], 16)) & (1 << (number - 1)))
