"""The gateway's own sums beside those of the service that received the records: the whole corpus,
every dimension, to the last digit.
"""

import csv
import io
import json
import urllib.request
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.products.catalogue import SOURCES
from tests.e2e.test_canary import PAYLOADS, post
from tests.support.commands import run_command
from tests.support.corpus import CORPUS
from tests.support.focus import faults_of_csv
from tests.support.gateway_process import GatewayProcess, broken_identities

pytestmark = pytest.mark.slow

ALIKE = ("provider", "model", "operation", "service_name", "user", "team", "project", "device_id", "key")
"""Dimensions that both have."""
NAMES = {
    "calls": "calls",
    "calls_without_usage": "calls_without_usage",
    "calls_without_cost": "calls_without_cost",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_creation_tokens": "cache_creation_input_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}
"""A sum here -> the same in the service's summary, where unknown tokens add 0."""
USER = "zoe@example.com"
IN_EURO = {
    "schema": "inference/1", "record_id": "e" * 32, "kind": "call", "billed": True, "operation": "chat",
    "source": {"format": "otlp.traces", "convention": "gen_ai"}, "provider": "own", "request_model": "own-model",
    "started_at": "2026-01-05T09:30:00.000Z", "duration_ms": 5, "usage": {"status": "reported", "input_tokens": 10},
    "cost": {"amount": "100.001000000000000001", "currency": "EUR", "source": "reported", "price_version": None},
    "status": "ok", "attribution": {"team": "(other)", "user": USER}, "received_at": "2026-01-05T09:30:01.000Z", "flags": [],
}  # fmt: skip
CONFIG = {
    "counting": {"settle": "200ms", "metrics_settle": "200ms"}, "billing": {"connection": "conn-1", "since": "2026-06-01"},
}  # fmt: skip
Sums = dict[str, Any]
Groups = dict[tuple[str | None, ...], Sums]


def test_the_sums_equal_those_of_the_service_for_the_whole_corpus(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, config=CONFIG) as gateway:
        for payload in PAYLOADS.values():
            post(f"{gateway.intake_url}/v1/{payload.signal}", payload)
        for source, body, content_type in source_payloads():
            ask(f"{gateway.intake_url}/v1/sources/{source}", body, {"Content-Type": content_type})
        envelope = {"schema": "ai-telemetry/1", "batch_id": "b", "gateway_id": "g", "records": [IN_EURO]}
        ask(
            f"{gateway.intake_url}/v2/ai-telemetry/records",
            json.dumps(envelope).encode(),
            {"Content-Type": "application/json"},
        )
        assert not broken_identities(gateway.wait_until_delivered(at_least=300))
        for dimensions in (("provider", "model"), *((name,) for name in ALIKE)):
            assert of_gateway(gateway, dimensions) == of_service(gateway, dimensions), dimensions
        totals = of_gateway(gateway, ())[()]
        assert totals["calls"] > 300
        assert totals["costs"]["EUR"] == "100.001000000000000001", "each currency has a sum of its own"
        assert scraped(gateway, "telemetry_gateway_ai_calls_total") == totals["calls"]
        assert scraped(gateway, "telemetry_gateway_ai_cost_total", currency="EUR") == pytest.approx(100.001)
        assert exported(gateway, tmp_path) == january(gateway)
        assert dropped(gateway, tmp_path) == january(gateway)["costs"]
        gateway.kill()
        gateway.start()
        assert of_gateway(gateway, ("provider", "model")) == of_service(gateway, ("provider", "model"))
        assert gateway.stop() == 0
    assert sums_of(run_command(gateway, "usage", "--json", *EVER).json["totals"]) == totals
    forget_user(gateway)
    assert sums_of(run_command(gateway, "usage", "--json", *EVER).json["totals"]) == totals
    shown = run_command(gateway, "usage", "--group-by", "team", *EVER)
    assert shown.code == 0
    assert f"{totals['calls']:,}" in shown.out


EVER = ("--from", "2025-11-01", "--limit", "500")


def source_payloads() -> Iterator[tuple[str, bytes, str]]:
    """(source, body, media type) of what gateways post in formats of their own."""
    for path in sorted((CORPUS / "gateways").glob("*/*.meta.json")):
        meta = json.loads(path.read_text())
        name = path.parent.name
        if name in SOURCES and not str(meta.get("path")).endswith(("/v1/traces", "/v1/logs", "/v1/metrics")):
            yield name, (path.parent / meta["file"]).read_bytes(), meta.get("content_type") or "application/json"


def of_gateway(gateway: GatewayProcess, dimensions: tuple[str, ...]) -> Groups:
    """A model by each of its names, as the service has them; their sums are those of the model."""
    group_by = ",".join(dimensions) or "provider"
    token = (gateway.data_dir / "admin-token").read_text().strip()
    url = f"{gateway.admin_url}/v2/usage?group_by={group_by}&from=2025-11-01&limit=500"
    answer = ask(url, None, {"Authorization": token})
    if not dimensions:
        return {(): sums_of(answer["totals"])}
    assert answer["rest"] is None
    found: Groups = {}
    for row in answer["usage"]:
        names = row.get("versions", [])
        if names:
            assert [sum(each[name] or 0 for each in names) for name in NAMES] == [row[name] or 0 for name in NAMES]
        found |= {tuple({**row, **each}[name] for name in dimensions): sums_of(each) for each in names or [row]}
    return found


