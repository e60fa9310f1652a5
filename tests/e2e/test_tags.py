"""Tags from a span to every answer: the page's question, the CLI, keys, files, calls and the
upstream; and what is not listed, or looks like a secret, is nowhere.
"""

import csv
import io
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.canary import files_with_canary
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess
from tests.unit.rules.spans import request

pytestmark = pytest.mark.slow

CONFIG = {
    "counting": {"settle": "200ms", "metrics_settle": "200ms"},
    "tags": {"feature": ["app.feature"], "cost_center": [], "environment": ["stage"]},
    "billing": {"connection": "conn-1", "since": "2026-06-01"},
}
CALL = {
    "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 10,
}  # fmt: skip
JANUARY = ("--from", "2026-01-01", "--to", "2026-02-01")
SENT = [
    ({"app.feature": "search", "team": "a"}, {"stage": "prod", "cost_center": "4711"}),
    ({"app.feature": "search", "team": "b", "app.prompt": "CANARY-7Q"}, {"stage": "test"}),
    ({"app.feature": "sk-proj-CANARY-7Q-0123456789", "team": "a"}, {}),
    ({"app.feature": "CANARY-7Q " * 40, "team": "a", "gen_ai.prompt": "CANARY-7Q"}, {"stage": "CANARY-7Q\nx"}),
]


def test_tags_reach_every_answer_and_nothing_else_does(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, config=CONFIG) as gateway:
        for number, (attributes, resource) in enumerate(SENT):
            body = request(CALL | attributes, resource=resource, span_id=bytes([*range(7), number + 1]))
            ask(f"{gateway.intake_url}/v1/traces", body.SerializeToString(), {"Content-Type": "application/x-protobuf"})
        gateway.wait_until_delivered(at_least=len(SENT))
        by_feature = {"search": 2, None: 2}
        found = show(gateway, "group_by=tag:feature")
        assert {row["tag:feature"]: row["calls"] for row in found["usage"]} == by_feature
        printed = run_command(gateway, "usage", *JANUARY, "--group-by", "tag:feature", "--json").json
        assert {row["tag:feature"]: row["calls"] for row in printed["usage"]} == by_feature
        assert printed["totals"] == found["totals"]
        of_test = show(gateway, "group_by=team&tag=feature%3Dsearch&tag=environment%3Dtest")
        assert [(row["team"], row["calls"]) for row in of_test["usage"]] == [("b", 1)]
        of_prod = run_command(gateway, "usage", *JANUARY, "--where", "tag:cost_center=4711", "--json").json
        assert of_prod["totals"]["calls"] == 1
        kept_questions(gateway)
        asked_by_a_key(gateway)
        of_files(gateway, tmp_path)
        calls(gateway)
        page = gateway_text(gateway, "/usage?range=this_year&group_by=tag:feature")
        assert "Tag feature" in page
        while_running = files_with_canary(tmp_path)
        assert gateway.stop() == 0
    assert not while_running
    assert not files_with_canary(tmp_path)


def kept_questions(gateway: GatewayProcess) -> None:
    made = run_command(
        gateway, "views", "create", "By feature", "--where", "tag:environment=prod", "--group-by", "tag:feature", "--range",
        "2026-01-01/2026-02-01",
    )  # fmt: skip
    assert made.code == 0, made.err
    seen = run_command(gateway, "usage", "--view", "By feature", "--json").json
    assert [(row["tag:feature"], row["calls"]) for row in seen["usage"]] == [("search", 1)]
    budget = ("Search", "--amount", "1", "--currency", "USD", "--period", "month", "--where", "tag:feature=search")
    made = run_command(gateway, "budgets", "create", *budget)
    assert made.code == 0, made.err
    wrong = run_command(gateway, "usage", "--group-by", "tag:featur")
    assert wrong.code == 1
    assert "tag:featur: no such tag (of tag:feature, tag:cost_center, tag:environment)" in wrong.err


def asked_by_a_key(gateway: GatewayProcess) -> None:
    scope = "billing:read_resource_tags"
    made = run_command(gateway, "keys", "create", "--name", "finops", "--scope", scope, "--yes", "--json")
    assert made.code == 0, made.err
    head = {"Authorization": f"Bearer {made.json['secret']}"}
    found = json.loads(ask(f"{gateway.admin_url}/v2/billing/resource-tags", None, head))
    assert {each["name"]: each["value_count"] for each in found["resource_tags"]} == {
        "cost_center": 0, "environment": 0, "feature": 0,
    }, "of the last 30 days"  # fmt: skip
    with pytest.raises(urllib.error.HTTPError, match="403"):
        ask(f"{gateway.admin_url}/v2/billing/costs", None, head)


def of_files(gateway: GatewayProcess, folder: Path) -> None:
    ended = run_command(gateway, "export", *JANUARY, "--group-by", "tag:feature,team", "-o", str(folder / "a.csv"))
    assert ended.code == 0, ended.err
    rows = list(csv.DictReader(io.StringIO((folder / "a.csv").read_text())))
    assert {(row["tag:feature"], row["team"]): row["calls"] for row in rows} == {
        ("search", "a"): "1", ("search", "b"): "1", ("", "a"): "2",
    }  # fmt: skip
    ended = run_command(gateway, "export", *JANUARY, "--format", "focus", "-o", str(folder / "focus.csv"))
    assert ended.code == 0, ended.err
    tags = [json.loads(row["Tags"]) for row in csv.DictReader(io.StringIO((folder / "focus.csv").read_text()))]
    assert sorted(tags, key=json.dumps) == sorted(
        [
            {"team": "a"},
            {"team": "a", "cost_center": "4711", "environment": "prod", "feature": "search"},
            {"team": "b", "environment": "test", "feature": "search"},
        ],
        key=json.dumps,
    )


def calls(gateway: GatewayProcess) -> None:
    found = json.loads(gateway_text(gateway, "/v2/calls?tag=feature%3Dsearch&tag=environment%3Dprod"))
    (call,) = found["calls"]
    assert (call["environment"], call["labels"]) == ("prod", {"cost_center": "4711", "feature": "search"})
    one = json.loads(gateway_text(gateway, f"/v2/calls/{call['record_id']}"))["call"]
    assert one["record"]["attribution"]["labels"] == call["labels"]


def show(gateway: GatewayProcess, query: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gateway_text(gateway, f"/v2/usage?from=2026-01-01&to=2026-02-01&{query}"))
    return found


def gateway_text(gateway: GatewayProcess, path: str) -> str:
    token = (gateway.data_dir / "admin-token").read_text().strip()
    return ask(f"{gateway.admin_url}{path}", None, {"Authorization": f"Bearer {token}"}).decode()


def ask(url: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, body, dict(headers)), timeout=60) as response:
        return bytes(response.read())
