"""How a record is made: its identity, its fields from the picked values, its bytes.

Pure; shared by spans and logs.
"""

import re
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, cast

from gateway.common.contract.flags import BASIS_ASSUMED
from gateway.common.json_bytes import json_bytes
from gateway.common.operations import like, rfc3339
from gateway.rules.attribution import attribute
from gateway.rules.cache_hit import is_cache_hit
from gateway.rules.context import Context
from gateway.rules.conventions.native import add_agreeing, believed_answer, take_answer
from gateway.rules.conventions.table import Convention
from gateway.rules.cost import no_cost, reported_cost
from gateway.rules.extract import MAX_TEXT_CHARS, Extracted
from gateway.rules.model_names import are_open, drop_placeholders, is_version, place_models
from gateway.rules.operation import operation
from gateway.rules.provider import COUNTING_IN, may_think_apart, provider
from gateway.rules.texts import repr_object, text_in
from gateway.rules.times import time_flags
from gateway.rules.usage import (
    ASSUMED,
    EXCLUSIVE,
    INCLUSIVE,
    SHOWN,
    UNSTATED,
    Basis,
    has_cache,
    partition,
    shown_basis,
)
from spool.record import FIELDS, SCHEMA, Attribution, Record, Source, Trace

_EVENT_DOMAIN = b"event\x00"
_ID_HEX = 32
_MS_PER_S = 1000
_MAX_FIRST_MS = 24 * 3600 * 1000
_DEFAULT_OPERATION = "chat"
INPUT_ONLY = frozenset({"embeddings", "rerank", "moderation", "transcription", "speech", "image_generation"})
"""Operations whose input alone is the whole report."""
WITHOUT_CACHE: Final[dict[str | None, Basis]] = dict.fromkeys(COUNTING_IN, EXCLUSIVE)
"""Provider -> what an input holds that comes without cache counts, where only a total may show that
they were left out."""
UNKNOWN_PROVIDER = "unknown"
"""Where nothing states provider or model: the upstream takes no call without either
(wire contract, part 6.1)."""

_AZURE = "azure.ai.openai"
"""What its callers name as the model is a deployment of theirs."""

_WORD = re.compile(r"""[^\s"'`{}<>,;!?]+""")
_NAME = re.compile(r"[\w.:/$#@+=-]{1,256}", re.ASCII)
_TITLE = re.compile(r"[\w.:/$#@+=~()\[\]-]+(?: [\w.:/$#@+=~()\[\]-]+){1,5}")
_MAX_TITLE_CHARS = 80
_MAX_PLAIN_WORDS = 2
"""Words without capital or digit: `gemini 2.5 flash` has two; a request has more."""
_MAX_WORDS_WITHOUT_NUMBER = 3
_SPOKEN = frozenset(
    {
        "a", "about", "am", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "give", "has",
        "have", "he", "her", "his", "how", "i", "in", "is", "it", "its", "me", "my", "not", "of", "on", "or", "our", "please",
        "say", "she", "show", "tell", "that", "the", "their", "they", "this", "to", "was", "we", "what", "when", "where",
        "which", "who", "why", "will", "with", "write", "you", "your",
    }
)  # fmt: skip
"""Words that sentences are made of and no name of a model holds."""
_PYTHON_CLASS = re.compile(r"<class '([\w.]+)'>")


def event_record_id(source: str, event_id: str) -> str:
    """The id of a record whose sender gives its reports an id of their own;
    *source* is the format's name.
    """
    data = source.encode("utf-8", "replace") + b"\x00" + event_id.encode("utf-8", "replace")
    return sha256(_EVENT_DOMAIN + data).hexdigest()[:_ID_HEX]


def record_json(record: Record) -> bytes:
    """The record as it is kept and sent: one JSON object, UTF-8."""
    return json_bytes(record)


