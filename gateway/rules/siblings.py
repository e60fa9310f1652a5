"""What steps know about calls of the same request, and no attribute of the call itself states.

1. LiteLLM's `raw_gen_ai_request` names the provider's model, where its parent has only
   the gateway's alias. Several below one parent that name different models (a fallback,
   a second call) name none.
   So does the step of a Mastra generation, which is the call.
2. LangChain's messages, which OpenLLMetry writes into the texts of the steps around a call, hold
   the provider's usage beside the response's id: it completes cache and reasoning of the call with
   that id. Tokens are never added.

3. A step around a call may hold its answer in a text, printed or as JSON (LlamaIndex's agents): it
   names the model that answered and the response's id, of the call with the same input and output.

Only parts and names that are absent are filled in; a call that travels in
another request stays as it is.
"""

from collections.abc import Iterator, Mapping, Sequence

from gateway.read.view import Attributes, Span
from gateway.rules.call import Call
from gateway.rules.conventions.litellm import RAW_REQUEST
from gateway.rules.conventions.native import add_parts
from gateway.rules.conventions.shapes import answers_by_shape
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.model_names import is_snapshot
from gateway.rules.texts import Json, json_object, object_in, text_in
from spool.record import Record, Usage

_STEP_TEXTS = ("traceloop.entity.output", "traceloop.entity.input")
_STEP_MODELS = ("gen_ai.response.model", "mastra.metadata.modelId", "modelId")
_ANSWER_TEXTS = ("output.value", "input.value")
_MAX_TEXTS = 64
"""Of one trace in one payload."""
_USAGE_MARK = '"token_usage"'
_MAX_STEPS = 2_000


class Companions:
    """Facts of one request's steps, and the calls they may complete."""

    __slots__ = ("_models", "_texts", "_usages")

    def __init__(self) -> None:
        self._models: dict[bytes, str] = {}
        """Trace and span id of a call -> the model its provider answered with;
        "" where steps name several."""
        self._usages: dict[str, Extracted] = {}
        """Response id -> counts."""
        self._texts: dict[bytes, list[str]] = {}
        """Trace -> texts of its steps that may hold an answer."""

    @property
    def are_known(self) -> bool:
        """Whether any step states something about a call."""
        return bool(self._models or self._usages or self._texts)

    def note(self, span: Span) -> None:
        """Take the facts of a step."""
        is_raw = span.name == RAW_REQUEST
        model = _raw_model(span.attributes) if is_raw else _model_of_step(span.attributes)
        if model and span.parent_span_id:
            above = span.trace_id + span.parent_span_id
            self._models[above] = model if self._models.get(above, model) == model else ""
        if is_raw:
            return
        for name in _STEP_TEXTS:
            value = span.attributes.get(name)
            text = value.string_value if value is not None else ""
            if _USAGE_MARK in text:
                self._note_messages(json_object(text))
        for name in _ANSWER_TEXTS:
            value = span.attributes.get(name)
            text = value.string_value if value is not None else ""
            if "total_tokens" in text and len(texts := self._texts.setdefault(span.trace_id, [])) < _MAX_TEXTS:
                texts.append(text)

    def _note_messages(self, document: Mapping[str, Json]) -> None:
        for answer in _answers(document):
            response_id = text_in(answer, "id")
            if response_id is not None and response_id not in self._usages:
                picked = Extracted()
                add_parts(picked, object_in(answer, "token_usage", "usage"))
                self._usages[response_id] = picked

    def complete(self, calls: list[Call]) -> None:
        """Fill in what *calls* lack, in place: they were made a moment ago and
        no one else has seen them.
        """
        if not self.are_known:
            return
        for call in calls:
            record = call.record
            model = self._models.get(call.trace_id + call.span_id)
            if model and record["response_model"] is None and record["status"] == "ok" and not _is_copy(model, record):
                record["response_model"] = model
            if call.trace_id in self._texts and _lacks_answer(record):
                _name_answer(record, self._texts[call.trace_id])
            known = self._usages.get(record["response_id"] or "")
            if known is not None:
                _fill_parts(record["usage"], known.counts)


def _is_copy(model: str, record: Record) -> bool:
    """Of a stream LiteLLM names what was asked for; an embedding model answers as itself."""
    return model == record["request_model"] and record["operation"] != "embeddings"


def _lacks_answer(record: Record) -> bool:
    """Whether the call has no id of its response, and no model but the one that was asked for."""
    return (
        record["status"] == "ok"
        and record["response_id"] is None
        and record["response_model"] in {None, record["request_model"]}
        and record["usage"].get("input_tokens") is not None
    )


def _name_answer(record: Record, texts: Sequence[str]) -> None:
    """Rule 3. Two different answers with these numbers name none."""
    wholes = record["usage"].get("input_tokens"), record["usage"].get("output_tokens")
    found = {(model, id_) for text in texts for *counts, model, id_ in answers_by_shape(text) if (*counts,) == wholes}
    if len(found) == 1:
        model, response_id = found.pop()
        if model is not None and is_snapshot(model):
            record["response_model"] = model
        if response_id is not None:
            record["response_id"] = response_id


def _raw_model(attributes: Attributes) -> str:
    """`llm.<provider>.model`, whatever LiteLLM calls the provider."""
    for name in attributes:
        if name.startswith("llm.") and name.endswith(".model"):
            return attributes[name].string_value[:MAX_TEXT_CHARS]
    return ""


def _model_of_step(attributes: Attributes) -> str:
    """The model that a step of a call states as the one that answered."""
    for name in _STEP_MODELS:
        value = attributes.get(name)
        if value is not None and value.string_value:
            return value.string_value[:MAX_TEXT_CHARS]
    return ""


def _answers(document: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    """Every `response_metadata` in *document* that holds usage; the walk is bounded."""
    waiting: list[Json] = [dict(document)]
    for _ in range(_MAX_STEPS):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, dict):
            metadata = object_in(value, "response_metadata")
            if metadata and object_in(metadata, "token_usage", "usage"):
                yield metadata
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def complete_parts(usage: Usage, other: Usage) -> None:
    """Take cache reads and reasoning of *other*, a provider's own usage, that *usage* lacks, where
    both have the same whole.
    """
    reasoning, cached = other.get("reasoning_output_tokens"), other.get("cache_read_input_tokens")
    if reasoning is not None and usage.get("output_tokens") == other.get("output_tokens"):
        usage.setdefault("reasoning_output_tokens", reasoning)
    if cached is not None and usage.get("input_tokens") == other.get("input_tokens"):
        usage.setdefault("cache_read_input_tokens", cached)


def _fill_parts(usage: Usage, counts: Mapping[str, int]) -> None:
    """Parts that are absent and fit their whole."""
    output, reasoning = usage.get("output_tokens"), counts.get("reasoning")
    if reasoning is not None and output is not None and reasoning <= output:
        usage.setdefault("reasoning_output_tokens", reasoning)
    whole, cached = usage.get("input_tokens"), counts.get("cache_read")
    if cached is not None and whole is not None and cached + (usage.get("cache_creation_input_tokens") or 0) <= whole:
        usage.setdefault("cache_read_input_tokens", cached)
