"""The corpus over three gateways in front of a hub, spread over them as no load balancer does: even
the spans of one trace.
"""

import json
import random
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.compare import differences
from tests.support.corpus import CORPUS
from tests.support.edges import at_the_hub, dealt

APART = {
    "ag2-1.2/chat": "the span that accounts for a call is known by its sibling",
    "langtrace/anthropic": "two instrumentations report one call",
    "llamaindex-4.6/oi_agent": "the span above names the model that answered",
    "logfire/chat_stream": "a stream is reported in two spans",
    "openinference-js-langchain-plus-anthropic/agent_stream": "two instrumentations report one call",
    "openinference-js-langchain-plus-anthropic/chat_stream": "two instrumentations report one call",
    "openinference-langchain-plus-openai/chat_stream_abandoned": "two instrumentations report one call",
    "openinference-langchain-plus-openllmetry/anthropic_stream": "two instrumentations report one call",
    "openllmetry-langchain-plus-openinference/agent_stream": "two instrumentations report one call",
    "openllmetry-anthropic/messages_error529_stream": "two instrumentations report one call",
    "openllmetry-langchain/lc_chain": "the span above states the reasoning",
    "openllmetry-langchain-plus-openai/lc_chain": "the span above states the reasoning",
    "traceloop-sdk/lc_chain": "the span above states the reasoning",
}
"""Scenario -> what no gateway knows when its reports are apart. docs/device-mode.md lists these."""
BEYOND_THE_PAYLOAD = {"openinference-anthropic-sdk0/messages_stream", "litellm-1.80/otel"}
"""Wrong at one gateway too: `tests/unit/rules/test_corpus_traces.py`."""


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.meta.json')}"


def meta_of(path: Path) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(path.read_text("utf-8")))


SCENARIOS = [
    path for path in sorted((CORPUS / "otlp").glob("*/*.meta.json")) if name_of(path) not in BEYOND_THE_PAYLOAD
]


@pytest.mark.parametrize("meta_file", SCENARIOS, ids=name_of)
async def test_the_hub_counts_what_three_edges_forward_as_one_gateway_counts_it(meta_file: Path) -> None:
    found = await at_the_hub(dealt(meta_file, random.Random(f"1{meta_file.name}")))
    wrong = differences(meta_of(meta_file), found)
    assert bool(wrong) == (name_of(meta_file) in APART), wrong
