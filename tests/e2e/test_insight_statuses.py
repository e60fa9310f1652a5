"""What a person does with insights of the real gateway: it outlives rounds, kill -9 and
restarts, and is theirs to undo.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scenario import fetch
from tests.e2e.test_insights import listed, report
from tests.support.gateway_process import GatewayProcess


def ask(gateway: GatewayProcess, method: str, path: str, body: object = None) -> Any:
    """As the operator; None for an answer without a body."""
    secret = (gateway.data_dir / "admin-token").read_text().strip()
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": secret, "Content-Type": "application/json"}
    request = urllib.request.Request(gateway.admin_url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def by_category(gateway: GatewayProcess) -> dict[str, dict[str, Any]]:
    return {
        each["category"]: each
        for each in listed(gateway)
        if "lost-model" in each["title"] or "made-up" in each["title"]
    }


def test_statuses_and_comments_last_over_rounds_and_kills(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        report(gateway, "a")
        found = by_category(gateway)
        lost, unpriced = (f"/v2/insights/{found[name]['id']}" for name in ("data quality", "pricing"))
        ask(gateway, "PATCH", lost, {"status": "ignored"})
        ask(gateway, "PATCH", unpriced, {"status": "addressed"})
        comment = ask(gateway, "POST", f"{lost}/comments", {"text": "sampled on purpose"})["comment"]
        made = ask(gateway, "POST", "/v2/insights", {"title": "ours", "category": "waste", "effort": "low"})["insight"]
        gateway.kill()
        gateway.restart()
        report(gateway, "b")
        found = by_category(gateway)
        assert {name: each["status"] for name, each in found.items()} == {
            "data quality": "ignored",
            "pricing": "addressed",
        }
        assert ask(gateway, "GET", lost)["insight"]["status_set_by"] == "operator"
        assert ask(gateway, "GET", f"{lost}/comments")["comments"] == [comment]
        assert ask(gateway, "GET", f"/v2/insights/{made['id']}")["insight"] == made
        ask(gateway, "DELETE", lost)
        again = by_category(gateway)["data quality"]
        assert (again["id"], again["status"]) == (found["data quality"]["id"], "new"), "its cause still stands"
        assert ask(gateway, "GET", f"{lost}/comments")["comments"] == []
        assert gateway.stop() == 0


def test_the_embedded_service_lets_its_read_key_read_and_nothing_more(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path) as gateway:
        key = {"Authorization": gateway.service_key()}
        assert "insights" in json.loads(fetch(f"{gateway.service_url}/v2/insights", headers=key))
        body = json.dumps({"title": "t", "category": "c", "effort": "e"}).encode()
        write = urllib.request.Request(f"{gateway.service_url}/v2/insights", body, key)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(write, timeout=30)
