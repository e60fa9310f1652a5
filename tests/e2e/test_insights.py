"""Insights of the real gateway: found from what was sent, listed for who has the token, kept
over kill -9 and restarts.
"""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scenario import fetch
from tests.support.gateway_process import GatewayProcess
from tests.support.metrics import LABELS, RESOURCE, Export, at_ns
from tests.support.spans import call_span


def listed(gateway: GatewayProcess) -> list[dict[str, Any]]:
    token = (gateway.data_dir / "admin-token").read_text().strip()
    found = json.loads(fetch(gateway.admin_url + "/v2/insights", headers={"Authorization": f"Bearer {token}"}))
    assert found["pagination"]["total_count"] == len(found["insights"])
    return list(found["insights"])


def send(gateway: GatewayProcess, path: str, body: bytes) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    with urllib.request.urlopen(urllib.request.Request(gateway.intake_url + path, body, headers), timeout=30) as answer:
        assert answer.status == 200


def report(gateway: GatewayProcess, name: str) -> None:
    """A call of a model that has no price, and metrics of that and of
    a model whose spans never come.
    """
    at = time.time() - at_ns(0) / 1e9  # later than the start of the gateway, which knows nothing of what was before
    unpriced = {**LABELS, "gen_ai.request.model": "made-up-model"}
    send(gateway, "/v1/traces", call_span(name, (100, 20), at=at, more={"gen_ai.request.model": "made-up-model"}))
    made = Export(resource=RESOURCE, start=at, at=at + 1)
    made.point(120, "input", labels=unpriced).point(700, labels={**LABELS, "gen_ai.request.model": "lost-model"})
    send(gateway, "/v1/metrics", made.body)
    gateway.wait_until_delivered()


def test_a_model_that_lost_all_spans_and_one_without_a_price_become_insights_that_last(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            fetch(gateway.admin_url + "/v2/insights")
        assert listed(gateway) == []
        report(gateway, "a")
        found = listed(gateway)
        assert sorted((x["category"], x["status"], x["cost_impact"]) for x in found) == [
            ("data quality", "new", None),
            ("pricing", "new", None),
        ]
        assert [x["title"].split(":")[0] for x in found if x["category"] == "data quality"] == ["app (peer 127.0.0.1)"]
        gateway.kill()
        gateway.restart()
        assert listed(gateway) == found
        report(gateway, "b")
        assert len(listed(gateway)) == 2, "never two for one cause"
        assert gateway.stop() == 0
        gateway.restart()
        assert len(listed(gateway)) == 2
