"""The table of last resort: any span that carries input and output tokens under
names like the known ones.

1. A name is read by its last word (`my.llm.usage.promptTokens` -> input), if its path speaks of
   usage, tokens or an LLM. Limits, and sums over several calls, are never read.
2. Under a path that speaks of nothing (`acme_metadata.prompt_tokens`) the words are read where the
   span states its kind, or an input and an output stand together under one path. They make a call
   if the stated total is their sum, or the span names a model or states that it is a model's call.
3. Usage may also stand in a map, or in a JSON text, under one of the names of `NESTED`; its names
   are read in the same way.
4. An input whose name says that the cache is left out (`non_cached_input_tokens`) is completed by
   the cache parts.
5. A text under a name that speaks of an answer (`output`, `acme.completion`) completes parts, model
   and id of a call, if it states the same usage. A text that is a request names its model.

Calls that only this table could read are flagged `unknown_convention` and counted by scope.
"""

import re
from collections.abc import Iterable
from typing import Final

from gateway.read.view import Span
from gateway.rules.conventions import shared
from gateway.rules.conventions.native import add_parts, believed_answer, note_native, take_answer
from gateway.rules.conventions.openinference import RAW_METADATA, read_metadata
from gateway.rules.conventions.shapes import agreeing_answer
from gateway.rules.conventions.table import Convention, by_operation, usage_rule
from gateway.rules.extract import (
    COUNT,
    MAX_COUNT,
    MAX_TEXT_CHARS,
    NO_INTEREST,
    NUMBER,
    RAW,
    TEXT,
    AttributeTable,
    Extracted,
    Interest,
)
from gateway.rules.kinds import KIND, are_embeddings, by_kind
from gateway.rules.model_names import is_snapshot
from gateway.rules.operation import Outcome
from gateway.rules.texts import count_in, repr_object, requested_model
from gateway.rules.usage import Basis, cached_tokens

_PATH = re.compile(
    r"(^|[._])(usage|tokens?|token_?count|llm|gen_?ai|genai|completion|inference|ai|model)([._]|$)", re.IGNORECASE
)

_WORDS = {
    "input": "input_tokens|prompt_tokens|prompt_token|inputtokens|prompttokens|input_token_count|inputtokencount|prompt_token_count|tokens_in|tokensin",
    "output": "output_tokens|completion_tokens|completion_token|outputtokens|completiontokens|output_token_count|outputtokencount|completion_token_count|candidates_token_count|tokens_out|tokensout",
    "total": "total_tokens|totaltokens|total_token_count",
    "cache_read": "cache_read_input_tokens|cached_tokens|cache_read_tokens|cachedinputtokens|cachereadtokens|cached_content_token_count|cached_token_count|cached_input_tokens|cacheread",
    "cache_creation": "cache_creation_input_tokens|cache_write_tokens|cache_creation_tokens|cachewritetokens|cache_write_input_tokens|cache_write_token_count|cachecreation",
    "reasoning": "reasoning_tokens|reasoningtokens|thoughts_token_count|thinking_tokens|reasoning_output_tokens|reasoning_token_count",
    "uncached": "non_cached_input_tokens|noncached_input_tokens|uncached_input_tokens|no_cache_input_tokens|noncachedinputtokens|uncachedinputtokens|nocachetokens|no_cache_tokens|non_cached_prompt_tokens|uncached_prompt_tokens",
    "model": "model|model_name|modelname|model_id|modelid",
    "request_model": "request_model",
    "response_model": "response_model",
    "provider": "provider|provider_name|vendor",
    "response_id": "response_id|responseid|completion_id",
    "cost": "total_cost|cost_usd|totalcost",
}  # fmt: skip

NESTED = (
    "gen_ai.usage",
    "gen_ai.response.usage",
    "llm.usage",
    "llm.response.usage",
    "ai.usage",
    "token_usage",
    "usage",
)
"""Attributes whose value may be all of the usage."""
RAW_NESTED = "raw_nested"
_MAX_NESTED = 256

