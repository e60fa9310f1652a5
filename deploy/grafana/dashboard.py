"""Writes telemetry-gateway.json, the Grafana dashboard, beside itself:
`python deploy/grafana/dashboard.py`.

A test holds the file to this script, and each metric in it to docs/metrics.md.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("telemetry-gateway.json")
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OF = 'instance=~"$instance"'
"""What every query is narrowed to."""
COLUMNS, WIDTH, HEIGHT = 24, 8, 8


class Query(NamedTuple):
    expr: str
    legend: str


class Panel(NamedTuple):
    title: str
    unit: str
    """Grafana's: `short`, `s`, `bytes`, `percentunit`, `reqps`."""
    queries: list[Query]
    description: str = ""
    kind: str = "timeseries"
    stacked: bool = False


def rate(metric: str, by: str, legend: str, more: str = "") -> Query:
    return Query(f"sum by ({by}) (rate({metric}{{{OF}{more}}}[$__rate_interval]))", legend)


def total(metric: str, by: str, legend: str, more: str = "") -> Query:
    return Query(f"sum by ({by}) ({metric}{{{OF}{more}}})", legend)


def per_hour(metric: str, by: str) -> str:
    return f"3600 * sum by ({by}) (rate({metric}{{{OF}}}[$__rate_interval]))"


def share(metric: str) -> str:
    """Of all AI calls."""
    return " / ".join(
        f"sum(rate({name}{{{OF}}}[$__rate_interval]))" for name in (metric, "telemetry_gateway_ai_calls_total")
    )


def quantiles(metric: str, by: str = "", legend: str = "") -> list[Query]:
    """p50 and p99 of a histogram."""
    labels = ", ".join(filter(None, ("le", by)))
    per_s = f"sum by ({labels}) (rate({metric}_bucket{{{OF}}}[$__rate_interval]))"
    return [Query(f"histogram_quantile({q}, {per_s})", f"p{q * 100:.0f} {legend}".strip()) for q in (0.5, 0.99)]


