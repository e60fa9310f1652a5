"""LiteLLM's StandardLoggingPayload, which `generic_api` sends: one document a call. Pure.

Read from captures of 1.106 and from `get_standard_logging_object_payload`
(`litellm/litellm_core_utils/litellm_logging.py`).

1. What is a call is known by its type (`call_types`). The report's identity is (`litellm_call_id`,
   `id`, `status`): a fallback's failed and its successful attempt share the first. Failed attempts
   of one call share all three, so their start joins in. What is read twice (a batch, a background
   response) is the object's id alone.
2. The response id is `id` of a success, without the `_cache_hit<time>` of an answer from the
   gateway's cache. A UUID is LiteLLM's own (embeddings, failures), no response's.
3. `model` may have the provider before it. `response.model` is rewritten to the client's alias
   (`model_group`); only another name is the provider's. An embedding model has no dated versions:
   the one that was asked for answered.
4. `prompt_tokens` and `completion_tokens` are inclusive. Cache, reasoning and audio are in
   `metadata.usage_object`, of versions that do not send that in the usage of `response`. Where
   neither counts, the zeros are LiteLLM's default for unknown.
5. `response_cost` is in USD, by LiteLLM's price list. 0 is unknown: a model without a price and one
   whose price was set to 0 look the same.
6. `cache_hit: true`: the gateway's cache answered. Tokens are repeated, no one billed them.
7. `trace_id` is a trace's, or the client's session under that name: a session where it is no trace
   id, or another one than the proxy's own in `metadata.requester_metadata`, or the end of its
   `user_id` (Claude Code's `…_session_<uuid>`). Another session that is a UUID cannot be
   distinguished from an id that LiteLLM made itself.
"""

import re
from collections.abc import Mapping
from typing import Final

from gateway.common.operations import chosen, like, stated_at
from gateway.products.fields import count_of, cut, number_of, pick_fields, text_of
from gateway.products.litellm.call_types import CallType, call_type
from gateway.products.reporting import Report, content_id, epoch_ms
from gateway.rules.conventions.litellm import drop_unknown_reasoning, without_prefix
from gateway.rules.conventions.native import add_parts, add_wholes, note_native
from gateway.rules.conventions.table import Convention, inclusive
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.texts import Json, count_in

NAMES: dict[str, tuple[str, ...]] = {
    "provider": ("custom_llm_provider", "error_information.llm_provider"),
    "address": ("hidden_params.api_base", "api_base"),
    "request_model": ("model",),
    "request_id": ("litellm_call_id",),
    "finish_reason": ("response.choices.*.finish_reason", "response.stop_reason"),
    "service_tier": (
        "response.service_tier",
        "metadata.usage_object.service_tier",
        "cost_breakdown.service_tier",
        "model_parameters.service_tier",
    ),
    "region": ("cost_breakdown.vertex_location",),
    "input": ("prompt_tokens",),
    "output": ("completion_tokens",),
    "cost": ("response_cost",),
    "stream": ("stream", "model_parameters.stream"),
    "user": (
        "metadata.user_api_key_user_id",
        "metadata.user_api_key_user_email",
        "metadata.user_api_key_end_user_id",
        "end_user",
    ),
    "team": ("metadata.user_api_key_team_id", "metadata.user_api_key_team_alias", "metadata.team_id"),
    "project": ("metadata.user_api_key_project_id", "metadata.user_api_key_project_alias"),
    "session": ("session_id", "metadata.requester_metadata.session_id"),
    "label.virtual_key": ("metadata.user_api_key_alias",),
    "label.organization": ("metadata.user_api_key_org_id", "metadata.user_api_key_org_alias"),
    "label.team_name": ("metadata.user_api_key_team_alias",),
    "label.model_group": ("model_group",),
}
"""Paths in the payload. All else of it is left unread: messages, answers,
headers, tags, tracebacks."""

LITELLM: Final = Convention("litellm", own=NAMES, basis=inclusive)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_TRACE = re.compile(r"[0-9a-f]{32}", re.IGNORECASE)
_CACHED: Final = "_cache_hit"
"""Stands with a time behind the response id of an answer from the gateway's cache."""
_CACHE_HIT = re.compile(rf"{_CACHED}[\d.]*$")
_SESSION = "_session_"
_NO_MODEL = frozenset({"unknown", "unknown-model", "None"})
_MS = 1000
_NOTHING: Mapping[str, Json] = {}


