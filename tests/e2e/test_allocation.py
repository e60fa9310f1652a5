"""Allocation by command, API and page: what moves, what stays, and the same totals."""

from pathlib import Path

import pytest

from tests.e2e.test_tags import CALL, JANUARY, ask, gateway_text
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess
from tests.unit.rules.spans import request

pytestmark = pytest.mark.slow

RULES = """
- match: {service_name: [batch]}
  shares: [{name: search, percent: 33.4}, {name: chat, percent: 66.6}]
- match: {}
  shares: [{name: overhead, percent: 100}]
"""
SENT = [("batch", {}), ("batch", {"team": "search"}), ("web", {}), ("batch", {})]


def test_rules_move_past_days_and_back(tmp_path: Path) -> None:
    rules, none = tmp_path / "rules.yaml", tmp_path / "none.json"
    rules.write_text(RULES)
    none.write_text("[]")
    with GatewayProcess(tmp_path, config={"counting": {"settle": "200ms", "metrics_settle": "200ms"}}) as gateway:
        for number, (service, attributes) in enumerate(SENT):
            body = request(
                CALL | attributes, resource={"service.name": service}, span_id=bytes([*range(7), number + 1])
            ).SerializeToString()
            ask(f"{gateway.intake_url}/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        gateway.wait_until_delivered(at_least=len(SENT))
        before = usage(gateway)
        shown = run_command(
            gateway, "allocation", "preview", "team", str(rules), "--range", "2026-01-01/2026-02-01", "--json"
        )
        assert shown.code == 0, shown.err
        assert [rule["calls"] for rule in shown.json["preview"]["rules"]] == [2, 1]
        assert shown.json["preview"]["totals"] == before["totals"]
        assert usage(gateway) == before, "a preview changes nothing"
        printed = run_command(gateway, "allocation", "preview", "team", str(rules), "--range", "2026-01-01/2026-02-01")
        assert "rule 1: 2 calls" in printed.out
        made = run_command(gateway, "allocation", "set", "team", str(rules), "--note", "as agreed")
        assert made.code == 0, made.err
        after = usage(gateway)
        assert after["totals"] == before["totals"]
        assert {row["team"]: row["calls"] for row in after["usage"]} == {"search": 2, "chat": 1, "overhead": 1}
        assert usage(gateway, "--allocation", "none") == before
        page = gateway_text(gateway, "/usage?from=2026-01-01&to=2026-02-01&group_by=team")
        assert "overhead" in page
        exported = run_command(gateway, "export", *JANUARY, "--group-by", "team")
        assert "overhead" in exported.out
        assert gateway.stop() == 0
        offline = usage(gateway)
        assert offline == after
        ended = run_command(gateway, "allocation", "set", "team", str(none))
        assert "version 2" in ended.out, ended.err
        back = usage(gateway)
        assert back == before
        versions = run_command(gateway, "allocation", "versions", "team", "--json").json["versions"]
        assert [(each["version"], len(each["rules"]), each["note"]) for each in versions] == [
            (2, 0, ""),
            (1, 2, "as agreed"),
        ]
        assert versions[1]["rules"][0]["shares"][0] == {"name": "search", "percent": "33.4"}
        listed = run_command(gateway, "allocation", "list")
        assert "no rules: nothing is allocated" in listed.out


def usage(gateway: GatewayProcess, *more: str) -> dict[str, object]:
    asked = run_command(gateway, "usage", *JANUARY, "--group-by", "team", "--json", *more)
    assert asked.code == 0, asked.err
    return {**asked.json, "counted_through": None}
