"""deploy/prometheus and deploy/grafana: Prometheus reads the rules, each alert fires and stays
silent where it should, and no query asks for a metric that there is not.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana import dashboard
from tests.support.promtool import needs_promtool, promtool

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy/prometheus"
RULES = PROMETHEUS / "telemetry-gateway.rules.yaml"
TESTS = PROMETHEUS / "telemetry-gateway.tests.yaml"
OPERATIONS = (ROOT / "docs/operations.md").read_text()
HISTOGRAM = ("_bucket", "_sum", "_count")


def groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return found


def rules(kind: str) -> dict[str, dict[str, Any]]:
    """Name -> rule; *kind* is `alert` or `record`."""
    return {rule[kind]: rule for group in groups() for rule in group["rules"] if kind in rule}


ALERTS = rules("alert")


def metrics_of(expr: str) -> set[str]:
    return set(re.findall(r"(?<![\w:])(?:telemetry_gateway_|process_)\w+(?![\w:])", expr))


def documented() -> set[str]:
    """Every series of /metrics, by docs/metrics.md; tests/e2e/test_metrics.py holds that to the
    code.
    """
    found: set[str] = set()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+)", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE):
        names = {name + end for end in HISTOGRAM} if kind == "histogram" else {name}
        found |= names
        if name.startswith("process_"):
            found.add(f"telemetry_gateway_parser_{name}")
    return found


def panels() -> Iterator[dict[str, Any]]:
    yield from (panel for panel in dashboard.dashboard()["panels"] if panel["type"] != "row")


def queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]


@needs_promtool
def test_the_rules_are_valid() -> None:
    promtool("check", "rules", str(RULES))


@needs_promtool
def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    promtool("test", "rules", TESTS.name, folder=PROMETHEUS)


@needs_promtool
def test_the_example_of_a_scrape_is_valid(tmp_path: Path) -> None:
    for file in (RULES, PROMETHEUS / "prometheus.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
    (tmp_path / "metrics-token").write_text("a token")
    promtool("check", "config", "prometheus.yaml", folder=tmp_path)


@needs_promtool
def test_every_query_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    plain = [query.replace("$__rate_interval", "5m") for query in queries()]
    recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(plain)]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", str(file))


def test_every_alert_has_its_tests() -> None:
    tested = re.findall(r"^  - name: (TelemetryGateway\w+)", TESTS.read_text(), re.MULTILINE)
    assert set(tested) == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_states_what_is_wrong_and_where_to_read_on(name: str) -> None:
    alert = ALERTS[name]
    assert set(alert["annotations"]) == {"summary", "description", "runbook"}
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert alert["annotations"]["runbook"] == f"docs/operations.md#{name.lower()}"
    assert f"\n### {name}\n" in OPERATIONS


def test_rules_ask_for_metrics_that_there_are() -> None:
    asked = {
        metric for rule in [*ALERTS.values(), *rules("record").values()] for metric in metrics_of(str(rule["expr"]))
    }
    assert len(asked) > 15
    assert asked - documented() == set()


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    asked = {metric for query in queries() for metric in metrics_of(query)}
    assert len(asked) > 30
    assert asked - documented() == set()


def test_the_dashboard_is_what_its_script_writes() -> None:
    assert dashboard.FILE.read_text() == dashboard.text()


def test_the_dashboard_has_its_rows_and_asks_the_chosen_data_source() -> None:
    shown = json.loads(dashboard.FILE.read_text())
    rows = [panel["title"] for panel in shown["panels"] if panel["type"] == "row"]
    assert rows == ["Bill", "Traffic", "Delivery", "Latency", "Spool", "Process"]
    assert shown["templating"]["list"][0]["type"] == "datasource"
    numbers = [panel["id"] for panel in shown["panels"]]
    assert sorted(set(numbers)) == numbers, "Grafana drops a panel whose id is another's"
    for panel in panels():
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= dashboard.COLUMNS


def test_no_two_panels_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard.dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