def is_payload(document: Mapping[str, Json]) -> bool:
    return "call_type" in document and (
        "litellm_call_id" in document or "status" in document or "startTime" in document
    )


def report_of(document: dict[str, Json]) -> Report | CallType:
    """The report of a call; the type of a document that reports none."""
    sent = document.get("call_type")
    kind = call_type(sent if isinstance(sent, str) else "")
    if kind.kind in {"step", "other"}:
        return kind
    picked = pick_fields(document, LITELLM)
    failed = _status(document) == "failure"
    usage = _read_usage(document, picked)
    if not picked.numbers.get("cost"):
        picked.numbers.pop("cost", None)
    if not _is_call(kind, picked, usage, failed=failed):
        return kind
    picked.texts["operation"] = kind.operation
    _read_models(document, picked, failed=failed)
    _read_response_id(document, picked, failed=failed)
    trace_id = _read_session(document, picked)
    if document.get("cache_hit") is True:
        picked.numbers["cache_hit"] = stated_at(1.0, document, "cache_hit")
    start_ms, end_ms = epoch_ms(document.get("startTime")), epoch_ms(document.get("endTime"))
    _read_first_token(document, picked)
    return Report(
        picked,
        event_id=_event_id(document, kind, picked, failed=failed),
        start_ms=start_ms,
        end_ms=end_ms,
        failed=failed,
        error=_error(document) if failed else None,
        trace_id=trace_id,
    )


