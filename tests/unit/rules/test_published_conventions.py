"""Payloads made by the libraries' published semantics: convention, provider, kind of call.

A provider serves known counts; `SENDERS` states what attributes a library makes of them. Whatever
the library, the record is the same.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from gateway.cli.normalising import records_of_payloads
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.signal_precedence import DETAILS
from gateway.rules.traces import normalise_traces
from tests.unit.rules.spans import CONTEXT, END_NS, SPAN_ID, TRACE_ID, key_values, request

CANARY = "CANARY-PUBLISHED"
PROTOBUF = "application/x-protobuf"


class Served(NamedTuple):
    """What a provider served; the input and output of the record hold all parts."""

    provider: str
    input: int = 4001
    output: int = 1301
    cache_read: int = 0
    cache_creation: int = 0
    reasoning: int = 0

    @property
    def uncached(self) -> int:
        return self.input - self.cache_read - self.cache_creation

    @property
    def written(self) -> int:
        return self.output - self.reasoning


Attributes = dict[str, Any]


class Sender(NamedTuple):
    scope: str
    attributes: Callable[[Served], Attributes]
    providers: tuple[str, ...]
    version: str = ""
    name: str = "chat some-model"
    no_reasoning_of: tuple[str, ...] = ()
    """Providers whose reasoning the library does not pass on."""


OPENAI, ANTHROPIC, BEDROCK, GEMINI = "openai", "anthropic", "aws.bedrock", "gcp.gemini"


def drop_zeros(attributes: Attributes) -> Attributes:
    return {name: value for name, value in attributes.items() if value not in (0, None)}


def native_usage(call: Served) -> dict[str, Any]:
    """The provider's own usage object."""
    match call.provider:
        case "anthropic":
            return {
                "input_tokens": call.uncached,
                "output_tokens": call.output,
                "cache_read_input_tokens": call.cache_read,
                "cache_creation_input_tokens": call.cache_creation,
                "output_tokens_details": {"thinking_tokens": call.reasoning},
            }
        case "aws.bedrock":
            return {
                "inputTokens": call.uncached,
                "outputTokens": call.output,
                "totalTokens": call.uncached + call.output,
                "cacheReadInputTokens": call.cache_read,
                "cacheWriteInputTokens": call.cache_creation,
            }
        case "gcp.gemini":
            return drop_zeros(
                {
                    "promptTokenCount": call.input,
                    "candidatesTokenCount": call.written,
                    "cachedContentTokenCount": call.cache_read,
                    "thoughtsTokenCount": call.reasoning,
                    "totalTokenCount": call.input + call.output,
                }
            )
        case _:
            return {
                "prompt_tokens": call.input,
                "completion_tokens": call.output,
                "total_tokens": call.input + call.output,
                "prompt_tokens_details": {"cached_tokens": call.cache_read},
                "completion_tokens_details": {"reasoning_tokens": call.reasoning},
            }


def native_answer(call: Served) -> dict[str, Any]:
    """The provider's own answer, with text in it."""
    answer = {"model": "some-model-2026-01-01", "choices": [{"message": {"content": CANARY}}], "content": CANARY}
    if call.provider == GEMINI:
        return {
            "modelVersion": "some-model-2026-01-01",
            "candidates": [{"content": CANARY}],
            "usageMetadata": native_usage(call),
        }
    return {"id": "resp-1", **answer, "usage": native_usage(call)}


def native_input(call: Served) -> int:
    return call.uncached if call.provider in {ANTHROPIC, BEDROCK} else call.input


def native_output(call: Served) -> int:
    return call.written if call.provider == GEMINI else call.output


def gen_ai(call: Served, given: int, output: int) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": "some-model",
        "gen_ai.input.messages": CANARY,
        "gen_ai.usage.input_tokens": given,
        "gen_ai.usage.output_tokens": output,
        **drop_zeros(
            {
                "gen_ai.usage.cache_read.input_tokens": call.cache_read,
                "gen_ai.usage.cache_creation.input_tokens": call.cache_creation,
                "gen_ai.usage.reasoning.output_tokens": call.reasoning,
            }
        ),
    }


