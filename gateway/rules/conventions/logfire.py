"""Logfire's own instrumentations of OpenAI and Anthropic: OpenTelemetry GenAI names, and streams in
two spans.

1. A call that is not streamed is one span.
2. A stream is the span of the request, which ends when the answer begins to come and knows no
   usage, and a log-like span of no length, "streaming response from …", when all of it was read:
   that one has the usage, and as `duration` how long the reading took in seconds. They share no
   id, and without a span around them no trace. `request_identity` names what both asked for.
3. On export Logfire copies the request's model where no answer named one
   (`gateway.rules.model_names`).
"""

from gateway.read.view import Span
from gateway.rules.conventions.table import Convention, StreamPart, by_operation
from gateway.rules.extract import TEXT, Extracted, read_value
from gateway.rules.operation import Outcome, operation

SCOPES = ("logfire.openai", "logfire.anthropic")
_END_NAME = "streaming response from "
_LOG = "log"
_STREAMED = frozenset({"chat", "text_completion"})
_REQUEST_NAMES = (
    "gen_ai.request.max_tokens",
    "gen_ai.request.temperature",
    "gen_ai.request.top_p",
    "gen_ai.request.seed",
    "gen_ai.request.frequency_penalty",
    "gen_ai.request.presence_penalty",
    "gen_ai.operation.name",
    "gen_ai.system",
    "async",
)
"""Parameters without content that both spans of a stream repeat."""


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """The end of a stream is a call whatever else it states."""
    return "call" if _is_end(picked, span) else by_operation(picked, span, failed=failed)


def stream_part(picked: Extracted, span: Span, *, failed: bool) -> StreamPart | None:
    """Rule 2."""
    if _is_end(picked, span):
        return StreamPart(True, request_identity(span), picked.numbers.get("read_s", 0.0))  # noqa: FBT003 its field's name says it
    texts, counts = picked.texts, picked.counts
    is_whole = failed or "input" in counts or "output" in counts or "response_id" in texts or "finish_reason" in texts
    is_streamed = operation(texts.get("operation", "chat")).name in _STREAMED
    return None if is_whole or not is_streamed else StreamPart(False, request_identity(span), 0.0)  # noqa: FBT003 as above


def _is_end(picked: Extracted, span: Span) -> bool:
    return picked.texts.get("span_type") == _LOG and span.name.startswith(_END_NAME)


def request_identity(span: Span) -> tuple[str, ...]:
    """What the request asked for, of which both parts of a stream state the same."""
    stated, attributes = Extracted(), span.attributes
    for name in _REQUEST_NAMES:
        if name in attributes:
            read_value(stated, name, TEXT, attributes[name])
    return tuple(stated.texts.get(name, "") for name in _REQUEST_NAMES)


LOGFIRE = Convention("gen_ai", own={"read_s": ("duration",)}, outcome=outcome, stream_part=stream_part)