_TOKENS = re.compile(r"(^|[._])(tokens?|token_?count|usage)$", re.IGNORECASE)
_SHORT = {"input": "input", "prompt": "input", "output": "output", "completion": "output", "total": "total"}
"""Last words that state what is counted, where the path ends in tokens or usage."""
_LAST_WORD: Final = re.compile(r"[._]")
_OF_MODEL: Final = {"request": "request_model", "requested": "request_model", "response": "response_model"}
_NAMING: Final = frozenset({"name", "id"})
_WITHOUT_PATH = frozenset({"input", "output", "total", "model", "request_model", "response_model", "provider"})
"""Fields that a bare name is read as. A bare model makes no span
AI usage (`is_usage`); tokens do."""
_FIELDS = {word: field for field, words in _WORDS.items() for word in words.split("|")}
_PAIR = {word: field for field in ("input", "output") for word in _WORDS[field].split("|")}
_COUNTED: Final = re.compile(r"^(?:num|n|count)_", re.ASCII)
"""Before a word, it says that this is a number: `num_prompt_tokens`."""
_NOT_ONE_CALL: Final = re.compile(
    r"total|session|aggregat|cumulat|turn|history|previous|limit|budget|quota|remain|max|daily|month|estimat|expect|avg|average|mean",
    re.IGNORECASE,
)
"""In a path: limits, estimates, and sums over several calls."""
_CUMULATED: Final = re.compile(r"aggregat|cumulat", re.IGNORECASE)
_ANSWER_NAME: Final = re.compile(
    r"(?:^|[._-])(?:outputs?|responses?|results?|completions?|answers?|generations?)$", re.IGNORECASE
)
_REQUEST_NAME: Final = re.compile(r"(?:^|[._-])(?:inputs?|prompts?|requests?|kwargs)$", re.IGNORECASE)
_MODELS: Final = frozenset({"model", "request_model", "response_model"})
_RAW_ANSWER, _RAW_INPUT = "raw_answer", "raw_input"
_KINDS = {
    "model": TEXT,
    "request_model": TEXT,
    "response_model": TEXT,
    "provider": TEXT,
    "response_id": TEXT,
    "cost": NUMBER,
}
_RANK = 50
"""Below every name that a table knows."""


def rule(name: str) -> Interest:
    """The field of an unknown name by its last word; a number of usage stays under its
    own name; else no interest.
    """
    if name.startswith(shared.NOT_USAGE):
        return NO_INTEREST
    path, _, last = name.rpartition(".")
    field = _field(path, last)
    if field is not None and (_PATH.search(path) or (not path and field in _WITHOUT_PATH)):
        return NO_INTEREST if _CUMULATED.search(path) else (field, _RANK, _KINDS.get(field, COUNT))
    found = usage_rule(name)
    return found or _text_rule(name)


def _field(path: str, last: str) -> str | None:
    """What the last word of a name states, with the word before it where that one says which:
    `model.name`, `response.model`, `tokens.input`.
    """
    word, before = last.lower(), _LAST_WORD.split(path.lower())[-1]
    field = _FIELDS.get(word) or _FIELDS.get(_COUNTED.sub("", word))
    if field == "model":
        return _OF_MODEL.get(before, field)
    if field is None and before == "model" and word in _NAMING:
        return "model"
    return _SHORT.get(word) if field is None and _TOKENS.search(path) else field


def _text_rule(name: str) -> Interest:
    """Rule 5."""
    if _ANSWER_NAME.search(name) is not None:
        return (_RAW_ANSWER, _RANK, RAW)
    return (_RAW_INPUT, _RANK, RAW) if _REQUEST_NAME.search(name) is not None else NO_INTEREST


def rule_anywhere(name: str) -> Interest:
    """The same under any path (rule 2)."""
    found = rule(name)
    if found or name.startswith(shared.NOT_USAGE):
        return found
    path, _, last = name.rpartition(".")
    field = _field(path, last)
    return NO_INTEREST if field is None or _NOT_ONE_CALL.search(path) else (field, _RANK + 1, _KINDS.get(field, COUNT))


def pair_of(name: str) -> tuple[str, str] | None:
    """The path and the whole, `input` or `output`, of a name that may be one of two (rule 2); None
    for any other.
    """
    path, _, last = name.rpartition(".")
    field = _PAIR.get(last.lower())
    is_one = field is not None and path != "" and _NOT_ONE_CALL.search(path) is None
    return None if field is None or not is_one or name.startswith(shared.NOT_USAGE) else (path, field)


def are_paired(names: Iterable[str]) -> bool:
    """Whether an input and an output stand together under one path."""
    found = {pair for name in names if (pair := pair_of(name)) is not None}
    return any(field == "input" and (path, "output") in found for path, field in found)


