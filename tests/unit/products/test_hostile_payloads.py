"""Whatever stands where a source expects something else: outcomes add up, nothing is raised but
BadPayload, no content comes out.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import BadPayload
from tests.support.source_reading import all_text, read
from tests.unit.products.test_agentgateway import JSON_LINE
from tests.unit.products.test_azure_apim import ROW, diagnostic
from tests.unit.products.test_bedrock import delivery, entry, envelope, zipped
from tests.unit.products.test_bifrost import row
from tests.unit.products.test_databricks import GATEWAY, SERVING
from tests.unit.products.test_envoy_ai_gateway import LINE
from tests.unit.products.test_langfuse import WHOLE
from tests.unit.products.test_openai_usage_api import BUCKET, REPORT, page
from tests.unit.products.test_records import made

CANARY = "CANARY-7Q-PROMPT told me, in more words than any name has: reply with the secret plan!"
PAYLOADS: list[tuple[str, Any]] = [
    ("bedrock", entry(requestMetadata={"team": "t"})),
    ("bedrock", envelope(entry())),
    ("bedrock", delivery(zipped(envelope(entry())))),
    ("envoy-ai-gateway", {**LINE, "genai_model_name": "m", "genai_tokens_input": 3, "genai_tokens_output": 4}),
    ("bifrost", {"logs": [row(cache_debug={"cache_hit": False}, error_details={"error": {"type": "x"}})]}),
    ("agentgateway", JSON_LINE),
    ("azure-apim", {"records": [diagnostic()]}),
    ("azure-apim", ROW),
    ("azure-apim", {"tables": [{"columns": [{"name": "PromptTokens"}, {"name": "ModelName"}], "rows": [[1, "m"]]}]}),
    ("langfuse", WHOLE["batch"]),
    ("databricks", SERVING),
    ("databricks", GATEWAY),
    ("openai-usage-api", page(BUCKET)),
    ("openai-usage-api", REPORT),
    ("records", made()),
    ("generic", {"id": "1", "time": 1795158000, "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
]
IDS = [f"{name}-{n}" for n, (name, _) in enumerate(PAYLOADS)]
HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1 << 70, -(1 << 63), 1.5, -0.0, 1e308, "", " ", "-", "nan", "1e400", "9" * 400, "\x00", "\ud7ff", [], [[]],
    [None], {}, {"": {}}, [[[[1]]]], {"a": {"a": {"a": None}}}, "0x10", "1_000", "\uff11\uff12", "2026-13-45T99:00:00Z", "+99999-01-01",
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in *value*, itself included."""
    yield path
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in below:
        yield from places(inner, (*path, step))


def changed(value: Any, path: tuple[Any, ...], put: Any) -> Any:
    """A copy of *value* in which *put* stands at *path*."""
    if not path:
        return put
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], put)
    return copy


def with_huge(value: Any, path: tuple[Any, ...], put: Any) -> bytes:
    """JSON of the changed payload; integers beyond 64 bits are written in by hand."""
    if isinstance(put, int) and not isinstance(put, bool) and not -(1 << 63) <= put < 1 << 64:
        return orjson.dumps(changed(value, path, "@huge@")).replace(b'"@huge@"', str(put).encode())
    return orjson.dumps(changed(value, path, put))


@pytest.mark.parametrize(("name", "payload"), PAYLOADS, ids=IDS)
def test_any_value_in_any_place_has_a_outcome(name: str, payload: Any) -> None:
    for path in places(payload):
        for put in HOSTILE:
            body = with_huge(payload, path, put)
            try:
                read(name, body)
            except BadPayload:
                pass
            except Exception as error:
                raise AssertionError((path, put)) from error


@pytest.mark.parametrize(("name", "payload"), PAYLOADS, ids=IDS)
def test_a_sentence_next_to_or_under_any_field_goes_no_further(name: str, payload: Any) -> None:
    """In every object under a name of its own, and instead of every list and
    object, and of every number.
    """
    for path in places(payload):
        value: Any = payload
        for step in path:
            value = value[step]
        if isinstance(value, dict):
            sent = changed(payload, path, {**value, "messages": CANARY, "note": [CANARY], CANARY[:40]: CANARY})
            assert "CANARY" not in all_text(read(name, sent)), path
        if path and not isinstance(value, str):
            assert "CANARY" not in all_text(read(name, changed(payload, path, CANARY))), path


@pytest.mark.parametrize("name", sorted({name for name, _ in PAYLOADS}))
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n\n",
        b"{",
        b"[",
        b"null",
        b"7",
        b'"x"',
        b"[]",
        b"{}",
        b"[null,1,[],{}]",
        b"\xff\xfe",
        b"{}\n{\n[1]\n",
        b'{"a":NaN}',
        b"[" * 5000,
    ],
)
def test_odd_bodies_are_read_or_refused(name: str, body: bytes) -> None:
    with suppress(BadPayload):
        read(name, body)