def sums_of(row: Mapping[str, Any]) -> Sums:
    return {**{name: row[name] or 0 for name in NAMES}, "costs": row["costs"]}


def of_service(gateway: GatewayProcess, dimensions: tuple[str, ...]) -> Groups:
    found: Groups = {}
    for row in gateway.summary(",".join(dimensions))["summary"]:
        dollars = {} if row["cost"] is None else {"USD": row["cost"]}
        costs = dict(sorted({**dollars, **row.get("other_costs", {})}.items()))
        found[tuple(row[name] for name in dimensions)] = {
            **{mine: row[theirs] for mine, theirs in NAMES.items()}, "costs": costs,
        }  # fmt: skip
    return found


def forget_user(gateway: GatewayProcess) -> None:
    """Of a stopped gateway, after a dry run and a question that was declined."""
    found = run_command(gateway, "forget-user", USER, "--dry-run", "--json").json
    assert (found["records"], found["waiting"], found["usage_rows"] > 0) == (1, 0, True)
    assert run_command(gateway, "forget-user", USER, answer="n\n").code == 1
    ended = run_command(gateway, "forget-user", USER, answer="y\n")
    assert ended.code == 0, ended.err
    assert "the upstream and every exporter's target" in ended.out
    assert run_command(gateway, "forget-user", USER, "--dry-run", "--json").json["usage_rows"] == 0
    assert found["delivered_records"] == 1
    files = [file for file in gateway.data_dir.rglob("*") if file.is_file()]
    assert [file for file in files if USER.encode() in file.read_bytes()] == []


def exported(gateway: GatewayProcess, folder: Path) -> Sums:
    """The sums of a month's export, whose rows are of days."""
    to = folder / "january.ndjson"
    ended = run_command(gateway, "export", *JANUARY, "--format", "ndjson", "-o", str(to))
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in to.read_text().splitlines()]
    assert {row["period_start"] for row in rows} == {"2026-01-05T00:00:00Z"}
    costs: dict[str, Decimal] = {}
    for row in rows:
        if row["currency"]:
            costs[row["currency"]] = costs.get(row["currency"], Decimal(0)) + Decimal(row["cost"])
    return {**{name: sum(row[name] or 0 for row in rows) for name in NAMES}, "costs": costs}


def dropped(gateway: GatewayProcess, folder: Path) -> dict[str, Decimal]:
    """The sums of a month that was dropped to the embedded service, whose rows are those of the
    export as FOCUS.
    """
    planned = run_command(gateway, "billing", "send", "--month", "2026-01", "--dry-run", "--json", "--partial")
    assert planned.code == 0, planned.err
    asked = run_command(gateway, "billing", "send", "--month", "2026-01")
    assert (asked.code, asked.out.splitlines()[0]) == (1, "2026-01: 0 days are dropped to conn-1")
    assert "1 day began before counting did" in asked.err
    assert [(day["day"], day["change"], day["refused"]) for day in planned.json["days"]] == [
        ("2026-01-05", "new", None)
    ]
    sent = run_command(gateway, "billing", "send", "--month", "2026-01", "--partial")
    assert (sent.code, sent.out) == (0, "2026-01: 1 day is dropped to conn-1\n"), sent.err
    path = "/v2/connections/billing/external/conn-1/billing_drops"
    answer = ask(f"{gateway.service_url}{path}/2026-01?limit=500", None, {"Authorization": gateway.service_key()})
    to = folder / "january-focus.csv"
    assert run_command(gateway, "export", *JANUARY, "--format", "focus", "-o", str(to)).code == 0
    assert faults_of_csv(to.read_bytes()) == []
    costs: dict[str, Decimal] = {}
    lines = list(csv.DictReader(io.StringIO(to.read_text(), newline="")))
    assert sorted(map(cells, answer["rows"])) == sorted(map(cells, lines)), "one maker of FOCUS rows"
    for row in answer["rows"]:
        costs[row["BillingCurrency"]] = costs.get(row["BillingCurrency"], Decimal(0)) + Decimal(row["BilledCost"])
    (day,) = run_command(gateway, "billing", "show", "--month", "2026-01", "--json").json["days"]
    assert {currency: Decimal(cost) for currency, cost in day["costs"].items()} == costs
    assert (day["state"], day["row_count"]) == ("dropped", len(answer["rows"]))
    return costs


def cells(row: Mapping[str, Any]) -> list[str]:
    return ["" if value is None else str(value).removeprefix("'") for value in row.values()]


def january(gateway: GatewayProcess) -> Sums:
    found = sums_of(run_command(gateway, "usage", "--json", *JANUARY).json["totals"])
    return found | {"costs": {currency: Decimal(cost) for currency, cost in found["costs"].items()}}


JANUARY = ("--from", "2026-01-01", "--to", "2026-02-01")


def scraped(gateway: GatewayProcess, name: str, **labels: str) -> float:
    """The sum of a metric's samples with *labels*."""
    with urllib.request.urlopen(f"{gateway.admin_url}/metrics", timeout=30) as response:
        families = text_string_to_metric_families(response.read().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def ask(url: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
    with urllib.request.urlopen(urllib.request.Request(url, body, dict(headers)), timeout=30) as response:
        return json.loads(response.read())