def semantic(call: Served) -> Attributes:
    """OpenTelemetry's: whole inputs and outputs."""
    return gen_ai(call, call.input, call.output)


def passed_on(call: Served) -> Attributes:
    """The provider's own wholes under OpenTelemetry's names."""
    return gen_ai(call, native_input(call), native_output(call))


def without_parts(call: Served, *names: str) -> Attributes:
    return {name: value for name, value in passed_on(call).items() if not name.endswith(names)}


def openllmetry_google(call: Served) -> Attributes:
    total = {"gen_ai.usage.total_tokens": call.input + call.output}
    return without_parts(call, "reasoning.output_tokens") | total


def logfire(call: Served) -> Attributes:
    own = without_parts(call, "cache_read.input_tokens", "cache_creation.input_tokens", "reasoning.output_tokens")
    return own | {
        "gen_ai.usage.input_tokens": call.input,
        "gen_ai.usage.raw": orjson.dumps(native_usage(call)).decode(),
    }


def strands(call: Served) -> Attributes:
    """Up to 1.50: its totals are the provider's, and it names itself as the provider."""
    models = {OPENAI: "gpt-4o", ANTHROPIC: "claude-sonnet-4-5", BEDROCK: "us.anthropic.claude-sonnet-4-5-20250929-v1:0"}
    own = without_parts(call, "cache_read.input_tokens", "cache_creation.input_tokens", "reasoning.output_tokens")
    parts = {"cache_read": call.cache_read, "cache_write": call.cache_creation}
    return (
        own
        | {f"gen_ai.usage.{part}_input_tokens": n for part, n in parts.items()}
        | {
            "gen_ai.provider.name": "strands-agents",
            "gen_ai.request.model": models[call.provider],
            "gen_ai.usage.prompt_tokens": native_input(call),
            "gen_ai.usage.total_tokens": native_input(call) + call.output,
        }
    )


def gemini_as_openai(call: Served) -> Attributes:
    """Google's interface of OpenAI's form: the thoughts are in the total alone."""
    own = without_parts(call, "reasoning.output_tokens") | {"gen_ai.provider.name": "openai"}
    return own | {"gen_ai.request.model": "gemini-2.5-flash", "gen_ai.usage.total_tokens": call.input + call.output}


def openinference_vertex(call: Served) -> Attributes:
    own = openinference(call, call.input, call.written) | {"llm.token_count.total": call.input + call.output}
    return {name: value for name, value in own.items() if not name.endswith("reasoning")}


def openinference(call: Served, given: int, output: int) -> Attributes:
    return {
        "openinference.span.kind": "LLM",
        "llm.provider": call.provider,
        "llm.model_name": "some-model-2026-01-01",
        "input.value": CANARY,
        "llm.token_count.prompt": given,
        "llm.token_count.completion": output,
        "llm.token_count.total": given + output,
        **drop_zeros(
            {
                "llm.token_count.prompt_details.cache_read": call.cache_read,
                "llm.token_count.prompt_details.cache_write": call.cache_creation,
                "llm.token_count.completion_details.reasoning": call.reasoning,
            }
        ),
    }


def openinference_answer(call: Served) -> Attributes:
    """Whatever the count holds, the provider's answer travels along."""
    own = openinference(call, native_input(call), native_output(call))
    return own | {"output.value": orjson.dumps(native_answer(call)).decode()}


def genkit(call: Served) -> Attributes:
    prefix = {OPENAI: "openai", ANTHROPIC: "anthropic", GEMINI: "googleai"}[call.provider]
    usage = {"inputTokens": native_input(call), "outputTokens": native_output(call)}
    output = {"message": CANARY, "finishReason": "stop", "usage": usage, "raw": native_answer(call)}
    if call.provider == GEMINI:
        usage |= {"thoughtsTokens": call.reasoning, "cachedContentTokens": call.cache_read}
        usage |= {"totalTokens": call.input + call.output}
        del output["raw"]
    return {
        "genkit:type": "action",
        "genkit:metadata:subtype": "model",
        "genkit:name": f"{prefix}/some-model",
        "genkit:input": CANARY,
        "genkit:output": orjson.dumps(output).decode(),
    }