def call_record(  # noqa: C901, PLR0912 - flat: it runs once for every call
    picked: Extracted,
    *,
    convention: Convention,
    source: Source,
    record_id: str,
    start_ms: int,
    duration_ms: int | None,
    failed: bool,
    trace: Trace | None,
    base: Attribution,
    context: Context,
) -> Record:
    """One call's record, of kind `call`.

    *base* is what the resource states; the record's own attributes go over it.
    """
    convention.read_texts(picked, failed=failed)
    texts, numbers, counts = picked.texts, picked.numbers, picked.counts
    if "raw_usage" in texts or "raw_parameters" in texts or "raw_output" in texts:
        read_objects(picked, failed=failed)
    drop_placeholders(texts)
    if are_open(texts):
        place_models(picked, source["library"] or "", convention.name, failed=failed)
    request_model, response_model = title(texts.get("request_model")), title(texts.get("response_model"))
    response_id = texts.get("response_id")
    operation_name, served_by, input_only = called(
        texts.get("operation"),
        texts.get("provider") or texts.get("provider_hint"),
        response_model or request_model,
        texts.get("address"),
    )
    if served_by is None:
        served_by = convention.default_provider or (None if request_model else UNKNOWN_PROVIDER)
    if input_only and "input" not in counts and "output" not in counts and "total" in counts:
        counts["input"] = counts["total"]
    version = source["library_version"] or ""
    if has_cache(counts):
        basis = convention.basis(picked, version, served_by)
    else:
        basis = INCLUSIVE if input_only else WITHOUT_CACHE.get(served_by, INCLUSIVE)
    if "cache_hit" in texts and is_cache_hit(texts["cache_hit"]):
        numbers["cache_hit"] = like(1.0, texts["cache_hit"])
    usage, consistent = partition(
        picked,
        basis,
        output_basis(picked, convention, version, served_by)
        if "reasoning" in counts or "total" in counts
        else UNSTATED,
        failed=failed,
        began=response_id is not None or "response_model" in texts or "finish_reason" in texts,
        output_expected=not input_only,
        cache_hit=bool(numbers.get("cache_hit")),
    )
    if convention.estimates is not None and usage["status"] == "reported" and convention.estimates(picked, served_by):
        usage["status"] = "estimated"
    flags = time_flags(start_ms, context.received_at_ms)
    if not consistent:
        flags.append("inconsistent_usage")
    if convention.is_generic:
        flags.append("unknown_convention")
    if basis is UNSTATED:
        shown = shown_basis(counts, usage, served_by, response_model or request_model)
        counts[SHOWN] = shown if consistent or shown == ASSUMED else 0  # impossible numbers prove nothing
        if shown == ASSUMED:
            flags.append(BASIS_ASSUMED)
    record: Record = {
        "schema": SCHEMA,
        "record_id": record_id,
        "kind": "call",
        "billed": True,
        "source": source,
        "operation": operation_name,
        "provider": served_by,
        "request_model": request_model,
        "response_model": response_model,
        "response_id": response_id if response_id is not None and _NAME.fullmatch(response_id) else None,
        "started_at": rfc3339(start_ms),
        "duration_ms": duration_ms,
        "usage": usage,
        "status": "error" if failed else "ok",
        "attribution": attribute(base, picked.who, context),
        "received_at": context.received_at,
        "flags": flags,
    }
    if trace is not None:
        record["trace"] = trace
    _add_names(cast("dict[str, Any]", record), texts)
    if numbers:
        _add_numbers(record, numbers, texts.get("currency"))
    return record


def read_objects(picked: Extracted, *, failed: bool) -> None:
    """Take the parts of a usage object or of an answer that states the same usage, and the model
    that a request's parameters name where nothing else does, or where the request's is its version:
    that is the one that answered.
    """
    texts = picked.texts
    if "raw_usage" in texts:
        add_agreeing(picked, texts.pop("raw_usage"))
    if "raw_output" in texts:
        take_answer(picked, believed_answer(picked, texts.pop("raw_output"), failed=failed))
    parameters = repr_object(texts.pop("raw_parameters", None))
    asked = text_in(parameters, "model", "model_name", "modelId")
    if asked is None:
        return
    if "request_model" not in texts and "model" not in texts:
        texts["request_model"] = asked[:MAX_TEXT_CHARS]
    elif is_version(texts.get("request_model"), asked):
        if not failed:
            texts.setdefault("response_model", texts["request_model"])
        texts["request_model"] = asked[:MAX_TEXT_CHARS]


def read_names(picked: Extracted, convention: Convention, source: Source, *, failed: bool) -> None:
    """Take what the convention's texts hold, and place the names of models."""
    convention.read_texts(picked, failed=failed)
    read_objects(picked, failed=failed)
    drop_placeholders(picked.texts)
    place_models(picked, source["library"] or "", convention.name, failed=failed)


def output_basis(picked: Extracted, convention: Convention, version: str, provider: str | None) -> Basis:
    """What the output holds: as the item's own texts state it, else by the convention's table.

    Where neither does, and no reasoning is stated, Google's total may state its thoughts.
    """
    if "output_excludes_reasoning" in picked.numbers:
        return EXCLUSIVE
    found = UNSTATED if convention.output_basis is None else convention.output_basis(picked, version, provider)
    if found is UNSTATED and not picked.counts.get("reasoning"):
        texts = picked.texts
        if may_think_apart(provider, texts.get("response_model") or texts.get("request_model")):
            return EXCLUSIVE
    return found


