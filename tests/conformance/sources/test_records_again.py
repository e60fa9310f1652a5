"""What one gateway writes of a source's payloads another one takes (`tests/conformance/corpus` has
those of OTLP).
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.products.catalogue import SOURCES
from tests.conformance.corpus.coming_again import assert_come_through
from tests.conformance.corpus.counting import Sent, counted
from tests.support.corpus import CORPUS

PUSHED = [
    path
    for path in sorted(CORPUS.glob("gateways/*/*.meta.json"))
    if path.parent.name in SOURCES and "file" in json.loads(path.read_text("utf-8"))
]


def pushed(path: Path) -> Sent:
    """A payload as it is given to its source; OTLP goes there too."""
    meta: dict[str, Any] = json.loads(path.read_text("utf-8"))
    body = (path.parent / meta["file"]).read_bytes()
    if meta["file"].endswith(".gz"):
        body = gzip.decompress(body)
    return body, f"/v1/sources/{path.parent.name}", "application/json", ""


@pytest.mark.parametrize("path", PUSHED, ids=lambda path: str(path.relative_to(CORPUS)).removesuffix(".meta.json"))
async def test_records_of_a_source_come_through_as_they_were(path: Path) -> None:
    await assert_come_through((await counted(pushed(path))).records)