def adk_1(call: Served) -> Attributes:
    snake = {
        "prompt_token_count": call.input,
        "candidates_token_count": call.written,
        "cached_content_token_count": call.cache_read,
        "thoughts_token_count": call.reasoning,
        "total_token_count": call.input + call.output,
    }
    response = {"content": {"parts": [{"text": CANARY}]}, "usage_metadata": drop_zeros(snake)}
    return {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.request.model": "gemini-2.5-flash",
        "gen_ai.usage.input_tokens": call.input,
        "gen_ai.usage.output_tokens": call.written,
        "gcp.vertex.agent.llm_response": orjson.dumps(response).decode(),
    }


def adk_1_4(call: Served) -> Attributes:
    return {name: value for name, value in adk_1(call).items() if ".usage." not in name}


def vercel(call: Served) -> Attributes:
    """Version 4: no parts but those of the provider's metadata."""
    metadata = {
        OPENAI: {"openai": {"cachedPromptTokens": call.cache_read, "reasoningTokens": call.reasoning}},
        ANTHROPIC: {
            "anthropic": {
                "cacheReadInputTokens": call.cache_read,
                "cacheCreationInputTokens": call.cache_creation,
            }
        },
    }[call.provider]
    return {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.model.provider": f"{call.provider}.chat",
        "ai.model.id": "some-model",
        "ai.prompt": CANARY,
        "ai.usage.promptTokens": native_input(call),
        "ai.usage.completionTokens": native_output(call),
        "ai.response.providerMetadata": orjson.dumps(metadata).decode(),
    }


def vercel_5(call: Served) -> Attributes:
    return {
        "ai.operationId": "ai.streamText.doStream",
        "ai.model.provider": {
            OPENAI: "openai.responses",
            ANTHROPIC: "anthropic.messages",
            GEMINI: "google.generative-ai",
        }[call.provider],
        "ai.model.id": "some-model",
        "ai.prompt": CANARY,
        "ai.usage.inputTokens": native_input(call),
        "ai.usage.outputTokens": native_output(call),
        **drop_zeros({"ai.usage.cachedInputTokens": call.cache_read, "ai.usage.reasoningTokens": call.reasoning}),
        "ai.usage.totalTokens": native_input(call) + call.output,
        "ai.response.providerMetadata": orjson.dumps(
            {"anthropic": {"usage": native_usage(call)}} if call.provider == ANTHROPIC else {}
        ).decode(),
    }


def litellm(call: Served) -> Attributes:
    usage = {
        "prompt_tokens": call.input,
        "completion_tokens": call.output,
        "prompt_tokens_details": {"cached_tokens": call.cache_read, "cache_creation_tokens": call.cache_creation},
        "completion_tokens_details": {"reasoning_tokens": call.reasoning, "text_tokens": None},
    }
    return {
        "gen_ai.system": call.provider,
        "gen_ai.request.model": "some-model",
        "gen_ai.response.id": "resp-1",
        "gen_ai.usage.prompt_tokens": call.input,
        "gen_ai.usage.completion_tokens": call.output,
        "llm.usage.total_tokens": call.input + call.output,
        "gen_ai.prompt.0.content": CANARY,
        "metadata.usage_object": repr(usage),
    }


def langsmith(call: Served) -> Attributes:
    usage = {
        "input_tokens": call.input,
        "output_tokens": call.output,
        "total_tokens": call.input + call.output,
        "input_token_details": {"cache_read": call.cache_read, "cache_creation": call.cache_creation},
        "output_token_details": {"reasoning": call.reasoning},
    }
    return {
        "langsmith.span.kind": "llm",
        "langsmith.metadata.ls_provider": call.provider,
        "langsmith.metadata.usage_metadata": orjson.dumps(usage).decode(),
        "gen_ai.request.model": "some-model",
        "gen_ai.prompt": CANARY,
    }