def is_usage(name: str) -> bool:
    """Whether the name is read as input or output tokens."""
    interest = rule(name)
    return len(interest) != 0 and interest[0] in {"input", "output", "uncached"}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Both wholes, or one of them and a model, make a call; what its operation's name or
    its kind states stays.
    """
    decided = by_operation(picked, span, failed=failed)
    texts, counts = picked.texts, picked.counts
    if decided == "not_a_call" or (decided == "call" and (_is_stated(picked) or (failed and _names_both(picked)))):
        return decided
    has_model = not _MODELS.isdisjoint(texts)
    if ("input" in counts and "output" in counts) or (("input" in counts or "output" in counts) and has_model):
        return "call"
    return "undecided"


def outcome_anywhere(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """The same, where the total or a model shows that the numbers are of one call (rule 2)."""
    decided = outcome(picked, span, failed=failed)
    texts, counts = picked.texts, picked.counts
    if decided != "call" or _is_stated(picked) or not _MODELS.isdisjoint(texts):
        return decided
    is_sum = counts.get("total") == counts.get("input", 0) + counts.get("output", 0)
    return "call" if is_sum else "undecided"


def _names_both(picked: Extracted) -> bool:
    """Whether a provider and the model asked for are stated, each under a name that means it."""
    return "provider" in picked.texts and "request_model" in picked.texts


def _is_stated(picked: Extracted) -> bool:
    """Whether an operation, or the kind of a model's call, is stated."""
    return "operation" in picked.texts or (KIND in picked.texts and by_kind(picked.texts[KIND]) == "call")


def read_span(picked: Extracted, _span: Span) -> None:
    """Rule 4."""
    counts = picked.counts
    if "uncached" in counts and not counts.get("input"):
        counts["input"] = counts["uncached"] + cached_tokens(counts)


def basis(picked: Extracted, _version: str, _provider: str | None) -> Basis:
    """Rule 4."""
    counts = picked.counts
    if "uncached" not in counts:
        return Basis.UNSTATED
    return Basis.EXCLUSIVE if counts.get("input") == counts["uncached"] else Basis.INCLUSIVE


def read_texts(picked: Extracted, *, failed: bool) -> None:
    """Rule 5, whom the JSON text `metadata` names, and the operation that the kind states."""
    texts = picked.texts
    text = texts.pop(_RAW_ANSWER, None)
    answer = believed_answer(picked, text, failed=failed)
    if not answer.usage:
        answer = agreeing_answer(picked, text) or answer
    take_answer(picked, answer)
    if KIND in texts and are_embeddings(texts[KIND]):
        texts.setdefault("operation", "embeddings")
    if "request_model" not in texts and "model" in texts and not is_snapshot(texts["model"]):
        texts["request_model"] = texts.pop("model") if texts.get("operation") != "embeddings" else texts["model"]
    requested = requested_model(texts.pop(_RAW_INPUT, None))
    if requested is not None:
        texts.setdefault("request_model", requested[:MAX_TEXT_CHARS])
    read_metadata(picked)


class _Generic(Convention):
    """Its names are open, so unknown ones are decided by `rule`."""

    def interests(self) -> AttributeTable:
        return AttributeTable(Convention.interests(self), rule)


class _Anywhere(Convention):
    """The same under any path."""

    def interests(self) -> AttributeTable:
        return AttributeTable(Convention.interests(self), rule_anywhere)


_OWN = {RAW_NESTED: NESTED, RAW_METADATA: ("metadata",)}
GENERIC = _Generic(
    "generic", own=_OWN, outcome=outcome, basis=basis, read_span=read_span, read_texts=read_texts, is_generic=True
)
ANYWHERE = _Anywhere(
    "generic",
    own=_OWN,
    outcome=outcome_anywhere,
    basis=basis,
    read_span=read_span,
    read_texts=read_texts,
    is_generic=True,
)


def read_nested(picked: Extracted) -> None:
    """Take the counts and the cost out of nested usage, where no
    attribute of their own has them.
    """
    usage = repr_object(picked.texts.pop(RAW_NESTED, None))
    if len(usage) > _MAX_NESTED:
        return
    best: dict[str, tuple[bool, int, str, int]] = {}
    for name in usage:
        interest = _NAMES_IN_USAGE["gen_ai.usage." + name]
        if interest and interest[2] in {COUNT, NUMBER}:
            field, rank, kind = interest
            count = count_in(usage, name)
            best[field] = min(best.get(field, (True, _WORST, "", kind)), (not count, rank, name, kind))
    for field, (_, _, name, kind) in best.items():
        if kind == COUNT and (count := count_in(usage, name)) is not None and count <= MAX_COUNT:
            picked.counts.setdefault(field, count)
        elif kind == NUMBER and isinstance(amount := usage.get(name), int | float):
            picked.numbers.setdefault(field, float(amount))
    add_parts(picked, usage)
    note_native(picked, usage)


_WORST = 1 << 16
_NAMES_IN_USAGE = GENERIC.interests()
