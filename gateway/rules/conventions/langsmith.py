"""LangSmith's OpenTelemetry export: `langsmith.span.kind`, GenAI names,
LangChain's usage in JSON text.

1. Kinds `llm` and `embedding` are calls; chain, prompt, parser, retriever and tool are steps,
   although their `gen_ai.operation.name` may state `chat`.
2. The input is inclusive; cache and reasoning are in
   `langsmith.metadata.usage_metadata` and in Python reprs.
3. Response id and model may be only in `gen_ai.completion`, LangChain's
   LLMResult or the provider's answer.
4. `langsmith.trace.session_name` is the project; the session is in `langsmith.metadata.session_id`.
"""

from gateway.read.view import Span
from gateway.rules.conventions.native import add_parts, add_wholes, believed_answer, take_answer
from gateway.rules.conventions.table import Convention, by_operation, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome
from gateway.rules.texts import json_object, repr_object

_METADATA = "langsmith.metadata."

NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("langsmith.span.kind",),
    "provider_hint": (_METADATA + "ls_provider",),
    "request_model": ("gen_ai.request.model", _METADATA + "ls_model_name"),
    "raw_usage": (_METADATA + "usage_metadata",),
    "raw_input_details": ("gen_ai.usage.input_token_details",),
    "raw_output_details": ("gen_ai.usage.output_token_details",),
    "raw_answer": ("gen_ai.completion",),
    "stream": (_METADATA + "stream", _METADATA + "streaming", "gen_ai.request.stream"),
    "user": (_METADATA + "user_id", "user.id"),
    "session": (_METADATA + "session_id", _METADATA + "thread_id", _METADATA + "conversation_id", "session.id"),
    "team": (_METADATA + "team_id", _METADATA + "team", "team.id"),
    "project": ("langsmith.trace.session_name",),
}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    kind = picked.texts.get("kind")
    if kind is None:
        return by_operation(picked, span, failed=failed)
    return "call" if kind.lower() in {"llm", "embedding"} else "not_a_call"


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rules 2 and 3."""
    texts = picked.texts
    usage = json_object(texts.pop("raw_usage", None))
    add_wholes(picked, usage)
    add_parts(picked, usage)
    details = {
        "input_token_details": dict(repr_object(texts.pop("raw_input_details", None))),
        "output_token_details": dict(repr_object(texts.pop("raw_output_details", None))),
    }
    add_parts(picked, details)
    answer = believed_answer(picked, texts.pop("raw_answer", None), failed=failed)
    add_wholes(picked, answer.usage)
    take_answer(picked, answer)
    if texts.get("kind", "").lower() == "embedding":
        texts["operation"] = "embeddings"


LANGSMITH = Convention("langsmith", own=NAMES, outcome=outcome, basis=inclusive, read_texts=read_texts)
