"""OpenInference (Arize): `openinference.span.kind`, `llm.token_count.*`, `llm.model_name`.

1. Kinds LLM and EMBEDDING are calls, but an LLM without usage and answer, which prepares a call or
   is a piece of a stream; CHAIN, AGENT, TOOL, RETRIEVER, RERANKER, GUARDRAIL,
   EVALUATOR and PROMPT are steps.
2. `llm.model_name` holds the response's model, or the request's (`model_names.py` has the rule);
   the request's is in `llm.invocation_parameters`.
3. The response's id is only inside `output.value`, which holds the provider's answer or its text
   alone; `input.value` the request or the prompt alone (`envelopes.py` distinguishes them). Where
   no attribute has usage, the answer's own counts.
4. Anthropic's input: inclusive, but streams of versions before 1 are exclusive. The versions seen
   of Agno's and Bedrock's instrumentations, and those up to 0.1.12 of the Claude Agent SDK's, pass
   the provider's own numbers on. Of Python's Bedrock only `converse` up to 0.1.58: what InvokeModel
   answers is summed up, and so is `converse` since.
"""

from gateway.common.operations import is_wanted
from gateway.read.view import Span
from gateway.rules.conventions.basis import is_before, native_before, native_input
from gateway.rules.conventions.native import believed_answer, take_answer
from gateway.rules.conventions.shapes import agreeing_answer, take_stated
from gateway.rules.conventions.table import Convention, by_operation
from gateway.rules.conventions.who import SPELLINGS
from gateway.rules.extract import NO_ONE, Extracted
from gateway.rules.operation import Outcome
from gateway.rules.texts import json_object, requested_model, text_in
from gateway.rules.usage import Basis

_CALLS = frozenset({"LLM", "EMBEDDING"})
RAW_METADATA = "raw_metadata"
_IN_METADATA: dict[str, tuple[str, ...]] = {
    "user": ("user_api_key_user_id", "user_api_key_end_user_id", *SPELLINGS["user"], "langfuse_user_id"),
    "session": SPELLINGS["session"],
    "team": ("user_api_key_team_id", *SPELLINGS["team"]),
    "project": SPELLINGS["project"],
}
"""Names in the JSON text `metadata`: LiteLLM's own, then those in use."""

NAMES: dict[str, tuple[str, ...]] = {
    "kind": ("openinference.span.kind",),
    "provider": ("llm.provider", "llm.system", "gen_ai.provider.name", "gen_ai.system"),
    "model": ("llm.model_name", "embedding.model_name", "reranker.model_name"),
    "input": ("llm.token_count.prompt", "gen_ai.usage.input_tokens"),
    "output": ("llm.token_count.completion", "gen_ai.usage.output_tokens"),
    "cache_read": ("llm.token_count.prompt_details.cache_read", "llm.token_count.prompt_details.cached"),
    "cache_creation": ("llm.token_count.prompt_details.cache_write", "llm.token_count.prompt_details.cache_creation"),
    "reasoning": ("llm.token_count.completion_details.reasoning",),
    "audio_input": ("llm.token_count.prompt_details.audio",),
    "audio_output": ("llm.token_count.completion_details.audio",),
    "raw_answer": ("output.value",),
    "raw_parameters": ("llm.invocation_parameters", "embedding.invocation_parameters"),
    RAW_METADATA: ("metadata",),
    "raw_input": ("input.value",),
}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    kind = picked.texts.get("kind")
    if kind is None:
        return by_operation(picked, span, failed=failed)
    if kind.upper() not in _CALLS or (kind.upper() == "LLM" and not failed and not _has_answer(picked, span)):
        return "not_a_call"
    return "call"


def _has_answer(picked: Extracted, span: Span) -> bool:
    """Whether a span of kind LLM may be a call: it has usage, an answer, or a model and a text that
    is no request. Others prepare a call, or are a piece of a stream.
    """
    texts, counts = picked.texts, picked.counts
    if "input" in counts or "output" in counts or "total" in counts or "finish_reason" in texts:
        return True
    if any(name.startswith(_ANSWER) for name in span.attributes):
        return True
    if "raw_answer" not in texts:
        return "model" in texts or "request_model" in texts
    return not isinstance(json_object(texts["raw_answer"]).get("messages"), list)