def _object(document: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    found = document.get(name)
    return found if isinstance(found, dict) else _NOTHING


def _status(document: Mapping[str, Json]) -> str:
    status = document.get("status")
    return status.lower() if isinstance(status, str) else ""


def _is_call(kind: CallType, picked: Extracted, usage: Mapping[str, Json], *, failed: bool) -> bool:
    """Rules 2 and 5 of `call_types`."""
    if kind.kind == "call":
        return True
    has_usage = bool(usage) and any(picked.counts.get(field) for field in ("input", "output"))
    if kind.kind == "read":
        return has_usage and not failed
    is_model = picked.texts.get("request_model", "unknown") not in _NO_MODEL
    return (
        any(picked.counts.get(field) for field in ("input", "output"))
        or bool(picked.numbers.get("cost"))
        or (failed and is_model and "provider" in picked.texts)
    )


def _read_usage(document: Mapping[str, Json], picked: Extracted) -> Mapping[str, Json]:
    """Rule 4. The usage object is completed."""
    usage = _object(_object(document, "metadata"), "usage_object") or _object(_object(document, "response"), "usage")
    counts = picked.counts
    if not counts.get("input") and not counts.get("output"):
        counts.pop("input", None)
        counts.pop("output", None)
        if usage:
            add_wholes(picked, usage)
        if not counts.get("input") and not counts.get("output"):
            counts.clear()
            total = count_of(document.get("total_tokens"))
            if total:
                counts["total"] = total
            return usage if total else _NOTHING
    if "prompt_tokens_details" in usage or "completion_tokens_details" in usage:
        _read_parts(picked.counts, usage)
    elif usage:  # a provider's own, as a passed-through answer has it
        add_parts(picked, usage)
    if "input_tokens" in usage:
        note_native(picked, usage)
    drop_unknown_reasoning(picked)
    return usage or document


def _read_parts(counts: dict[str, int], usage: Mapping[str, Json]) -> None:
    """The parts as LiteLLM's Usage object has them, some of them two or three times."""
    inputs, outputs = _object(usage, "prompt_tokens_details"), _object(usage, "completion_tokens_details")
    inside, beside = count_in(inputs, "cached_tokens"), count_in(usage, "cache_read_input_tokens")
    cached = chosen(inside or beside, inside, beside)
    if cached is not None:
        counts["cache_read"] = cached
    written = count_in(inputs, "cache_creation_tokens", "cache_write_tokens")
    beside = count_in(usage, "cache_creation_input_tokens")
    written = chosen(written or beside, written, beside)
    if written is not None:
        counts["cache_creation"] = written
        hour = count_in(_object(inputs, "cache_creation_token_details"), "ephemeral_1h_input_tokens")
        if hour is not None:
            counts["cache_creation_1h"] = hour
    for field, details, name in (
        ("reasoning", outputs, "reasoning_tokens"),
        ("audio_input", inputs, "audio_tokens"),
        ("audio_output", outputs, "audio_tokens"),
    ):
        count = count_in(details, name)
        if count is not None:
            counts[field] = count


def _read_models(document: Mapping[str, Json], picked: Extracted, *, failed: bool) -> None:
    """Rule 3, and the models of a batch."""
    texts = picked.texts
    hidden = _object(document, "hidden_params")
    model = texts.pop("request_model", "")
    models = hidden.get("batch_models")
    if isinstance(models, list):
        picked.numbers["batch"] = 1.0
        if model in _NO_MODEL or not model:
            model = text_of(models[0]) if models else ""
    if _is_batch(document):
        picked.numbers["batch"] = 1.0
    prefix, slash, rest = model.partition("/")
    if slash and rest and prefix == texts.get("provider"):
        model = rest
    elif slash:
        model = without_prefix(model, texts)
    if model and model not in _NO_MODEL:
        texts["request_model"] = model
    answered = _object(document, "response").get("model")
    group = document.get("model_group")
    if isinstance(answered, str) and answered and answered != group and answered not in _NO_MODEL:
        answered_prefix, answered_slash, answered_rest = answered.partition("/")
        if answered_slash and answered_prefix == texts.get("provider"):
            answered = answered_rest
        texts["response_model"] = answered[:MAX_TEXT_CHARS]
    elif texts["operation"] == "embeddings" and not failed and "request_model" in texts:
        texts["response_model"] = texts["request_model"]


def _is_batch(document: Mapping[str, Json]) -> bool:
    sent = document.get("call_type")
    return isinstance(sent, str) and sent.endswith("retrieve_batch")


def _read_response_id(document: Mapping[str, Json], picked: Extracted, *, failed: bool) -> None:
    """Rule 2."""
    sent = document.get("id")
    if failed or not isinstance(sent, str):
        return
    response_id = like(_CACHE_HIT.sub("", sent[:4096]), sent) if _CACHED in sent else sent
    if response_id and response_id != "None" and not _UUID.fullmatch(response_id):
        picked.texts["response_id"] = cut(response_id)


def _read_session(document: Mapping[str, Json], picked: Extracted) -> str:
    """Rule 7; the trace id, or "" where there is none."""
    sent = document.get("trace_id")
    if not isinstance(sent, str) or not sent:
        return ""
    requester = _object(_object(document, "metadata"), "requester_metadata")
    own, user_id = requester.get("trace_id"), requester.get("user_id")
    is_session = isinstance(user_id, str) and user_id.endswith(f"{_SESSION}{sent}")
    is_id = _TRACE.fullmatch(sent) or _UUID.fullmatch(sent)
    if sent == own or (is_id and not is_session and not isinstance(own, str)):
        return sent
    picked.who.setdefault("session", cut(sent))
    return own if isinstance(own, str) else ""


def _read_first_token(document: Mapping[str, Json], picked: Extracted) -> None:
    if not picked.numbers.get("stream"):
        return
    first, start = number_of(document.get("completionStartTime")), number_of(document.get("startTime"))
    if first is not None and start is not None and first > start:
        picked.numbers["time_to_first_ms"] = (first - start) * _MS


def _event_id(document: Mapping[str, Json], kind: CallType, picked: Extracted, *, failed: bool) -> str:
    """Rule 1."""
    call_id, own = text_of(document.get("litellm_call_id")), _whole_text(document.get("id"))
    if kind.kind == "read" and own:
        return f"read/{own}"
    status = "failure" if failed else "success"
    if not call_id and not own:
        identity = (picked.texts.get("request_model"), picked.counts.get("input"), picked.counts.get("output"))
        return content_id(status, number_of(document.get("startTime")), number_of(document.get("endTime")), *identity)
    if failed:
        return content_id(call_id, own, status, number_of(document.get("startTime")))
    return content_id(call_id, own, status)


def _whole_text(value: Json) -> str:
    """An id, uncut: those of responses differ only behind 256 characters."""
    return value if isinstance(value, str) else text_of(value)


def _error(document: Mapping[str, Json]) -> str:
    """The exception's class, else its code."""
    information = _object(document, "error_information")
    name, code = text_of(information.get("error_class")), text_of(information.get("error_code"))
    return chosen(name or code or "error", name, code)
