"""Usage objects as providers and frameworks write them: the one reader of them all. Pure.

1. A field is known by its name, in snake_case and in camelCase: OpenAI chat and responses,
   Anthropic, Gemini, Bedrock, Cohere, Mistral, DeepSeek, Ollama, LangChain, AI SDK.
2. The names of the wholes state whose object it is (`_SHAPES`, the first that fits), and so what
   its input and output hold. The names of frameworks state neither.
3. Parts are parts whatever the input holds, so they complete the attributes (`add_parts`); wholes
   are taken only where no attribute has them (`add_wholes`).
4. Of a provider's own object both forms of its wholes are noted, as it counts them and as the
   record does (`note_native`): beside them one sees what the sender's own numbers hold
   (`gateway.rules.usage`).

Only numbers are taken here, ids and names by `take_answer`; the object itself goes no further.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gateway.common.operations import chosen
from gateway.rules.extract import MAX_TEXT_CHARS, OBJECT, Extracted
from gateway.rules.texts import Answer, Json, answer_or_text, count_in, object_in, repr_object, text_in
from gateway.rules.usage import EXCLUSIVE, INCLUSIVE, UNSTATED, Basis, cached_tokens, read_wholes


def _both(*snake: str) -> tuple[str, ...]:
    """Each name in snake_case and in camelCase."""
    return tuple(dict.fromkeys(name for word in snake for name in (word, _camel(word))))


def _camel(snake: str) -> str:
    first, *rest = snake.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


_INPUTS = _both(
    "prompt_tokens_details", "input_tokens_details", "input_token_details", "prompt_token_details", "input_tokens"
)
_OUTPUTS = _both(
    "completion_tokens_details",
    "output_tokens_details",
    "output_token_details",
    "completion_token_details",
    "output_tokens",
)
"""Objects of details; the wholes' own names where they are objects (AI SDK 6)."""

_CACHE_READ = _both(
    "cache_read_input_tokens",
    "cached_content_token_count",
    "cache_read_input_token_count",
    "input_cached_tokens",
    "input_cache_read",
    "cached_input_tokens",
    "cached_prompt_tokens",
    "cached_content_tokens",
    "cached_tokens",
    "num_cached_tokens",
    "cache_read_tokens",
    "prompt_cache_hit_tokens",
)
_CACHE_READ_INSIDE = _both("cached_tokens", "cache_read", "cached_read_tokens", "cache_read_tokens")
_CACHE_CREATION = _both(
    "cache_creation_input_tokens",
    "cache_write_input_tokens",
    "cache_write_input_token_count",
    "input_cache_creation",
    "input_cache_write",
    "cache_write_tokens",
)
_CACHE_CREATION_INSIDE = _both(
    "cache_creation_tokens", "cache_write_tokens", "cache_creation", "cached_write_tokens", "cache_write"
)
_REASONING = _both(
    "thoughts_token_count",
    "reasoning_tokens",
    "output_reasoning_tokens",
    "thoughts_tokens",
    "reasoning_output_tokens",
    "thinking_tokens",
)
_REASONING_INSIDE = _both("reasoning_tokens", "reasoning", "thinking_tokens")


class _Shape(NamedTuple):
    """One kind of usage object: the names of its wholes, and what they hold."""

    input: tuple[str, ...]
    output: tuple[str, ...]
    total: tuple[str, ...]
    input_basis: Basis
    output_basis: Basis
    marks: tuple[str, ...] = ()
    """Names of which it has one; the wholes' own where there are none."""


_TOTAL = _both("total_tokens", "total_token_count", "total")
_GEMINI: Final = _Shape(
    _both("prompt_token_count"),
    _both("candidates_token_count", "generation_token_count", "response_token_count"),
    _both("total_token_count"),
    INCLUSIVE,
    EXCLUSIVE,
)
"""Also what Bedrock's models of Meta report (`generation_token_count`), which think nothing."""
_CHAT: Final = _Shape(
    ("prompt_tokens", *_both("prompt_eval_count")),
    ("completion_tokens", *_both("eval_count")),
    _TOTAL,
    INCLUSIVE,
    INCLUSIVE,
)
"""OpenAI's chat completions and all that speak their language, Mistral, DeepSeek; Ollama's own."""
_NATIVE_NAMES = _both("input_tokens", "input_token_count", "input_text_token_count")
_NATIVE: Final = _Shape(
    _NATIVE_NAMES,
    _both("output_tokens", "output_token_count"),
    _TOTAL,
    EXCLUSIVE,
    INCLUSIVE,
    marks=(
        *_both(
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "cache_write_input_tokens",
            "cache_read_input_token_count",
            "cache_write_input_token_count",
            "cache_details",
            "server_tool_use",
        ),
        "cache_creation",
    ),
)
"""Anthropic's messages; Bedrock's converse and its invocation metrics."""
_RESPONSES: Final = _Shape(
    _NATIVE_NAMES,
    _both("output_tokens", "output_token_count"),
    _TOTAL,
    INCLUSIVE,
    INCLUSIVE,
    marks=("input_tokens_details", "output_tokens_details", "input_token_details", "output_token_details"),
)
"""OpenAI's responses; LangChain's messages."""
_OTHER: Final = _Shape(
    (*_NATIVE_NAMES, "promptTokens", "input"),
    (*_both("output_tokens", "output_token_count"), "completionTokens", "output"),
    _TOTAL,
    UNSTATED,
    UNSTATED,
)
"""Frameworks' own: the AI SDK up to 5, Genkit; nothing states what their input holds."""