ROWS: dict[str, list[Panel]] = {
    "Bill": [
        Panel(
            "Cost per hour by model",
            "none",
            [Query(per_hour("telemetry_gateway_ai_cost_total", "currency, model"), "{{currency}} {{model}}")],
            "In the currency of the calls; calls whose cost is not known are not in it.",
            stacked=True,
        ),
        Panel(
            "Cost per hour by team",
            "none",
            [Query(per_hour("telemetry_gateway_ai_cost_total", "currency, team"), "{{currency}} {{team}}")],
            "An empty name is an unknown team.",
            stacked=True,
        ),
        Panel(
            "Tokens per hour",
            "short",
            [Query(per_hour("telemetry_gateway_ai_tokens_total", "type"), "{{type}}")],
            "Input includes cache_read and cache_creation, output includes reasoning.",
        ),
        Panel(
            "Calls per hour by provider",
            "short",
            [
                Query(per_hour("telemetry_gateway_ai_calls_total", "provider"), "{{provider}}"),
                Query(per_hour("telemetry_gateway_ai_failed_calls_total", "provider"), "failed: {{provider}}"),
            ],
        ),
        Panel(
            "Share of calls without cost or usage",
            "percentunit",
            [
                Query(share("telemetry_gateway_ai_calls_without_cost_total"), "no known cost"),
                Query(share("telemetry_gateway_ai_calls_missing_usage_total"), "no tokens stated"),
            ],
            "They are missing from the bill.",
        ),
        Panel(
            "Items by outcome",
            "short",
            [total("telemetry_gateway_items", "fate", "{{fate}}")],
            "received = kept + duplicate + suppressed + rejected + ignored",
            stacked=True,
        ),
    ],
    "Traffic": [
        Panel("Items received", "cps", [rate("telemetry_gateway_items_received_total", "instance", "{{instance}}")]),
        Panel(
            "Answers by route and status",
            "reqps",
            [rate("telemetry_gateway_http_answers_total", "route, status", "{{route}} {{status}}")],
        ),
        Panel(
            "Refused",
            "reqps",
            [
                rate("telemetry_gateway_http_answers_total", "status", "{{status}}", ', status=~"4..|5.."'),
                rate("telemetry_gateway_http_over_quota_total", "key, quota", "over quota: {{key}} {{quota}}"),
                rate("telemetry_gateway_http_senders_gone_total", "instance", "gone before the answer: {{instance}}"),
            ],
        ),
    ],
    "Delivery": [
        Panel(
            "State of the lanes",
            "short",
            [Query(f"telemetry_gateway_lane_state{{{OF}}} == 1", "{{instance}} {{lane}}: {{state}}")],
            kind="table",
        ),
        Panel(
            "Pending records",
            "short",
            [total("telemetry_gateway_lane_records", "lane", "{{lane}}", ', fate="pending"')],
        ),
        Panel(
            "Age of the oldest pending record",
            "s",
            [Query(f"max by (lane) (telemetry_gateway_lane_oldest_pending_age_seconds{{{OF}}})", "{{lane}}")],
        ),
        Panel("Delivered records", "cps", [rate("telemetry_gateway_lane_delivered_records_total", "lane", "{{lane}}")]),
        Panel(
            "Answers of the upstream",
            "reqps",
            [rate("telemetry_gateway_upstream_answers_total", "lane, status", "{{lane}} {{status}}")],
        ),
        Panel(
            "Dead letters that are kept",
            "short",
            [total("telemetry_gateway_dead_letters", "lane, reason", "{{lane}}: {{reason}}")],
        ),
        Panel(
            "Batches by outcome",
            "cps",
            [rate("telemetry_gateway_sends_total", "lane, outcome", "{{lane}} {{outcome}}")],
        ),
        Panel("Pending bytes", "bytes", [total("telemetry_gateway_lane_pending_bytes", "lane", "{{lane}}")]),
        Panel("Expired records", "cps", [rate("telemetry_gateway_lane_expired_records_total", "lane", "{{lane}}")]),
    ],
    "Latency": [
        Panel(
            "Answers to senders",
            "s",
            quantiles("telemetry_gateway_request_duration_seconds", "transport", "{{transport}}"),
        ),
        Panel("Append", "s", quantiles("telemetry_gateway_append_duration_seconds")),
        Panel("Commit with sync", "s", quantiles("telemetry_gateway_spool_commit_duration_seconds")),
        Panel("Send", "s", quantiles("telemetry_gateway_send_duration_seconds", "lane", "{{lane}}")),
        Panel("From receipt to settled", "s", quantiles("telemetry_gateway_settle_lag_seconds")),
        Panel("Lateness of the event loop", "s", quantiles("telemetry_gateway_event_loop_lag_seconds")),
    ],
    "Spool": [
        Panel(
            "Spool of its limit",
            "percentunit",
            [
                Query(
                    f"telemetry_gateway_spool_used_bytes{{{OF}}} / telemetry_gateway_spool_max_bytes{{{OF}}}",
                    "{{instance}}",
                )
            ],
        ),
        Panel(
            "Files and free disk",
            "bytes",
            [
                total("telemetry_gateway_spool_bytes", "instance", "files {{instance}}"),
                total("telemetry_gateway_spool_disk_free_bytes", "instance", "free {{instance}}"),
            ],
        ),
        Panel(
            "Damage",
            "short",
            [
                total("telemetry_gateway_spool_unacknowledged_losses", "instance", "not acknowledged {{instance}}"),
                total("telemetry_gateway_quarantined_records", "instance", "quarantined records {{instance}}"),
            ],
        ),
    ],
    "Process": [
        Panel(
            "CPU",
            "percentunit",
            [
                rate("process_cpu_seconds_total", "instance", "gateway {{instance}}", ', job="telemetry-gateway"'),
                rate("telemetry_gateway_parser_process_cpu_seconds_total", "instance", "parser {{instance}}"),
            ],
            "1 is one core.",
        ),
        Panel(
            "Resident memory",
            "bytes",
            [
                total("process_resident_memory_bytes", "instance", "gateway {{instance}}", ', job="telemetry-gateway"'),
                total("telemetry_gateway_parser_process_resident_memory_bytes", "instance", "parser {{instance}}"),
                total("telemetry_gateway_http_in_flight_bytes", "instance", "bodies in flight {{instance}}"),
            ],
        ),
        Panel(
            "Open files and faults",
            "short",
            [
                total("process_open_fds", "instance", "open files {{instance}}", ', job="telemetry-gateway"'),
                total("telemetry_gateway_unforeseen_errors_total", "instance", "unforeseen errors {{instance}}"),
                total("telemetry_gateway_lane_restarts_total", "lane", "pump restarts {{lane}}"),
            ],
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    """The dashboard, ready to be imported."""
    return {
        "title": "AI telemetry gateway",
        "uid": "ai-telemetry-gateway",
        "tags": ["ai", "finops", "opentelemetry"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": [datasource(), instance()]},
        "panels": list(panels()),
    }


def datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}


def instance() -> dict[str, Any]:
    query = "label_values(telemetry_gateway_info, instance)"
    return {
        "name": "instance",
        "label": "Gateway",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "instance"},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def panels() -> Iterator[dict[str, Any]]:
    """Each row's heading, and its panels three abreast."""
    number, y = 0, 0
    for title, row in ROWS.items():
        number += 1
        at = {"h": 1, "w": COLUMNS, "x": 0, "y": y}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": at, "panels": []}
        y += 1
        for place, panel in enumerate(row):
            number += 1
            yield drawn(panel, number, x=place * WIDTH % COLUMNS, y=y + place * WIDTH // COLUMNS * HEIGHT)
        y += -(-len(row) * WIDTH // COLUMNS) * HEIGHT


def drawn(panel: Panel, number: int, *, x: int, y: int) -> dict[str, Any]:
    is_table = panel.kind == "table"
    custom = {} if is_table else {"fillOpacity": 10, "stacking": {"mode": "normal" if panel.stacked else "none"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {} if is_table else {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "instant": is_table,
                "format": "table" if is_table else "time_series",
            }
            for place, query in enumerate(panel.queries)
        ],
    }


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
