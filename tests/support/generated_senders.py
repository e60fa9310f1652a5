"""Senders that nobody has looked at, from the published semantics: each a shape of span, a
provider, what its input holds, what shows it, and which further spans repeat the call. Each has a
trace of its own, with one call of known usage.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from itertools import product
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from tests.support.metrics import attributes

BEGIN_NS: Final = 1_767_607_200_000_000_000
MS: Final = 1_000_000
OPENAI, ANTHROPIC, BEDROCK, GEMINI = "openai", "anthropic", "aws.bedrock", "gcp.gemini"
MODELS: Final = {
    OPENAI: ("gpt-4o", "gpt-4o-2024-08-06"),
    ANTHROPIC: ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    BEDROCK: ("anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    GEMINI: ("gemini-2.5-flash", "gemini-2.5-flash-001"),
}
APART: Final = frozenset({ANTHROPIC, BEDROCK})
"""Whose own input leaves the cache out."""


class Served(NamedTuple):
    """What the provider served; the wholes hold their parts."""

    provider: str
    input: int
    output: int
    cache_read: int
    reasoning: int

    @property
    def native_object(self) -> dict[str, Any]:
        match self.provider:
            case "anthropic" | "aws.bedrock":
                return {
                    "input_tokens": self.input - self.cache_read,
                    "output_tokens": self.output,
                    "cache_read_input_tokens": self.cache_read,
                    "cache_creation_input_tokens": 0,
                }
            case "gcp.gemini":
                return {
                    "prompt_token_count": self.input,
                    "candidates_token_count": self.output - self.reasoning,
                    "thoughts_token_count": self.reasoning,
                    "cached_content_token_count": self.cache_read,
                    "total_token_count": self.input + self.output,
                }
            case _:
                return {
                    "prompt_tokens": self.input,
                    "completion_tokens": self.output,
                    "total_tokens": self.input + self.output,
                    "prompt_tokens_details": {"cached_tokens": self.cache_read},
                    "completion_tokens_details": {"reasoning_tokens": self.reasoning},
                }


class Sender(NamedTuple):
    shape: str
    provider: str
    is_exclusive: bool
    """Whether it passes on an input without the cache."""
    proof: str
    repeats: str
    has_cache: bool

    @property
    def name(self) -> str:
        held = "no cache" if not self.has_cache else "exclusive" if self.is_exclusive else "inclusive"
        return f"{self.shape}, {self.provider}, {held}, {self.proof}, {self.repeats}"

    @property
    def scope(self) -> str:
        """Name of the instrumentation, which passes on every input alike."""
        return f"com.example.{self.shape.replace(' ', '_')}.{'exclusive' if self.is_exclusive else 'inclusive'}"

    @property
    def is_open(self) -> bool:
        """Whether nothing that is sent shows what the input holds."""
        return self.provider in APART and self.has_cache and self.proof == "none" and self.shape not in PROVES_ITSELF


def _semantic(given: int, served: Served) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": served.provider,
        "gen_ai.request.model": MODELS[served.provider][0],
        "gen_ai.response.model": MODELS[served.provider][1],
        "gen_ai.usage.input_tokens": given,
        "gen_ai.usage.output_tokens": served.output,
        "gen_ai.usage.cache_read.input_tokens": served.cache_read,
        "gen_ai.usage.reasoning.output_tokens": served.reasoning,
    }


def _older(given: int, served: Served) -> dict[str, Any]:
    return {
        "llm.request.type": "chat",
        "gen_ai.system": served.provider,
        "gen_ai.request.model": MODELS[served.provider][0],
        "gen_ai.response.model": MODELS[served.provider][1],
        "gen_ai.usage.prompt_tokens": given,
        "gen_ai.usage.completion_tokens": served.output,
        "gen_ai.usage.cache_read_input_tokens": served.cache_read,
        "gen_ai.usage.reasoning_tokens": served.reasoning,
    }


def _openinference(given: int, served: Served) -> dict[str, Any]:
    return {
        "openinference.span.kind": "LLM",
        "llm.provider": served.provider,
        "llm.model_name": MODELS[served.provider][1],
        "llm.invocation_parameters": json.dumps({"model": MODELS[served.provider][0]}),
        "llm.output_messages.0.message.role": "assistant",
        "llm.token_count.prompt": given,
        "llm.token_count.completion": served.output,
        "llm.token_count.prompt_details.cache_read": served.cache_read,
        "llm.token_count.completion_details.reasoning": served.reasoning,
    }


def _kind(given: int, served: Served) -> dict[str, Any]:
    found = _semantic(given, served)
    del found["gen_ai.operation.name"]
    return found | {"gen_ai.span.kind": "LLM"}


def _own_names(given: int, served: Served) -> dict[str, Any]:
    return {
        "my.llm.provider": served.provider,
        "my.llm.model": MODELS[served.provider][0],
        "my.llm.usage.promptTokens": given,
        "my.llm.usage.completionTokens": served.output,
        "my.llm.usage.cachedInputTokens": served.cache_read,
    }


def _nested(given: int, served: Served) -> dict[str, Any]:
    usage = {"input_tokens": given, "output_tokens": served.output, "cached_tokens": served.cache_read}
    return {"llm.model": MODELS[served.provider][0], "llm.provider": served.provider, "llm.usage": json.dumps(usage)}


def _text(given: int, served: Served) -> dict[str, Any]:
    answer = {"model": MODELS[served.provider][1], "usage": served.native_object}
    return {"my.component.output": json.dumps({"replies": [{"content": "text", "meta": answer}]})}


def _printed(given: int, served: Served) -> dict[str, Any]:
    answer = {"model": MODELS[served.provider][1], "usage": served.native_object}
    return {"my.component.output": json.dumps({"replies": [f"ChatMessage(text='text', meta={answer!r})"]})}


SHAPES: Final[Mapping[str, Callable[[int, Served], dict[str, Any]]]] = {
    "semantic": _semantic,
    "older": _older,
    "openinference": _openinference,
    "span kind": _kind,
    "own names": _own_names,
    "nested": _nested,
    "event": lambda given, served: {},
    "text": _text,
    "printed": _printed,
}
PROVES_ITSELF: Final = frozenset({"text", "printed"})
PROOFS: Final = ("none", "total", "object", "another span")
REPEATS: Final = (
    "none", "agent", "loop", "accounting span", "pieces", "preparation", "twice", "transport", "agent above another",
)  # fmt: skip


def senders() -> Iterator[Sender]:
    """All of them; an exclusive input only of who counts its cache apart, where the shape does not
    show the provider's own object.
    """
    held = ((False, True), (True, True), (False, False))
    for shape, provider, (is_exclusive, has_cache), proof, repeats in product(SHAPES, MODELS, held, PROOFS, REPEATS):
        if is_exclusive and (provider not in APART or shape in PROVES_ITSELF):
            continue
        if proof in {"total", "object"} and shape in {"text", "printed", "nested", "own names", "event"}:
            continue
        yield Sender(shape, provider, is_exclusive, proof, repeats, has_cache)


class Sent(NamedTuple):
    sender: Sender
    served: Served
    trace_id: bytes
    spans: tuple[ResourceSpans, ...]
    """In the order in which they ended."""


def sent_by(sender: Sender, number: int) -> Sent:
    """What *sender* reports of its one call; *number* makes its counts its own."""
    cache_read = 997 if sender.has_cache else 0
    served = Served(sender.provider, 4001 + 7 * number, 1301 + number, cache_read, 101)
    given = served.input - served.cache_read if sender.is_exclusive else served.input
    values = SHAPES[sender.shape](given, served)
    if sender.proof == "total":
        name = "llm.token_count.total" if sender.shape == "openinference" else "gen_ai.usage.total_tokens"
        values[name] = served.input + served.output
    elif sender.proof == "object":
        values["gen_ai.usage.raw"] = json.dumps(served.native_object)
    trace = _Trace(sender, served)
    events = [("answer", _event(given, served))] if sender.shape == "event" else []
    call = trace.span("call", values, (100, 900), parent="agent", events=events)
    return Sent(sender, served, trace.trace_id, tuple(_around(trace, sender, values, events, call)))


def _event(given: int, served: Served) -> dict[str, Any]:
    return {
        "response.model": MODELS[served.provider][1],
        "response.usage.input_tokens": given,
        "response.usage.output_tokens": served.output,
        "response.usage.cached_tokens": served.cache_read,
    }


def _around(
    trace: "_Trace", sender: Sender, values: dict[str, Any], events: list[Any], call: ResourceSpans
) -> Iterator[ResourceSpans]:
    repeats = sender.repeats
    if repeats == "pieces":
        for piece in range(3):
            kind = {"openinference.span.kind": "LLM", "input.value": "{}"}
            yield trace.span(f"piece{piece}", kind, (200 + piece, 200 + piece), parent="call")
    if repeats == "preparation":
        kind = {"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "output.value": '{"messages": []}'}
        yield trace.span("prepare", kind, (90, 99), parent="agent")
    if repeats == "transport":
        yield trace.span("POST", {"http.request.method": "POST", "url.full": "https://x"}, (150, 850), parent="call")
    if sender.proof == "another span":
        own = _semantic(trace.served.input, trace.served) | {"gen_ai.response.id": f"resp-{trace.name}"}
        yield trace.span("sdk", own, (120, 880), parent="call", scope="com.example.sdk")
    yield call
    if repeats == "twice":
        yield call
    usage = {name: value for name, value in values.items() if "usage" in name or "token_count" in name}
    if repeats == "accounting span":
        model = {name: value for name, value in values.items() if name.endswith(("response.model", "provider.name"))}
        yield trace.span("record_usage", usage | model, (901, 901), parent="agent")
    agent: dict[str, Any] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "asker"}
    if repeats == "agent":
        agent |= usage
    if repeats in {"loop", "agent above another"}:
        yield trace.span("loop", agent | usage, (50, 950), parent="agent")
    yield trace.span("agent", agent, (0, 1000), parent="")


class _Trace:
    def __init__(self, sender: Sender, served: Served) -> None:
        self.name, self.scope, self.served = sender.name, sender.scope, served
        self.trace_id = sha256(sender.name.encode()).digest()[:16]

    def span(
        self,
        name: str,
        values: Mapping[str, Any],
        at_ms: tuple[int, int],
        *,
        parent: str,
        scope: str | None = None,
        events: list[tuple[str, dict[str, Any]]] | None = None,
    ) -> ResourceSpans:
        made = ResourceSpans()
        made.resource.attributes.extend(attributes({"service.name": self.name}))
        scope_spans = made.scope_spans.add()
        scope_spans.scope.name = scope or self.scope
        span: Span = scope_spans.spans.add(
            trace_id=self.trace_id,
            span_id=self._id(name),
            parent_span_id=self._id(parent) if parent else b"",
            name=name,
            start_time_unix_nano=BEGIN_NS + at_ms[0] * MS,
            end_time_unix_nano=BEGIN_NS + at_ms[1] * MS,
            attributes=attributes(values),
        )
        for event, of_event in events or ():
            span.events.add(name=event, attributes=attributes(of_event))
        return made

    def _id(self, name: str) -> bytes:
        return sha256(f"{self.name}/{name}".encode()).digest()[:8]


def request_of(spans: list[ResourceSpans]) -> bytes:
    return ExportTraceServiceRequest(resource_spans=spans).SerializeToString()
