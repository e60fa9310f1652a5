"""Langfuse's OpenTelemetry SDKs: `langfuse.observation.type`, usage and cost as JSON text.

1. Types `generation` and `embedding` are calls; span, agent, tool, chain, retriever, evaluator,
   guardrail, event are steps.
2. `usage_details` is the provider's own usage object (inclusive), or Langfuse's buckets, which are
   disjoint (`langfuse_usage`).
3. `model.name` is the request's or the response's model (`model_names.py` has the rule).
4. No provider is named: the model's name states it.
"""

from collections.abc import Mapping

from gateway.read.view import Span
from gateway.rules.conventions.langfuse_usage import read_usage
from gateway.rules.conventions.litellm import drop_unknown_reasoning
from gateway.rules.conventions.native import add_parts, believed_answer
from gateway.rules.conventions.table import Convention, by_operation, inclusive
from gateway.rules.extract import Extracted
from gateway.rules.operation import Outcome
from gateway.rules.texts import Json, json_object, text_in, unquoted

_OBSERVATION = "langfuse.observation."
_METADATA = _OBSERVATION + "metadata."
_CALLS = frozenset({"generation", "embedding"})
_WHOLES = frozenset({"input", "output", "total"})

NAMES: dict[str, tuple[str, ...]] = {
    "kind": (_OBSERVATION + "type",),
    "model": (_OBSERVATION + "model.name", "langfuse.observation.model"),
    "raw_usage": (_OBSERVATION + "usage_details", _OBSERVATION + "usage"),
    "raw_cost": (_OBSERVATION + "cost_details",),
    "raw_parameters": (_OBSERVATION + "model.parameters",),
    "raw_answer": (_OBSERVATION + "output",),
    "finish_reason": ("gen_ai.response.finish_reasons", _METADATA + "finish_reason"),
    "response_id": ("gen_ai.response.id", _METADATA + "response_id"),
    "request_id": (_METADATA + "litellm_call_id",),
    "level": (_OBSERVATION + "level",),
    "cache_hit": (_METADATA + "cache_hit",),
    "raw_litellm_usage": (_METADATA + "usage_object",),
    "user": (
        _METADATA + "user_api_key_user_id",
        "user.id",
        "langfuse.user.id",
        _METADATA + "langfuse_user_id",
        "langfuse.trace.user_id",
    ),
    "session": ("session.id", "langfuse.session.id", _METADATA + "langfuse_session_id", "langfuse.trace.session_id"),
    "team": (_METADATA + "user_api_key_team_id", _METADATA + "team_id", "team.id"),
    "environment": ("langfuse.environment",),
    "label.virtual_key": (_METADATA + "user_api_key_alias",),
}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Rule 1."""
    kind = picked.texts.get("kind")
    if kind is None:
        return "call" if "raw_usage" in picked.texts else by_operation(picked, span, failed=failed)
    return "call" if kind.lower() in _CALLS else "not_a_call"


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rules 2 and 3, the cost, and the JSON quotes that Langfuse leaves around metadata."""
    texts, numbers = picked.texts, picked.numbers
    for field, value in picked.who.items():
        picked.who[field] = unquoted(value)
    if "finish_reason" in texts:
        texts["finish_reason"] = unquoted(texts["finish_reason"])
    usage = json_object(texts.pop("raw_usage", None))
    _read_usage(picked, usage)
    add_parts(picked, _reasoning_only(json_object(texts.pop("raw_litellm_usage", None))))
    cost = _cost(json_object(texts.pop("raw_cost", None)))
    if cost is not None:
        numbers.setdefault("cost", cost)
    parameters = json_object(texts.pop("raw_parameters", None))
    requested = text_in(parameters, "model")
    if requested is not None:
        texts.setdefault("request_model", requested[:256])
    answer = believed_answer(picked, texts.pop("raw_answer", None), failed=failed)
    if answer.response_id is not None:
        texts.setdefault("response_id", answer.response_id[:256])
    if "request_id" in texts:
        drop_unknown_reasoning(picked)
    if texts.get("kind", "").lower() == "embedding":
        texts.setdefault("operation", "embeddings")


def _cost(details: Mapping[str, Json]) -> float | None:
    """The total, else the sum of the parts, as Langfuse's own server has it."""
    amounts = {name: x for name, x in details.items() if isinstance(x, int | float) and not isinstance(x, bool)}
    return float(amounts.get("total", sum(amounts.values()))) if amounts else None


def _reasoning_only(usage: Mapping[str, Json]) -> Mapping[str, Json]:
    """Of LiteLLM's copy of the provider's usage only what Langfuse's buckets do not state."""
    return {key: usage[key] for key in ("completion_tokens_details", "output_tokens_details") if key in usage}


def _read_usage(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Rule 2: inclusive counts, where no attribute of their own has them."""
    read = read_usage(usage)
    counts = picked.counts
    has_wholes = "input" in counts or "output" in counts
    for field, count in read.counts.items():
        if field not in counts and not (has_wholes and field in _WHOLES):
            counts[field] = count
    if read.other:
        picked.other = {**read.other, **(picked.other or {})}


LANGFUSE = Convention("langfuse", own=NAMES, outcome=outcome, basis=inclusive, read_texts=read_texts)
