"""What AI gateways push in shapes of their own, through reading, counting and spool: exactly
the calls that were made.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from gateway.sources.catalogue import SOURCES
from tests.support.compare import differences
from tests.support.corpus import CANARY, CORPUS

OTLP_PATHS = ("/v1/traces", "/v1/logs", "/v1/metrics", "/api/public/otel/v1/traces")


def _pushed() -> list[Path]:
    """The payloads that are no OTLP: `tests/conformance/corpus` has those."""
    return [
        path
        for path in sorted((CORPUS / "gateways").glob("*/*.meta.json"))
        if json.loads(path.read_text())["path"] not in OTLP_PATHS and not json.loads(path.read_text()).get("payloads")
    ]


PUSHED = _pushed()
BEYOND_THE_SOURCE: dict[str, str] = {}
"""Payload -> why it comes out otherwise than its meta file states. Tested as such: one that
is right after all fails."""


def payload(path: Path) -> tuple[dict[str, Any], tuple[bytes, str, str, str]]:
    """The meta file, and body, path, Content-Type, Content-Encoding."""
    meta = json.loads(path.read_text("utf-8"))
    body = (path.parent / meta["file"]).read_bytes()
    if meta["file"].endswith(".gz"):
        body = gzip.decompress(body)
    return meta, (body, f"/v1/sources/{path.parent.name}", meta["content_type"] or "application/json", "")


@pytest.mark.parametrize("path", PUSHED, ids=lambda path: f"{path.parent.name}/{path.name.removesuffix('.meta.json')}")
async def test_a_pushed_payload_gives_exactly_its_calls(path: Path) -> None:
    meta, sent = payload(path)
    records, receipt, outcomes = await records_of_payloads([sent])
    found = differences(meta, [orjson.loads(record) for record in records])
    name = f"{path.parent.name}/{path.name.removesuffix('.meta.json')}"
    assert bool(found) == (name in BEYOND_THE_SOURCE), found
    assert not any(CANARY.encode() in record for record in records)
    assert not receipt.rejected
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")


@pytest.mark.parametrize("path", PUSHED, ids=lambda path: f"{path.parent.name}/{path.name.removesuffix('.meta.json')}")
async def test_a_payload_that_is_pushed_again_counts_once(path: Path) -> None:
    _, sent = payload(path)
    once, _, _ = await records_of_payloads([sent])
    twice, _, outcomes = await records_of_payloads([sent, sent])
    assert sorted(orjson.loads(x)["record_id"] for x in twice) == sorted(orjson.loads(x)["record_id"] for x in once)
    assert outcomes["received"] == sum(n for outcome, n in outcomes.items() if outcome != "received")


def test_the_corpus_is_there() -> None:
    assert len(PUSHED) > 20
    assert {path.parent.name for path in PUSHED} <= SOURCES.keys()
