"""Every record that the corpus gives comes through `/v1/sources/records` as it was, and through
`/v1/traces` as the span that the OTLP exporter makes of it: what one gateway writes another one
takes.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from exporters.otlp.encode import encode_spans
from gateway.cli.normalising import records_of_payloads
from gateway.sources.catalogue import SOURCES
from tests.support.corpus import CANARY, CORPUS, Scenario, scenarios

PUSHED = [
    path
    for path in sorted(CORPUS.glob("gateways/*/*.meta.json"))
    if path.parent.name in SOURCES and "file" in json.loads(path.read_text("utf-8"))
]
TOLD = [scenario for signal in ("traces", "logs", "metrics") for scenario in scenarios(signal)]


def pushed(path: Path) -> tuple[bytes, str, str, str]:
    """A payload as it is given to its source; OTLP goes there too."""
    meta: dict[str, Any] = json.loads(path.read_text("utf-8"))
    body = (path.parent / meta["file"]).read_bytes()
    if meta["file"].endswith(".gz"):
        body = gzip.decompress(body)
    return body, f"/v1/sources/{path.parent.name}", "application/json", ""


@pytest.mark.parametrize("path", PUSHED, ids=lambda path: str(path.relative_to(CORPUS)).removesuffix(".meta.json"))
async def test_records_of_a_source_come_through_as_they_were(path: Path) -> None:
    first, _, _ = await records_of_payloads([pushed(path)])
    await come_through(first)


@pytest.mark.parametrize("scenario", TOLD, ids=lambda x: f"{x.name}-{x.payloads[0].signal}")
async def test_records_of_otlp_come_through_as_they_were(scenario: Scenario) -> None:
    sent = [
        (x.body, f"/v1/{x.signal}", "application/json" if x.is_json else "application/x-protobuf", "")
        for x in scenario.payloads
    ]
    first, _, _ = await records_of_payloads(sent)
    await come_through(first)


async def come_through(first: list[bytes]) -> None:
    body = b"\n".join(first)
    if not body:
        return
    again, receipt, outcomes = await records_of_payloads([(body, "/v1/sources/records", "application/x-ndjson", "")])
    assert not receipt.rejected
    assert outcomes["kept"] == len(first)
    assert by_id(again) == by_id(first)
    await come_back(first, body)


async def come_back(first: list[bytes], body: bytes) -> None:
    """As spans, and then over another way: the same records, each counted once."""
    spans = encode_spans(first, packs=True).body
    assert encode_spans(first, packs=True).body == spans, "a retry has the same bytes"
    assert CANARY.encode() not in gzip.decompress(spans)
    sent = [(spans, "/v1/traces", "application/x-protobuf", "gzip")]
    sent.append((body, "/v1/sources/records", "application/x-ndjson", ""))
    again, receipt, outcomes = await records_of_payloads(sent)
    assert not receipt.rejected
    assert by_id(again) == by_id(first)
    assert (outcomes["kept"], outcomes["duplicate"]) == (len(first), len(first))


def by_id(records: list[bytes]) -> dict[str, Any]:
    """Without null fields, which mean the same as absent ones."""
    return {(found := without_nulls(orjson.loads(record)))["record_id"]: found for record in records}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value