ALL = (OPENAI, ANTHROPIC, BEDROCK, GEMINI)
SENDERS: dict[str, Sender] = {
    "openai-v2": Sender("opentelemetry.instrumentation.openai_v2", semantic, (OPENAI,)),
    "util-genai": Sender("opentelemetry.util.genai.handler", semantic, ALL),
    "google-genai": Sender("opentelemetry.instrumentation.google_genai", semantic, (GEMINI,)),
    "botocore": Sender(
        "opentelemetry.instrumentation.botocore.bedrock-runtime", passed_on, (BEDROCK,), version="0.66b2"
    ),
    "anthropic sdk": Sender("com.anthropic.sdk.python", semantic, (ANTHROPIC,)),
    "pydantic-ai": Sender("pydantic-ai", semantic, ALL),
    "adk 2": Sender("gcp.vertex.agent", semantic, (GEMINI,), version="2.13.0"),
    "adk 1": Sender("gcp.vertex.agent", adk_1, (GEMINI,), version="1.14.1", name="call_llm"),
    "adk 1.4": Sender("gcp.vertex.agent", adk_1_4, (GEMINI,), name="call_llm"),
    "logfire": Sender("logfire.openai", logfire, (OPENAI, ANTHROPIC)),
    "openlit openai": Sender("openlit.instrumentation.openai", passed_on, (OPENAI,)),
    "openlit anthropic": Sender("openlit.instrumentation.anthropic", passed_on, (ANTHROPIC,)),
    "openlit bedrock": Sender("openlit.instrumentation.bedrock", passed_on, (BEDROCK,)),
    "openlit google": Sender("openlit.instrumentation.google_ai_studio", passed_on, (GEMINI,)),
    "openlit langchain": Sender("openlit.instrumentation.langchain", semantic, ALL),
    "openlit js anthropic": Sender("@openlit/instrumentation-anthropic", passed_on, (ANTHROPIC,)),
    "openlit js bedrock": Sender("@openlit/instrumentation-bedrock", passed_on, (BEDROCK,)),
    "spring ai": Sender(
        "org.springframework.boot",
        lambda call: passed_on(call) | {"gen_ai.usage.total_tokens": native_input(call) + call.output},
        (OPENAI, ANTHROPIC),
    ),
    "openllmetry openai": Sender("opentelemetry.instrumentation.openai.v1", semantic, (OPENAI,)),
    "openllmetry anthropic": Sender("opentelemetry.instrumentation.anthropic", semantic, (ANTHROPIC,)),
    "openllmetry bedrock": Sender("opentelemetry.instrumentation.bedrock", passed_on, (BEDROCK,), version="0.62.4"),
    "openllmetry google": Sender("opentelemetry.instrumentation.google_generativeai", openllmetry_google, (GEMINI,)),
    "openllmetry vertex": Sender("opentelemetry.instrumentation.vertexai", openllmetry_google, (GEMINI,)),
    "openllmetry js 0.27": Sender("@traceloop/instrumentation-anthropic", passed_on, (ANTHROPIC,), version="0.27.0"),
    "openllmetry js 0.28": Sender("@traceloop/instrumentation-anthropic", semantic, (ANTHROPIC,), version="0.28.0"),
    "openllmetry js bedrock": Sender("@traceloop/instrumentation-bedrock", passed_on, (BEDROCK,), version="0.27.0"),
    "openllmetry js google": Sender("@traceloop/instrumentation-google-generativeai", passed_on, (GEMINI,)),
    "openinference openai": Sender(
        "openinference.instrumentation.openai", lambda call: openinference(call, call.input, call.output), (OPENAI,)
    ),
    "openinference anthropic": Sender(
        "openinference.instrumentation.anthropic",
        lambda call: openinference(call, call.input, call.output),
        (ANTHROPIC,),
        version="3.1.0",
    ),
    "openinference agno": Sender(
        "openinference.instrumentation.agno",
        lambda call: openinference(call, native_input(call), call.output),
        (OPENAI, ANTHROPIC, BEDROCK),
        version="1.0.15",
    ),
    "openinference js anthropic": Sender(
        "@arizeai/openinference-instrumentation-anthropic",
        lambda call: openinference(call, call.input, call.output),
        (ANTHROPIC,),
        version="0.2.8",
    ),
    "openinference claude agent sdk": Sender(
        "openinference.instrumentation.claude_agent_sdk",
        lambda call: openinference(call, native_input(call), call.output),
        (ANTHROPIC,),
        version="0.1.12",
    ),
    "openinference claude agent sdk since 0.1.13": Sender(
        "openinference.instrumentation.claude_agent_sdk",
        lambda call: openinference(call, call.input, call.output),
        (ANTHROPIC,),
        version="0.1.22",
    ),
    "openinference bedrock": Sender(
        "openinference.instrumentation.bedrock",
        lambda call: openinference(call, native_input(call), call.output),
        (BEDROCK,),
        version="0.1.58",
        name="bedrock.converse",
    ),
    "openinference bedrock since 0.1.59": Sender(
        "openinference.instrumentation.bedrock",
        lambda call: openinference(call, call.input, call.output),
        (BEDROCK,),
        version="0.1.61",
        name="bedrock.converse",
    ),
    "openinference js bedrock": Sender(
        "@arizeai/openinference-instrumentation-bedrock",
        lambda call: openinference(call, native_input(call), call.output),
        (BEDROCK,),
        version="0.5.1",
    ),
    "openinference with the answer": Sender("openinference.instrumentation.any", openinference_answer, ALL),
    "openinference vertex": Sender("openinference.instrumentation.vertexai", openinference_vertex, (GEMINI,)),
    "strands": Sender(
        "strands.telemetry.tracer", strands, (OPENAI, ANTHROPIC, BEDROCK), no_reasoning_of=(OPENAI, ANTHROPIC)
    ),
    "gemini as openai": Sender("my.own.client", gemini_as_openai, (GEMINI,)),
    "genkit": Sender("genkit-tracer", genkit, (OPENAI, ANTHROPIC, GEMINI)),
    "ai sdk 4": Sender("ai", vercel, (OPENAI, ANTHROPIC), no_reasoning_of=(ANTHROPIC,)),
    "ai sdk 5": Sender("ai", vercel_5, (OPENAI, ANTHROPIC, GEMINI)),
    "litellm": Sender("litellm", litellm, ALL, name="litellm_request"),
    "langsmith": Sender("langsmith", langsmith, ALL),
}

