"""What AI gateways push in shapes of their own, through reading, counting and spool: exactly
the calls that were made.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.products.catalogue import SOURCES
from tests.conformance.corpus.counting import Sent, counted
from tests.support.compare import differences
from tests.support.corpus import CORPUS

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


def payload(path: Path) -> tuple[dict[str, Any], Sent]:
    """The meta file, and body, path, Content-Type, Content-Encoding."""
    meta = json.loads(path.read_text("utf-8"))
    body = (path.parent / meta["file"]).read_bytes()
    if meta["file"].endswith(".gz"):
        body = gzip.decompress(body)
    return meta, (body, f"/v1/sources/{path.parent.name}", meta["content_type"] or "application/json", "")


@pytest.mark.parametrize("path", PUSHED, ids=lambda path: f"{path.parent.name}/{path.name.removesuffix('.meta.json')}")
async def test_a_pushed_payload_gives_exactly_its_calls_also_when_it_is_pushed_again(path: Path) -> None:
    meta, sent = payload(path)
    once = await counted(sent)
    found = differences(meta, once.parsed)
    name = f"{path.parent.name}/{path.name.removesuffix('.meta.json')}"
    assert bool(found) == (name in BEYOND_THE_SOURCE), found
    assert not once.rejected
    twice = await counted(sent, sent)
    assert sorted(x["record_id"] for x in twice.parsed) == sorted(x["record_id"] for x in once.parsed)


def test_the_corpus_is_there() -> None:
    assert len(PUSHED) > 20
    assert {path.parent.name for path in PUSHED} <= SOURCES.keys()
