"""The table of last resort: any span that carries input and output tokens under
names like the known ones.

A name is read by its last word (`my.llm.usage.promptTokens` -> input), if its path speaks of
usage, tokens or an LLM. Usage may also stand in a map, or in a JSON text, under one of the
names of `NESTED`; its names are read in the same way. Calls that only this table could read are
flagged `unknown_convention` and counted by scope.
"""

import re

from gateway.read.view import Span
from gateway.rules.conventions import shared
from gateway.rules.conventions.native import add_parts, note_native
from gateway.rules.conventions.table import Convention, by_operation, usage_rule
from gateway.rules.extract import (
    COUNT,
    MAX_COUNT,
    NO_INTEREST,
    NUMBER,
    TEXT,
    AttributeTable,
    Extracted,
    Interest,
)
from gateway.rules.operation import Outcome
from gateway.rules.texts import count_in, repr_object

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
    "request_model": "request_model|model|model_name|modelname|model_id|modelid",
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
_WITHOUT_PATH = frozenset({"input", "output", "total", "request_model", "response_model", "provider"})
"""Fields that a bare name is read as. A bare model makes no span
AI usage (`is_usage`); tokens do."""
_FIELDS = {word: field for field, words in _WORDS.items() for word in words.split("|")}
_KINDS = {"request_model": TEXT, "response_model": TEXT, "provider": TEXT, "response_id": TEXT, "cost": NUMBER}
_RANK = 50
"""Below every name that a table knows."""


def rule(name: str) -> Interest:
    """The field of an unknown name by its last word; a number of usage stays under its
    own name; else no interest.
    """
    if name.startswith(shared.NOT_USAGE):
        return NO_INTEREST
    path, _, last = name.rpartition(".")
    field = _FIELDS.get(last.lower())
    if field is None and _TOKENS.search(path):
        field = _SHORT.get(last.lower())
    if field is not None and (_PATH.search(path) or (not path and field in _WITHOUT_PATH)):
        return (field, _RANK, _KINDS.get(field, COUNT))
    return usage_rule(name)


def is_usage(name: str) -> bool:
    """Whether the name is read as input or output tokens."""
    interest = rule(name)
    return len(interest) != 0 and interest[0] in {"input", "output"}


def outcome(picked: Extracted, span: Span, *, failed: bool) -> Outcome:
    """Both wholes, or one of them and a model, make a call; what its
    operation's name states stays.
    """
    decided = by_operation(picked, span, failed=failed)
    if decided == "not_a_call" or (decided == "call" and "operation" in picked.texts):
        return decided
    counts = picked.counts
    has_model = "request_model" in picked.texts or "response_model" in picked.texts
    if ("input" in counts and "output" in counts) or (("input" in counts or "output" in counts) and has_model):
        return "call"
    return "undecided"


class _Generic(Convention):
    """Its names are open, so unknown ones are decided by `rule`."""

    def interests(self) -> AttributeTable:
        return AttributeTable(Convention.interests(self), rule)


GENERIC = _Generic("generic", own={RAW_NESTED: NESTED}, outcome=outcome, is_generic=True)


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