_SHAPES: tuple[_Shape, ...] = (_GEMINI, _CHAT, _NATIVE, _RESPONSES, _OTHER)
_THOUGHTS = _both("thoughts_token_count")
_TOOLS = _both("tool_use_prompt_token_count")
_COHERE = _both("billed_units", "tokens")


def add_parts(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Fill the cache, reasoning and audio counts that *picked* does not have, or has as 0."""
    counts = picked.counts
    for field, value in _parts(usage):
        if value is not None and not counts.setdefault(field, value) and value:
            counts[field] = value


def _parts(usage: Mapping[str, Json]) -> list[tuple[str, int | None]]:
    inputs, outputs = object_in(usage, *_INPUTS), object_in(usage, *_OUTPUTS)
    written = object_in(usage, "cache_creation") or object_in(inputs, "cache_creation_token_details") or inputs
    return [
        ("cache_read", _first(count_in(usage, *_CACHE_READ), count_in(inputs, *_CACHE_READ_INSIDE))),
        ("cache_creation", _first(count_in(usage, *_CACHE_CREATION), count_in(inputs, *_CACHE_CREATION_INSIDE))),
        (
            "cache_creation_1h",
            _first(
                count_in(written, "ephemeral_1h_input_tokens"), count_in(usage, "cache_creation_input_tokens_above_1hr")
            ),
        ),
        ("cache_creation_5m", count_in(written, "ephemeral_5m_input_tokens")),
        ("reasoning", _first(count_in(outputs, *_REASONING_INSIDE), count_in(usage, *_REASONING))),
        ("audio_input", count_in(inputs, "audio_tokens", "audio")),
        ("audio_output", count_in(outputs, "audio_tokens", "audio")),
    ]


def _first(*values: int | None) -> int | None:
    """The first that states more than 0, else the first that states anything: senders write 0 under
    the names they do not use.
    """
    for value in values:
        if value:
            return value if type(value) is int else chosen(value, *values)
    return next((value for value in values if value is not None), None)


def _shape(usage: Mapping[str, Json]) -> _Shape:
    """Rule 2. Names that state 0 state no shape: senders write 0 under names they do not use."""
    return next((x for x in _SHAPES if any(usage.get(name) for name in x.marks or (*x.input, *x.output))), _OTHER)


def _opened(usage: Mapping[str, Json]) -> Mapping[str, Json]:
    """The object that holds the wholes: of Cohere's what is billed; of the AI SDK's the totals."""
    cohere = object_in(usage, *_COHERE)
    if cohere:
        return cohere
    inputs, outputs = object_in(usage, "inputTokens"), object_in(usage, "outputTokens")
    if not inputs and not outputs:
        return usage
    return {
        name: count
        for name, details in (("input", inputs), ("output", outputs))
        if (count := count_in(details, "total")) is not None
    }


def add_wholes(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Fill input, output and total where *picked* has neither input nor output."""
    counts = picked.counts
    if "input" in counts or "output" in counts:
        return
    for field, value in _wholes(usage)[1].items():
        counts[field] = value


def _wholes(usage: Mapping[str, Json]) -> tuple[_Shape, dict[str, int]]:
    """The object's shape, and its input, output and total as it counts them."""
    usage = _opened(usage)
    shape = _shape(usage)
    found: dict[str, int] = {}
    for field, names in (("input", shape.input), ("output", shape.output), ("total", shape.total)):
        value = _first(*(count_in(usage, name) for name in names))
        if value is not None:
            found[field] = value
    if shape is _GEMINI and "input" in found and "output" not in found and count_in(usage, *_THOUGHTS):
        found["output"] = 0  # it thought, and was cut off before it wrote
    return shape, found


def believed_answer(picked: Extracted, text: str | None, *, failed: bool) -> Answer:
    """The answer in a *text* that may as well be what the model wrote: all None unless it has an
    answer's envelope, and no other wholes than *picked* has.

    A failed call has no model that answered.
    """
    answer = answer_or_text(text)
    if not agrees(picked, answer.usage):
        return Answer()
    if failed:
        answer.model = None
    return answer


def agrees(picked: Extracted, usage: Mapping[str, Json]) -> bool:
    """Whether the wholes of *usage* are those of *picked*, in a form that
    libraries send: with their parts or without.
    """
    own, parts = _wholes(usage)[1], Extracted()
    add_parts(parts, usage)
    beside = {
        "input": {0, cached_tokens(parts.counts), count_in(usage, *_TOOLS)},
        "output": {0, parts.counts.get("reasoning")},
    }
    return all(
        abs(stated - own[field]) in beside[field]
        for field in ("input", "output")
        if (stated := picked.counts.get(field)) and field in own
    )


def add_agreeing(picked: Extracted, text: str) -> None:
    """Take the parts of the usage that *text* is, JSON or a printed object, if it has the wholes of
    *picked*.
    """
    usage = repr_object(text)
    own = _wholes(usage)[1]
    if own and own.keys() >= {"input", "output"} <= picked.counts.keys() and agrees(picked, usage):
        add_parts(picked, usage)
        note_native(picked, usage)


def take_answer(picked: Extracted, answer: Answer) -> None:
    """Fill in the names and parts of a raw answer that no attribute states."""
    texts = picked.texts
    for field, value in (
        ("response_id", answer.response_id),
        ("response_model", answer.model),
        ("finish_reason", answer.finish_reason),
        ("service_tier", answer.service_tier),
    ):
        if value is not None:
            texts.setdefault(field, value[:MAX_TEXT_CHARS])
    if answer.usage:
        add_parts(picked, answer.usage)
        note_native(picked, answer.usage)


def take_usage(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """All that a provider's own object states: wholes, parts, and what the wholes hold."""
    add_wholes(picked, usage)
    add_parts(picked, usage)
    note_native(picked, usage)


def take_object(picked: Extracted) -> None:
    """Rules 1 to 4 for the object that an attribute of its own holds (`extract.OBJECT`), under any
    convention: JSON, the repr of a Python dict, or a map of which the numbers were taken.
    """
    usage = repr_object(picked.texts.pop(OBJECT, None))
    if usage:
        take_usage(picked, usage)
        tier = text_in(usage, "service_tier", "serviceTier")
        if tier is not None:
            picked.texts.setdefault("service_tier", tier[:MAX_TEXT_CHARS])


def note_native(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Rule 4: the wholes of a provider's own usage object, in both forms.

    The first object that has them counts. Nothing is noted of an object whose shape does not state
    what it holds, or whose own numbers contradict each other.
    """
    counts = picked.counts
    if "native_input" in counts or "native_output" in counts:
        return
    shape, own = _wholes(usage)
    if shape is _OTHER or not own:
        return
    parts = Extracted()
    add_parts(parts, usage)
    known = {**parts.counts, **own}
    tools = count_in(usage, *_TOOLS) if shape is _GEMINI else None
    if tools and "input" in own and _adds_up(known, tools):
        known["input"] += tools
    wholes = read_wholes(known, cached_tokens(known), shape.input_basis, shape.output_basis)
    if not wholes.is_sound:
        return
    if wholes.thoughts is not None and not tools and not counts.get("reasoning"):
        counts["reasoning"] = wholes.thoughts
    for field, native, whole in (
        ("input", own.get("input"), wholes.input),
        ("output", own.get("output"), wholes.output),
    ):
        if native is not None and whole is not None:
            counts["native_" + field], counts["whole_" + field] = native, whole


def _adds_up(known: Mapping[str, int], tools: int) -> bool:
    """Whether what Gemini's tools read stands beside the prompt, by the object's total."""
    stated = known["input"] + tools + known.get("output", 0) + known.get("reasoning", 0)
    return known.get("total", stated) == stated


def _by_word() -> dict[str, str]:
    """Each name that only usage objects have -> its field; of the wholes those that state tokens by
    themselves.
    """
    wholes = {
        field: [name for shape in _SHAPES for name in getattr(shape, field) if "oken" in name]
        for field in ("input", "output", "total")
    }
    parts = {
        "cache_read": (*_CACHE_READ, *_both("cached_read_tokens", "cache_read_tokens")),
        "cache_creation": (
            *_CACHE_CREATION,
            *_both("cache_creation_tokens", "cache_write_tokens", "cached_write_tokens"),
        ),
        "cache_creation_1h": ("ephemeral_1h_input_tokens",),
        "cache_creation_5m": ("ephemeral_5m_input_tokens",),
        "reasoning": _REASONING,
    }
    return {name: field for field, names in {**wholes, **parts}.items() for name in names}


FIELD_OF_WORD: Final = _by_word()
