"""What a gateway's own rounds find in the calls that it took, over a real receiver and a real
spool.
"""

from pathlib import Path

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.config.model import Config

NOW_MS = 1_767_607_200_000
"""2026-01-05T10:00:00Z"""
ANY_PORT = "127.0.0.1:0"
CALL = {
    "schema": "inference/1",
    "record_id": "0" * 31 + "1",
    "kind": "call",
    "billed": True,
    "source": {"format": "otlp.traces", "convention": "gen_ai"},
    "operation": "chat",
    "provider": "own",
    "request_model": "own-model",
    "started_at": "2026-01-05T09:30:00.000Z",
    "duration_ms": 5,
    "usage": {"status": "reported", "input_tokens": 1000, "output_tokens": 10},
    "status": "ok",
    "attribution": {},
    "received_at": "2026-01-05T09:30:01.000Z",
    "flags": ["unpriced"],
}


@pytest.mark.parametrize(("price_list", "lacking", "counted"), [("on", ["own-model"], 1), ("off", [], 0)])
async def test_a_model_lacks_a_price_only_where_calls_are_priced(
    tmp_path: Path, price_list: str, lacking: list[str], counted: int
) -> None:
    listen = {"http": ANY_PORT, "grpc": "off", "admin": ANY_PORT, "service": ANY_PORT}
    options = {"data_dir": tmp_path / "data", "listen": listen, "workers": "off", "pricing": {"price_list": price_list}}
    gateway = await Gateway.start(Config.model_validate(options), now_ms=lambda: NOW_MS)
    async with aiohttp.ClientSession() as session:
        sent = {"schema": "ai-telemetry/1", "batch_id": "b", "gateway_id": "g", "records": [CALL]}
        async with session.post(f"http://{gateway.ports.http}/v2/ai-telemetry/records", json=sent) as answer:
            assert (await answer.json())["rejected"] == []
        await gateway.settler.settle_due(1 << 60)
        admin, token = f"http://{gateway.ports.admin}", (tmp_path / "data/admin-token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with session.get(f"{admin}/v2/insights?limit=100", headers=headers) as answer:
            insights = (await answer.json())["insights"]
        async with session.get(f"{admin}/v2/status", headers=headers) as answer:
            unpriced = (await answer.json())["unpriced"]
    await gateway.stop()
    assert [x["title"].partition(":")[0] for x in insights if x["category"] == "pricing"] == lacking
    assert sum(unpriced.values()) == counted