CALLS = {
    "plain": {},
    "cache read": {"cache_read": 997},
    "cache written": {"cache_creation": 499},
    "cache": {"cache_read": 997, "cache_creation": 499},
    "mostly cached": {"input": 4001, "cache_read": 3989},
    "reasoning": {"reasoning": 251},
    "mostly reasoning": {"reasoning": 1297},
    "all": {"cache_read": 997, "cache_creation": 499, "reasoning": 251},
}
_WITHOUT_WRITES = {OPENAI, GEMINI}
_WITHOUT_REASONING = {BEDROCK}


def served(provider: str, kind: str) -> Served:
    """The call of that kind, as far as the provider has such parts."""
    parts = dict(CALLS[kind])
    if provider in _WITHOUT_WRITES:
        parts.pop("cache_creation", None)
    if provider in _WITHOUT_REASONING:
        parts.pop("reasoning", None)
    return Served(provider, **parts)


CASES = [(name, provider, kind) for name, x in SENDERS.items() for provider in x.providers for kind in CALLS]
COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "reasoning_output_tokens",
)


def body(name: str, call: Served, **changes: Any) -> bytes:
    sender = SENDERS[name]
    attributes = sender.attributes(call) | changes.pop("more", {})
    made = request(attributes, scope=sender.scope, version=sender.version, name=sender.name, **changes)
    return made.SerializeToString()


