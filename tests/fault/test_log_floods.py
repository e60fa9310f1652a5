"""A disk that fails for long: the log states each cause once, however many requests meet it."""

import os
import re
import secrets
from pathlib import Path

import aiohttp

from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.power import built_shim

EVENT = {"title": "x", "source": "test", "timestamp": "2026-01-05T10:00:00Z", "stream": "s", "value": "1"}


async def refused(gateway: GatewayProcess, requests: int) -> None:
    """Send *requests*, each answered that it cannot be kept now."""
    async with aiohttp.ClientSession() as session:
        for _ in range(requests):
            async with session.post(gateway.intake_url + "/v1/events", json=EVENT) as answer:
                assert answer.status == 503


async def test_a_failing_disk_does_not_flood_the_log(tmp_path: Path) -> None:
    failing = tmp_path / "failing"
    gateway = GatewayProcess(tmp_path, upstream=Upstream("http://127.0.0.1:9", secrets.token_hex(16)))
    gateway.env |= {
        "LD_PRELOAD": str(built_shim(tmp_path)),
        "DISK_SHIM_LOG": os.devnull,
        "DISK_SHIM_DIR": str(gateway.data_dir / "spool.db"),
        "DISK_SHIM_FAIL": str(failing),
    }
    with gateway:
        failing.touch()
        await refused(gateway, 20)
        first = gateway.log.read_text()
        await refused(gateway, 80)
        text = gateway.log.read_text()
        assert first.count("Traceback") <= 4
        assert text.count("Traceback") == first.count("Traceback")
        lines = [len(re.findall(r"^20\d\d-", log, re.MULTILINE)) for log in (first, text)]
        assert lines[1] - lines[0] <= 10, text[-3000:]
        failing.unlink()
        async with aiohttp.ClientSession() as session:

            async def taken() -> bool:
                async with session.post(gateway.intake_url + "/v1/events", json=EVENT) as answer:
                    return answer.status < 300

            assert any([await taken() for _ in range(20)])
