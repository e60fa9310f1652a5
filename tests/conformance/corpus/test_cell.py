"""The corpus over three gateways of a cell, each span at a gateway drawn at random: counted as one
gateway counts it.
"""

import random
from pathlib import Path

import orjson
import pytest

from gateway.pipeline.parsing.parse import Payload
from tests.support.cell_rig import CellRig
from tests.support.compare import differences
from tests.support.edges import Posted, dealt
from tests.support.spool_homes import CHOSEN, InPostgres
from tests.unit.products.test_edges import SCENARIOS, meta_of, name_of

APART = {
    "llamaindex-4.6/oi_agent": "the span above names the model that answered",
    "openllmetry-langchain/lc_chain": "the span above states the reasoning",
    "openllmetry-langchain-plus-openai/lc_chain": "the span above states the reasoning",
    "traceloop-sdk/lc_chain": "the span above states the reasoning",
}
"""Scenario -> what only a payload with both spans states; one gateway needs that as well."""


def payload_of(posted: Posted) -> Payload:
    body, path, content_type, _ = posted
    return Payload(path.rpartition("/")[2], body, json="json" in content_type)


@pytest.mark.parametrize("meta_file", SCENARIOS, ids=name_of)
async def test_a_cell_counts_as_one_gateway_does(meta_file: Path, tmp_path: Path) -> None:
    draw = random.Random(f"1{meta_file.name}")
    cell = await CellRig.opened(tmp_path, CHOSEN or "memory")
    payloads = [(payload_of(each), edge) for edge, posted in enumerate(dealt(meta_file, draw)) for each in posted]
    draw.shuffle(payloads)
    for payload, edge in payloads:
        await cell.put(payload, edge)
        cell.clock.now_ms += 10
    await cell.count()
    found = [orjson.loads(record) for record in await cell.forwarded()]
    await cell.rig.close()
    if isinstance(cell.home, InPostgres):
        cell.home.drop()
    wrong = differences(meta_of(meta_file), found)
    assert bool(wrong) == (name_of(meta_file) in APART), wrong