@pytest.mark.parametrize(("name", "provider", "kind"), CASES)
def test_a_record_holds_what_was_served_whatever_the_library_calls_it(name: str, provider: str, kind: str) -> None:
    call = served(provider, kind)
    out = normalise_traces(decode_traces(body(name, call)), CONTEXT)
    (made,) = out.calls
    usage = made.record["usage"]
    expected = call._replace(reasoning=0) if provider in SENDERS[name].no_reasoning_of else call
    assert [usage.get(field) or 0 for field in COUNTS] == [*expected[1:]]
    assert usage["status"] == "reported"
    assert "inconsistent_usage" not in made.record["flags"]
    assert CANARY not in repr(out)


@pytest.mark.parametrize("name", SENDERS)
def test_a_failed_call_without_usage_states_none(name: str) -> None:
    sender = SENDERS[name]
    call = Served(sender.providers[0])
    sent = {
        field: value
        for field, value in sender.attributes(call).items()
        if "usage" not in field
        and "token" not in field
        and not field.endswith(("output", "llm_response", "value", "Metadata", "response.id"))
    }
    made = request(
        sent, scope=sender.scope, version=sender.version, name=sender.name, status=2, exception="x.RateLimit"
    )
    out = normalise_traces(decode_traces(made.SerializeToString()), CONTEXT)
    (failed,) = out.calls
    assert failed.record["usage"] == {"status": "none"}
    assert (failed.record["status"], failed.record["error_type"]) == ("error", "x.RateLimit")


@pytest.mark.parametrize("name", SENDERS)
async def test_order_pieces_and_repeats_change_no_count(name: str) -> None:
    """Three calls: at once, one by one, backwards, and all of it twice."""
    provider = SENDERS[name].providers[0]
    calls = [served(provider, kind)._replace(output=1301 + at) for at, kind in enumerate(("cache", "reasoning", "all"))]
    more = [{"gen_ai.response.id": f"resp-{at}"} for at in range(3)]
    pieces = [
        body(name, call, trace_id=bytes([at + 1]) * 16, span_id=bytes([at + 1]) * 8, more=more[at])
        for at, call in enumerate(calls)
    ]
    results = []
    for order in (pieces, pieces[::-1], [b"".join(pieces)], [*pieces, b"".join(pieces)]):
        records, receipt, _ = await records_of_payloads(
            [(x, "/v1/traces", "application/x-protobuf", "") for x in order]
        )
        assert not receipt.rejected
        usages = [orjson.loads(record)["usage"] for record in records]
        results.append(sorted((usage["input_tokens"], usage["output_tokens"]) for usage in usages))
    assert results == [sorted((call.input, call.output) for call in calls)] * 4


@pytest.mark.parametrize(
    ("kind", "response"), [("plain", 1), ("cache read", 1), ("cache written", 1), ("cache", 1), ("cache", 2)]
)
@pytest.mark.parametrize("order", [1, -1])
async def test_the_details_event_without_the_cache_is_of_the_span_it_was_emitted_in(
    kind: str, response: int, order: int
) -> None:
    call = served(ANTHROPIC, kind)
    span = body("openlit js anthropic", call, more={"gen_ai.response.id": "resp-1"})
    event = passed_on(Served(ANTHROPIC, call.uncached)) | {"gen_ai.response.id": f"resp-{response}"}
    log = details_event(event, scope="@openlit/instrumentation-anthropic")
    payloads = [(span, "/v1/traces", PROTOBUF, ""), (log, "/v1/logs", PROTOBUF, "")][::order]
    records = [orjson.loads(x) for x in (await records_of_payloads(payloads))[0]]
    assert len(records) == response
    if response == 1:
        assert [records[0]["usage"].get(field) or 0 for field in COUNTS] == [*call[1:]]
        assert not {"conflict", "inconsistent_usage"} & {*records[0]["flags"]}


def details_event(attributes: Attributes, *, scope: str) -> bytes:
    message = ExportLogsServiceRequest()
    scope_logs = message.resource_logs.add().scope_logs.add()
    scope_logs.scope.name = scope
    scope_logs.log_records.add(
        event_name=DETAILS, time_unix_nano=END_NS, trace_id=TRACE_ID, span_id=SPAN_ID, attributes=key_values(attributes)
    )
    return message.SerializeToString()
