"""Billing drops on the senders' port: those of LiteLLM's CloudZero export are AI usage, others are
refused in clear words.
"""

from pathlib import Path

import aiohttp
import pytest

from gateway.config.values import TcpAddress
from tests.support.running_gateway import running_gateway
from tests.unit.products.test_litellm import DAILY, FOREIGN, ROW

PATH = "/v2/connections/billing/anycost/c1/billing_drops"
FOCUS = {"month": "2026-11", "operation": "replace_daily", "format": "focus", "data": [{"BilledCost": "1"}]}


@pytest.mark.parametrize("drop", [{**DAILY, "data": [FOREIGN] * 1500}, FOCUS], ids=["cbf", "focus"])
async def test_a_drop_of_which_litellm_wrote_nothing_is_refused_and_counted(tmp_path: Path, drop: object) -> None:
    async with running_gateway(tmp_path) as gateway, aiohttp.ClientSession() as session:
        assert isinstance(gateway.ports.http, TcpAddress)
        url = f"http://127.0.0.1:{gateway.ports.http.port}{PATH}"
        async with session.post(url, json=drop) as response:
            assert response.status == 400
            assert "no row of this billing drop is LiteLLM's" in (await response.json())["error"]["message"]
        async with session.post(url, json={**DAILY, "data": [FOREIGN, ROW]}) as response:
            answer = await response.json()
            assert (response.status, answer["accepted"] > 0, answer["rejected_count"]) == (200, True, 1)
        status = gateway.status()
        assert [refused["reason"] for refused in status.get("refused", ())] == ["foreign_billing_row"]
        edge = status["edge"]
        assert edge["received"] == sum(n for outcome, n in edge.items() if outcome != "received")
        assert status["reasons"]["rejected.foreign_billing_row"] == edge["rejected"]