_ANSWER = ("llm.output_messages.", "llm.choices.")


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rules 2 and 3, and user and session from `metadata`."""
    texts = picked.texts
    parameters = json_object(texts.pop("raw_parameters", None))
    text = texts.pop("raw_answer", None)
    answer = believed_answer(picked, text, failed=failed)
    if is_wanted(texts, "response_id") and not answer.usage:
        answer = agreeing_answer(picked, text) or answer
    if not failed:
        take_stated(picked, text, is_embedding=texts.get("kind", "").upper() == "EMBEDDING")
    sent_input = texts.pop("raw_input", None)
    requested = text_in(parameters, "model", "model_name", "deployment_name")
    if requested is not None:
        texts.setdefault("request_model", requested[:256])
    if is_wanted(texts, "request_model"):
        requested = requested_model(sent_input)
        if requested is not None:
            texts.setdefault("request_model", requested[:256])
    take_answer(picked, answer)
    if parameters.get("stream") is True:
        picked.numbers.setdefault("stream", 1.0)
    read_metadata(picked)
    if texts.get("kind", "").upper() == "EMBEDDING":
        texts.setdefault("operation", "embeddings")


def read_metadata(picked: Extracted) -> None:
    """Take whom the JSON text `metadata` names, where no attribute does."""
    metadata = json_object(picked.texts.pop(RAW_METADATA, None))
    for field, names in _IN_METADATA.items():
        values = (text_in(metadata, name) for name in names)
        value = next((x for x in values if x is not None and x not in NO_ONE), None)
        if value is not None:
            picked.who.setdefault(field, value[:256])
    hint = text_in(metadata, "ls_provider")
    if hint is not None:
        picked.texts.setdefault("provider", hint[:256])


def basis(picked: Extracted, version: str, provider: str | None) -> Basis:
    """Rule 4, for the scope of the Anthropic instrumentation."""
    if version.startswith("0."):
        return Basis.EXCLUSIVE if picked.numbers.get("stream") and provider == "anthropic" else Basis.INCLUSIVE
    return Basis.UNSTATED if version.startswith(("1.", "2.")) else Basis.INCLUSIVE


OPENINFERENCE = Convention("openinference", own=NAMES, outcome=outcome, read_texts=read_texts)

OPENINFERENCE_ANTHROPIC = Convention(
    "openinference", own=NAMES, outcome=outcome, read_texts=read_texts, basis=basis, default_provider="anthropic"
)

_AGNO, _CLAUDE_AGENT_SDK, _BEDROCK_JS = (1, 0, 16), (0, 1, 13), (0, 5, 2)
"""Versions before which they were seen to pass the provider's own input on. The Claude Agent SDK's
adds the cache since."""


def _native_before(bound: tuple[int, ...]) -> Convention:
    return Convention("openinference", own=NAMES, outcome=outcome, read_texts=read_texts, basis=native_before(bound))


OPENINFERENCE_AGNO = _native_before(_AGNO)
OPENINFERENCE_CLAUDE_AGENT_SDK = _native_before(_CLAUDE_AGENT_SDK)
OPENINFERENCE_BEDROCK_JS = _native_before(_BEDROCK_JS)


def read_span(picked: Extracted, span: Span) -> None:
    """Which of Bedrock's interfaces was called, which only the span's name states."""
    if span.name.startswith("bedrock.converse"):
        picked.texts["interface"] = "converse"


_CONVERSE_INCLUSIVE = (0, 1, 59)


def bedrock_basis(picked: Extracted, version: str, provider: str | None) -> Basis:
    """Rule 4."""
    is_native = "interface" in picked.texts and is_before(version, _CONVERSE_INCLUSIVE)
    return native_input(picked, version, provider) if is_native else Basis.UNSTATED


OPENINFERENCE_BEDROCK = Convention(
    "openinference",
    own=NAMES,
    outcome=outcome,
    read_texts=read_texts,
    basis=bedrock_basis,
    read_span=read_span,
    default_provider="aws.bedrock",
)
