"""The attributes of the benchmark's spans, by convention: names as the real libraries
send them, made-up values.

The first attributes of a convention are what its table reads; the rest, up to the number
asked for, is what real spans carry besides: request options, HTTP and Kubernetes facts, and
(from the 38th on) message content.
"""

from collections.abc import Callable
from itertools import islice
from typing import Literal, NamedTuple

Convention = Literal["gen_ai", "openinference", "openllmetry", "vercel"]
AttributeValue = str | int | float | list[str]
Attributes = dict[str, AttributeValue]


class Model(NamedTuple):
    provider: str
    request: str
    response: str


class Tokens(NamedTuple):
    """What one span states; both wholes include their parts."""

    input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    reasoning_output_tokens: int


class ConventionFacts(NamedTuple):
    scope_name: str
    scope_version: str
    span_name: str
    core: Callable[[Model, Tokens, str], Attributes]
    """(model, tokens, response id) -> the attributes that carry the call."""


MODELS = (
    Model("openai", "gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
    Model("openai", "gpt-4o", "gpt-4o-2024-08-06"),
    Model("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    Model("openai", "gpt-4.1-mini", "gpt-4.1-mini-2025-04-14"),
)


def tokens_of(index: int) -> Tokens:
    """Usage of the AI span at *index* of a request."""
    return Tokens(1200 + 13 * (index % 97), 300 + index % 89, 120 + 7 * (index % 53), 40 + index % 31)


def ai_attributes(convention: Convention, index: int, response_id: str, count: int) -> Attributes:
    """*count* attributes of the AI span at *index*; *response_id* is the part after `chatcmpl-`."""
    core = CONVENTIONS[convention].core(MODELS[index % len(MODELS)], tokens_of(index), f"chatcmpl-{response_id}")
    extra = {name: value for name, value in _extra(index).items() if name not in core}
    if not len(core) <= count <= len(core) + len(extra):
        raise ValueError(f"attributes must be {len(core)} to {len(core) + len(extra)} for {convention}")
    return core | dict(islice(extra.items(), count - len(core)))


def other_attributes(index: int) -> Attributes:
    """Attributes of an HTTP client span."""
    return {
        "http.request.method": "GET",
        "url.full": f"https://inventory.example/items/{index}",
        "server.address": "inventory.example",
        "server.port": 443,
        "http.response.status_code": 200,
        "network.protocol.version": "1.1",
        "user_agent.original": "shop/3.14.1",
    }


def _gen_ai(model: Model, tokens: Tokens, response_id: str) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": model.provider,
        "gen_ai.request.model": model.request,
        "gen_ai.response.model": model.response,
        "gen_ai.response.id": response_id,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": tokens.input_tokens,
        "gen_ai.usage.output_tokens": tokens.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": tokens.cache_read_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": tokens.reasoning_output_tokens,
        "gen_ai.conversation.id": "conv_5e1f2a3b4c5d6e7f",
    }


def _openllmetry(model: Model, tokens: Tokens, response_id: str) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": model.provider,
        "gen_ai.request.model": model.request,
        "gen_ai.response.model": model.response,
        "gen_ai.response.id": response_id,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": tokens.input_tokens,
        "gen_ai.usage.output_tokens": tokens.output_tokens,
        "gen_ai.usage.total_tokens": tokens.input_tokens + tokens.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": tokens.cache_read_input_tokens,
        "gen_ai.usage.reasoning_tokens": tokens.reasoning_output_tokens,
        "gen_ai.is_streaming": False,
    }


def _openinference(model: Model, tokens: Tokens, response_id: str) -> Attributes:
    return {
        "openinference.span.kind": "LLM",
        "llm.system": model.provider,
        "llm.provider": model.provider,
        "llm.model_name": model.response,
        "llm.finish_reason": "stop",
        "llm.token_count.prompt": tokens.input_tokens,
        "llm.token_count.completion": tokens.output_tokens,
        "llm.token_count.total": tokens.input_tokens + tokens.output_tokens,
        "llm.token_count.prompt_details.cache_read": tokens.cache_read_input_tokens,
        "llm.token_count.completion_details.reasoning": tokens.reasoning_output_tokens,
        "session.id": "conv_5e1f2a3b4c5d6e7f",
        "output.value": f'{{"id":"{response_id}","object":"chat.completion","choices":[]}}',
        "output.mime_type": "application/json",
    }


def _vercel(model: Model, tokens: Tokens, response_id: str) -> Attributes:
    return {
        "operation.name": "ai.generateText.doGenerate",
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.model.provider": f"{model.provider}.chat",
        "ai.model.id": model.request,
        "ai.response.id": response_id,
        "ai.response.finishReason": "stop",
        "gen_ai.system": f"{model.provider}.chat",
        "gen_ai.request.model": model.request,
        "gen_ai.response.model": model.response,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": tokens.input_tokens,
        "gen_ai.usage.output_tokens": tokens.output_tokens,
        "ai.telemetry.metadata.sessionId": "conv_5e1f2a3b4c5d6e7f",
    }


CONVENTIONS: dict[Convention, ConventionFacts] = {
    "gen_ai": ConventionFacts("opentelemetry.instrumentation.openai_v2", "2.2b0", "chat gpt-4o-mini", _gen_ai),
    "openinference": ConventionFacts(
        "openinference.instrumentation.openai", "0.1.66", "ChatCompletion", _openinference
    ),
    "openllmetry": ConventionFacts("opentelemetry.instrumentation.openai.v1", "0.62.4", "openai.chat", _openllmetry),
    "vercel": ConventionFacts("ai", "5.0.0", "ai.generateText.doGenerate", _vercel),
}


def _extra(index: int) -> Attributes:
    message = "Please compare the two delivery options for order 4711 and say which one is cheaper. " * 4
    return {
        "server.address": "api.openai.com",
        "server.port": 443,
        "gen_ai.request.temperature": 0.2,
        "gen_ai.request.max_tokens": 1024,
        "enduser.id": f"u-{index % 500:05d}",
        "gen_ai.request.top_p": 0.95,
        "gen_ai.request.frequency_penalty": 0.0,
        "gen_ai.request.presence_penalty": 0.0,
        "gen_ai.request.seed": 42,
        "gen_ai.output.type": "text",
        "openai.request.service_tier": "auto",
        "openai.response.service_tier": "default",
        "openai.response.system_fingerprint": "fp_b0c1d2e3f4",
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.full": "https://api.openai.com/v1/chat/completions",
        "network.protocol.version": "2",
        "thread.id": 140_214_233_118_464,
        "thread.name": "asyncio_0",
        "code.function.name": "shop.assistant.answer",
        "code.file.path": "shop/assistant.py",
        "code.line.number": 118,
        "app.feature": "order-assistant",
        "app.tenant": f"tenant-{index % 40:03d}",
        "k8s.pod.name": "checkout-bot-7d9f6c5b8-x2x7k",
        "cloud.region": "eu-central-1",
        "gen_ai.input.messages": f'[{{"role":"user","parts":[{{"type":"text","content":"{message}"}}]}}]',
        "gen_ai.output.messages": f'[{{"role":"assistant","parts":[{{"type":"text","content":"{message}"}}]}}]',
        "gen_ai.system_instructions": f'[{{"type":"text","content":"{message}"}}]',
    }
