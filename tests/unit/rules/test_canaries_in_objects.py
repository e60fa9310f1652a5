"""A canary in the text, names and depth of every object that a table points at reaches nothing: no
record, no name of a convention, no explanation.
"""

import logging
from typing import Any

import orjson
import pytest

from gateway.cli.explaining import explain_payloads, printed
from gateway.cli.normalising import records_of_payloads
from gateway.rules.conventions import choose, event_tables
from gateway.rules.conventions.litellm import LITELLM
from gateway.rules.conventions.openlit import openlit
from gateway.rules.conventions.table import Convention
from gateway.rules.extract import RAW
from tests.unit.rules.spans import request

CANARY = "CANARY-9Z"
TEXT = f"{CANARY} tell me, please; it's secret"

USAGE: dict[str, Any] = {
    "input_tokens": 2003, "output_tokens": 1009, "cache_read_input_tokens": 601, "cache_creation_input_tokens": 401,
    "service_tier": TEXT, "prompt": TEXT, CANARY: 5, "other": {CANARY: [TEXT], "content": TEXT},
}  # fmt: skip
ANSWER: dict[str, Any] = {
    "id": "resp-1", "model": "some-model", "object": TEXT, "finish_reason": TEXT, "usage": USAGE,
    "choices": [{"message": {"role": "assistant", "content": TEXT}, "finish_reason": TEXT}], "content": [{"text": TEXT}],
    "generations": [[{"message": {"kwargs": {"content": TEXT, "usage_metadata": USAGE, "response_metadata": {"model_name": TEXT}}}}]],
    "response_metadata": {"model_name": TEXT, "token_usage": USAGE}, CANARY: {CANARY: TEXT},
}  # fmt: skip
WRAPPED: dict[str, Any] = {
    "raw": ANSWER, "custom": ANSWER, "anthropic": {**USAGE, "usage": USAGE}, "openai": {CANARY: TEXT}, "model": TEXT,
    "message": TEXT, "usage": USAGE, "messages": [TEXT], "user_id": "user-1", CANARY: TEXT, "cost": {CANARY: 1.5},
    "usage_object": USAGE, "cache_key": TEXT,
}  # fmt: skip

CONVENTIONS: list[Convention] = list(
    dict.fromkeys(
        [
            *choose.SCOPES.values(),
            *(named for _, named in choose.SCOPE_PREFIXES),
            *choose.MARKED,
            openlit("openlit.instrumentation.openai"),
            *(x for x in vars(event_tables).values() if isinstance(x, Convention)),
        ]
    )
)
MORE = {LITELLM: ("llm.anthropic.usage", "llm.None.usage", "llm.openai.usage")}
SCOPES = {convention: name for name, convention in choose.SCOPES.items()} | {
    convention: f"{prefix}x" for prefix, convention in choose.SCOPE_PREFIXES
}


def raw_names(convention: Convention) -> list[str]:
    table = convention.interests()
    return sorted(
        {name for name, interest in table.items() if interest and interest[2] == RAW} | {*MORE.get(convention, ())}
    )


CASES = sorted({(SCOPES.get(x, "a.scope"), name) for x in CONVENTIONS for name in raw_names(x)})
MARKS = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "some-model",
    "openinference.span.kind": "LLM",
    "langsmith.span.kind": "llm",
    "langfuse.observation.type": "generation",
    "mlflow.spanType": '"CHAT_MODEL"',
    "ai.operationId": "ai.generateText.doGenerate",
    "genkit:type": "action",
    "genkit:metadata:subtype": "model",
    "llm.anthropic.id": "resp-1",
}
FORMS = {
    "json": lambda value: orjson.dumps(value).decode(),
    "repr": repr,
    "object": lambda value: (
        f"Answer({', '.join(f'{k}={v!r}' for k, v in value.items() if k.isidentifier())}, text='{CANARY}')"
    ),
    "map": lambda value: value,
}


@pytest.mark.parametrize(("scope", "name"), CASES)
async def test_a_canary_in_an_object_reaches_nothing(scope: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bodies = [
        request(MARKS | {name: form(value)}, scope=scope, name=span, trace_id=bytes([at + 1]) * 16)
        for at, (form, value, span) in enumerate(
            (form, value, span)
            for form in FORMS.values()
            for value in (USAGE, ANSWER, WRAPPED)
            for span in (("chat", "raw_gen_ai_request") if scope == "litellm" else ("chat",))
        )
    ]
    payloads = [(body.SerializeToString(), "/v1/traces", "application/x-protobuf", "") for body in bodies]
    records, _, _ = await records_of_payloads(payloads)
    assert records or scope.startswith(("com.anthropic.claude_code", "codex"))  # their spans have names of their own
    assert not any(CANARY.encode() in record for record in records)
    explained = await explain_payloads(payloads[::5])
    for as_json in (True, False):
        assert CANARY not in "".join(printed(explained.items, as_json=as_json))
    assert CANARY not in caplog.text


def test_every_object_that_the_docs_name_is_among_them() -> None:
    assert {name for _, name in CASES} >= {
        "gen_ai.usage.raw", "ai.response.providerMetadata", "genkit:output", "gcp.vertex.agent.llm_response",
        "llm.anthropic.usage", "output.value", "mlflow.spanOutputs", "gen_ai.completion", "langfuse.observation.output",
        "metadata.usage_object", "langsmith.metadata.usage_metadata", "gen_ai.usage",
    }  # fmt: skip