@lru_cache(maxsize=4096)
def called(
    sent_operation: str | None, sent_provider: str | None, model: str | None, address: str | None
) -> tuple[str, str | None, bool]:
    """The operation, its provider, and whether it has no output of its own; a process
    sees few such combinations.
    """
    name = _operation_of(model) if sent_operation is None else operation(sent_operation).name
    if not is_name(name):
        name = _DEFAULT_OPERATION
    return name, provider(sent_provider, model, address), name in INPUT_ONLY


def _operation_of(model: str | None) -> str:
    """What a call is whose sender states no operation: models of embeddings are named for it."""
    return "embeddings" if model is not None and "embed" in model.lower() else _DEFAULT_OPERATION


@lru_cache(maxsize=1024)
def is_name(text: str) -> bool:
    """Whether *text* may be an id or a name of one word: no sentence."""
    return _NAME.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def title(text: str | None) -> str | None:
    """*text* if it may be the name of a model or a library: one word, or a few (`Claude
    Sonnet 4.5`); no sentence.
    """
    if text is None or " " not in text:
        return text if text is not None and _WORD.fullmatch(text) else None
    return text if len(text) <= _MAX_TITLE_CHARS and _TITLE.fullmatch(text) and _is_named(text.split(" ")) else None


def _is_named(words: list[str]) -> bool:
    """Whether *words* name something: a number or a capital stands
    out, and few words are plain ones.
    """
    bare = [word.strip("()[]:") for word in words]
    plain = sum(word.isalpha() and word.islower() for word in bare)
    has_digit = any(char.isdecimal() for word in bare for char in word)
    return (
        plain <= _MAX_PLAIN_WORDS
        and (has_digit or len(words) <= _MAX_WORDS_WITHOUT_NUMBER)
        and _SPOKEN.isdisjoint(word.lower() if len(word) > 1 else word for word in bare)
    )


_NAMES: Final = tuple(
    (field.name, field.row.words[0], is_name if field.form == "name" else title)
    for field in FIELDS.of()
    if field.form in {"name", "model"} and not field.is_required and len(field.row.words) == 1
)
"""Field, word of the tables and rule of the names that only some calls have, but for those that a
rule finds."""


def _add_names(record: dict[str, Any], texts: dict[str, str]) -> None:
    """The names that only some calls have."""
    for field, word, is_sound in _NAMES:
        if (text := texts.get(word)) is not None and is_sound(text):
            record[field] = text
    deployment = title(texts.get("deployment")) or (record["request_model"] if record["provider"] == _AZURE else None)
    if deployment is not None:
        record["deployment"] = deployment


def _add_numbers(record: Record, numbers: dict[str, float], currency: str | None) -> None:
    """Streaming, first token, batch and money. A cost of 0 of a failure, or for unknown
    tokens, is unknown.
    """
    if (streamed := numbers.get("stream")) is not None:
        record["stream"] = streamed > 0
    first_ms = (
        numbers["time_to_first_s"] * _MS_PER_S if "time_to_first_s" in numbers else numbers.get("time_to_first_ms")
    )
    if first_ms is not None and 0 <= first_ms <= _MAX_FIRST_MS:
        record["time_to_first_token_ms"] = round(first_ms)
    if numbers.get("batch"):
        record["batch"] = True
    if numbers.get("cache_hit"):
        record["billed"] = False
        record["cost"] = no_cost()
        record["flags"].append("gateway_cache_hit")
    elif (amount := numbers.get("cost")) is not None and (amount or _may_be_free(record)):
        cost = reported_cost(amount, currency)
        if cost is not None:
            record["cost"] = cost


def lacks_usage(record: Record) -> bool:
    """Whether a call should state tokens and does not: one that failed may have used none."""
    return record["status"] != "error" and record["usage"]["status"] == "missing"


def _may_be_free(record: Record) -> bool:
    return record["status"] == "ok" and record["usage"]["status"] != "missing"


def error_name(sent: str) -> str:
    """*sent* if it is a name; the class inside a Python repr; else `error`, since a
    sentence may quote a prompt.
    """
    match = _PYTHON_CLASS.fullmatch(sent)
    name = match.group(1) if match else sent
    return name if _NAME.fullmatch(name) else "error"
